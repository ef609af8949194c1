//! Runs that are steered while they live: limits, signals, warnings, suspension.

use crate::lab::{Lab, count_of, line_of, uids, until, wait_dead};
use gq_host::{Control, StopKind};
use gq_model::{CardUse, End, EndReason, MiB, Reason, Seconds, Share, SignalAsk, SignalTo};
use gq_nodelog::Record;
use std::time::{Duration, Instant};

const USR1: u8 = 10;
/// Says so and goes on whenever USR1 or TERM comes; its sleeps end with the signal, too.
const LISTENER: &str = "trap 'echo usr1 >> heard' USR1; trap 'echo term >> heard' TERM; echo up > up; while :; do sleep 60 & wait; done";

#[test]
fn a_limit_is_moved_while_the_script_runs_and_counts_from_its_start() {
    let mut lab = Lab::of(uids()[0]);
    let mut job = lab.job("echo up > up; sleep 60");
    job.assignment.time_limit = Some(Seconds(1));
    let supervisor = lab.start(&job);
    let begun = Instant::now();
    line_of(&lab.work("up"));
    supervisor.send(Control::Limit(None)).unwrap();
    supervisor.send(Control::Limit(Some(2))).unwrap();
    let outcome = lab.ended(job.assignment.key).0;
    assert_eq!((outcome.end, outcome.signal), (End::Timeout, Some(15)));
    assert!(begun.elapsed() >= Duration::from_secs(2));
    wait_dead(&supervisor);
}

#[test]
fn a_limit_that_is_over_when_it_is_set_ends_the_run() {
    let mut lab = Lab::of(uids()[0]);
    let job = lab.job("echo up > up; sleep 60");
    let supervisor = lab.start(&job);
    line_of(&lab.work("up"));
    supervisor.send(Control::Limit(Some(0))).unwrap();
    let outcome = lab.ended(job.assignment.key).0;
    assert_eq!((outcome.end, outcome.reason), (End::Timeout, Reason::TimeLimit));
    wait_dead(&supervisor);
}

#[test]
fn a_deadline_says_its_own_name_and_nothing_moves_it() {
    for uid in uids() {
        let mut lab = Lab::of(uid);
        let mut job = lab.job(LISTENER);
        job.assignment.kill_wait = Seconds(0);
        // Not what others get beyond their limit, not another limit, and not that the run stands still.
        (job.assignment.deadline, job.assignment.over_limit) = (Some(Seconds(4)), Seconds(60));
        let begun = Instant::now();
        let supervisor = lab.start(&job);
        line_of(&lab.work("up"));
        supervisor.send(Control::Limit(None)).unwrap();
        supervisor.send(Control::Suspend).unwrap();
        let outcome = lab.ended(job.assignment.key).0;
        assert_eq!((outcome.end, outcome.reason), (End::Deadline, Reason::Deadline));
        assert!((3..30).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
        let is_suspended = |record: &Record| matches!(record, Record::Suspended { .. });
        assert!(lab.records.iter().any(is_suspended), "it stood still when it came");
        wait_dead(&supervisor);
    }
}

#[test]
fn a_run_gets_a_little_more_than_its_limit_where_the_site_gives_it() {
    let mut lab = Lab::of(uids()[0]);
    let mut job = lab.job("sleep 60");
    job.assignment.time_limit = Some(Seconds(0));
    job.assignment.over_limit = Seconds(1);
    let begun = Instant::now();
    assert_eq!(lab.run(&job).end, End::Timeout);
    assert!(begun.elapsed() >= Duration::from_secs(1));
}

#[test]
fn a_short_run_is_warned_when_half_of_its_limit_is_over_and_never_at_once() {
    let mut lab = Lab::of(uids()[0]);
    let mut job = lab.job("trap 'exit 7' USR1; echo up > up; while :; do sleep 60 & wait; done");
    job.assignment.time_limit = Some(Seconds(2));
    job.assignment.signal = Some(SignalAsk { signal: USR1, before: Seconds(120), batch: true });
    let begun = Instant::now();
    let outcome = lab.run(&job);
    assert_eq!((outcome.end, outcome.exit_code), (End::Failed, Some(7)));
    assert!(begun.elapsed() >= Duration::from_secs(1));
}

#[test]
fn a_signal_reaches_those_it_is_meant_for() {
    for uid in uids() {
        let mut lab = Lab::of(uid);
        let child = "trap \"echo child >> heard\" USR1; echo up > child; while :; do sleep 60 & wait; done";
        let job = lab.job(&format!("sh -c '{child}' & {}", LISTENER.replace("echo usr1", "echo batch")));
        let supervisor = lab.start(&job);
        line_of(&lab.work("up"));
        line_of(&lab.work("child"));
        let send = |to, batch, child| {
            supervisor.send(Control::Signal(USR1, to)).unwrap();
            until("who was meant has heard", || {
                (count_of(&lab.work("heard"), "batch"), count_of(&lab.work("heard"), "child"))
                    == (batch, child)
            });
        };
        send(SignalTo::Batch, 1, 0);
        send(SignalTo::Steps, 1, 1);
        send(SignalTo::Batch, 2, 1);
        send(SignalTo::All, 3, 2);
        supervisor.send(Control::Signal(9, SignalTo::All)).unwrap();
        assert_eq!(lab.ended(job.assignment.key).0.signal, Some(9));
        wait_dead(&supervisor);
    }
}

#[test]
fn who_has_become_his_program_gets_what_is_for_programs() {
    let mut lab = Lab::of(uids()[0]);
    let job = lab.job("echo up > up; exec sleep 60");
    let supervisor = lab.start(&job);
    line_of(&lab.work("up"));
    supervisor.send(Control::Signal(12, SignalTo::Steps)).unwrap();
    assert_eq!(lab.ended(job.assignment.key).0.signal, Some(12));
    wait_dead(&supervisor);
}

#[test]
fn a_suspended_run_stands_still_and_so_does_its_time() {
    for uid in uids().into_iter().rev().take(1) {
        let mut lab = Lab::of(uid);
        // Who forks all the time is stopped, too.
        let mut job = lab.job(
            "(while :; do (echo x >> ticks); done) & setsid sh -c 'while :; do (echo x >> ticks); done' & echo up > up; sleep 60",
        );
        job.assignment.kill_wait = Seconds(0);
        let key = job.assignment.key;
        let supervisor = lab.start(&job);
        line_of(&lab.work("up"));
        until("it ticks", || count_of(&lab.work("ticks"), "x") > 3);
        supervisor.send(Control::Suspend).unwrap();
        lab.wait(|r| matches!(r, Record::Suspended { key: k, .. } if *k == key).then_some(()));
        let paused = Instant::now();
        let ticks = count_of(&lab.work("ticks"), "x");
        // The user cannot let it go on by our hand.
        supervisor.send(Control::Signal(18, SignalTo::All)).unwrap();
        supervisor.send(Control::Suspend).unwrap();
        supervisor.send(Control::Limit(Some(1))).unwrap();
        until("its limit would be over", || paused.elapsed() > Duration::from_millis(1100));
        assert_eq!(count_of(&lab.work("ticks"), "x"), ticks);
        assert!(!lab.has_ended(key));
        supervisor.send(Control::Resume).unwrap();
        lab.wait(|r| matches!(r, Record::Resumed { key: k, .. } if *k == key).then_some(()));
        until("it ticks again", || count_of(&lab.work("ticks"), "x") > ticks);
        assert_eq!(lab.ended(key).0.end, End::Timeout);
        let pauses = lab.records.iter().filter(|r| matches!(r, Record::Suspended { .. })).count();
        assert_eq!(pauses, 1);
        wait_dead(&supervisor);
    }
}

#[test]
fn a_suspended_run_can_be_ended_and_a_warned_one_goes_on() {
    let mut lab = Lab::of(uids()[0]);
    let mut job = lab.job(LISTENER);
    job.assignment.kill_wait = Seconds(0);
    let key = job.assignment.key;
    let supervisor = lab.start(&job);
    line_of(&lab.work("up"));
    supervisor.send(Control::Suspend).unwrap();
    lab.wait(|r| matches!(r, Record::Suspended { key: k, .. } if *k == key).then_some(()));
    supervisor.send(Control::Warn(EndReason::Preemption)).unwrap();
    lab.wait(|r| matches!(r, Record::Resumed { key: k, .. } if *k == key).then_some(()));
    until("the warning is heard", || count_of(&lab.work("heard"), "term") == 1);
    supervisor.send(Control::Suspend).unwrap();
    until("it is suspended again", || lab.count(|r| matches!(r, Record::Suspended { .. })) == 2);
    supervisor.send(Control::Stop(StopKind::Requeue, Some(EndReason::Preemption))).unwrap();
    let outcome = lab.ended(key).0;
    assert_eq!((outcome.end, outcome.reason), (End::Cancelled, Reason::Requeued));
    wait_dead(&supervisor);
}

#[test]
fn a_run_that_uses_more_of_its_card_than_it_declared_is_ended_and_says_so() {
    let mut lab = Lab::of(uids()[0]);
    let mut job = lab.job(LISTENER);
    job.assignment.kill_wait = Seconds(0);
    let share = Share { parts: 1, of: 4, memory: MiB(1024) };
    job.assignment.cards = vec![CardUse { share: Some(share), ..CardUse::whole(0, None) }];
    let key = job.assignment.key;
    let supervisor = lab.start(&job);
    line_of(&lab.work("up"));
    // As much as it declared is its own.
    for used in [1024, 1025] {
        supervisor.send(Control::Overused(MiB(used))).unwrap();
    }
    let outcome = lab.ended(key).0;
    assert_eq!((outcome.end, outcome.reason), (End::OutOfMemory, Reason::GpuMemory));
    assert_eq!(outcome.detail, "used 1025 MiB of the card, 1024 MiB declared");
    wait_dead(&supervisor);
}

#[test]
fn what_is_wanted_before_the_script_begins_is_done_when_it_does() {
    gq_host::block_control_signal().unwrap();
    let mut lab = Lab::of(uids()[0]);
    let mut job = lab.job("echo begun > begun; sleep 60");
    job.assignment.kill_wait = Seconds(0);
    let key = job.assignment.key;
    let supervisor = lab.start(&job);
    for control in [Control::Suspend, Control::Limit(Some(1)), Control::Warn(EndReason::Drain)] {
        supervisor.send(control).unwrap();
    }
    // The warning ends it by its gentle signal; its limit would, too, and suspended it was for a moment at most.
    let outcome = lab.ended(key).0;
    assert!(matches!(outcome.end, End::Failed | End::Timeout), "{outcome:?}");
    assert_eq!(outcome.signal, Some(15));
    wait_dead(&supervisor);
}
