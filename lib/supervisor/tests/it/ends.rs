//! How runs end, and that nothing of them is left.

use crate::lab::{Lab, line_of, uids, wait_dead};
use gq_host::{Control, Group, Remains, StopKind, Supervisor, lock_folder, process_start, run_marker, sweep};
use gq_model::{End, Reason, Seconds, SignalTo, TestRun};
use gq_nodelog::Record;
use std::fs;

#[test]
fn a_script_ends_as_it_exits() {
    for uid in uids() {
        let mut lab = Lab::of(uid);
        for (script, end, reason, code, signal) in [
            ("true", End::Completed, Reason::None, Some(0), None),
            ("exit 7", End::Failed, Reason::NonZeroExitCode, Some(7), None),
            ("kill -SEGV $$", End::Failed, Reason::RaisedSignal, None, Some(11)),
            ("kill -40 $$", End::Failed, Reason::RaisedSignal, None, Some(40)),
        ] {
            let job = lab.job(script);
            let outcome = lab.run(&job);
            assert_eq!(
                (outcome.end, outcome.reason, outcome.exit_code, outcome.signal),
                (end, reason, code, signal),
                "{script}"
            );
            let key = job.assignment.key;
            let kinds: Vec<_> = lab.records.iter().filter(|r| r.key() == Some(key)).collect();
            assert!(
                matches!(kinds[..], [Record::Up { .. }, Record::Started { .. }, Record::Ended { .. }]),
                "{kinds:?}"
            );
            assert!(
                lab.ended(key).1.is_some() && fs::read(lab.folder(key).join("script")).unwrap().is_empty()
            );
        }
    }
}

#[test]
fn a_job_that_ends_well_after_its_limit_is_timed_out_all_the_same() {
    let mut lab = Lab::of(uids()[0]);
    let mut job = lab.job("trap 'exit 0' TERM; sleep 60 & wait");
    job.assignment.time_limit = Some(Seconds(1));
    let outcome = lab.run(&job);
    assert_eq!((outcome.end, outcome.reason, outcome.exit_code), (End::Timeout, Reason::TimeLimit, Some(0)));
}

#[test]
fn who_ignores_the_gentle_signal_gets_the_hard_one() {
    for uid in uids() {
        let mut lab = Lab::of(uid);
        let mut job = lab.job("trap '' TERM; echo up > up; while :; do sleep 60; done");
        job.assignment.kill_wait = Seconds(1);
        let supervisor = lab.start(&job);
        line_of(&lab.work("up"));
        assert!(supervisor.send(Control::Stop(StopKind::Cancel, None)).unwrap());
        let outcome = lab.ended(job.assignment.key).0;
        assert_eq!(
            (outcome.end, outcome.reason, outcome.signal),
            (End::Cancelled, Reason::Cancelled, Some(9))
        );
        wait_dead(&supervisor);
    }
}

#[test]
fn a_stopped_job_can_be_ended_and_says_why() {
    let mut lab = Lab::of(uids()[0]);
    let job = lab.job("kill -STOP $$");
    let supervisor = lab.start(&job);
    lab.started(job.assignment.key);
    supervisor.send(Control::Stop(StopKind::Requeue, None)).unwrap();
    let outcome = lab.ended(job.assignment.key).0;
    assert_eq!((outcome.end, outcome.reason), (End::Cancelled, Reason::Requeued));
    wait_dead(&supervisor);
    assert!(!supervisor.send(Control::Signal(1, SignalTo::All)).unwrap(), "a dead supervisor hears nothing");
}

#[test]
fn a_later_gqnode_finds_the_supervisor_and_is_heard() {
    let mut lab = Lab::of(uids()[0]);
    let job = lab.job("trap 'echo got > got; exit 5' USR1; echo up > up; while :; do sleep 0.01; done");
    let key = job.assignment.key;
    let first = lab.start(&job);
    let (pid, start) = lab.up(key);
    assert_eq!(pid, first.pid());
    line_of(&lab.work("up"));
    assert!(lock_folder(&lab.folder(key)).unwrap().is_none(), "a living supervisor holds the lock");
    let found = Supervisor::find(pid, start).unwrap().unwrap();
    assert!(Supervisor::find(pid, start + 1).unwrap().is_none());
    found.send(Control::Signal(10, SignalTo::All)).unwrap();
    assert_eq!(lab.ended(key).0.exit_code, Some(5));
    wait_dead(&found);
    assert!(lock_folder(&lab.folder(key)).unwrap().is_some());
    assert!(Supervisor::find(pid, start).unwrap().is_none());
}

#[test]
fn nothing_survives_its_job() {
    for uid in uids() {
        let mut lab = Lab::of(uid);
        let script = "setsid sh -c 'trap \"\" TERM HUP; echo $$ > a; exec sleep 61' &
            (setsid sh -c 'setsid sh -c \"echo \\$\\$ > b; exec sleep 62\" & exec sleep 63' &)
            while ! [ -s a ] || ! [ -s b ]; do sleep 0.01; done";
        let job = lab.job(script);
        assert_eq!(lab.run(&job).end, End::Completed);
        for file in ["a", "b"] {
            let pid = lab.read(file).trim().parse().unwrap();
            assert_eq!(process_start(pid), None, "process {pid} lives on");
        }
    }
}

#[test]
fn who_forks_and_exits_all_the_time_is_caught() {
    let mut lab = Lab::of(uids()[0]);
    // One process at a time, each the child of the one before: in the script's group, and in a session of its own.
    fs::write(lab.work("runner"), "a() { (a) & }\na\nwait").unwrap();
    for how in ["sh runner", "setsid sh runner"] {
        let job = lab.job(&format!("{how} & sleep 0.05; exit 3"));
        assert_eq!(lab.run(&job).exit_code, Some(3), "{how}");
    }
}

#[test]
fn what_a_killed_supervisor_leaves_is_swept_up() {
    for uid in uids() {
        let mut lab = Lab::of(uid);
        let job = lab.job(
            "setsid sh -c 'echo $$ > a; exec sleep 61' & env -i sh -c 'echo $$ > b; exec sleep 62' & echo $$ > c; wait",
        );
        let key = job.assignment.key;
        let supervisor = lab.start(&job);
        let session = lab.started(key);
        let pids: Vec<u32> = ["a", "b", "c"].map(|f| line_of(&lab.work(f)).parse().unwrap()).into();
        assert_eq!(pids[2], session);
        nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(supervisor.pid() as i32),
            nix::sys::signal::SIGKILL,
        )
        .unwrap();
        wait_dead(&supervisor);
        let sha256 = gq_proto::sha256_hex(&job.file.to_bytes().unwrap());
        let mut assignment = job.assignment.clone();
        assignment.sha256 = sha256;
        let mut remains = Remains { marker: "9.0.1-x".into(), uid, session: None };
        assert_eq!(sweep(&remains, &Group::default()).unwrap(), 0, "another run's");
        remains =
            Remains { marker: run_marker(&assignment), uid: gq_model::Uid(12345), session: Some(session) };
        assert_eq!(sweep(&remains, &Group::default()).unwrap(), 0, "another user's");
        remains.uid = uid;
        assert!(sweep(&remains, &Group::default()).unwrap() >= 2);
        while sweep(&remains, &Group::default()).unwrap() > 0 {
            std::thread::yield_now();
        }
        assert!(lock_folder(&lab.folder(key)).unwrap().is_some());
    }
}

#[test]
fn a_cancelled_job_that_never_began_says_so() {
    let mut lab = Lab::of(uids()[0]);
    let mut job = lab.job("true");
    // Its supervisor is told to stop before it has done anything: the word waits for it.
    gq_host::block_control_signal().unwrap();
    job.assignment.time_limit = None;
    let supervisor = lab.start(&job);
    supervisor.send(Control::Stop(StopKind::Cancel, None)).unwrap();
    let (outcome, started) = lab.ended(job.assignment.key);
    match outcome.end {
        End::Cancelled => assert!(started.is_none() || outcome.signal.is_some()),
        End::Completed => assert!(started.is_some(), "it may have been faster"),
        other => unreachable!("{other:?}"),
    }
    wait_dead(&supervisor);
}

#[test]
fn a_test_run_sleeps_and_exits_as_it_was_told() {
    for uid in uids() {
        let mut lab = Lab::of(uid);
        let mut job = lab.job("touch never");
        job.file.spec.test_run = Some(TestRun { micros: 1000, exit: 9 });
        job.assignment.allow_test_run = true;
        assert_eq!(lab.run(&job).exit_code, Some(9));
        assert!(lab.work("out").exists() && !lab.work("never").exists());
        let mut job = lab.job("");
        job.file.spec.test_run = Some(TestRun { micros: 60_000_000, exit: 0 });
        job.assignment.allow_test_run = true;
        job.assignment.time_limit = Some(Seconds(1));
        let outcome = lab.run(&job);
        assert_eq!((outcome.end, outcome.signal), (End::Timeout, Some(15)));
    }
}
