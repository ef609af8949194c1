//! Daemons that may have few files, processes or memory: they say so, or refuse in words; nothing is lost, nothing runs twice, and all goes on by itself
//! when there is more.

use crate::lab::{Daemon, Job, Lab, until};
use gq_model::{End, JobState};
use std::{
    cell::RefCell,
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
};

const ONCE: &str = "echo $GQ_RUN >>ran.$GQ_JOB_ID; until [ -e go ]; do sleep 0.05; done; exit 3";

/// Starts a daemon with a limit that it cannot lift.
#[track_caller]
fn launch_with(daemon: &Daemon, limit: &str, most: u64) {
    daemon.launch_under(&["prlimit", &format!("--{limit}={most}:{most}")], &[]);
}

/// Each of these jobs ran once, and ended as its script did.
#[track_caller]
fn each_ran_once(lab: &Lab, jobs: &[Job<'_>]) {
    for job in jobs {
        assert_eq!((job.ended(), job.view()["exit_code"].clone()), (End::Failed, 3.into()));
        let runs = lab.read(&format!("ran.{}", job.id));
        assert_eq!(runs.lines().count(), 1, "job {}: {runs}", job.id);
    }
}

/// The node says that it is short of something.
#[track_caller]
fn is_short(lab: &Lab, of: &str) {
    until(&format!("the node is short: {of}"), || {
        let view = lab.node_view("n1")?;
        view["reason"].as_str().is_some_and(|why| why.contains("short") && why.contains(of)).then_some(())
    });
    let table = lab.say("gqstat --nodes").ok();
    assert!(table.contains(of), "{table}");
}

#[test]
fn a_daemon_that_may_open_too_few_files_says_so_and_does_not_start() {
    let lab = Lab::with_cards(0);
    let job = lab.submit("", ONCE).running();
    for daemon in [&lab.gqd, lab.node("n1")] {
        assert_eq!(daemon.stop(), Some(0));
        for most in [10, 20] {
            launch_with(daemon, "nofile", most);
            assert_eq!(daemon.wait(), Some(1));
            let said = daemon.said();
            let last = said.lines().rev().take(2).collect::<String>();
            assert!(last.contains(&format!("at most {most} files")) && last.contains("try:"), "{said}");
        }
        daemon.start();
    }
    lab.node_is_there("n1");
    lab.file("go", "");
    each_ran_once(&lab, &[job]);
}

/// Connections have used up all files: whoever asks waits, or is refused in words, and jobs end all the same.
#[test]
fn a_gqd_without_files_left_goes_on_when_it_has_some() {
    let lab = Lab::with_cards(0);
    assert_eq!(lab.gqd.stop(), Some(0));
    launch_with(&lab.gqd, "nofile", 96);
    lab.gqd.wait_for_answer();
    lab.node("n1").kill9();
    lab.node("n1").start();
    lab.node_is_there("n1");
    let job = lab.submit("", ONCE).running();
    let guests: Vec<UnixStream> =
        (0..110).map(|_| UnixStream::connect(lab.dir().join("run/gqd.sock")).unwrap()).collect();
    until("no file is left", || lab.gqd.said_now().contains("connections are not taken").then_some(()));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| lab.say("gqsub -H --wrap true"));
        lab.file("go", "");
        until("the job ends", || lab.supervisors().is_empty().then_some(()));
        drop(guests);
        let said = waits.join().unwrap();
        assert!(said.code == 0 || said.err.contains("Too many open files"), "{said:?}");
    });
    assert_eq!(lab.submit("", "echo well").output(), "well\n");
    each_ran_once(&lab, &[job]);
}

/// Whichever descriptor is the one too many.
fn with_few_files(most: u64) {
    let lab = Lab::with_cards(0);
    let node = lab.node("n1");
    assert_eq!(node.stop(), Some(0));
    launch_with(node, "nofile", most);
    lab.node_is_there("n1");
    let jobs: Vec<Job<'_>> = (0..14).map(|_| lab.submit("", ONCE)).collect();
    is_short(&lab, "Too many open files");
    lab.file("go", "");
    each_ran_once(&lab, &jobs);
}

#[test]
fn a_node_without_files_left_starts_each_job_once_when_it_has_some() {
    with_few_files(24);
}

#[test]
fn a_node_without_the_last_file_starts_each_job_once_when_it_has_some() {
    with_few_files(25);
}

#[test]
fn a_node_without_the_second_last_file_starts_each_job_once_when_it_has_some() {
    with_few_files(26);
}

/// A group of processes that may be no more than so many.
struct Group(PathBuf);

impl Group {
    /// None, with a word why, where none can be made.
    fn new(lab: &Lab) -> Option<Self> {
        let name = lab.dir().file_name().unwrap();
        for above in ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"] {
            let group = Self(Path::new(above).join(name));
            if fs::create_dir(&group.0).is_ok() && group.0.join("pids.max").exists() {
                return Some(group);
            }
        }
        eprintln!("left out: no group of processes can be made here");
        None
    }

    fn launch(&self, daemon: &Daemon) {
        let enter = "echo $$ >\"$0/cgroup.procs\" && exec \"$@\"";
        daemon.launch_under(&["sh", "-c", enter, self.0.to_str().unwrap()], &[]);
    }

    /// So many more than there are.
    fn room_for(&self, more: u64) {
        let now: u64 = fs::read_to_string(self.0.join("pids.current")).unwrap().trim().parse().unwrap();
        fs::write(self.0.join("pids.max"), (now + more).to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_node_whose_table_of_processes_is_full_starts_each_job_once_when_there_is_room() {
    let lab = Lab::with_cards(0);
    let Some(group) = Group::new(&lab) else { return };
    let node = lab.node("n1");
    assert_eq!(node.stop(), Some(0));
    group.launch(node);
    lab.node_is_there("n1");
    // A script that needs no processes of its own.
    let script = "echo $GQ_RUN >>ran.$GQ_JOB_ID; until [ -e go ]; do :; done; exit 3";
    let first = lab.submit("", script).running();
    let mut jobs = vec![first];
    for room in 0..3 {
        group.room_for(room);
        let next = lab.submit("", script);
        is_short(&lab, "Resource temporarily unavailable");
        assert_eq!((first.state(), next.state()), (JobState::Running, JobState::Pending));
        lab.ctl(&format!("hold {}", next.id));
        jobs.push(next);
    }
    group.room_for(1000);
    lab.ctl("release --me");
    lab.file("go", "");
    each_ran_once(&lab, &jobs);
    assert_eq!(node.stop(), Some(0));
}

/// Lives of a daemon with more and more memory: each serves, or ends with a word.
fn with_little_memory(lab: &Lab, daemon: &Daemon, serves: impl Fn() -> bool) {
    let (mut served, mut ended) = (0, 0);
    assert_eq!(daemon.stop(), Some(0));
    for most in (8..=136).step_by(16) {
        launch_with(daemon, "as", most << 20);
        let serves = until("it serves, or ends", || {
            if daemon.has_ended().is_some() {
                return Some(false);
            }
            serves().then_some(true)
        });
        let said = daemon.said_now();
        assert!(!said.contains("panicked"), "{most} MiB: {said}");
        if serves {
            daemon.kill9();
            served += 1;
        } else {
            assert_ne!((daemon.wait(), said.as_str()), (Some(0), ""), "{most} MiB");
            ended += 1;
        }
    }
    assert!(served > 0 && ended > 0, "{served} served, {ended} ended");
    daemon.start();
    lab.node_is_there("n1");
}

#[test]
fn a_gqd_with_little_memory_serves_or_ends_with_a_word_and_loses_nothing() {
    let lab = Lab::with_cards(0);
    let job = lab.submit("", ONCE).running();
    let taken = RefCell::new(Vec::new());
    with_little_memory(&lab, &lab.gqd, || {
        let said = lab.say("gqsub --parsable -H --wrap true");
        taken.borrow_mut().extend(said.out.trim().parse::<u64>());
        said.code == 0
    });
    let listed: Vec<u64> = lab.list("").iter().map(|job| job["id"].as_u64().unwrap()).collect();
    assert!(taken.borrow().iter().all(|id| listed.contains(id)), "{taken:?} {listed:?}");
    lab.file("go", "");
    each_ran_once(&lab, &[job]);
}

#[test]
fn a_node_with_little_memory_serves_or_ends_with_a_word_and_loses_nothing() {
    let lab = Lab::with_cards(0);
    let job = lab.submit("", ONCE).running();
    let node = lab.node("n1");
    with_little_memory(&lab, node, || node.said_now().contains("linked to gqd"));
    assert_eq!(job.state(), JobState::Running);
    lab.file("go", "");
    each_ran_once(&lab, &[job]);
}
