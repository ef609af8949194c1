//! Steering: cancelling, signals, holding, releasing, requeueing, draining and stopping, whatever the job does just then.

use crate::lab::{Lab, Plan, cards, finish, until};
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

/// What people have typed for years says here what it says there.
#[test]
fn jobs_are_steered_in_slurms_words() {
    let lab = Lab::with_cards(0);
    let job = lab.submit("-H -t 10 --array=0-9 -o /dev/null", "sleep 600");
    let id = job.id;
    lab.ctl(&format!(
        "update JobId={id} TimeLimit=60 ArrayTaskThrottle=2 JobName=steered Nice=7 StartTime=now+1hour"
    ));
    let view = job.view();
    assert_eq!((&view["time_limit"], &view["name"]), (&3600.into(), &"steered".into()), "{view}");
    assert_eq!(view["array_tasks"], "0-9%2");
    lab.ctl(&format!("update jobid={id} timelimit+=30 Comment= StartTime=now --requeue=yes"));
    assert_eq!(job.view()["time_limit"], 5400);
    lab.ctl(&format!("release JobId={id}"));
    let running = || lab.lines("").iter().filter(|line| line.ends_with(" RUNNING")).count();
    until("two tasks run", || (running() == 2).then_some(()));
    lab.ctl(&format!("hold JobId={id}_[5-9]"));
    lab.ctl(&format!("suspend JobId={id}_0"));
    let is = |line: &str| {
        let line = format!("{id}_{line}");
        until(&line, || lab.lines("").contains(&line).then_some(()));
    };
    is("0 SUSPENDED");
    lab.ctl(&format!("resume JobId={id}_0"));
    is("0 RUNNING");
    lab.ctl(&format!("requeuehold JobId={id}_0"));
    is("[0,5-9%2] PENDING");
    for (line, words, hint) in [
        (format!("update JobId={id} TimeLimitt=60"), "TimeLimitt=: no such key", "TimeLimit="),
        (
            format!("update JobId={id} NumNodes=2"),
            "NumNodes= (to change it after the submission) is not built yet",
            "gqcancel",
        ),
        (
            "update NodeName=n1 State=DRAIN Reason=fan".to_owned(),
            "NodeName=: gqctl update changes jobs, not this",
            "gqctl drain NODES",
        ),
        (format!("show job {id}"), "gqstat shows what there is", "gqstat -j"),
    ] {
        let said = lab.say(&format!("gqctl {line}")).refused(2);
        assert!(said.contains(words) && said.contains(&format!("try: {hint}")), "{line}: {said}");
    }
    assert_eq!(lab.say(&format!("gqcancel JobId={id}")).code, 0);
    assert_eq!(job.over()["ended"]["CANCELLED"], 10);
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
    let script = "trap 'echo usr1 >got' USR1; echo >ready; while :; do sleep 0.05; done";
    let job = lab.submit("", script).running();
    until("it is ready", || fs::exists(lab.work("ready")).unwrap().then_some(()));
    for signal in ["USR1", "SIGUSR1", "10"] {
        assert_eq!(lab.say(&format!("gqcancel -b -s {signal} {}", job.id)).code, 0);
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

/// The first reservation there is; null when there is none.
fn reservation(lab: &Lab) -> serde_json::Value {
    let answer: serde_json::Value = serde_json::from_str(&lab.ctl("reservations --json")).unwrap();
    answer["reservations"][0].clone()
}

#[test]
fn a_reservation_keeps_others_out_as_long_as_it_stands() {
    let lab = Lab::with_cards(1);
    assert!(reservation(&lab).is_null());
    lab.ctl("reserve repair --start=now+1hour --duration=2h --nodes=n1 --maintenance");
    let seen = reservation(&lab);
    assert_eq!((&seen["name"], &seen["maintenance"]), (&"repair".into(), &true.into()), "{seen}");
    let lasts = seen["end_time"].as_f64().unwrap() - seen["start_time"].as_f64().unwrap();
    assert!((lasts - 7200.0).abs() < 0.001, "{seen}");
    let long = lab.submit("-t 2:00:00", "echo after");
    assert_eq!(long.reason(), Reason::Reservation);
    assert_eq!(lab.submit("-t 30", "echo before").output(), "before\n");
    let expected = long.view()["expected_start"].as_f64().unwrap();
    assert!(expected >= seen["end_time"].as_f64().unwrap() - 1.0, "not before it is over: {expected} {seen}");
    let table = lab.ctl("reservations");
    assert!(table.contains("repair") && table.contains("to come") && table.contains("n1"), "{table}");
    assert_eq!(long.state(), JobState::Pending);
    lab.say("gqctl reserve repair --start=now+9hours --duration=1h --nodes=n1 --maintenance").refused(1);
    lab.say("gqctl unreserve other").refused(1);
    lab.ctl("unreserve repair");
    assert_eq!(long.output(), "after\n");
    assert!(reservation(&lab).is_null());
}

#[test]
fn a_reservation_is_not_made_over_running_jobs_unless_they_are_let_run() {
    let lab = Lab::with_cards(2);
    let runs = lab.submit("--gpus=1 -t 2:00:00", "sleep 600").running();
    let words =
        lab.say("gqctl reserve fix --start=now+1hour --duration=1h --nodes=n1 --maintenance").refused(1);
    assert!(words.contains(&runs.id.to_string()) && words.contains("--ignore-jobs"), "{words}");
    let held = runs.view()["gpus"][0]["index"].as_u64().unwrap();
    let other = 1 - held;
    // The other card is free.
    lab.ctl(&format!("reserve card --start=now+1hour --duration=1h --nodes=n1 --cards={other} --users=root"));
    assert_eq!(reservation(&lab)["takes"][0]["cards"][0], other);
    lab.ctl("unreserve card");
    lab.ctl("reserve fix --start=now+1hour --duration=1h --nodes=n1 --maintenance --ignore-jobs");
    assert_eq!(runs.state(), JobState::Running);
    for wrong in [
        "reserve x --start=now --duration=1h --nodes=n9 --maintenance",
        "reserve x --start=now --duration=1h --nodes=n1 --cards=7 --users=root",
    ] {
        lab.say(&format!("gqctl {wrong}")).refused(1);
    }
}

#[test]
fn who_names_a_reservation_runs_in_it() {
    let lab = Lab::with_cards(1);
    lab.ctl("reserve course --start=now --duration=2h --nodes=n1 --users=root");
    let stranger = lab.submit("--gpus=1 -t 10", "echo outside");
    assert_eq!(stranger.reason(), Reason::Reservation);
    let inside = lab.submit("--gpus=1 -t 10 --reservation=course", "echo inside");
    assert_eq!(inside.output(), "inside\n");
    assert_eq!(inside.word("reservation"), "course");
    assert_eq!(stranger.state(), JobState::Pending);
    lab.ctl("unreserve course");
    assert_eq!(stranger.output(), "outside\n");
}

#[test]
fn a_reservation_is_made_by_admins_and_used_by_those_it_names() {
    let Some([gq, ann, ben]) = crate::lab::accounts(["daemon", "nobody", "games"]) else { return };
    let closed =
        "[[partition]]\nname = \"main\"\n[[partition]]\nname = \"games\"\nallow_groups = [\"games\"]\n";
    let lab = Plan::new().node("n1", &cards(1)).tables(closed).installed_for(&gq.name).start();
    let says = |who: &crate::lab::Owner, program: &str, line: &str| {
        finish(lab.client_of(who, program).args(line.split_ascii_whitespace()))
    };
    let words = "reserve course --start=now --duration=2h --nodes=n1 --users=nobody";
    says(&ann, "gqctl", words).refused(5);
    lab.ctl(words);
    assert_eq!(reservation(&lab)["users"][0], "nobody");
    assert!(says(&ben, "gqctl", "reservations").ok().contains("course"), "anybody may look");
    says(&ben, "gqctl", "unreserve course").refused(5);
    let refused = says(&ben, "gqsub", "--reservation=course --wrap true");
    assert_ne!(refused.code, 0, "{refused:?}");
    let job =
        lab.job(&says(&ann, "gqsub", "--parsable --gpus=1 -t 10 --reservation=course --wrap true").ok());
    assert_eq!(job.ended(), End::Completed);
    // Groups of the system say who may use a partition, also those that are a user's by his account alone.
    assert_ne!(says(&ann, "gqsub", "-p games --wrap true").code, 0);
    let job = lab.job(&says(&ben, "gqsub", "--parsable -H -p games --wrap true").ok());
    assert_eq!(job.state(), JobState::Pending);
}
