//! Disks without room or files to spare, or read-only: each of the folders by itself. What it concerns is refused or waits in
//! words, everything else goes on, nothing that was told is lost, and all goes on by itself when there is room again.

use crate::lab::{Disk, Job, Lab, Plan, cards, until};
use gq_model::{End, JobState};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const WAITS: &str = "until [ -e go ]; do sleep 0.02; done";

fn names(folder: PathBuf) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

/// A lab with a small disk below its folder, mounted before anything is made there.
fn with_disk(folder: &str, options: &str) -> Option<(Lab, Disk)> {
    let lab = Plan::new().node("n1", &cards(2)).ready();
    if folder.starts_with("state/") {
        fs::create_dir(lab.dir().join("state")).unwrap();
        fs::set_permissions(lab.dir().join("state"), fs::Permissions::from_mode(0o700)).unwrap();
    }
    let path = lab.dir().join(folder);
    let disk = Disk::at(&path, options)?;
    fs::set_permissions(path, fs::Permissions::from_mode(if folder == "spool" { 0o755 } else { 0o700 }))
        .unwrap();
    lab.gqd.launch(&["--init"]);
    lab.gqd.wait_for_answer();
    lab.node("n1").start();
    lab.node_is_there("n1");
    Some((lab, disk))
}

/// The spool has no room: whoever submits is refused in words and leaves nothing, what was accepted runs and ends.
fn without_room_in_the_spool(options: &str, fill: fn(&Disk)) {
    let Some((lab, disk)) = with_disk("spool", options) else { return };
    let runs = lab.submit("--gpus=1", &format!("{WAITS}; exit 3")).running();
    let waits = lab.submit("--gpus=2", "echo waited");
    let before = names(lab.dir().join("spool/drop"));
    fill(&disk);
    for _ in 0..3 {
        let said = lab.say("gqsub --wrap true").refused(1);
        assert!(said.contains("No space left") && said.contains("spool"), "{said}");
    }
    assert_eq!(names(lab.dir().join("spool/drop")), before, "nothing is left");
    assert_eq!(lab.list("").len(), 2);
    lab.file("go", "");
    assert_eq!((runs.ended(), runs.view()["exit_code"].clone()), (End::Failed, 3.into()));
    assert_eq!(waits.output(), "waited\n");
    disk.free();
    assert_eq!(lab.submit("", "echo well").output(), "well\n");
}

#[test]
fn a_full_spool_refuses_whoever_submits_and_nobody_else() {
    without_room_in_the_spool("size=1m", Disk::fill);
}

#[test]
fn a_spool_without_inodes_refuses_whoever_submits_and_nobody_else() {
    without_room_in_the_spool("nr_inodes=64", Disk::fill_with_files);
}

/// The node's own disk has no room: what runs ends with its own result, what is to start waits in words, and the node comes back by itself.
#[test]
fn a_full_disk_of_a_node_takes_no_jobs_and_keeps_results_until_there_is_room() {
    let Some((lab, disk)) = with_disk("state/node", "size=260m") else { return };
    let runs: Vec<Job<'_>> =
        (0..2).map(|_| lab.submit("--gpus=1", &format!("{WAITS}; exit 3")).running()).collect();
    disk.fill();
    let waits: Vec<Job<'_>> = (0..4).map(|_| lab.submit("", "echo waited")).collect();
    until("the node says why", || {
        let view = lab.node_view("n1")?;
        view["reason"].as_str().is_some_and(|why| why.contains("full")).then_some(())
    });
    let table = lab.say("gqstat --nodes").ok();
    assert!(table.contains("is full"), "{table}");
    lab.file("go", "");
    for job in &runs {
        assert_eq!((job.ended(), job.view()["exit_code"].clone()), (End::Failed, 3.into()));
    }
    // One that was sent before the node knew goes no further.
    assert!(waits.iter().all(|job| [JobState::Pending, JobState::Starting].contains(&job.state())));
    disk.free();
    let begin = Instant::now();
    for job in waits {
        assert_eq!(job.output(), "waited\n");
    }
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
}

/// No files can be made where `gqd` and the node keep theirs: what runs ends with its own result, what is to start waits in words, and starts when there
/// is room.
#[test]
fn a_state_without_inodes_keeps_results_and_starts_jobs_when_there_are_some() {
    let Some((lab, disk)) = with_disk("state", "nr_inodes=128") else { return };
    let runs = lab.submit("--gpus=1", &format!("{WAITS}; exit 3")).running();
    disk.fill_with_files();
    let waits: Vec<Job<'_>> = (0..4).map(|_| lab.submit("", "echo waited")).collect();
    until("the node says why", || {
        let view = lab.node_view("n1")?;
        view["reason"].as_str().is_some_and(|why| why.contains("No space left")).then_some(())
    });
    lab.file("go", "");
    assert_eq!((runs.ended(), runs.view()["exit_code"].clone()), (End::Failed, 3.into()));
    // Without inodes it starts, too.
    lab.gqd.kill9();
    lab.gqd.start();
    assert_eq!(runs.view()["exit_code"], 3);
    disk.free();
    for job in waits {
        assert_eq!(job.output(), "waited\n");
    }
}

#[test]
fn a_gqd_that_may_not_write_its_state_says_so_and_does_not_start() {
    let Some((lab, disk)) = with_disk("state", "size=300m") else { return };
    let held = lab.submit("-H", "echo held");
    assert_eq!((lab.gqd.stop(), lab.node("n1").stop()), (Some(0), Some(0)));
    disk.be_read_only(true);
    for daemon in [&lab.gqd, lab.node("n1")] {
        daemon.launch(&[]);
        assert_eq!(daemon.wait(), Some(1));
        let said = daemon.said();
        let last = said.lines().last().unwrap_or_default();
        assert!(last.contains("ERROR") && last.contains("state") && last.contains("Read-only"), "{said}");
    }
    disk.be_read_only(false);
    lab.gqd.start();
    lab.node("n1").start();
    lab.ctl(&format!("release {}", held.id));
    assert_eq!(held.output(), "held\n");
}

/// A tracer that lets every write of the state fail, as a file system does that was made read-only because of its errors; one that is asked for is
/// refused while files are open. None, with a word why, when that cannot be.
fn refuse_writes(lab: &Lab) -> Option<Child> {
    let state = lab.dir().join("state");
    let mut tracer = Command::new("strace");
    tracer.args(["-f", "-qq", "-p", &lab.gqd.pid().to_string(), "-o"]).arg(lab.dir().join("writes"));
    for file in ["gq.db", "gq.db-wal", "ballast"] {
        tracer.arg("-P").arg(state.join(file));
    }
    tracer.args(["-e", "inject=pwrite64,write,ftruncate,fallocate,openat:error=EROFS"]).stdin(Stdio::null());
    let Ok(child) = tracer.spawn() else {
        eprintln!("left out: strace is not here");
        return None;
    };
    let status = format!("/proc/{}/status", lab.gqd.pid());
    until("it is traced", || {
        (!fs::read_to_string(&status).unwrap().contains("TracerPid:\t0\n")).then_some(())
    });
    Some(child)
}

#[test]
fn a_state_that_becomes_read_only_takes_no_jobs_and_comes_back_by_itself() {
    let lab = Lab::with_cards(1);
    let runs = lab.submit("--gpus=1", &format!("{WAITS}; exit 3")).running();
    let waits = lab.submit("--gpus=1", "echo waited");
    let Some(mut tracer) = refuse_writes(&lab) else { return };
    let said = until("it is noticed", || {
        let said = lab.say("gqsub -H --wrap true").refused(1);
        said.contains("gq.db: disk I/O error").then_some(said)
    });
    assert!(said.contains("full or read-only"), "{said}");
    let ping = lab.say("gqctl ping");
    let table = lab.say("gqstat");
    let json = lab.say("gqstat --json");
    for said in [&ping, &table, &json] {
        assert!(said.code == 0 && format!("{said:?}").contains("gq.db: disk I/O error"), "{said:?}");
    }
    assert_eq!(runs.state(), JobState::Running);
    lab.file("go", "");
    until("it ends", || lab.supervisors().is_empty().then_some(()));
    // What is seen of nodes meanwhile is recorded in the order in which it was seen: it goes, and then it is back.
    lab.node("n1").kill9();
    until("it is gone", || lab.gqd.said_now().contains("n1: the link is gone").then_some(()));
    assert_eq!((runs.state(), waits.state()), (JobState::Running, JobState::Pending), "nothing is recorded");
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(tracer.id().cast_signed()),
        nix::sys::signal::Signal::SIGTERM,
    )
    .unwrap();
    tracer.wait().unwrap();
    lab.node("n1").start();
    assert_eq!((runs.ended(), runs.view()["exit_code"].clone()), (End::Failed, 3.into()));
    assert_eq!(waits.output(), "waited\n");
    until("jobs are taken again", || (!lab.ctl("ping").contains("DEGRADED")).then_some(()));
    assert_eq!(lab.submit("", "echo well").output(), "well\n");
    assert_eq!(lab.list("-t all").len(), 3, "what was refused is not there");
}

/// The folder of a user has no room: it is the job that sees it, and what it makes of it is its end. Nobody waits for it.
#[test]
fn a_full_folder_of_a_user_is_seen_by_his_job_alone() {
    let lab = Lab::with_cards(1);
    let Some(disk) = Disk::at(&lab.work("full"), "size=64k,nr_inodes=32") else { return };
    let writes = "head -c 1000000 /dev/zero || exit 7";
    let jobs: Vec<Job<'_>> =
        (0..2).map(|n| lab.submit(&format!("--gpus=1 -o full/{n} -e err.{n}"), writes)).collect();
    for (n, job) in jobs.iter().enumerate() {
        assert_eq!((job.ended(), job.view()["exit_code"].clone()), (End::Failed, 7.into()));
        assert!(lab.read(&format!("err.{n}")).contains("No space left"));
    }
    // What cannot be opened may be in a moment: it is tried again, and others go first.
    disk.fill_with_files();
    let again = lab.submit("--gpus=1 -o full/new", "echo $GQ_RUN");
    again.when("is tried again", |view| view["state"] == "PENDING" && view["reason"] == "Backoff");
    assert_eq!(lab.submit("--gpus=1", "echo well").output(), "well\n");
    disk.free();
    fs::remove_file(lab.work("full/0")).unwrap();
    assert_ne!(again.output(), "1\n");
}

/// Nothing of gq's needs room in `/tmp`: not the daemons, not what is around a job.
#[test]
fn a_full_tmp_is_nothing_to_daemons_hooks_and_supervisors() {
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("left out: only root can mount a small file system");
    }
    let lab = Plan::new().node("n1", &cards(1)).ready();
    let hooks = lab.dir().join("prolog.d");
    fs::create_dir(&hooks).unwrap();
    let prolog = hooks.join("10-here");
    fs::write(&prolog, format!("#!/bin/sh\necho $GQ_JOB_ID >>{}\n", lab.work("prologs").display())).unwrap();
    for path in [&hooks, &prolog] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let conf = fs::read_to_string(lab.conf()).unwrap();
    fs::write(lab.conf(), format!("{conf}\n[hooks]\nprolog_dir = \"{}\"\n", hooks.display())).unwrap();
    // A full one of its own, in which the lab's folder is where it was, and gq's programs if they were built in `/tmp`.
    let full = "t=\"$0/tmp\"; mkdir -p \"$t\" && mount -t tmpfs -o size=64k,mode=1777 none \"$t\" && \
                for d in \"$0\" \"${1%/*}\"; do case \"$d\" in \
                /tmp/*) mkdir -p \"$t/${d#/tmp/}\" && mount --bind \"$d\" \"$t/${d#/tmp/}\" || exit 1;; esac; done; \
                mount --rbind \"$t\" /tmp && { head -c 100000 /dev/zero >/tmp/filling 2>&-; exec \"$@\"; }";
    let wrapper = ["unshare", "--mount", "sh", "-c", full, lab.dir().to_str().unwrap()];
    lab.gqd.launch_under(&wrapper, &["--init"]);
    lab.gqd.wait_for_answer();
    lab.node("n1").launch_under(&wrapper, &[]);
    lab.node_is_there("n1");
    let job = lab.submit("--gpus=1", "echo mine >/tmp/mine || echo full");
    assert_eq!(job.output().lines().last(), Some("full"));
    assert_eq!(lab.read("prologs"), format!("{}\n", job.id));
}
