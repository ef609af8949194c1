//! Runs with a lease: they go on as long as they hear that their node is seen, and end themselves else, whatever else is dead or stopped.

use crate::lab::{Job, Lab, line_of, uids, until, wait_dead};
use gq_host::{Control, HookFolder, boot_clock};
use gq_model::{End, Outcome, Reason, RunKey, Seconds};
use gq_nodelog::Record;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

fn seconds() -> u64 {
    boot_clock().unwrap().as_secs()
}

/// A job with a lease of ten seconds that goes until so many seconds from now.
fn leased(lab: &mut Lab, left: u64, script: &str) -> (Job, u32) {
    let mut job = lab.job(script);
    let until = seconds() + left;
    job.assignment.lease = Some(Seconds(10));
    lab.lease = Some(Seconds(until));
    (job, u32::try_from(until).unwrap())
}

fn cut_off(lab: &mut Lab, key: RunKey) -> Outcome {
    let outcome = lab.ended(key).0;
    assert_eq!((outcome.end, outcome.reason), (End::NodeFail, Reason::NodeFailure), "{outcome:?}");
    outcome
}

fn is_gone(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

#[test]
fn a_run_that_hears_nothing_more_is_dead_when_its_lease_is_over_whoever_of_it_would_not_die() {
    let mut lab = Lab::of(uids()[0]);
    let script = "trap '' TERM; (setsid sh -c 'echo $$ > away; trap \"\" TERM; while :; do sleep 1; done' &) ; echo $$ > up; \
                  while :; do sleep 1; done";
    let (job, until) = leased(&mut lab, 3, script);
    let key = job.assignment.key;
    let supervisor = lab.start(&job);
    let (here, away) = (line_of(&lab.work("up")), line_of(&lab.work("away")));
    // Renewed once, it outlives its first end.
    supervisor.send(Control::Lease(until + 2)).unwrap();
    cut_off(&mut lab, key);
    let now = boot_clock().unwrap();
    let end = Duration::from_secs(u64::from(until) + 2);
    assert!(now >= end && now < end + Duration::from_secs(2), "{now:?} and not {end:?}");
    assert!(is_gone(&here) && is_gone(&away));
    wait_dead(&supervisor);
}

#[test]
fn a_run_is_told_before_its_lease_is_over_and_no_word_changes_that_then() {
    let mut lab = Lab::of(uids()[0]);
    let script = "trap 'echo saved > saved; exit 0' TERM; echo up > up; while :; do sleep 60 & wait; done";
    let (job, until) = leased(&mut lab, 4, script);
    let supervisor = lab.start(&job);
    line_of(&lab.work("up"));
    let outcome = cut_off(&mut lab, job.assignment.key);
    assert_eq!(outcome.exit_code, Some(0));
    assert!(boot_clock().unwrap() < Duration::from_secs(until.into()), "it used the time before its end");
    assert_eq!(lab.read("saved"), "saved\n");
    wait_dead(&supervisor);
}

#[test]
fn a_supervisor_that_was_stopped_over_the_end_of_a_lease_ends_the_run_though_it_is_renewed() {
    let mut lab = Lab::of(uids()[0]);
    let (job, until) = leased(&mut lab, 3, "echo $$ > up; while :; do sleep 1; done");
    let key = job.assignment.key;
    let supervisor = lab.start(&job);
    let script = line_of(&lab.work("up"));
    let pid = Pid::from_raw(supervisor.pid().cast_signed());
    kill(pid, Signal::SIGSTOP).unwrap();
    self::until("its lease is over", || seconds() > u64::from(until));
    supervisor.send(Control::Lease(until + 1000)).unwrap();
    assert!(!is_gone(&script));
    kill(pid, Signal::SIGCONT).unwrap();
    cut_off(&mut lab, key);
    assert!(is_gone(&script));
    wait_dead(&supervisor);
}

#[test]
fn a_run_whose_lease_is_over_does_not_begin_and_neither_does_one_whose_prolog_takes_too_long() {
    let mut lab = Lab::of(uids()[0]);
    let (job, _) = leased(&mut lab, 0, "echo up > up");
    let supervisor = lab.start(&job);
    cut_off(&mut lab, job.assignment.key);
    wait_dead(&supervisor);

    let folder = lab.work("prolog.d");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.join("10-waits");
    fs::write(&program, "#!/bin/sh\nexec sleep 600\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    lab.around.prolog = Some(HookFolder { dir: folder, time: Seconds(600) });
    let (job, until) = leased(&mut lab, 2, "echo up > up");
    let supervisor = lab.start(&job);
    cut_off(&mut lab, job.assignment.key);
    assert!(seconds() <= u64::from(until) + 1);
    wait_dead(&supervisor);
    assert!(!lab.work("up").exists());
    assert_eq!(lab.count(|record| matches!(record, Record::Started { .. })), 0);
}
