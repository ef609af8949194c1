//! Steering: cancelling, signals, holding, releasing, requeueing, draining and stopping, whatever the job does just then.

use crate::lab::{Lab, until};
use gq_model::{End, JobState, Reason};
use std::fs;

#[test]
fn jobs_are_cancelled_by_id_name_user_partition_and_state() {
    let lab = Lab::with_cards(1);
    let cancel = |words: &str| assert_eq!(lab.say(&format!("gqcancel {words}")).code, 0, "{words}");
    let waits = |name: &str| lab.submit(&format!("-H -J {name}"), "touch ran");
    let (a, b, c) = (waits("a"), waits("b"), waits("c"));
    cancel(&a.id.to_string());
    assert_eq!((a.state(), a.reason()), (JobState::Ended(End::Cancelled), Reason::Cancelled));
    cancel(&a.id.to_string());
    cancel("-n b");
    assert_eq!((b.state(), c.state()), (JobState::Ended(End::Cancelled), JobState::Pending));
    let runs = lab.submit("-J runs", "sleep 600").running();
    cancel("-t PENDING");
    assert_eq!((c.state(), runs.state()), (JobState::Ended(End::Cancelled), JobState::Running));
    let (d, e) = (waits("d"), waits("e"));
    cancel(&format!("{},{}", d.id, runs.id));
    assert_eq!((d.state(), e.state()), (JobState::Ended(End::Cancelled), JobState::Pending));
    cancel("-p nowhere");
    cancel("-p main -t PD --me");
    assert_eq!(e.state(), JobState::Ended(End::Cancelled));
    assert_eq!(runs.ended(), End::Cancelled);
    assert_eq!(runs.view()["signal"], 15);
    assert!(!lab.work("ran").exists());
    cancel("-u nobody");
}

#[test]
fn a_deaf_job_is_killed_and_a_polite_one_may_clean_up() {
    let lab = Lab::with_cards(1);
    let polite =
        lab.submit("", "trap 'echo cleaned; exit 0' TERM; echo ready >polite; while :; do sleep 0.05; done");
    let deaf = lab.submit("--gpus=1", "trap '' TERM; echo ready >deaf; while :; do sleep 0.05; done");
    for file in ["polite", "deaf"] {
        until("it is ready", || fs::exists(lab.work(file)).unwrap().then_some(()));
    }
    // Twice is once.
    for _ in 0..2 {
        assert_eq!(lab.say(&format!("gqcancel {} {}", polite.id, deaf.id)).code, 0);
    }
    assert_eq!((polite.ended(), deaf.ended()), (End::Cancelled, End::Cancelled));
    assert!(polite.out().ends_with("cleaned\n"), "{}", polite.out());
    assert_eq!(deaf.view()["signal"], 9);
    assert_eq!(lab.submit("--gpus=1", "echo free").output(), "free\n");
}

#[test]
fn a_job_that_is_cancelled_while_it_starts_is_gone_all_the_same() {
    let lab = Lab::with_cards(2);
    for round in 0..10 {
        let job = lab.submit("--gpus=2", "sleep 600");
        assert_eq!(lab.say(&format!("gqcancel {}", job.id)).code, 0);
        assert_eq!(job.ended(), End::Cancelled, "round {round}");
    }
    assert_eq!(lab.submit("--gpus=2", "echo free").output(), "free\n");
    until("its processes are gone", || (lab.processes().len() <= 2).then_some(()));
}

/// B053: the same task named again and again is one task.
#[test]
fn ids_may_be_named_twice_and_in_ranges() {
    let lab = Lab::with_cards(0);
    let job = lab.submit("-H", "true");
    let id = job.id;
    lab.say(&format!("gqcancel {id}_1 {id}_1 {id}_[1-3] {id}"));
    assert_eq!(job.state(), JobState::Ended(End::Cancelled));
    assert!(lab.ctl("ping").contains("answers"));
    lab.say(&format!("gqcancel {id}_[3-1]")).refused(2);
    lab.say(&format!("gqcancel {id}_[0-99999999999]")).refused(2);
}

#[test]
fn a_signal_reaches_the_script_and_nothing_ends() {
    let lab = Lab::with_cards(0);
    let job = lab.submit("", "trap 'echo usr1 >got' USR1; echo >ready; while :; do sleep 0.05; done");
    until("it is ready", || fs::exists(lab.work("ready")).unwrap().then_some(()));
    for signal in ["USR1", "SIGUSR1", "10"] {
        assert_eq!(lab.say(&format!("gqcancel -s {signal} {}", job.id)).code, 0);
        until("the signal arrives", || fs::exists(lab.work("got")).unwrap().then_some(()));
        fs::remove_file(lab.work("got")).unwrap();
    }
    assert_eq!(job.state(), JobState::Running);
    let held = lab.submit("-H", "true");
    lab.say(&format!("gqcancel -s USR1 {}", held.id)).refused(1);
    lab.say(&format!("gqcancel -s NONSENSE {}", job.id)).refused(2);
    assert_eq!(lab.say(&format!("gqcancel {} --signal KILL", job.id)).code, 0);
    assert_eq!(job.ended(), End::Failed);
    assert_eq!((job.reason(), job.view()["signal"].clone()), (Reason::RaisedSignal, 9.into()));
}

#[test]
fn a_held_job_waits_until_it_is_released() {
    let lab = Lab::with_cards(1);
    let job = lab.submit("-H", "echo ran");
    let later = lab.submit("", "true");
    assert_eq!(later.ended(), End::Completed);
    assert_eq!((job.state(), job.reason()), (JobState::Pending, Reason::JobHeldUser));
    lab.ctl(&format!("release {}", job.id));
    assert_eq!(job.output(), "ran\n");
    let first = lab.submit("--gpus=1", "sleep 600").running();
    let second = lab.submit("--gpus=1", "echo ran");
    lab.ctl(&format!("hold {}", second.id));
    lab.say(&format!("gqctl hold {}", first.id)).refused(1);
    lab.say(&format!("gqcancel {}", first.id));
    assert_eq!(first.ended(), End::Cancelled);
    assert_eq!(second.reason(), Reason::JobHeldUser);
    lab.ctl("release --me");
    assert_eq!(second.output(), "ran\n");
}

#[test]
fn a_requeued_job_runs_again_as_another_run() {
    let lab = Lab::with_cards(1);
    let command = "echo $GQ_RUN ${SLURM_RESTART_COUNT-none} >>runs; [ $GQ_RUN = 2 ] || sleep 600";
    let job = lab.submit("--gpus=1 --open-mode=append", command).running();
    until("it has written", || fs::read_to_string(lab.work("runs")).ok().filter(|text| text.ends_with('\n')));
    let started = job.view()["start_time"].as_f64().unwrap();
    lab.ctl(&format!("requeue {}", job.id));
    assert_eq!(job.ended(), End::Completed, "{}", job.view());
    assert_eq!(fs::read_to_string(lab.work("runs")).unwrap(), "1 none\n2 1\n");
    let view = job.view();
    assert_eq!(view["run"], 2);
    assert!(view["start_time"].as_f64().unwrap() > started);
    lab.say(&format!("gqctl requeue {}", job.id)).refused(1);
    // A cancel outranks a requeue.
    let job = lab.submit("", "trap '' TERM; echo >trapped; while :; do sleep 0.05; done").running();
    until("it is deaf", || fs::exists(lab.work("trapped")).unwrap().then_some(()));
    lab.ctl(&format!("requeue {}", job.id));
    assert_eq!(lab.say(&format!("gqcancel {}", job.id)).code, 0);
    assert_eq!(job.ended(), End::Cancelled);
    assert_eq!(job.view()["run"], 1);
}

#[test]
fn a_drained_node_finishes_its_job_and_takes_no_other() {
    let lab = Lab::with_cards(2);
    let first = lab.submit("--gpus=1", "until [ -e go ]; do sleep 0.02; done").running();
    lab.ctl("drain n1 --reason fan");
    let second = lab.submit("--gpus=1", "true");
    assert_eq!(second.reason(), Reason::NodesUnavailable);
    let node = lab.node_view("n1").unwrap();
    assert_eq!((&node["state"], &node["reason"]), (&"draining".into(), &"fan".into()));
    assert!(lab.say("gqstat --nodes").ok().contains("fan"));
    lab.file("go", "");
    assert_eq!(first.ended(), End::Completed);
    assert_eq!(lab.node_view("n1").unwrap()["state"], "drained");
    assert_eq!(second.state(), JobState::Pending);
    // It stays drained across a restart of both.
    lab.node("n1").stop();
    assert_eq!(lab.gqd.stop(), Some(0));
    lab.gqd.start();
    lab.node("n1").start();
    lab.node_is_there("n1");
    assert_eq!(lab.node_view("n1").unwrap()["reason"], "fan");
    lab.ctl("resume n1");
    assert_eq!(second.ended(), End::Completed);
    lab.say("gqctl drain n9 --reason x").refused(1);
    lab.say("gqctl drain n1").refused(2);
}

#[test]
fn a_shut_down_controller_leaves_jobs_running() {
    let lab = Lab::with_cards(1);
    let job = lab.submit("--gpus=1", "until [ -e go ]; do sleep 0.02; done; echo done").running();
    lab.ctl("shutdown");
    assert_eq!(lab.gqd.wait(), Some(0));
    lab.file("go", "");
    lab.gqd.start();
    assert_eq!(job.ended(), End::Completed);
    assert_eq!(job.out(), "done\n");
}
