//! Orders: start, stop, the same again, and those that are refused.

use crate::lab::{Lab, lines, until};
use gq_model::{
    BootId, CardHealth, End, EndReason, Fault, MiB, Reason, RunNumber, Seconds, Seq, SignalTo, Uid,
};
use gq_proto::{OrderBody, ReportBody, StopWhy};
use nix::sys::signal::Signal;

#[test]
fn a_run_starts_ends_is_reported_and_forgotten() {
    let mut lab = Lab::joined();
    assert!(lab.runs_joined().is_empty());
    let machine = lab.wait(|r| match r {
        ReportBody::Joined { cpus, memory, cards, .. } => Some((*cpus, *memory, cards.clone())),
        _ => None,
    });
    assert_eq!((machine.0, machine.1, machine.2.len()), (3, MiB(4096), 2));
    assert!(machine.2.iter().all(|card| card.model == "A100" && card.health == CardHealth::Good));

    let key = lab.run("echo hello; exit 7");
    lab.started(key);
    let outcome = lab.ended(key);
    assert_eq!(
        (outcome.end, outcome.reason, outcome.exit_code),
        (End::Failed, Reason::NonZeroExitCode, Some(7))
    );
    assert_eq!(std::fs::read_to_string(lab.work("out-1")).unwrap(), "hello\n");
    lab.acknowledge();
    let runs = lab.node_folder().join("runs");
    let folders = || std::fs::read_dir(&runs).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    assert_eq!(
        std::fs::read(runs.join(key.to_string()).join("script")).unwrap(),
        b"",
        "its script is left to nobody"
    );

    // Its folder serves the next run of its user, once its supervisor has drawn its last breath.
    let of_run = runs.join(key.to_string());
    until("the folder is free", || matches!(gq_host::lock_folder(&of_run), Ok(Some(_))));
    let other = lab.run("true");
    lab.ended(other);
    assert_eq!(folders(), [runs.join(other.to_string())]);
    lab.acknowledge();
    assert_eq!(lab.end(Signal::SIGTERM), Some(0));

    // Nothing of it is reported in the next life.
    lab.start(&[]);
    lab.link();
    assert!(lab.runs_joined().is_empty());
    let next = lab.run("true");
    lab.ended(next);
    let life = lab.head.as_ref().unwrap().epoch;
    assert!(
        !lab.reports
            .iter()
            .any(|((epoch, _), r)| *epoch == life
                && matches!(r, ReportBody::Ended { key: k, .. } if *k == key))
    );
}

#[test]
fn a_stopped_run_ends_cancelled_and_an_unknown_one_is_reported_and_never_starts() {
    let mut lab = Lab::joined();
    let gate = lab.gate("gate");
    let key = lab.run(&gate);
    lab.started(key);
    lab.order(OrderBody::Stop { key, why: StopWhy::Cancel, reason: None });
    assert_eq!(lab.ended(key).end, End::Cancelled);

    let assignment = lab.job("echo never");
    let key = assignment.key;
    lab.order(OrderBody::Stop { key, why: StopWhy::Requeue, reason: None });
    assert_eq!(lab.ended(key).reason, Reason::Requeued);
    lab.acknowledge();
    lab.order(OrderBody::Start(Box::new(assignment)));
    let last = lab.run("true");
    lab.ended(last);
    assert!(!lab.work(&format!("out-{}", key.job)).exists());
}

#[test]
fn a_signal_reaches_the_script() {
    let mut lab = Lab::joined();
    let gate = lab.gate("gate");
    let key = lab.run(&format!("trap 'exit 9' USR1; touch ready; while :; do {gate}; done"));
    lab.started(key);
    until("the script is ready", || lab.work("ready").exists());
    lab.order(OrderBody::Signal { key, signal: Signal::SIGUSR1 as u8, to: SignalTo::All });
    assert_eq!(lab.ended(key).exit_code, Some(9));
}

#[test]
fn a_run_is_suspended_goes_on_and_has_another_limit_and_says_so_after_the_node_was_killed() {
    let mut lab = Lab::joined();
    let gate = lab.gate("gate");
    let key = lab.run(&format!("touch ready; {gate}; sleep 60"));
    lab.started(key);
    until("the script is ready", || lab.work("ready").exists());
    lab.order(OrderBody::Suspend { key });
    let suspended =
        |r: &ReportBody| matches!(r, ReportBody::Suspended { key: k, .. } if *k == key).then_some(());
    lab.wait(suspended);
    // Its limit would be over, and stands still.
    lab.order(OrderBody::Limit { key, limit: Some(Seconds(0)) });

    lab.end(Signal::SIGKILL);
    lab.reports.clear();
    lab.start(&[]);
    lab.link();
    lab.wait(suspended);
    lab.order(OrderBody::Resume { key });
    lab.wait(|r| matches!(r, ReportBody::Resumed { key: k, .. } if *k == key).then_some(()));
    assert_eq!(lab.ended(key).end, End::Timeout);
}

#[test]
fn a_run_is_warned_and_its_end_says_why() {
    let mut lab = Lab::joined();
    let script = "trap 'cat $GQ_END_REASON_FILE >> why' TERM; touch ready; while :; do sleep 60 & wait; done";
    let mut assignment = lab.job(script);
    assignment.may_run_again = true;
    assignment.kill_wait = Seconds(1);
    let key = assignment.key;
    lab.order(OrderBody::Start(Box::new(assignment)));
    lab.started(key);
    until("the script is ready", || lab.work("ready").exists());
    lab.order(OrderBody::Warn { key, reason: EndReason::Preemption });
    until("the warning was heard", || lines(&lab.work("why")) == 1);
    let reason = Some(EndReason::Requeue);
    lab.order(OrderBody::Stop { key, why: StopWhy::Requeue, reason });
    assert_eq!(lab.ended(key).reason, Reason::Requeued);
    assert_eq!(std::fs::read_to_string(lab.work("why")).unwrap(), "preemption\nrequeue\n");
}

#[test]
fn the_same_start_again_starts_nothing() {
    let mut lab = Lab::joined();
    let gate = lab.gate("gate");
    let assignment = lab.job(&format!("echo once >> once; {gate}"));
    let key = assignment.key;
    for _ in 0..3 {
        lab.order(OrderBody::Start(Box::new(assignment.clone())));
    }
    lab.started(key);
    // Old numbers, as after a connection that broke before the acknowledgement.
    lab.send(Seq(0));
    let other = lab.run("true");
    lab.ended(other);
    lab.release("gate");
    assert_eq!(lab.ended(key).end, End::Completed);
    lab.order(OrderBody::Start(Box::new(assignment)));
    let last = lab.run("true");
    lab.ended(last);
    assert_eq!(lines(&lab.work("once")), 1);
}

#[test]
fn two_runs_of_one_job_never_live_together() {
    let mut lab = Lab::joined();
    let gate = lab.gate("gate");
    let mut assignment = lab.job(&format!("echo $GQ_RUN >> runs; {gate}"));
    let first = assignment.key;
    lab.order(OrderBody::Start(Box::new(assignment.clone())));
    lab.started(first);
    assignment.key.run = RunNumber(2);
    let second = assignment.key;
    lab.order(OrderBody::Start(Box::new(assignment)));
    let other = lab.run("true");
    lab.ended(other);
    until("the first run has begun", || lines(&lab.work("runs")) == 1);
    lab.release("gate");
    lab.ended(first);
    lab.started(second);
    lab.release("gate");
    assert_eq!(lab.ended(second).end, End::Completed);
    assert_eq!(std::fs::read_to_string(lab.work("runs")).unwrap(), "1\n2\n");
}

#[test]
fn a_start_for_another_boot_or_a_stranger_is_not_obeyed() {
    let mut lab = Lab::joined();
    let mut stale = lab.job("echo never > never");
    stale.boot = BootId([9; 16]);
    let key = stale.key;
    lab.order(OrderBody::Start(Box::new(stale)));
    let outcome = lab.ended(key);
    assert_eq!((outcome.end, outcome.reason), (End::NodeFail, Reason::NodeFailure));
    let mut stranger = lab.job("echo never > never");
    stranger.uid = Uid(stranger.uid.0 + 1);
    let key = stranger.key;
    lab.order(OrderBody::Start(Box::new(stranger)));
    let (fault, detail) = lab.wait(|r| match r {
        ReportBody::Refused { key: k, fault, detail, .. } if *k == key => Some((*fault, detail.clone())),
        _ => None,
    });
    assert!(fault == Fault::Site && detail.contains("uid"), "{detail}");
    assert!(!lab.work("never").exists());
}

#[test]
fn what_cannot_be_launched_is_refused_by_the_sites_fault() {
    let mut lab = Lab::joined();
    let assignment = lab.job("true");
    let key = assignment.key;
    std::fs::write(lab.node_folder().join("runs").join(key.to_string()), "in the way").unwrap();
    lab.order(OrderBody::Start(Box::new(assignment)));
    let fault = lab.wait(|r| match r {
        ReportBody::Refused { key: k, fault, .. } if *k == key => Some(*fault),
        _ => None,
    });
    assert_eq!(fault, Fault::Site);
}
