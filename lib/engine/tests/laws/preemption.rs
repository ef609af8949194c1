//! Stories of runs that make room.

use crate::world::{ANN, BOB, ROOT, World, go_on, named, report, spec};
use gq_cluster::{Preempt, Stopping};
use gq_engine::{Order, Verb};
use gq_model::{End, EndReason, JobId, Reason, RunKey, RunNumber, Seconds, SignalTo, TaskIndex};

const FIRST: JobId = JobId(1);

/// A job of `partition` runs on all of the only node that is used, and one of the highest tier comes.
fn crowded(partition: &str) -> (World, RunKey) {
    let mut world = World::joined();
    world.drain(1, Some("not used"));
    world.submit(1, ANN, spec(&format!(r#""cpus_per_task":4,"partition":"{partition}""#)));
    world.turn();
    go_on(&mut world);
    let key = RunKey { job: FIRST, task: TaskIndex(0), run: RunNumber(1) };
    assert!(world.cluster.job(FIRST).unwrap().runs[&key.task].started().is_some());
    world.submit(2, BOB, spec(r#""cpus_per_task":4,"partition":"high""#));
    world.now = world.now.after(Seconds(10));
    world.turn();
    (world, key)
}

fn orders(world: &World) -> Vec<&Order> {
    world.post.orders.iter().map(|(_, _, order)| order).collect()
}

fn ends(world: &World, key: RunKey) -> (End, Reason, bool) {
    let (outcome, next) = &world.disk.rows.run_ends[&key];
    (outcome.end, outcome.reason, *next != gq_cluster::Next::Over)
}

/// Orders reach the first node; nothing else happens.
fn obey(world: &mut World) {
    world.deliver_orders(0, usize::MAX, None);
}

#[test]
fn a_run_is_told_to_make_room_has_its_grace_is_ended_and_waits_again_in_its_old_place() {
    let (mut world, key) = crowded("main");
    let due = world.now.after(Seconds(60));
    assert_eq!(orders(&world), [&Order::Warn(key, EndReason::Preemption)]);
    let submitted = world.cluster.job(FIRST).unwrap().submitted;
    let run = |world: &World| world.cluster.job(FIRST).unwrap().runs[&key.task].clone();
    assert_eq!(run(&world).stopping, Some(Stopping::Preempt { again: true, due, ordered: false }));
    obey(&mut world);
    world.now = world.now.after(Seconds(59));
    world.turn();
    assert!(orders(&world).is_empty(), "its grace is not over");
    world.now = due;
    world.turn();
    assert_eq!(
        orders(&world),
        [&Order::Requeue(key, EndReason::Preemption), &Order::Signal(key, 9, SignalTo::All)],
        "and not a moment more"
    );
    world.turn();
    assert!(orders(&world).is_empty(), "once is enough");
    go_on(&mut world);
    go_on(&mut world);
    assert_eq!(ends(&world, key), (End::Preempted, Reason::Preempted, true));
    let (first, second) = (world.cluster.job(FIRST).unwrap(), world.cluster.job(JobId(2)).unwrap());
    assert_eq!((first.submitted, first.runs.len(), second.runs.len()), (submitted, 0, 1));
    world.drain(1, None);
    world.settle();
    assert_eq!(world.post.over[&FIRST].end, End::Completed);
}

#[test]
fn who_comes_to_his_own_end_in_his_grace_has_simply_ended() {
    let (mut world, key) = crowded("main");
    obey(&mut world);
    let now = world.now;
    world.nodes[0].go_on(key, 0, now);
    world.nodes[0].go_on(key, 0, now);
    report(&mut world);
    assert_eq!(ends(&world, key), (End::Completed, Reason::None, false));
    assert_eq!(world.cluster.preempted().count(), 0);
    assert_eq!(world.cluster.job(JobId(2)).unwrap().runs.len(), 1);
}

#[test]
fn who_dies_of_the_signal_made_room() {
    let (mut world, key) = crowded("main");
    obey(&mut world);
    let now = world.now;
    world.nodes[0].go_on(key, 2, now);
    world.nodes[0].go_on(key, 2, now);
    report(&mut world);
    assert_eq!(ends(&world, key), (End::Preempted, Reason::Preempted, true));
    assert_eq!(world.disk.rows.run_ends[&key].0.signal, Some(15));
    assert_eq!(world.cluster.job(JobId(2)).unwrap().runs.len(), 1, "it has the room it was made");
}

#[test]
fn a_cancel_outranks_making_room() {
    let (mut world, key) = crowded("main");
    obey(&mut world);
    world.command(ANN, Verb::Cancel, named(FIRST));
    world.turn();
    assert_eq!(orders(&world), [&Order::Cancel(key, EndReason::Cancel)]);
    world.now = world.now.after(Seconds(100));
    world.turn();
    assert!(orders(&world).is_empty());
    world.drain(1, None);
    world.settle();
    assert_eq!(ends(&world, key), (End::Cancelled, Reason::Cancelled, false));
}

#[test]
fn who_saves_and_wants_to_run_again_has_not_completed_and_who_says_nothing_has() {
    for (asked, again) in [(r#""cpus_per_task":4,"requeue":true"#, true), (r#""cpus_per_task":4"#, false)] {
        let mut world = World::joined();
        world.drain(1, Some("not used"));
        world.submit(1, ANN, spec(asked));
        world.turn();
        go_on(&mut world);
        world.submit(2, BOB, spec(r#""cpus_per_task":4,"partition":"high""#));
        world.now = world.now.after(Seconds(10));
        world.turn();
        let key = RunKey { job: FIRST, task: TaskIndex(0), run: RunNumber(1) };
        assert_eq!(orders(&world), [&Order::Warn(key, EndReason::Preemption)]);
        // It ends by itself, with exit code 0.
        go_on(&mut world);
        go_on(&mut world);
        let end = if again { End::Preempted } else { End::Completed };
        assert_eq!((ends(&world, key).0, ends(&world, key).2), (end, again), "{asked}");
    }
}

#[test]
fn who_is_not_to_run_again_is_ended_for_good() {
    let mut world = World::joined();
    world.drain(1, Some("not used"));
    world.submit(1, ANN, spec(r#""cpus_per_task":4,"requeue":false"#));
    world.turn();
    go_on(&mut world);
    world.submit(2, BOB, spec(r#""cpus_per_task":4,"partition":"high""#));
    world.now = world.now.after(Seconds(10));
    world.turn();
    world.now = world.now.after(Seconds(60));
    world.turn();
    let key = RunKey { job: FIRST, task: TaskIndex(0), run: RunNumber(1) };
    let ended = [&Order::Cancel(key, EndReason::Preemption), &Order::Signal(key, 9, SignalTo::All)];
    assert_eq!(orders(&world), ended);
    world.drain(1, None);
    world.settle();
    assert_eq!(ends(&world, key), (End::Preempted, Reason::Preempted, false));
}

#[test]
fn who_may_be_cancelled_without_grace_is_ended_at_once_and_has_ended_preempted() {
    let (mut world, key) = crowded("low");
    assert_eq!(orders(&world), [&Order::Cancel(key, EndReason::Preemption)]);
    world.drain(1, None);
    world.settle();
    assert_eq!(ends(&world, key), (End::Preempted, Reason::Preempted, false));
    assert_eq!(world.post.over[&FIRST].end, End::Preempted);
}

#[test]
fn a_run_that_has_not_begun_needs_no_grace() {
    let mut world = World::joined();
    world.drain(1, Some("not used"));
    world.submit(1, ANN, spec(r#""cpus_per_task":4"#));
    world.turn();
    world.submit(2, BOB, spec(r#""cpus_per_task":4,"partition":"high""#));
    world.turn();
    let key = RunKey { job: FIRST, task: TaskIndex(0), run: RunNumber(1) };
    assert_eq!(orders(&world), [&Order::Requeue(key, EndReason::Preemption)]);
}

#[test]
fn a_grace_goes_on_over_a_restart_and_over_a_turn_that_is_not_kept() {
    let (mut world, key) = crowded("main");
    obey(&mut world);
    world.cluster = world.disk.read();
    world.planner.forget();
    world.now = world.now.after(Seconds(60));
    assert!(!world.run(true, &[]), "the disk is full");
    world.turn();
    assert_eq!(
        orders(&world),
        [&Order::Requeue(key, EndReason::Preemption), &Order::Signal(key, 9, SignalTo::All)]
    );
    world.drain(1, None);
    world.settle();
    assert_eq!(ends(&world, key), (End::Preempted, Reason::Preempted, true));
}

#[test]
fn nobody_makes_room_where_it_is_off_or_for_his_own_tier() {
    let mut world = World::joined();
    world.drain(1, Some("not used"));
    world.policy.partitions[0].preempt = Preempt::Off;
    world.submit(1, ANN, spec(r#""cpus_per_task":4"#));
    world.turn();
    go_on(&mut world);
    world.submit(2, BOB, spec(r#""cpus_per_task":4,"partition":"high""#));
    world.submit(3, BOB, spec(r#""cpus_per_task":4"#));
    world.turn();
    assert!(orders(&world).is_empty());
    world.command(ROOT, Verb::Cancel, named(FIRST));
    world.drain(1, None);
    world.settle();
}

#[test]
fn a_run_that_was_told_to_make_room_and_lost_its_node_goes_on_elsewhere() {
    let (mut world, key) = crowded("main");
    obey(&mut world);
    let now = world.now;
    world.nodes[0].reboot(now, false);
    world.nodes[0].join();
    report(&mut world);
    assert_eq!(ends(&world, key), (End::NodeFail, Reason::NodeFailure, true));
    world.drain(1, None);
    world.settle();
    assert_eq!(world.post.over[&FIRST].end, End::Completed);
}

/// Whoever made room does not take it back, though he is the older and nobody's partition weighs anything.
#[test]
fn who_made_room_does_not_take_it_back() {
    let mut world = World::joined();
    world.policy.weights.partition = 0;
    world.policy.partitions[0].grace = Seconds(0);
    world.drain(1, Some("not used"));
    world.submit(1, ANN, spec(r#""cpus_per_task":4"#));
    world.turn();
    go_on(&mut world);
    world.submit(2, BOB, spec(r#""cpus_per_task":4,"partition":"high""#));
    world.now = world.now.after(Seconds(10));
    world.turn();
    for _ in 0..2 {
        go_on(&mut world);
    }
    assert_eq!(world.cluster.job(JobId(2)).map(|job| job.runs.len()), Some(1));
}

/// What lacks licences is helped by nobody's cards and cpus, in this pass and in every later one.
#[test]
fn a_job_that_waits_for_licences_ends_nobody() {
    let mut world = World::joined();
    world.submit(1, ANN, spec(r#""licences":[{"name":"matlab","count":1}],"nodelist":["ws1"]"#));
    world.submit(2, ANN, spec(r#""exclusive":true,"nodelist":["ws0"]"#));
    world.turn();
    world.submit(3, BOB, spec(r#""licences":[{"name":"matlab","count":2}],"partition":"high""#));
    for _ in 0..4 {
        world.turn();
        let ended = world
            .post
            .orders
            .iter()
            .any(|(_, _, o)| matches!(o, Order::Requeue(k, _) | Order::Warn(k, _) if k.job == JobId(2)));
        assert!(!ended, "job 2 has no licence to give");
        let job = world.cluster.job(JobId(3)).unwrap();
        assert_eq!(world.post.outlook.as_ref().unwrap().of(job, &world.policy).0, Reason::Licences);
    }
}

#[test]
fn a_user_may_requeue_or_cancel_what_makes_room_whatever_ends_it_first() {
    for (verb, end, again) in
        [(Verb::Requeue { hold: false }, End::Preempted, true), (Verb::Cancel, End::Cancelled, false)]
    {
        let (mut world, key) = crowded("main");
        obey(&mut world);
        world.command(ANN, verb.clone(), named(FIRST));
        world.command(ANN, verb.clone(), named(FIRST));
        world.turn();
        assert_eq!(orders(&world).len(), 1, "once is enough");
        // It dies of the signal before the order is there.
        let now = world.now;
        world.nodes[0].go_on(key, 2, now);
        world.nodes[0].go_on(key, 2, now);
        report(&mut world);
        let (is, _, goes_on) = ends(&world, key);
        assert_eq!((is, goes_on), (end, again));
        world.drain(1, None);
        world.settle();
    }
}

#[test]
fn an_advance_reservation_elsewhere_does_not_keep_room_from_being_made() {
    let mut world = World::joined();
    world.submit(1, ANN, spec(r#""cpus_per_task":4,"nodelist":["ws1"]"#));
    world.turn();
    let course = world.booking("course", 0, None, (100, 1000));
    world.book(course, false);
    world.submit(2, BOB, spec(r#""cpus_per_task":4,"time_limit":500,"partition":"high""#));
    world.turn();
    let key = RunKey { job: FIRST, task: TaskIndex(0), run: RunNumber(1) };
    assert_eq!(orders(&world), [&Order::Requeue(key, EndReason::Preemption)], "it has not begun");
}
