//! Time: limits and what is warned of, deadlines, when to begin, how long to wait, and all of it said anew.

use crate::lab::{Job, Lab, Plan, accounts, cards, finish, until};
use gq_model::{End, JobState, Reason};
use serde_json::Value;
use std::time::{Duration, Instant};

/// How long it lived, in seconds.
fn lived(job: Job<'_>) -> f64 {
    let view = job.view();
    view["end_time"].as_f64().unwrap() - view["start_time"].as_f64().unwrap()
}

/// B169: a job whose limit is shorter than the time of its warning was told at once that its time was over.
#[test]
fn a_job_is_warned_before_its_limit_and_never_at_its_start() {
    let lab = Lab::with_cards(0);
    let trap = |word: &str| format!("trap 'echo {word} told' USR1; echo up; while :; do sleep 0.02; done");
    // Half of a limit that is shorter than the warning comes first.
    let short = lab.submit(
        "-t 2s --signal=B:USR1@120",
        &format!(
            "date +%s.%N >short; {}",
            "trap 'date +%s.%N >>short; exit 0' USR1; while :; do sleep 0.02; done"
        ),
    );
    let warned = lab.submit("-t 2s --signal=B:USR1@1", &trap("warned"));
    // Without B: everybody but the script's shell is told.
    let rest = lab.submit(
        "-t 2s --signal=USR1@1",
        &format!(
            "trap 'echo shell told' USR1; sh -c \"{}\" & wait; wait",
            "trap 'echo child told; exit 0' USR1; while :; do sleep 0.02; done"
        ),
    );
    assert_eq!(short.ended(), End::Completed);
    let times: Vec<f64> = lab.read("short").lines().map(|line| line.parse().unwrap()).collect();
    assert!((0.8..1.9).contains(&(times[1] - times[0])), "half of its two seconds: {times:?}");
    assert_eq!(rest.ended(), End::Completed, "{}", rest.out());
    let out = rest.out();
    assert!(out.contains("child told\n") && !out.contains("shell told"), "{out}");
    assert_eq!((warned.ended(), warned.reason()), (End::Timeout, Reason::TimeLimit));
    assert!(warned.out().starts_with("up\nwarned told\n"), "{}", warned.out());
    for bad in ["USR1@x", "B:", "NOPE@60", "B:USR1@", "USR1@-1", "X:USR1", ""] {
        let said = lab.run("gqsub", &["--signal", bad, "--wrap", "true"]).refused(2);
        assert!(said.contains("--signal"), "{bad}: {said}");
    }
}

#[test]
fn a_job_gets_what_the_site_gives_beyond_its_limit() {
    let lab = Plan::new().node("n1", &cards(0)).scheduler("over_time_limit = \"1s\"").start();
    let late = lab.submit("-t 1s", "sleep 1.4; echo done");
    let endless = lab.submit("-t 1s", "sleep 600");
    assert_eq!(late.output(), "done\n");
    assert_eq!(endless.ended(), End::Timeout);
    assert!((1.9..5.0).contains(&lived(endless)), "{}", lived(endless));
}

#[test]
fn a_job_ends_by_its_deadline_or_never_begins() {
    let lab = Lab::with_cards(1);
    let holder = lab.submit("--gpus=1 -t 1h", "sleep 600").running();
    let waits = lab.submit("--gpus=1 -t 1s --deadline=now+2seconds", "touch ran");
    let runs = lab.submit("--deadline=now+2seconds -o /dev/null", "sleep 600").running();
    assert_eq!(runs.view()["state"], "RUNNING");
    assert_eq!((waits.ended(), waits.reason()), (End::Deadline, Reason::Deadline));
    assert_eq!((runs.ended(), runs.reason()), (End::Deadline, Reason::Deadline));
    assert!(lived(runs) < 4.0, "{}", lived(runs));
    assert!(!lab.work("ran").exists());
    let said = lab.run("gqsub", &["-t", "10", "--deadline=now+5minutes", "--wrap", "true"]).refused(1);
    assert!(said.contains("could not end before"), "{said}");
    lab.run("gqsub", &["--deadline=2020-01-01", "--wrap", "true"]).refused(2);
    let held = lab.submit("-H -t 1s", "true");
    let too_late = format!("gqctl update {} --begin=now+1hour --deadline=now+10minutes", held.id);
    assert!(lab.say(&too_late).refused(1).contains("could not end before"));
    lab.ctl(&format!("update {} --deadline=now+2seconds", held.id));
    assert_eq!((held.ended(), held.reason()), (End::Deadline, Reason::Deadline));
    assert_eq!(holder.state(), JobState::Running);
}

/// A deadline that came while a job stood still was not kept, and the time that a suspended job was said to have run went on.
#[test]
fn a_deadline_comes_to_a_suspended_job_too_and_its_time_stands_still() {
    let lab = Lab::with_cards(0);
    let ran =
        |job: Job<'_>| lab.run("gqstat", &["-h", "-t", "all", "-o", "%M", "-j", &job.id.to_string()]).ok();
    let command = "trap 'echo told; exit 0' TERM; touch up.$GQ_JOB_ID; sleep 600 & wait";
    let late = lab.submit("--deadline=now+5seconds", command).running();
    let other = lab.submit("-t 1h", command).running();
    for job in [late, other] {
        lab.until_file(&format!("up.{}", job.id));
        lab.ctl(&format!("suspend {}", job.id));
        job.when("is suspended", |view| view["state"] == "SUSPENDED");
    }
    let (shown, begun) = (ran(other), Instant::now());
    assert_eq!((late.ended(), late.reason()), (End::Deadline, Reason::Deadline));
    assert_eq!(late.out(), "told\n", "as any other that runs into its deadline");
    assert!(lived(late) < 8.0, "{}", lived(late));
    let stood = |job: Job<'_>| job.view()["suspended_time"].as_f64().unwrap();
    assert!((1.0..lived(late)).contains(&stood(late)), "{}", late.view());
    until("some time has gone by", || (begun.elapsed() > Duration::from_secs(2)).then_some(()));
    assert_eq!((ran(other), stood(other)), (shown, 0.0), "its time stands still");
    lab.ctl(&format!("resume {}", other.id));
    other.when("goes on", |view| view["state"] == "RUNNING");
    let before = stood(other);
    assert!(before >= 2.0, "{before}");
    let said = lab.say(&format!("gqctl update {} --deadline=now+1hour", other.id)).refused(1);
    assert!(said.contains("deadline"), "{said}");
    assert_eq!(lab.say(&format!("gqcancel {}", other.id)).code, 0);
    assert_eq!((other.ended(), stood(other)), (End::Cancelled, before));
    let seconds = (lived(other) - before) as u64;
    assert_eq!(ran(other).trim(), format!("0:{seconds:02}"), "what is told of the past is the same");
}

#[test]
fn a_limit_is_lowered_as_far_as_is_wanted_to_start_earlier() {
    let lab = Lab::with_cards(1);
    lab.ctl("reserve repair --start=now+1hour --duration=2h --nodes=n1 --maintenance");
    let long = lab.submit("-t 4h -c1", "true");
    let able = lab.submit("-t 4h --time-min=10 -c1", "echo $(( SLURM_JOB_END_TIME - SLURM_JOB_START_TIME ))");
    let left: u64 = able.output().trim().parse().unwrap();
    assert!((3500..=3600).contains(&left), "{left}");
    let limit = able.view()["time_limit"].as_u64().unwrap();
    assert!((3500..=3600).contains(&limit), "{limit}");
    assert_eq!(long.reason(), Reason::Reservation);
    lab.ctl(&format!("update {} --time=30", long.id));
    assert_eq!(long.ended(), End::Completed);
    lab.run("gqsub", &["-t", "10", "--time-min=20", "--wrap", "true"]).refused(2);
}

#[test]
fn a_job_begins_when_it_is_time_and_not_before() {
    let lab = Lab::with_cards(0);
    let soon = lab.submit("--begin=now+2seconds", "date +%s.%N");
    let late = lab.submit("--begin=now+1hour", "echo now");
    assert_eq!(
        (soon.state(), soon.reason(), late.reason()),
        (JobState::Pending, Reason::BeginTime, Reason::BeginTime)
    );
    let submitted = soon.view()["submit_time"].as_f64().unwrap();
    let began: f64 = soon.output().trim().parse().unwrap();
    assert!((1.0..6.0).contains(&(began - submitted)), "{submitted} {began}");
    lab.ctl(&format!("update {} --begin=none", late.id));
    assert_eq!(late.output(), "now\n");
}

/// B167: limits and times out of all reason made the scheduler stand still.
#[test]
fn absurd_times_are_refused_or_bounded_and_the_queue_answers() {
    let lab = Lab::with_cards(1);
    for words in [
        ["--time=99999999"],
        ["--time=365-00"],
        ["--time=4294967296"],
        ["--time=18446744073709551616"],
        ["--time=99999999999-00:00:00"],
        ["--begin=now+100years"],
        ["--begin=now+99999999999999999999days"],
        ["--begin=9999-12-31"],
        ["--deadline=now+36500days"],
        ["--max-wait=99999999999999d"],
        ["--time-min=4294967296"],
        ["--signal=USR1@4294967296"],
    ] {
        let said = lab.run("gqsub", &[words[0], "--gpus=1", "--wrap", "true"]);
        assert!([0, 1, 2].contains(&said.code), "{words:?}: {said:?}");
        assert_eq!(said.code == 0, said.err.is_empty(), "{words:?}: {said:?}");
    }
    let held = lab.submit("-H --gpus=1", "true");
    for words in
        ["--time=+99999999999999999999", "--time=-365-00", "--begin=now+100years", "--nice=99999999999"]
    {
        let said = lab.say(&format!("gqctl update {} {words}", held.id));
        assert!([1, 2].contains(&said.code), "{words}: {said:?}");
    }
    let began = Instant::now();
    assert_eq!(lab.submit("-t 1", "echo ran").output(), "ran\n");
    for words in ["-t all", "--start", "--nodes"] {
        assert_eq!(lab.say(&format!("gqstat {words}")).code, 0, "{words}");
    }
    lab.say(&format!("gqstat --why {}", held.id)).ok();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn a_job_that_waits_is_changed_in_every_word() {
    let tables = "[[partition]]\nname = \"main\"\nmax_time = \"8h\"\n[[partition]]\nname = \"short\"\nmax_time = \"1h\"\n";
    let lab = Plan::new().node("n1", &cards(1)).tables(tables).start();
    let holder = lab.submit("--gpus=1 -t 1h", "until [ -e go ]; do sleep 0.02; done").running();
    let command = "echo $GQ_JOB_NAME $GQ_PARTITION $(( SLURM_JOB_END_TIME - SLURM_JOB_START_TIME )) >>order";
    let first = lab.submit("--gpus=1 -t 2h -J first", command);
    let second = lab.submit("--gpus=1 -t 2h -J second", command);
    let update = |job: Job<'_>, words: &[&str]| {
        let id = job.id.to_string();
        lab.run("gqctl", &[&["update", &id], words].concat())
    };
    let said = update(second, &["--partition=short"]).refused(1);
    assert!(said.contains("1:00:00") || said.contains("short"), "{said}");
    assert_eq!(second.word("partition"), "main", "all or nothing");
    update(
        second,
        &[
            "--partition=short",
            "--time=30",
            "--name=two words",
            "--comment=a \"comment\"",
            "--priority=1000000",
        ],
    )
    .ok();
    let view = second.view();
    assert_eq!(
        (&view["partition"], &view["time_limit"], &view["name"], &view["comment"]),
        (&"short".into(), &1800.into(), &"two words".into(), &"a \"comment\"".into())
    );
    assert!(view["priority"].as_i64() > first.view()["priority"].as_i64(), "{view}");
    update(first, &["--time=+30"]).ok();
    assert_eq!(first.view()["time_limit"], 9000);
    update(first, &["--time=-1h"]).ok();
    assert_eq!(first.view()["time_limit"], 5400);
    update(first, &["--time=-2h"]).refused(2);
    update(first, &["--time=9h"]).refused(1);
    update(first, &["--partition=nowhere"]).refused(1);
    update(first, &["--comment="]).ok();
    update(first, &["--name="]).refused(2);
    update(first, &[]).refused(2);
    // What was said anew counts after a crash, and for the job itself.
    lab.gqd.kill9();
    lab.gqd.start();
    assert_eq!(second.word("name"), "two words");
    lab.file("go", "");
    assert_eq!([holder, first, second].map(|job| job.ended()), [End::Completed; 3]);
    assert_eq!(lab.read("order"), "two words short 1800\nfirst main 5400\n");
    assert_eq!((second.word("name"), second.word("comment")), ("two words".into(), "a \"comment\"".into()));
    update(second, &["--name=x"]).refused(1);
}

#[test]
fn without_limit_means_as_long_as_the_partition_allows() {
    let tables = "[[partition]]\nname = \"main\"\ndefault_time = \"10m\"\nmax_time = \"8h\"\n[[partition]]\nname = \"endless\"\n\
                  default_time = \"10m\"\n";
    let lab = Plan::new().node("n1", &cards(0)).tables(tables).start();
    let limit = |job: Job<'_>| job.view()["time_limit"].as_u64();
    let said = |options: &str| limit(lab.submit(&format!("-H {options}"), "true"));
    assert_eq!((said(""), said("-p endless")), (Some(600), Some(600)), "the usual time");
    for word in ["0", "UNLIMITED", "infinite"] {
        let told = |partition: &str| said(&format!("-t {word} -p {partition}"));
        assert_eq!((told("main"), told("endless")), (Some(28_800), None), "{word}");
    }
    let variable = finish(lab.client("gqsub").env("GQSUB_TIME", "UNLIMITED").args([
        "--parsable",
        "-H",
        "--wrap",
        "true",
    ]));
    assert_eq!(limit(lab.job(&variable.ok())), Some(28_800));
    // The same said of a job that is there, waiting or running.
    let waits = lab.submit("-H -t 5", "true");
    let runs = lab.submit("-t 5", "sleep 600").running();
    lab.ctl(&format!("update {} {} --time=UNLIMITED", waits.id, runs.id));
    assert_eq!((limit(waits), limit(runs)), (Some(28_800), Some(28_800)));
    lab.ctl(&format!("update {} --partition=endless", waits.id));
    assert_eq!(limit(waits), None, "as long as its new partition allows");
    lab.ctl(&format!("update {} --time=+1h", runs.id));
    lab.ctl(&format!("update {} --time=0", runs.id));
    assert_eq!(limit(runs), Some(28_800));
}

#[test]
fn the_limit_of_a_job_that_runs_is_changed() {
    let lab = Lab::with_cards(0);
    let job = lab.submit("-t 1h", "touch up; sleep 600").running();
    lab.until_file("up");
    lab.ctl(&format!("update {} --time=+1h", job.id));
    assert_eq!(job.view()["time_limit"], 7200);
    // A second that is over already.
    lab.ctl(&format!("update {} --time=1s", job.id));
    assert_eq!((job.ended(), job.reason()), (End::Timeout, Reason::TimeLimit));
    let longer = lab.submit("-t 2s", "sleep 2.3; echo outlived").running();
    lab.ctl(&format!("update {} --time=1m", longer.id));
    assert_eq!(longer.output(), "outlived\n");
}

#[test]
fn who_is_no_admin_takes_from_a_job_of_his_and_gives_it_nothing() {
    let Some([gq, ann, ben]) = accounts(["daemon", "nobody", "games"]) else { return };
    let lab = Plan::new().node("n1", &cards(0)).installed_for(&gq.name).start();
    let says =
        |who, program: &str, line: &str| finish(lab.client_of(who, program).args(line.split_whitespace()));
    let mut client = lab.client_of(&ann, "gqsub");
    let job = lab
        .job(&finish(client.args(["--parsable", "-t", "1h", "--wrap", "touch up; sleep 600"])).ok())
        .running();
    until("it is up", || lab.work("nobody/up").exists().then_some(()));
    let id = job.id;
    let said = says(&ann, "gqctl", &format!("update {id} --time=2h")).refused(5);
    assert!(said.contains("admins"), "{said}");
    says(&ann, "gqctl", &format!("update {id} --time=UNLIMITED")).refused(5);
    says(&ann, "gqctl", &format!("update {id} --priority=5")).refused(5);
    says(&ann, "gqctl", &format!("update {id} --nice=-5")).refused(5);
    says(&ben, "gqctl", &format!("update {id} --time=1")).refused(5);
    says(&ann, "gqctl", &format!("update {id} --time=30")).ok();
    says(&ann, "gqctl", &format!("update {id} --time=40")).refused(5);
    lab.ctl(&format!("update {id} --time=2h"));
    assert_eq!(job.view()["time_limit"], 7200);
    says(&ann, "gqctl", &format!("update {id} --time=1s")).ok();
    assert_eq!((job.ended(), job.view()["time_limit"].clone()), (End::Timeout, 1.into()));
}

#[test]
fn who_has_waited_long_enough_is_told_goes_first_or_goes_away() {
    let lab = Lab::with_cards(1);
    let holder = lab.submit("--gpus=1 -t 1h", "until [ -e go ]; do sleep 0.02; done").running();
    let job = |options: &str| {
        lab.submit(&format!("--gpus=1 -t 1h -o /dev/null {options}"), "echo $GQ_JOB_ID >>order")
    };
    let first = job("");
    let told = job("--max-wait=1s");
    let boosted = job("--max-wait=1s:boost");
    let gone = job("--max-wait=1s:cancel");
    assert_eq!((gone.ended(), gone.reason()), (End::Cancelled, Reason::WaitedTooLong));
    let above = |a: &Value, b: &Value| a["priority"].as_i64() > b["priority"].as_i64();
    until("it goes before the others", || above(&boosted.view(), &first.view()).then_some(()));
    assert_eq!((told.state(), first.state()), (JobState::Pending, JobState::Pending));
    lab.file("go", "");
    assert_eq!([holder, first, told, boosted].map(|job| job.ended()), [End::Completed; 4]);
    assert_eq!(lab.read("order").lines().next(), Some(boosted.id.to_string().as_str()));
    for bad in ["1d:maybe", "x", "0s:cancel", ":cancel"] {
        lab.run("gqsub", &["--max-wait", bad, "--wrap", "true"]).refused(2);
    }
    // A job that runs waits no more.
    let runs = lab.submit("--max-wait=1s:cancel", "sleep 1.3; echo ran");
    assert_eq!(runs.output(), "ran\n");
}
