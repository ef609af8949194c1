//! Stories of runs whose cards are idle.

use crate::world::{ANN, BOB, World, go_on, named, report, spec};
use gq_cluster::{IdleAction, Idleness, Stopping};
use gq_engine::{Input, NodeReport, Order, Verb};
use gq_model::{
    Change, End, EndReason, IdleRule, JobId, Reason, RunKey, RunNumber, Seconds, TaskIndex, Timestamp,
};

const FIRST: JobId = JobId(1);

fn key(run: u32) -> RunKey {
    RunKey { job: FIRST, task: TaskIndex(0), run: RunNumber(run) }
}

/// A job with a card runs on the only node that is used.
fn at_work(more: &str) -> World {
    let mut world = World::joined();
    world.drain(1, Some("not used"));
    world.submit(1, ANN, spec(&format!(r#""cards":{{"count":1}},"time_limit":3600{more}"#)));
    world.turn();
    go_on(&mut world);
    world
}

fn say(world: &mut World, run: u32, since: Option<Timestamp>) {
    world.nodes[0].say(NodeReport::Idle(key(run), since));
    report(world);
}

fn wait(world: &mut World, seconds: u64) {
    world.now = world.now.after(Seconds(seconds));
    world.turn();
}

fn orders(world: &World) -> Vec<&Order> {
    world.post.orders.iter().map(|(_, _, order)| order).collect()
}

fn idle(world: &World) -> Option<Idleness> {
    world.cluster.job(FIRST).unwrap().runs[&TaskIndex(0)].idle
}

fn ends(world: &World, run: u32) -> (End, Reason, bool) {
    let (outcome, next) = &world.disk.rows.run_ends[&key(run)];
    (outcome.end, outcome.reason, *next != gq_cluster::Next::Over)
}

#[test]
fn idle_cards_are_taken_when_their_grace_is_over_and_a_task_is_put_back_three_times() {
    let mut world = at_work("");
    let rule = IdleRule { after: Seconds(60), below: 5, memory_is_use: false };
    for run in 1..=4 {
        let live = &world.nodes[0].live[&key(run)];
        assert_eq!(live.assignment.idle, Some(rule));
        let since = world.now;
        say(&mut world, run, Some(since));
        let due = Some(world.now.after(Seconds(30)));
        assert_eq!(idle(&world), Some(Idleness { since, due, again: run < 4 }));
        // Said again, as on a new link, it changes nothing.
        wait(&mut world, 29);
        say(&mut world, run, Some(since));
        assert_eq!((idle(&world).unwrap().due, orders(&world)), (due, vec![]));
        wait(&mut world, 1);
        let order = match run {
            4 => Order::Cancel(key(run), EndReason::IdleCards),
            _ => Order::Requeue(key(run), EndReason::IdleCards),
        };
        assert_eq!(orders(&world), [&order]);
        wait(&mut world, 1);
        assert!(orders(&world).is_empty(), "once is enough");
        // Its exit, its end, and the start of the next.
        (0..3).for_each(|_| go_on(&mut world));
        assert_eq!(ends(&world, run), (End::Cancelled, Reason::IdleCards, run < 4));
    }
    assert!(world.cluster.job(FIRST).is_none());
}

#[test]
fn whoever_uses_his_cards_again_or_comes_to_his_own_end_is_let_be() {
    let mut world = at_work("");
    let now = world.now;
    say(&mut world, 1, Some(now));
    say(&mut world, 1, None);
    assert_eq!((idle(&world), world.cluster.reclaims().count()), (None, 0));
    let now = world.now;
    say(&mut world, 1, Some(now));
    go_on(&mut world);
    assert_eq!(world.cluster.reclaims().count(), 0, "its script has exited");
    wait(&mut world, 60);
    assert!(orders(&world).is_empty());
    go_on(&mut world);
    assert_eq!(ends(&world, 1), (End::Completed, Reason::None, false));
}

#[test]
fn what_the_conf_says_now_counts_when_the_grace_is_over() {
    let mut world = at_work("");
    let now = world.now;
    say(&mut world, 1, Some(now));
    world.policy.partitions[0].idle.as_mut().unwrap().action = IdleAction::Report;
    wait(&mut world, 30);
    assert_eq!((idle(&world).unwrap().due, orders(&world)), (None, vec![]));
    world.policy.partitions[0].idle = None;
    wait(&mut world, 60);
    assert!(idle(&world).is_some() && orders(&world).is_empty());
}

#[test]
fn nobody_is_ended_while_his_node_is_out_of_sight_and_a_new_life_of_it_judges_anew() {
    let mut world = at_work("");
    let now = world.now;
    say(&mut world, 1, Some(now));
    let node = world.nodes[0].name.clone();
    world.inputs.push(Input::NodeSilent { node: node.clone() });
    world.turn();
    wait(&mut world, 30);
    assert_eq!(idle(&world).unwrap().due, Some(world.now.after(Seconds(5))), "it is asked again");
    assert!(orders(&world).is_empty());
    world.inputs.push(Input::NodeLost { node });
    world.turn();
    assert_eq!(idle(&world), None);
    world.nodes[0].linked = true;
    world.nodes[0].join();
    report(&mut world);
    let now = world.now;
    say(&mut world, 1, Some(now));
    assert!(idle(&world).is_some());
    world.nodes[0].join();
    report(&mut world);
    assert_eq!(idle(&world), None, "another life knows nothing of it");
}

#[test]
fn an_excuse_is_taken_where_it_may_be_and_a_requeue_that_nobody_wants_is_none() {
    let excused = at_work(r#","idle_ok":"licence""#);
    assert_eq!(excused.nodes[0].live[&key(1)].assignment.idle, None, "nobody asks");
    let mut world = at_work(r#","requeue":false"#);
    let now = world.now;
    say(&mut world, 1, Some(now));
    wait(&mut world, 30);
    let stopping = world.cluster.job(FIRST).unwrap().runs[&TaskIndex(0)].stopping;
    assert_eq!(stopping, Some(Stopping::Idle { again: false }));
    let mut world = World::joined();
    world.policy.partitions[0].idle.as_mut().unwrap().may_excuse = false;
    world.submit(1, ANN, spec(r#""cards":{"count":1},"idle_ok":"licence""#));
    world.turn();
    assert_eq!(world.cluster.job_count(), 0);
}

#[test]
fn an_excuse_counts_also_when_the_job_runs_and_until_it_is_taken_away() {
    let mut world = at_work("");
    let excuse = |why: &str| Verb::Update(vec![Change::IdleOk(why.into())]);
    let now = world.now;
    say(&mut world, 1, Some(now));
    assert!(idle(&world).unwrap().due.is_some());
    world.command(BOB, excuse("not his"), named(FIRST));
    world.turn();
    assert!(idle(&world).unwrap().due.is_some());
    world.command(ANN, excuse("debugging"), named(FIRST));
    world.turn();
    assert_eq!(idle(&world).unwrap().due, None);
    wait(&mut world, 3000);
    assert!(orders(&world).is_empty(), "it is let be");
    world.command(ANN, excuse(""), named(FIRST));
    world.turn();
    assert_eq!(idle(&world).unwrap().due, Some(world.now.after(Seconds(30))), "it has its grace from now on");
    wait(&mut world, 30);
    assert_eq!(orders(&world), [&Order::Requeue(key(1), EndReason::IdleCards)]);
    // In use again, and excused: it is not warned any more.
    let mut world = at_work("");
    world.command(ANN, excuse("debugging"), named(FIRST));
    world.turn();
    let now = world.now;
    say(&mut world, 1, Some(now));
    assert_eq!(idle(&world), None);
    // Where no excuse counts, none is taken.
    let mut world = at_work("");
    world.policy.partitions[0].idle.as_mut().unwrap().may_excuse = false;
    world.command(ANN, excuse("debugging"), named(FIRST));
    world.turn();
    assert_eq!(world.cluster.job(FIRST).unwrap().spec.idle_ok, None);
}
