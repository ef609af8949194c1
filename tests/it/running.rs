//! Running: as whom and where a job runs, its files, its time limit, and that nothing of it is left.

use crate::lab::{Job, Lab};
use gq_model::{End, Reason};
use std::{fs, path::Path};

#[test]
fn a_job_runs_as_its_user_where_it_was_submitted() {
    let lab = Lab::with_cards(0);
    let own = nix::unistd::getuid();
    let here = lab.work("").canonicalize().unwrap();
    assert_eq!(lab.submit("", "id -u; pwd -P; cat").output(), format!("{own}\n{}\n", here.display()));
    fs::create_dir(lab.work("sub")).unwrap();
    let job = lab.submit("-D sub -o out", "pwd -P; echo $PWD; echo $SLURM_SUBMIT_DIR");
    let sub = here.join("sub");
    assert_eq!(job.output(), format!("{0}\n{0}\n{1}\n", sub.display(), here.display()));
    assert_eq!(job.out_path(), sub.join("out"));
}

#[test]
fn outputs_go_where_the_patterns_say() {
    let lab = Lab::with_cards(0);
    let job = lab.submit("", "echo out; echo err >&2");
    assert_eq!(job.output(), "out\nerr\n");
    assert_eq!(job.out_path(), lab.work(format!("gq-{}.out", job.id)));
    assert_eq!(job.word("stderr"), job.word("stdout"));

    let id = job.id + 1;
    let job =
        lab.submit("-J a/b/../c -o %x-%j-%A-%a-%u-%N-%n-%t-%%-%5j.out -e %x.err", "echo out; echo err >&2");
    assert_eq!(job.output(), "out\n");
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).unwrap().unwrap().name;
    assert_eq!(job.out_path(), lab.work(format!("a_b_.._c-{id}-{id}-0-{user}-n1-0-0-%-{id:05}.out")));
    assert_eq!(fs::read_to_string(lab.work("a_b_.._c.err")).unwrap(), "err\n");

    lab.file("in-input", "from a file\n");
    assert_eq!(lab.submit("-i in-%x -J input", "cat").output(), "from a file\n");
    lab.file("kept", "old\n");
    assert_eq!(lab.submit("-o kept --open-mode=append", "echo new").output(), "old\nnew\n");
    assert_eq!(lab.submit("-o kept --open-mode=truncate", "echo newer").output(), "newer\n");
    assert_eq!(lab.submit("-o kept", "echo newest").output(), "newest\n");
    assert_eq!(lab.submit("-o /dev/null", "echo nothing").ended(), End::Completed);
}

/// B082, B084: a name of any characters is one name, and the name that is shown is the file's.
#[test]
fn odd_names_of_files_are_taken_as_they_are() {
    let lab = Lab::with_cards(0);
    let names = [
        "two words",
        "quote'\"",
        "$HOME;id",
        "*",
        "\u{e4}\u{f6}\u{fc}-\u{1f600}",
        "%K-%%K-%%%K-%J-%%J",
        "%",
        "%5",
        "%99999999999j",
        "a%zb",
    ];
    for name in names {
        let job = lab.gqsub(&["-o", name, "--wrap", "echo written"]);
        assert_eq!(job.output(), "written\n", "{name}");
        assert!(job.out_path().starts_with(lab.work("")));
    }
    let literal = lab.gqsub(&["-o", "two words", "--open-mode=append", "--wrap", "echo again"]);
    assert_eq!(literal.output(), "written\nagain\n");
    assert_eq!(literal.out_path(), lab.work("two words"));
    assert!(lab.work("$HOME;id").exists() && lab.work("*").exists());
}

#[track_caller]
fn fails(job: Job<'_>, reason: Reason, path: &str) {
    assert_eq!(job.ended(), End::Failed, "{}", job.view());
    assert_eq!(job.reason(), reason);
    let detail = job.word("reason_detail");
    assert!(detail.contains(path), "{detail}");
}

#[test]
fn a_missing_folder_fails_the_job_and_says_which() {
    let lab = Lab::with_cards(0);
    fails(lab.submit("-o nowhere/%j.out", "touch ran"), Reason::OutputFile, "nowhere/");
    fails(lab.submit("-e nowhere/%j.err", "touch ran"), Reason::OutputFile, "nowhere/");
    fails(lab.submit("-i nowhere.txt", "touch ran"), Reason::InputFile, "nowhere.txt");
    fails(lab.submit("-o .", "touch ran"), Reason::OutputFile, "work");
    fs::create_dir(lab.work("gone")).unwrap();
    let job = lab.submit("-H -D gone", "touch ran");
    fs::remove_dir(lab.work("gone")).unwrap();
    lab.ctl(&format!("release {}", job.id));
    fails(job, Reason::WorkDir, "gone");
    let job = lab.script("", "#!/no/such/shell\ntrue\n");
    fails(job, Reason::ExecFailed, "the interpreter of its first line");
    assert!(!lab.work("ran").exists());
    let why = lab.say(&format!("gqstat --why {}", job.id)).ok();
    assert!(why.contains("ExecFailed") && why.contains("interpreter"), "{why}");
    assert_eq!(lab.node_view("n1").unwrap()["state"], "idle", "a user's mistake drains no node");
}

#[test]
fn a_job_that_outlives_its_limit_is_a_timeout_whatever_it_says() {
    let lab = Lab::with_cards(1);
    let polite = lab.submit("-t 2s -c1", "trap 'echo told; exit 0' TERM; while :; do sleep 0.1; done");
    let deaf = lab.submit("-t 2s -c1 --gpus=1", "trap '' TERM; while :; do sleep 0.1; done");
    let next = lab.submit("--gpus=1", "true");
    assert_eq!((polite.ended(), polite.reason()), (End::Timeout, Reason::TimeLimit));
    assert!(polite.out().ends_with("told\n"), "{}", polite.out());
    assert_eq!((deaf.ended(), deaf.reason()), (End::Timeout, Reason::TimeLimit));
    let view = deaf.view();
    let lived = view["end_time"].as_f64().unwrap() - view["start_time"].as_f64().unwrap();
    assert!((3.0..9.0).contains(&lived), "two seconds, and another: {lived}");
    assert_eq!(view["signal"], 9);
    assert_eq!(next.ended(), End::Completed);
    let brief = lab.submit("-t 30s", "true");
    assert_eq!(brief.ended(), End::Completed);
}

#[test]
fn nothing_is_left_of_a_job_when_its_card_is_free() {
    let lab = Lab::with_cards(1);
    let script = "#!/bin/bash\n\
        sleep 1001 & echo $! >>pids\n\
        setsid sleep 1002 & echo $! >>pids\n\
        setsid setsid -f bash -c 'echo $$ >>pids; trap \"\" TERM HUP; sleep 1003; sleep 1003'\n\
        (trap '' TERM; env -i /bin/sh -c 'cd /; exec setsid sleep 1004' & echo $! >>pids)\n\
        until [ $(wc -l <pids) = 4 ]; do sleep 0.01; done\n";
    let job = lab.script("--gpus=1", script);
    let next =
        lab.submit("--gpus=1", "for pid in $(cat pids); do kill -0 $pid && echo $pid lives; done; true");
    assert_eq!(job.ended(), End::Completed, "{}", job.view());
    let pids = fs::read_to_string(lab.work("pids")).unwrap();
    let living = |pid: &str| Path::new("/proc").join(pid).join("exe").read_link().is_ok();
    assert_eq!(pids.lines().filter(|pid| living(pid)).collect::<Vec<_>>(), Vec::<&str>::new(), "{pids}");
    assert_eq!(pids.lines().count(), 4);
    assert!(!next.output().contains("lives"), "{}", next.out());
    let (first, second) = (job.view(), next.view());
    assert!(first["end_time"].as_f64() <= second["start_time"].as_f64(), "{first} {second}");
}

#[test]
fn a_script_that_kills_its_supervisor_has_failed_and_is_swept_up() {
    let lab = Lab::with_cards(1);
    // In personal mode the supervisor is the user's own process.
    let job = lab.submit("--gpus=1", "sleep 1001 & echo $! >pid; kill -9 $PPID; sleep 1002");
    assert_eq!((job.ended(), job.reason()), (End::Failed, Reason::SupervisorLost));
    let pid = fs::read_to_string(lab.work("pid")).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).join("exe").exists());
    assert_eq!(lab.submit("--gpus=1", "echo free").output(), "free\n");
}

#[test]
fn a_sleeper_crosses_every_hop_and_runs_no_script() {
    let lab = Lab::with_cards(0);
    let good = lab.submit("--test-run=50ms", "touch ran");
    let bad = lab.submit("--test-run=0:3", "touch ran");
    assert_eq!((good.ended(), bad.ended()), (End::Completed, End::Failed));
    assert_eq!(bad.view()["exit_code"], 3);
    let long = lab.submit("--test-run=1h -t 1s", "touch ran");
    assert_eq!(long.ended(), End::Timeout);
    assert!(!lab.work("ran").exists());
}
