//! Crashes: daemons and supervisors that are killed, or stopped, in stories of their own: running jobs go on and end with their own result, ids are
//! known for ever, no card is lost or lent twice. Kills at every step, and at random, are in `faults`.

mod damage;
mod letters;
mod refusals;
mod room;
mod sync;

use crate::lab::{Daemon, Dice, Job, Lab, finish, until};
use gq_model::{End, JobState, Reason};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{fs, thread, time::Duration};

/// How many cards of a node are held.
fn held_cards(lab: &Lab, node: &str) -> usize {
    let view = lab.node_view(node).unwrap();
    view["gpus"].as_array().unwrap().iter().filter(|card| !card["job"].is_null()).count()
}

pub fn kill_the_supervisor(lab: &Lab) {
    let steps = until("one supervisor", || Some(lab.supervisors()).filter(|steps| steps.len() == 1));
    for pid in steps {
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    }
}

/// Jobs of every end, run while daemons go and come in every order.
fn in_every_order(leave: fn(&Daemon)) {
    let lab = Lab::with_cards(1);
    for round in 0..8 {
        let go = format!("go.{round}");
        let wait = format!("until [ -e {go} ]; do sleep 0.02; done");
        let well = lab.submit("--gpus=1", &format!("{wait}; echo well"));
        let badly = lab.submit("", &format!("{wait}; exit 3"));
        let signalled = lab.submit("", &format!("{wait}; kill -9 $$"));
        let endless = lab.submit("-t 1s", "trap '' TERM; while :; do sleep 0.05; done");
        let jobs = [well, badly, signalled].map(Job::running);
        endless.started();
        let (gqd, node) = (&lab.gqd, lab.node("n1"));
        let order = |bit: usize| if round & bit == 0 { [gqd, node] } else { [node, gqd] };
        order(1).into_iter().for_each(leave);
        let jobs_end_alone = round & 4 == 0;
        if jobs_end_alone {
            lab.file(&go, "");
            until("the jobs end", || lab.processes().is_empty().then_some(()));
        }
        for daemon in order(2) {
            daemon.start();
        }
        lab.node_is_there("n1");
        if !jobs_end_alone {
            for job in &jobs {
                assert_eq!(job.state(), JobState::Running, "round {round}");
            }
            assert_eq!(held_cards(&lab, "n1"), 1);
            lab.file(&go, "");
        }
        let [well, badly, signalled] = jobs;
        assert_eq!(well.output(), "well\n");
        assert_eq!((badly.ended(), badly.view()["exit_code"].clone()), (End::Failed, 3.into()));
        assert_eq!((signalled.ended(), signalled.view()["signal"].clone()), (End::Failed, 9.into()));
        assert_eq!(endless.ended(), End::Timeout);
        for job in [well, badly, signalled, endless] {
            assert_eq!(job.view()["run"], 1, "{}", job.view());
        }
        assert_eq!(held_cards(&lab, "n1"), 0);
    }
}

#[test]
fn daemons_stop_and_start_in_every_order_and_jobs_go_on() {
    in_every_order(|daemon| assert_eq!(daemon.stop(), Some(0)));
}

#[test]
fn daemons_are_killed_in_every_order_and_jobs_go_on() {
    in_every_order(Daemon::kill9);
}

#[test]
fn the_job_of_a_killed_supervisor_fails_and_nothing_of_it_is_left() {
    let lab = Lab::with_cards(1);
    let command = "sleep 1000 & (setsid sleep 1001 &) ; echo >up.$GQ_JOB_ID; sleep 1002";
    for node_is_away in [false, true] {
        let job = lab.submit("--gpus=1", command).running();
        until("it is up", || lab.work(format!("up.{}", job.id)).exists().then_some(()));
        if node_is_away {
            lab.node("n1").kill9();
        }
        kill_the_supervisor(&lab);
        if node_is_away {
            lab.node("n1").start();
        }
        assert_eq!((job.ended(), job.reason()), (End::Failed, Reason::SupervisorLost), "{}", job.view());
        assert_eq!(lab.processes().len(), 2, "its processes are gone before its end is told");
        assert_eq!(lab.submit("--gpus=1", "echo free").output(), "free\n");
    }
}

/// B001: an acknowledged submission could vanish after a crash. B021: the controller could not start again.
#[test]
fn an_id_is_known_however_soon_gqd_dies() {
    let lab = Lab::with_cards(0);
    for _ in 0..30 {
        let job = lab.submit("-H", "true");
        lab.gqd.kill9();
        lab.gqd.start();
        assert_eq!((job.state(), job.reason()), (JobState::Pending, Reason::JobHeldUser));
    }
    for round in 0..5 {
        match round % 2 {
            0 => assert_eq!(lab.gqd.stop(), Some(0)),
            _ => lab.gqd.kill9(),
        }
        lab.gqd.start();
    }
    assert_eq!(lab.list("").len(), 30);
    lab.ctl("release --me");
    until("all have run", || lab.list("").is_empty().then_some(()));
    assert_eq!(lab.list("-t COMPLETED").len(), 30);
}

/// Submissions of clients side by side while `end` ends `gqd`: the ids that were printed.
fn submissions_until(lab: &Lab, clients: usize, each: usize, end: impl FnOnce()) -> Vec<u64> {
    thread::scope(|scope| {
        let submit = || {
            let words = ["--parsable", "-H", "--wrap", "true"];
            let said = (0..each).map(|_| finish(lab.client("gqsub").args(words)));
            said.filter_map(|said| {
                assert!([0, 1, 3].contains(&said.code), "{said:?}");
                assert_eq!(said.code == 0, !said.out.is_empty(), "{said:?}");
                said.out.trim().parse().ok()
            })
            .collect::<Vec<u64>>()
        };
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(submit)).collect();
        end();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    })
}

/// B015: what was queued when the controller was told to stop was lost.
#[test]
fn a_submission_during_a_stop_is_taken_or_refused_and_never_lost() {
    let lab = Lab::with_cards(0);
    let mut ids = Vec::new();
    for round in 0..5 {
        ids.extend(submissions_until(&lab, 8, 8, || {
            thread::sleep(Duration::from_millis(30 + 20 * round));
            assert_eq!(lab.gqd.stop(), Some(0));
            lab.gqd.start();
        }));
    }
    let listed: Vec<u64> = lab.list("").iter().map(|job| job["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.iter().find(|id| !listed.contains(id)), None, "{} ids", ids.len());
    assert!(!ids.is_empty());
}

/// B228: of many acknowledged submissions some were lost when the controller was killed right after.
#[test]
fn many_submissions_outlive_the_death_of_gqd_right_after() {
    let lab = Lab::with_cards(0);
    let ids = submissions_until(&lab, 4, 50, || {});
    lab.gqd.kill9();
    lab.gqd.start();
    let mut listed: Vec<u64> = lab.list("").iter().map(|job| job["id"].as_u64().unwrap()).collect();
    let mut ids = ids;
    ids.sort_unstable();
    listed.sort_unstable();
    assert_eq!((ids.len(), &listed), (200, &ids));
}

/// B141: cards of a job that was requeued again and again were never free.
#[test]
fn a_job_that_is_requeued_twenty_times_holds_its_card_once() {
    let lab = Lab::with_cards(2);
    let job = lab.submit("--gpus=1", "sleep 600");
    for run in 1..=20 {
        job.when("runs", |view| view["state"] == "RUNNING" && view["run"] == run);
        assert_eq!(held_cards(&lab, "n1"), 1, "run {run}");
        lab.ctl(&format!("requeue {}", job.id));
    }
    job.when("runs", |view| view["state"] == "RUNNING" && view["run"] == 21);
    assert_eq!(lab.submit("--gpus=1", "echo other").output(), "other\n");
    assert_eq!(lab.say(&format!("gqcancel {}", job.id)).code, 0);
    assert_eq!(job.ended(), End::Cancelled);
    assert_eq!(held_cards(&lab, "n1"), 0);
    assert_eq!(lab.submit("--gpus=2", "echo both").output(), "both\n");
}

/// B151: a card was counted twice after a crash while its job was completing.
#[test]
fn cards_are_right_when_gqd_dies_while_a_job_completes() {
    let mut dice = Dice::new();
    let lab = Lab::with_cards(2);
    for round in 0..8 {
        // What it leaves behind keeps it completing for a moment.
        let job = lab.submit(
            "--gpus=1",
            "for i in 1 2 3 4 5 6; do sleep 1000 & done; until [ -e go ]; do sleep 0.01; done",
        );
        let other = lab.submit("--gpus=1", "sleep 600").running();
        let job = job.running();
        lab.file("go", "");
        thread::sleep(Duration::from_millis(dice.roll(25) as u64));
        lab.gqd.kill9();
        lab.gqd.start();
        assert_eq!(job.ended(), End::Completed, "round {round}");
        assert_eq!((held_cards(&lab, "n1"), other.state()), (1, JobState::Running));
        assert_eq!(lab.say(&format!("gqcancel {}", other.id)).code, 0);
        assert_eq!(other.ended(), End::Cancelled);
        assert_eq!(lab.submit("--gpus=2", "rm go; echo both").output(), "both\n");
    }
}

/// B153: a report of a run that was taken back ended the run after it. B175: times grew when daemons were restarted.
#[test]
fn a_late_report_changes_nothing_and_times_are_true() {
    let lab = Lab::with_cards(1);
    let command = "date +$GQ_RUN.begins.%s.%N >>runs\n\
                   [ $GQ_RUN = 2 ] || trap 'touch told; sleep 0.4; echo late >>runs; exit 0' TERM\n\
                   touch up.$GQ_RUN; until [ $GQ_RUN = 2 ] && [ -e go ]; do sleep 0.02; done\n\
                   date +$GQ_RUN.ends.%s.%N >>runs; exit 4";
    let job = lab.submit("--gpus=1", command).running();
    until("it is up", || lab.work("up.1").exists().then_some(()));
    lab.ctl(&format!("requeue {}", job.id));
    until("it is told to end", || lab.work("told").exists().then_some(()));
    lab.node("n1").kill9();
    lab.gqd.kill9();
    until("the first run is over", || {
        fs::read_to_string(lab.work("runs")).unwrap().contains("late").then_some(())
    });
    lab.gqd.start();
    lab.node("n1").start();
    job.when("runs again", |view| view["state"] == "RUNNING" && view["run"] == 2);
    // All that is owed of the first run comes again, and the second goes on.
    for _ in 0..2 {
        lab.node("n1").kill9();
        lab.gqd.kill9();
        lab.node("n1").start();
        lab.gqd.start();
        lab.node_is_there("n1");
        assert_eq!((job.state(), job.view()["run"].clone()), (JobState::Running, 2.into()));
    }
    lab.file("go", "");
    assert_eq!(job.ended(), End::Failed);
    let view = job.view();
    assert_eq!((&view["exit_code"], &view["run"]), (&4.into(), &2.into()));
    let runs = fs::read_to_string(lab.work("runs")).unwrap();
    let time = |word: &str| -> f64 {
        let line = runs.lines().find(|line| line.starts_with(word)).unwrap();
        line[word.len()..].parse().unwrap()
    };
    assert_eq!(runs.lines().count(), 4, "{runs}");
    let truth = time("2.ends.") - time("2.begins.");
    let told = view["end_time"].as_f64().unwrap() - view["start_time"].as_f64().unwrap();
    assert!((told - truth).abs() < 2.0 && told >= 0.0, "{told} s for {truth} s");
}

/// B186: a job was not listed before it had ended, and its result was judged too early.
#[test]
fn a_job_that_is_listed_no_more_has_ended() {
    let lab = Lab::with_cards(0);
    for round in 0..10 {
        let job = lab.submit("", "sleep 0.05");
        if round % 3 == 0 {
            lab.gqd.kill9();
            lab.gqd.start();
        }
        until("it is listed no more", || lab.list("").is_empty().then_some(()));
        assert_eq!(job.state(), JobState::Ended(End::Completed));
    }
}
