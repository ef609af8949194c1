//! Stories of single turns.

use crate::{
    node::Trouble,
    world::{ANN, BOB, ROOT, World, go_on, named, report, spec},
};
use gq_cluster::{Event, Link};
use gq_engine::{Answer, Input, NodeReport, Order, RefusalKind, Verb};
use gq_model::{End, Fault, JobId, Outcome, Reason, RunKey, RunNumber, Seconds, TaskIndex, Timestamp};

fn answer(world: &World, client: gq_engine::ClientId) -> Answer {
    world.post.replies[&client].clone()
}

fn refused(answer: &Answer) -> Option<RefusalKind> {
    match answer {
        Answer::Refused(refusal) => Some(refusal.kind),
        _ => None,
    }
}

/// A job that runs on the first node.
fn running(world: &mut World) -> RunKey {
    world.submit(1, ANN, spec(""));
    world.turn();
    go_on(world);
    let key = RunKey { job: JobId(1), task: TaskIndex(0), run: RunNumber(1) };
    assert!(world.cluster.job(key.job).unwrap().runs[&key.task].started().is_some());
    key
}

fn end_of(world: &World, job: u64) -> End {
    world.post.over[&JobId(job)].end
}

#[test]
fn one_token_is_one_job_within_a_turn_and_after_it() {
    let mut world = World::joined();
    let clients = [world.submit(1, ANN, spec("")), world.submit(1, ANN, spec(""))];
    let thief = world.submit(1, BOB, spec(""));
    world.turn();
    assert!(clients.iter().all(|c| answer(&world, *c) == Answer::Submitted(JobId(1))));
    assert_eq!(refused(&answer(&world, thief)), Some(RefusalKind::NotPermitted));
    let (again, thief) = (world.submit(1, ANN, spec("")), world.submit(1, BOB, spec("")));
    world.turn();
    assert_eq!(answer(&world, again), Answer::Submitted(JobId(1)));
    assert_eq!(refused(&answer(&world, thief)), Some(RefusalKind::NotPermitted));
    assert!(world.post.drop_box.is_empty());
}

#[test]
fn when_a_job_file_stays_behind_everyone_who_named_it_is_refused_and_may_name_it_again() {
    let mut world = World::joined();
    let twins = [world.submit(1, ANN, spec("")), world.submit(1, ANN, spec(""))];
    let other = world.submit(2, ANN, spec(""));
    world.run(false, &[true]);
    assert!(twins.iter().all(|c| refused(&answer(&world, *c)) == Some(RefusalKind::Policy)));
    let Answer::Submitted(id) = answer(&world, other) else { panic!("the other is not to blame") };
    assert!(world.post.drop_box.contains(&format!(".s.1.{ANN}")) && world.cluster.job(id).is_some());
    assert_eq!(world.cluster.job_count(), 1);
    let again = world.submit(1, ANN, spec(""));
    world.turn();
    assert!(matches!(answer(&world, again), Answer::Submitted(_)));
}

#[test]
fn a_turn_that_is_not_kept_never_was() {
    let mut world = World::joined();
    let client = world.submit(1, ANN, spec(""));
    assert!(!world.run(true, &[]));
    assert_eq!(refused(&answer(&world, client)), Some(RefusalKind::Policy));
    assert_eq!((world.cluster.job_count(), world.post.drop_box.len()), (0, 1));
    let client = world.submit(1, ANN, spec(""));
    world.turn();
    assert_eq!(answer(&world, client), Answer::Submitted(JobId(1)));
}

#[test]
fn only_its_user_and_admins_cancel_a_job_and_then_it_is_cancelled() {
    let mut world = World::joined();
    let key = running(&mut world);
    let bob = world.command(BOB, Verb::Cancel, named(key.job));
    world.turn();
    let Answer::Done { count: 0, failures } = answer(&world, bob) else { panic!("bob may not") };
    assert_eq!(failures[0].refusal.kind, RefusalKind::NotPermitted);
    world.command(ANN, Verb::Cancel, named(key.job));
    world.turn();
    go_on(&mut world);
    go_on(&mut world);
    assert_eq!(end_of(&world, 1), End::Cancelled);
}

#[test]
fn a_requeued_run_is_followed_by_the_next_one() {
    let mut world = World::joined();
    let key = running(&mut world);
    world.command(ANN, Verb::Requeue { hold: false }, named(key.job));
    world.turn();
    go_on(&mut world);
    go_on(&mut world);
    let job = world.cluster.job(key.job).unwrap();
    assert_eq!(job.runs[&key.task].number, RunNumber(2));
    world.settle();
    assert_eq!(end_of(&world, 1), End::Completed);
}

#[test]
fn a_cancel_outranks_a_requeue() {
    let mut world = World::joined();
    let key = running(&mut world);
    world.command(ANN, Verb::Requeue { hold: false }, named(key.job));
    world.command(ANN, Verb::Cancel, named(key.job));
    world.command(ANN, Verb::Requeue { hold: false }, named(key.job));
    world.turn();
    world.settle();
    let over = &world.post.over[&key.job];
    assert_eq!((over.end, over.reason), (End::Cancelled, Reason::Cancelled));
}

#[test]
fn a_result_outlives_a_reboot_that_comes_before_its_report() {
    let mut world = World::joined();
    let key = running(&mut world);
    let now = world.now;
    world.nodes[0].go_on(key, 0, now);
    world.nodes[0].go_on(key, 0, now);
    world.nodes[0].reboot(now, false);
    world.nodes[0].join();
    world.send_reports(0, 1);
    world.turn();
    assert!(world.cluster.job(key.job).is_some(), "its end is on the way");
    world.settle();
    assert_eq!(end_of(&world, 1), End::Completed);
}

#[test]
fn a_run_that_a_reboot_killed_is_node_fail_even_if_the_node_remembers_nothing() {
    for wiped in [false, true] {
        let mut world = World::joined();
        running(&mut world);
        let now = world.now;
        world.nodes[0].reboot(now, wiped);
        world.nodes[0].join();
        report(&mut world);
        world.settle();
        assert_eq!(end_of(&world, 1), End::NodeFail);
    }
}

#[test]
fn a_run_that_was_cancelled_while_its_node_was_away_is_cancelled_though_the_node_booted() {
    for wiped in [false, true] {
        let mut world = World::joined();
        let key = running(&mut world);
        world.command(ANN, Verb::Cancel, named(key.job));
        world.turn();
        let now = world.now;
        world.nodes[0].reboot(now, wiped);
        world.nodes[0].join();
        report(&mut world);
        world.settle();
        let outcome = &world.post.over[&key.job];
        assert_eq!((outcome.end, outcome.reason), (End::Cancelled, Reason::Cancelled));
    }
}

#[test]
fn a_node_that_begins_a_new_life_in_the_same_boot_keeps_its_run() {
    let mut world = World::joined();
    running(&mut world);
    world.nodes[0].join();
    report(&mut world);
    assert!(world.post.orders.is_empty(), "nothing is to be done");
    world.settle();
    assert_eq!(end_of(&world, 1), End::Completed);
}

#[test]
fn a_start_that_was_seen_by_a_new_life_only_is_known_from_its_list() {
    let mut world = World::joined();
    world.submit(1, ANN, spec(""));
    world.turn();
    world.deliver_orders(0, usize::MAX, None);
    let (_, key) = world.live_keys()[0];
    let now = world.now;
    world.nodes[0].go_on(key, 0, now);
    world.nodes[0].join();
    report(&mut world);
    assert_eq!(world.cluster.job(key.job).unwrap().runs[&key.task].started(), Some(now));
}

#[test]
fn a_run_that_nobody_here_knows_is_ended() {
    let mut world = World::joined();
    let key = running(&mut world);
    let stranger = RunKey { job: JobId(77), ..key };
    let live = world.nodes[0].live[&key].clone();
    world.nodes[0].live.insert(stranger, live);
    world.nodes[0].join();
    report(&mut world);
    let orders: Vec<&Order> = world.post.orders.iter().map(|(_, _, order)| order).collect();
    assert_eq!(orders, [&Order::Stray(stranger)]);
    world.settle();
    assert!(world.nodes[0].live.is_empty());
    assert_eq!(end_of(&world, 1), End::Completed);
}

#[test]
fn a_node_that_is_heard_again_in_the_same_life_is_in_sight() {
    let mut world = World::joined();
    let (node, epoch) = (world.nodes[0].name.clone(), world.nodes[0].epoch);
    let link = |world: &World| world.cluster.node(&node).unwrap().link;
    world.inputs.push(Input::NodeSilent { node: node.clone() });
    world.turn();
    assert!(matches!(link(&world), Link::Suspect { .. }));
    world.inputs.push(Input::NodeLost { node: node.clone() });
    world.turn();
    assert!(matches!(link(&world), Link::Lost { .. }));
    let next = gq_model::Epoch(epoch.0 + 1);
    world.inputs.push(Input::NodeHeard { node: node.clone(), epoch: next });
    world.turn();
    assert!(matches!(link(&world), Link::Lost { .. }), "a new life says first what it is");
    world.inputs.push(Input::NodeHeard { node: node.clone(), epoch });
    world.turn();
    assert_eq!(link(&world), Link::Up);
}

#[test]
fn a_lost_node_keeps_its_job_and_its_cards_reserved() {
    let mut world = World::joined();
    let key = running(&mut world);
    let node = world.nodes[0].name.clone();
    world.inputs.push(Input::NodeSilent { node: node.clone() });
    world.inputs.push(Input::NodeLost { node: node.clone() });
    world.turn();
    assert!(world.cluster.job(key.job).is_some());
    assert_eq!(world.cluster.node(&node).unwrap().cpus_used(), 1);
    world.nodes[0].linked = false;
    world.settle();
    assert_eq!(end_of(&world, 1), End::Completed);
}

#[test]
fn starts_that_fail_by_the_sites_fault_are_tried_again_and_drain_the_node_not_the_users_mistake() {
    let mut world = World::joined();
    let only = r#""nodelist":["ws0"]"#;
    world.submit(1, ANN, spec(only));
    world.submit(2, ANN, spec(only));
    world.submit(3, ANN, spec(only));
    world.turn();
    world.deliver_orders(0, 1, Some(Trouble::Of(Fault::User)));
    report(&mut world);
    assert_eq!((end_of(&world, 1), world.post.over[&JobId(1)].reason), (End::Failed, Reason::WorkDir));
    let drained = |world: &World| world.cluster.node(&world.nodes[0].name).unwrap().drained.is_some();
    assert!(!drained(&world));
    world.deliver_orders(0, 1, Some(Trouble::Of(Fault::Site)));
    report(&mut world);
    assert!(!drained(&world), "one job may have itself to blame");
    world.deliver_orders(0, 1, Some(Trouble::Of(Fault::Site)));
    report(&mut world);
    assert!(drained(&world));
    assert!([2, 3].iter().all(|id| !world.cluster.job(JobId(*id)).unwrap().resting.is_empty()));
    world.drain(0, None);
    world.settle();
    assert!([2, 3].iter().all(|id| end_of(&world, *id) == End::Completed));
}

#[test]
fn a_failed_prolog_or_epilog_drains_the_node_at_once_and_once() {
    let mut world = World::joined();
    let why = |world: &World| world.cluster.node(&world.nodes[0].name).unwrap().drained.clone();
    let drains = |world: &World| {
        let is_drain = |event: &&Event| matches!(event, Event::NodeDrained { .. });
        world.disk.rows.events.iter().filter(is_drain).count()
    };
    let only = r#""nodelist":["ws0"]"#;
    world.submit(1, ANN, spec(only));
    world.submit(2, ANN, spec(only));
    world.turn();
    world.deliver_orders(0, usize::MAX, Some(Trouble::Prolog));
    report(&mut world);
    assert_eq!((why(&world).as_deref(), drains(&world)), (Some("no"), 1));
    let waits = |world: &World, id| !world.cluster.job(JobId(id)).unwrap().resting.is_empty();
    assert!([1, 2].iter().all(|id| waits(&world, *id)));
    world.drain(0, None);
    world.settle();
    assert!([1, 2].iter().all(|id| end_of(&world, *id) == End::Completed) && why(&world).is_none());

    // The run is over and keeps its end, whatever its epilog did.
    world.submit(3, ANN, spec(only));
    world.turn();
    go_on(&mut world);
    let key = RunKey { job: JobId(3), task: TaskIndex(0), run: RunNumber(1) };
    let live = world.nodes[0].live.remove(&key).unwrap();
    let (started, ended) = (live.started, world.now);
    let outcome = Outcome { exit_code: Some(0), ..Outcome::without_exit(End::Completed, Reason::None, "") };
    let epilog = Some("epilog 10-x ended with exit code 1".to_owned());
    world.nodes[0].say(NodeReport::Ended { key, outcome, started, ended, epilog });
    report(&mut world);
    assert_eq!((end_of(&world, 3), drains(&world)), (End::Completed, 2));
    assert_eq!(why(&world).as_deref(), Some("epilog 10-x ended with exit code 1"));
}

#[test]
fn a_start_that_always_fails_is_given_up() {
    let mut world = World::joined();
    world.submit(1, ANN, spec(""));
    for _ in 0..40 {
        world.turn();
        (0..2).for_each(|at| world.deliver_orders(at, usize::MAX, Some(Trouble::Of(Fault::Site))));
        report(&mut world);
        world.now = world.now.after(Seconds(400));
    }
    assert_eq!(end_of(&world, 1), End::LaunchFailed);
    assert_eq!(world.disk.rows.run_ends.len(), 5);
}

#[test]
fn a_job_whose_time_has_come_is_started_in_that_very_turn() {
    let mut world = World::joined();
    let begin = world.now.after(Seconds(30));
    world.submit(1, ANN, spec(&format!(r#""begin":{}"#, begin.0)));
    world.turn();
    assert!(world.post.orders.is_empty());
    assert_eq!(world.cluster.queue().next_ripe(), Some((begin, JobId(1))));
    world.now = begin;
    world.turn();
    assert_eq!(world.post.orders.len(), 1);
}

#[test]
fn a_cancel_that_comes_with_the_end_of_its_job_is_done() {
    let mut world = World::joined();
    let key = running(&mut world);
    let now = world.now;
    world.nodes[0].go_on(key, 0, now);
    world.nodes[0].go_on(key, 0, now);
    world.send_reports(0, usize::MAX);
    let client = world.command(ANN, Verb::Cancel, named(key.job));
    world.turn();
    assert_eq!(answer(&world, client), Answer::Done { count: 1, failures: Vec::new() });
    let unknown = world.command(ANN, Verb::Cancel, named(JobId(99)));
    world.turn();
    let Answer::Done { count: 0, failures } = answer(&world, unknown) else { panic!("there is none") };
    assert_eq!(failures[0].refusal.kind, RefusalKind::NoSuchJob);
}

#[test]
fn what_nobody_here_could_run_is_refused_and_its_file_goes() {
    let mut world = World::joined();
    let wide = world.submit(1, ANN, spec(r#""cpus_per_task":5"#));
    let root = world.submit(2, ROOT, spec(""));
    world.turn();
    assert_eq!(refused(&answer(&world, wide)), Some(RefusalKind::Policy));
    assert_eq!(refused(&answer(&world, root)), Some(RefusalKind::NotPermitted));
    assert!(world.post.drop_box.is_empty() && world.cluster.last_job() == JobId(0));
}

#[test]
fn a_user_does_not_release_what_an_admin_holds() {
    let mut world = World::joined();
    world.submit(1, ANN, spec(r#""hold":true"#));
    world.command(ROOT, Verb::Hold, named(JobId(1)));
    world.turn();
    let ann = world.command(ANN, Verb::Release, named(JobId(1)));
    world.turn();
    assert!(matches!(answer(&world, ann), Answer::Done { count: 0, .. }));
    world.command(ROOT, Verb::Release, named(JobId(1)));
    world.turn();
    assert_eq!(world.post.orders.len(), 1);
    assert!(world.now > Timestamp(0));
}
