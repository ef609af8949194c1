//! Lives: `gqnode`, `gqd` and `gqstep` go and come in any order, and every run ends once, with its right result.

use crate::lab::{Lab, lines, until};
use gq_model::{BootId, End, Epoch, Outcome, Reason, RunKey, Seq, SignalTo, Timestamp};
use gq_nodelog::{Log, Record, Taken};
use gq_proto::{OrderBody, ReportBody, StopWhy};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::process::Stdio;

/// The pid of a run's supervisor, as the log has it.
fn supervisor(lab: &Lab, key: RunKey) -> Pid {
    let text = std::fs::read_to_string(lab.node_folder().join("log/0000000000000001.log")).unwrap();
    let mut pids = text.lines().filter_map(|line| {
        let record = &serde_json::from_str::<serde_json::Value>(line.get(9..)?).ok()?["record"];
        match serde_json::from_value(record.clone()).ok()? {
            Record::Up { key: k, pid, .. } if k == key => Some(pid),
            _ => None,
        }
    });
    Pid::from_raw(pids.next_back().unwrap().cast_signed())
}

#[test]
fn a_killed_node_takes_its_runs_over_again() {
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let mut lab = Lab::joined();
        let (first, second) = (lab.gate("first"), lab.gate("second"));
        let ends_alone = lab.run(&format!("echo x >> ran-1; {first}; exit 3"));
        let adopted = lab.run(&format!("echo x >> ran-2; {second}; exit 4"));
        lab.started(ends_alone);
        lab.started(adopted);
        let old = lab.head.as_ref().unwrap().epoch;
        lab.end(signal);
        lab.release("first");
        lab.start(&[]);
        lab.link();
        assert!(lab.head.as_ref().unwrap().epoch > old, "a later life has a higher number");
        let runs = lab.runs_joined();
        let live: Vec<RunKey> = runs.iter().map(|run| run.key).collect();
        assert!(live.contains(&adopted) && runs.iter().all(|run| run.started.is_some()), "{runs:?}");
        assert_eq!(lab.ended(ends_alone).exit_code, Some(3));
        lab.release("second");
        assert_eq!(lab.ended(adopted).exit_code, Some(4));
        assert_eq!((lines(&lab.work("ran-1")), lines(&lab.work("ran-2"))), (1, 1));
    }
}

#[test]
fn a_node_killed_again_and_again_loses_no_start_and_runs_none_twice() {
    let mut lab = Lab::joined();
    let mut keys = Vec::new();
    for round in 0..12_u64 {
        for _ in 0..4 {
            let job = keys.len() + 1;
            keys.push(lab.run(&format!("echo x >> ran-{job}")));
        }
        // At another moment every time.
        for _ in 0..round % 4 {
            lab.receive();
        }
        lab.end(Signal::SIGKILL);
        lab.start(&[]);
        lab.link();
    }
    for (key, job) in keys.iter().zip(1..) {
        assert_eq!(lab.ended(*key).end, End::Completed, "{key}");
        assert_eq!(lines(&lab.work(&format!("ran-{job}"))), 1, "{key}");
    }
}

#[test]
fn a_killed_supervisor_fails_its_run_and_leaves_nothing() {
    for while_node_is_dead in [false, true] {
        let mut lab = Lab::joined();
        let gate = lab.gate("gate");
        let key = lab.run(&format!("(trap '' TERM; setsid sleep 1000 & echo $! > pid); {gate}"));
        lab.started(key);
        until("the child is there", || lines(&lab.work("pid")) == 1);
        let pid = supervisor(&lab, key);
        if while_node_is_dead {
            lab.end(Signal::SIGKILL);
        }
        kill(pid, Signal::SIGKILL).unwrap();
        if while_node_is_dead {
            lab.start(&[]);
            lab.link();
        }
        let outcome = lab.ended(key);
        assert_eq!((outcome.end, outcome.reason), (End::Failed, Reason::SupervisorLost));
        let child = std::fs::read_to_string(lab.work("pid")).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(") Z "), "a process was left: {stat}");
    }
}

#[test]
fn what_a_killed_supervisor_leaves_on_the_nodes_disk_goes_with_the_run() {
    for while_node_is_dead in [false, true] {
        let mut lab = Lab::joined();
        let gate = lab.gate("gate");
        let key = lab.run(&format!("mkdir -p $GQ_TMPDIR/a/b; echo x > $GQ_TMPDIR/a/b/c; {gate}"));
        lab.started(key);
        let folder = lab.node_folder().join("runs").join(key.to_string());
        until("the file is there", || lines(&folder.join("tmp/a/b/c")) == 1);
        let pid = supervisor(&lab, key);
        if while_node_is_dead {
            lab.end(Signal::SIGKILL);
        }
        kill(pid, Signal::SIGKILL).unwrap();
        if while_node_is_dead {
            lab.start(&[]);
            lab.link();
        }
        assert_eq!(lab.ended(key).reason, Reason::SupervisorLost);
        lab.acknowledge();
        until("its folder is removed", || !folder.exists());
        // The next run of the user finds nothing of it.
        let next = lab.run("ls -A $GQ_TMPDIR | wc -l > found");
        assert_eq!(lab.ended(next).exit_code, Some(0));
        assert_eq!(std::fs::read_to_string(lab.work("found")).unwrap(), "0\n");
    }
}

#[test]
fn a_stop_that_was_taken_is_not_forgotten() {
    let mut lab = Lab::joined();
    let gate = lab.gate("gate");
    let key = lab.run(&format!("trap '' TERM; touch ready; while :; do {gate}; done"));
    lab.started(key);
    until("the script is ready", || lab.work("ready").exists());
    lab.order(OrderBody::Stop { key, why: StopWhy::Cancel, reason: None });
    let taken = Seq(lab.orders.len() as u64);
    while lab.receive().ack < taken {}
    lab.end(Signal::SIGKILL);
    lab.start(&[]);
    lab.link();
    // The hard signal comes after kill_wait, and the outcome is that of the stop.
    let outcome = lab.ended(key);
    assert_eq!((outcome.end, outcome.reason), (End::Cancelled, Reason::Cancelled));
}

#[test]
fn jobs_go_on_without_gqd_and_their_ends_are_kept() {
    let mut lab = Lab::joined();
    let gate = lab.gate("gate");
    let key = lab.run(&format!("{gate}; exit 5"));
    lab.started(key);
    lab.unlink();
    lab.release("gate");
    lab.link();
    assert_eq!(lab.ended(key).exit_code, Some(5));
    // What was not acknowledged comes again, in the same words and under the same numbers.
    lab.unlink();
    let seen = std::mem::take(&mut lab.reports);
    lab.link();
    lab.ended(key);
    let life = lab.head.as_ref().unwrap().epoch;
    for ((epoch, seq), body) in &lab.reports {
        assert_eq!((*epoch, seen.get(&(*epoch, *seq))), (life, Some(body)));
    }
}

#[test]
fn a_controller_of_an_earlier_life_is_not_obeyed() {
    let mut lab = Lab::joined();
    lab.unlink();
    lab.epoch = Epoch(7);
    lab.link();
    let key = lab.run("true");
    lab.ended(key);
    lab.unlink();
    lab.epoch = Epoch(6);
    lab.link();
    until("it says so", || lab.said().contains("obeyed life 7"));
    // It hangs up, and comes again for a later life.
    lab.epoch = Epoch(8);
    lab.link();
    let key = lab.run("true");
    lab.ended(key);
}

#[test]
fn a_second_node_of_the_same_folder_is_refused() {
    let lab = Lab::joined();
    let second = lab.command(&[]).stderr(Stdio::piped()).output().unwrap();
    let words = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1));
    assert!(words.contains("another gqnode"), "{words}");
}

#[test]
fn a_bad_conf_is_refused_at_the_start_and_ignored_later() {
    let mut lab = Lab::joined();
    let conf = lab.dir.path().join("gq.conf");
    let good = std::fs::read_to_string(&conf).unwrap();
    std::fs::write(&conf, "[cluster]\nnane = \"lab\"\n").unwrap();
    lab.signal(Signal::SIGHUP);
    until("it says so", || lab.said().contains("the old one stays"));
    let refused = lab.command(&[]).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    std::fs::write(&conf, good.replace("count = 2", "count = 3")).unwrap();
    lab.signal(Signal::SIGHUP);
    let cards = lab.wait(|r| match r {
        ReportBody::Cards { cards } => Some(cards.len()),
        _ => None,
    });
    assert_eq!(cards, 3);
}

#[test]
fn a_reboot_ends_what_lived_and_keeps_what_had_ended() {
    let mut lab = Lab::new();
    let (before, outcome) = (BootId([7; 16]), Outcome::without_exit(End::Timeout, Reason::TimeLimit, "kept"));
    let [mut lived, mut had_ended, mut known] = [(); 3].map(|()| lab.job("echo never > never"));
    let log = lab.node_folder().join("log");
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    let (mut log, _) = Log::open(&log).unwrap();
    let mut records = vec![Record::Life {
        epoch: Epoch(5),
        boot: before,
        node_id: None,
        controller: Epoch(1),
        taken: Seq(0),
    }];
    for (assignment, seq) in [&mut lived, &mut had_ended, &mut known].into_iter().zip(1..) {
        assignment.boot = before;
        let (key, at) = (assignment.key, Timestamp(9));
        let what = Taken::Start(Box::new(assignment.clone()));
        records.push(Record::Taken { seq: Seq(seq), controller: Epoch(1), what });
        // A process that lives now, under the number that the supervisor had then.
        records.push(Record::Up { key, pid: std::process::id(), pid_start: 1 });
        records.push(Record::Started { key, at, session: std::process::id() });
    }
    let end = |key| Record::Ended {
        key,
        outcome: outcome.clone(),
        started: None,
        ended: Timestamp(9),
        epilog: None,
    };
    records.extend([end(had_ended.key), end(known.key), Record::Acked { key: known.key }]);
    log.append_all(&records).unwrap();
    drop(log);
    lab.orders = vec![OrderBody::Stop { key: known.key, why: StopWhy::Cancel, reason: None }; 3];
    lab.start(&[]);
    lab.link();
    assert_eq!(lab.head.as_ref().unwrap().ack, Seq(3));
    assert!(lab.runs_joined().is_empty());
    assert_eq!(lab.ended(had_ended.key), outcome);
    let lost = lab.ended(lived.key);
    assert_eq!((lost.end, lost.reason), (End::NodeFail, Reason::NodeFailure));
    let last = lab.run("true");
    lab.ended(last);
    assert!(!lab.reports.values().any(|r| matches!(r, ReportBody::Ended { key, .. } if *key == known.key)));
}

#[test]
fn a_long_log_is_shortened_and_what_must_be_known_stays_known() {
    let mut lab = Lab::new();
    let assignment = lab.job("echo never > never");
    let (key, folder) = (assignment.key, lab.node_folder().join("log"));
    std::fs::create_dir_all(folder.parent().unwrap()).unwrap();
    let (mut log, _) = Log::open(&folder).unwrap();
    let mut records =
        vec![Record::Taken { seq: Seq(41), controller: Epoch(4), what: Taken::Start(assignment.into()) }];
    let detail = "x".repeat(100_000);
    let outcome = Outcome::without_exit(End::Failed, Reason::NonZeroExitCode, detail);
    records
        .extend(vec![Record::Ended { key, outcome, started: None, ended: Timestamp(1), epilog: None }; 180]);
    records.push(Record::Acked { key });
    log.append_all(&records).unwrap();
    drop(log);
    lab.orders = vec![OrderBody::Signal { key, signal: 10, to: SignalTo::All }; 41];
    lab.epoch = Epoch(4);
    for taken in [41, 42] {
        lab.start(&[]);
        lab.link();
        let head = lab.head.as_ref().unwrap();
        assert_eq!((head.ack, head.ack_epoch), (Seq(taken), Epoch(4)));
        assert!(
            !folder.join("0000000000000001.log").exists() && folder.join("0000000000000002.log").exists()
        );
        let next = lab.run("true");
        lab.ended(next);
        lab.end(Signal::SIGTERM);
    }
}
