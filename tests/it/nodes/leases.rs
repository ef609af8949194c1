//! Jobs that run again when their node is lost (`--requeue=on-lost`): their runs end themselves, and only then do they run elsewhere.

use super::{node_is, quick};
use crate::lab::{Lab, Plan, cards, until};
use gq_model::JobState;
use nix::sys::signal::Signal;

/// Says again and again that it lives, by the boot clock in hundredths of a second, and does not end when it is asked to.
const ALIVE: &str = "trap '' TERM; while [ ! -e go ]; do read t x </proc/uptime; echo $GQ_RUN $t >>alive; sleep 0.02; done; echo done";

fn plan() -> Plan {
    quick(Plan::new().node("n1", &cards(1)).by_files().node("n2", &cards(1)).by_files())
        .scheduler("lease = \"4s\"")
}

/// When a run said for the first and for the last time that it lives, in hundredths of a second.
fn lived(lab: &Lab, run: u32) -> Option<(u64, u64)> {
    let said = lab.read("alive");
    let of = |line: &str| {
        let (number, time) = line.split_once(' ')?;
        (number == run.to_string()).then(|| time.replace('.', "").parse().ok())?
    };
    let times: Vec<u64> = said.lines().filter_map(of).collect();
    Some((*times.first()?, *times.last()?))
}

fn runs_elsewhere_when_it_has_ended(lab: &Lab, strike: impl Fn(&str), bring_back: impl Fn(&str)) {
    let job = lab.submit("--gpus=1 --requeue=on-lost", ALIVE).running();
    let plain = lab.submit("--requeue", "until [ -e go ]; do sleep 0.05; done").running();
    until("it lives", || lived(lab, 1));
    let node = job.view()["nodes"][0].as_str().unwrap().to_owned();
    // Long enough for its lease to be over if it were not renewed.
    let begun = lived(lab, 1).unwrap().0;
    until("it has lived for longer than its lease", || lived(lab, 1).filter(|(_, now)| *now > begun + 500));
    assert_eq!((job.state(), job.view()["run"].clone()), (JobState::Running, 1.into()));
    strike(&node);
    job.when("is out of sight", |view| view["state"] == "UNKNOWN");
    let view = job.when("runs again", |view| view["run"] == 2 && view["state"] == "RUNNING");
    assert_ne!(view["nodes"][0], *node);
    until("the second run lives", || lived(lab, 2));
    let (first, second) = (lived(lab, 1).unwrap(), lived(lab, 2).unwrap());
    assert!(first.1 < second.0, "two runs lived together: {first:?} {second:?}");
    let was_there = plain.view()["nodes"][0] == *node;
    assert_eq!(plain.state() == JobState::Unknown, was_there, "who has no lease is waited for");
    bring_back(&node);
    node_is(lab, &node, if was_there { "mixed" } else { "idle" });
    assert_eq!((job.state(), job.view()["run"].clone()), (JobState::Running, 2.into()));
    lab.file("go", "");
    assert_eq!(job.output(), "done\n");
    assert_eq!(plain.ended(), gq_model::End::Completed);
    assert_eq!(lived(lab, 1).unwrap(), first, "the first run was dead all the time");
}

#[test]
fn the_run_of_a_node_whose_gqnode_is_killed_ends_itself_and_then_the_job_runs_elsewhere() {
    let lab = plan().start();
    runs_elsewhere_when_it_has_ended(&lab, |node| lab.node(node).kill9(), |node| lab.node(node).start());
}

#[test]
fn the_run_of_a_node_whose_gqnode_is_stopped_ends_itself_and_then_the_job_runs_elsewhere() {
    let lab = plan().start();
    let signal = |signal| move |lab: &Lab, node: &str| lab.node(node).signal(signal);
    let (stop, go_on) = (signal(Signal::SIGSTOP), signal(Signal::SIGCONT));
    runs_elsewhere_when_it_has_ended(&lab, |node| stop(&lab, node), |node| go_on(&lab, node));
}

#[test]
fn over_the_socket_it_is_the_same() {
    let plan = quick(Plan::new().node("n1", &cards(1)).node("n2", &cards(1))).scheduler("lease = \"4s\"");
    let lab = plan.start();
    runs_elsewhere_when_it_has_ended(
        &lab,
        |node| lab.node(node).signal(Signal::SIGSTOP),
        |node| lab.node(node).signal(Signal::SIGCONT),
    );
}

#[test]
fn a_gqd_that_is_away_for_less_than_the_lease_ends_nothing_and_one_that_is_away_for_longer_runs_it_again() {
    let lab = plan().start();
    let job = lab.submit("--gpus=1 --requeue=on-lost", ALIVE).running();
    until("it lives", || lived(&lab, 1));
    lab.gqd.kill9();
    lab.gqd.start();
    lab.node_is_there("n1");
    let begun = lived(&lab, 1).unwrap().1;
    until("it goes on", || lived(&lab, 1).filter(|(_, now)| *now > begun + 500));
    lab.gqd.kill9();
    until("its supervisor ends it", || {
        lab.processes()
            .iter()
            .all(|pid| *pid == lab.node("n1").pid() || *pid == lab.node("n2").pid())
            .then_some(())
    });
    lab.gqd.start();
    job.when("runs again", |view| view["run"] == 2 && view["state"] == "RUNNING");
    until("the second run lives", || lived(&lab, 2));
    assert!(lived(&lab, 1).unwrap().1 < lived(&lab, 2).unwrap().0);
    lab.file("go", "");
    assert_eq!(job.output(), "done\n");
}
