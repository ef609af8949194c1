//! Stories of nodes that are out of sight, vouched to be dead, forgotten, without their memory; and of runs that end themselves.

use crate::world::{ANN, ROOT, World, go_on, named, refusal, report, spec};
use gq_cluster::{DeclaredNode, Event, Link, Node};
use gq_engine::{Answer, Input, NodeReport, NodeVerb, Order, RefusalKind, Verb};
use gq_model::{
    BootId, End, Epoch, JobId, MiB, NodeName, Reason, RunKey, RunNumber, Seconds, Seq, TaskIndex,
};
use std::sync::Arc;

fn key(job: u64, run: u32) -> RunKey {
    RunKey { job: JobId(job), task: TaskIndex(0), run: RunNumber(run) }
}

/// A world in which this job runs on the first node.
fn with(text: &str) -> World {
    let mut world = World::joined();
    world.submit(1, ANN, spec(text));
    world.turn();
    go_on(&mut world);
    for at in 0..2 {
        word(&mut world, at);
    }
    go_on(&mut world);
    assert!(world.cluster.job(JobId(1)).unwrap().runs[&TaskIndex(0)].started().is_some());
    world
}

/// A node is seen, and told so.
fn word(world: &mut World, at: usize) {
    world.beat(at);
    world.see(at);
    world.tell(at);
}

fn node(world: &World, at: usize) -> &Arc<Node> {
    world.cluster.node(&world.nodes[at].name).unwrap()
}

/// A node falls silent, and is lost.
fn lose(world: &mut World, at: usize) {
    world.nodes[at].linked = false;
    let node = world.nodes[at].name.clone();
    world.inputs.push(Input::NodeSilent { node: node.clone() });
    world.inputs.push(Input::NodeLost { node });
    world.turn();
}

fn find(world: &mut World, at: usize) {
    world.nodes[at].linked = true;
    let (node, epoch) = (world.nodes[at].name.clone(), world.nodes[at].epoch);
    world.inputs.push(Input::NodeHeard { node, epoch });
    world.turn();
}

fn steer(world: &mut World, at: usize, verb: NodeVerb) -> Answer {
    let client = world.steer(ROOT, at, verb);
    world.turn();
    world.post.replies[&client].clone()
}

fn is_done(answer: &Answer) -> bool {
    matches!(answer, Answer::Done { count: 1, failures } if failures.is_empty())
}

fn is_refused(answer: &Answer) -> bool {
    matches!(answer, Answer::Done { count: 0, failures } if failures[0].refusal.kind == RefusalKind::Policy)
}

const ON_FIRST: &str = r#""nodelist":["ws0"],"cards":{"count":1}"#;

#[test]
fn a_silent_node_is_suspect_then_lost_and_well_again_by_itself_and_an_admins_drain_stays() {
    let mut world = with(ON_FIRST);
    steer(&mut world, 1, NodeVerb::Drain("fan".into()));
    for at in [0, 1] {
        world.nodes[at].linked = false;
        let name = world.nodes[at].name.clone();
        world.inputs.push(Input::NodeSilent { node: name.clone() });
        world.turn();
        assert_eq!(node(&world, at).link, Link::Suspect { since: world.now });
        world.submit(7, ANN, spec(""));
        world.turn();
        assert!(world.post.orders.is_empty(), "nothing is started on a suspect node");
        world.inputs.push(Input::NodeLost { node: name });
        world.turn();
        assert!(matches!(node(&world, at).link, Link::Lost { .. }));
    }
    assert!(node(&world, 0).holder(0).is_some(), "its card stays reserved");
    find(&mut world, 0);
    find(&mut world, 1);
    assert!(node(&world, 0).is_open(), "it is used again by itself");
    assert_eq!((node(&world, 1).link, node(&world, 1).drained.as_deref()), (Link::Up, Some("fan")));
    assert!(!node(&world, 1).is_open());
}

#[test]
fn a_fenced_node_gives_its_runs_up_and_takes_no_others_before_it_has_ended_them() {
    let mut world = with(&format!(r#"{ON_FIRST},"requeue":true"#));
    world.submit(2, ANN, spec(ON_FIRST));
    world.turn();
    world.deliver_orders(0, usize::MAX, None);
    assert!(is_refused(&steer(&mut world, 0, NodeVerb::Fence)), "a node that answers is not dead");
    let stranger = world.steer(ANN, 0, NodeVerb::Fence);
    world.turn();
    assert_eq!(refusal(&world, stranger).unwrap().kind, RefusalKind::NotPermitted);
    lose(&mut world, 0);
    world.now = world.now.after(Seconds(50));
    assert!(is_done(&steer(&mut world, 0, NodeVerb::Fence)));
    assert_eq!(world.post.over[&JobId(2)].end, End::NodeFail);
    assert!(world.post.over[&JobId(2)].detail.contains("uid 0"), "{:?}", world.post.over[&JobId(2)]);
    assert_eq!((node(&world, 0).used().units, node(&world, 0).cpus_used()), (0, 0));
    let strays: Vec<RunKey> = node(&world, 0).strays.iter().copied().collect();
    assert_eq!(strays, [key(1, 1), key(2, 1)]);
    let again = world.cluster.job(JobId(1)).unwrap();
    assert!(again.waiting.contains(0), "it waits for its node");

    // It was not dead. Its runs live, so nothing is started there before they do not.
    find(&mut world, 0);
    assert!(!node(&world, 0).is_open() && world.post.orders.is_empty());
    world.deliver_orders(0, usize::MAX, None);
    assert_eq!(world.nodes[0].live.len(), 2);
    let now = world.now;
    for run in [key(1, 1), key(2, 1)] {
        report(&mut world);
        assert!(!node(&world, 0).is_open());
        // They were told to end: what happens next is that they exit, and then are gone.
        (0..2).for_each(|_| world.nodes[0].go_on(run, 0, now));
    }
    report(&mut world);
    assert!(node(&world, 0).strays.is_empty() && node(&world, 0).is_open());
    let orders: Vec<&Order> = world.post.orders.iter().map(|(_, _, order)| order).collect();
    assert!(matches!(orders[..], [Order::Start(assignment)] if assignment.key == key(1, 2)), "{orders:?}");
    world.settle();
    assert_eq!(world.post.over[&JobId(1)].end, End::Completed);
}

#[test]
fn all_that_a_fence_ends_is_charged() {
    let mut world = World::joined();
    world.submit(1, ANN, spec(r#""nodelist":["ws0"],"array":"0-1","cards":{"count":1}"#));
    world.turn();
    go_on(&mut world);
    go_on(&mut world);
    lose(&mut world, 0);
    world.now = world.now.after(Seconds(100));
    steer(&mut world, 0, NodeVerb::Fence);
    let job = world.disk.rows.events.iter().find_map(|event| match event {
        Event::Allocated { rate, .. } => Some(u64::from(*rate)),
        _ => None,
    });
    let charge: u64 = world.cluster.ledger().usage().map(|(_, usage)| usage.charge).sum();
    assert_eq!(charge, 2 * 100 * job.unwrap());
}

#[test]
fn runs_of_a_node_that_lost_its_log_are_not_dead_before_a_boot_or_an_admins_word() {
    for reboots in [true, false] {
        let mut world = with(ON_FIRST);
        world.submit(2, ANN, spec(ON_FIRST));
        // Its start is on the way when the log is lost: nobody knows whether it was taken.
        world.turn();
        world.nodes[0].wipe();
        world.nodes[0].join();
        report(&mut world);
        assert!(node(&world, 0).is_open(), "what is free of it may be used");
        for _ in 0..3 {
            go_on(&mut world);
        }
        for id in [1, 2] {
            let job = world.cluster.job(JobId(id)).unwrap();
            assert!(node(&world, 0).is_blind_to(&job.runs[&TaskIndex(0)]), "job {id} may live");
        }
        assert_eq!(world.nodes[0].live.len(), 0, "the start was meant for another");
        // A cancel is not believed to be done either.
        world.command(ANN, Verb::Cancel, named(JobId(1)));
        world.turn();
        go_on(&mut world);
        assert!(world.cluster.job(JobId(1)).is_some());
        if reboots {
            let now = world.now;
            world.nodes[0].reboot(now, false);
            world.nodes[0].join();
            (0..3).for_each(|_| go_on(&mut world));
        } else {
            world.nodes[0].ghosts.clear();
            assert!(is_done(&steer(&mut world, 0, NodeVerb::Fence)));
            assert!(is_refused(&steer(&mut world, 0, NodeVerb::Fence)), "the rest of it answers");
        }
        assert_eq!(world.post.over[&JobId(1)].end, End::Cancelled);
        let lost = &world.post.over[&JobId(2)];
        assert_eq!((lost.end, lost.reason), (End::NodeFail, Reason::NodeFailure));
        world.settle();
        assert!(node(&world, 0).is_open());
    }
}

#[test]
fn a_node_that_lost_its_log_answers_for_the_runs_whose_supervisors_it_finds() {
    for is_stopped in [false, true] {
        let mut world = with(ON_FIRST);
        if is_stopped {
            world.command(ANN, Verb::Cancel, named(JobId(1)));
            world.turn();
        }
        // What was ordered is lost with the log, whether it was taken or not.
        world.nodes[0].lose_log();
        world.nodes[0].join();
        report(&mut world);
        let run = |world: &World| world.cluster.job(JobId(1)).map(|job| job.runs[&TaskIndex(0)].clone());
        assert!(!node(&world, 0).is_blind_to(&run(&world).unwrap()), "it tells of it");
        world.cluster = world.disk.read();
        world.planner.forget();
        assert!(!node(&world, 0).is_blind_to(&run(&world).unwrap()), "a restart forgets it not");
        (0..6).for_each(|_| go_on(&mut world));
        world.settle();
        let end = if is_stopped { End::Cancelled } else { End::Completed };
        assert_eq!(world.post.over[&JobId(1)].end, end);
    }
}

#[test]
fn a_leased_run_is_given_up_when_it_has_surely_ended_itself_and_not_a_moment_earlier() {
    let mut world = with(r#""nodelist":["ws0","ws1"],"cards":{"count":1},"requeue":"on-lost""#);
    let given = world.cluster.job(JobId(1)).unwrap().runs[&TaskIndex(0)].node.clone();
    let at = usize::from(given != world.nodes[0].name);
    let (name, other) = (given, world.nodes[1 - at].name.clone());
    let over = |world: &mut World, seconds| {
        world.inputs.push(Input::LeaseOver { node: name.clone(), silence: Seconds(seconds) });
        world.turn();
    };
    over(&mut world, 9999);
    assert_eq!(world.cluster.job(JobId(1)).unwrap().runs.len(), 1, "a node that is in sight tells itself");
    lose(&mut world, at);
    over(&mut world, 600 + 60 + 4);
    assert_eq!(world.cluster.job(JobId(1)).unwrap().runs[&TaskIndex(0)].number, RunNumber(1));
    world.wait(Seconds(665));
    over(&mut world, 600 + 60 + 5);
    let run = &world.cluster.job(JobId(1)).unwrap().runs[&TaskIndex(0)];
    assert_eq!((run.number, run.node.as_str()), (RunNumber(2), other.as_str()));
    assert!(node(&world, at).strays.contains(&key(1, 1)));
    // It comes back, and tells of an end that is an old one's.
    find(&mut world, at);
    go_on(&mut world);
    assert!(node(&world, at).strays.is_empty());
    word(&mut world, 1 - at);
    world.settle();
    assert_eq!(world.post.over[&JobId(1)].end, End::Completed);
    assert_eq!(world.disk.rows.run_ends.len(), 2);
}

#[test]
fn who_has_no_lease_is_not_given_up_and_who_was_cancelled_does_not_run_again() {
    let mut world = with(&format!(r#"{ON_FIRST},"requeue":true"#));
    lose(&mut world, 0);
    let (node, silence) = (world.nodes[0].name.clone(), Seconds(1 << 40));
    world.inputs.push(Input::LeaseOver { node: node.clone(), silence });
    world.turn();
    assert_eq!(world.cluster.job(JobId(1)).unwrap().runs.len(), 1);

    let mut world = with(&format!(r#"{ON_FIRST},"requeue":"on-lost""#));
    lose(&mut world, 0);
    world.command(ANN, Verb::Cancel, named(JobId(1)));
    world.turn();
    world.wait(Seconds(700));
    world.inputs.push(Input::LeaseOver { node, silence: Seconds(700) });
    world.turn();
    assert_eq!(world.post.over[&JobId(1)].end, End::Cancelled);
}

#[test]
fn a_node_is_forgotten_when_nothing_is_lost_by_that_and_known_when_it_comes_again() {
    let mut world = with(ON_FIRST);
    let listed = |world: &World| world.cluster.nodes().map(|node| node.name.to_string()).collect::<Vec<_>>();
    assert!(is_refused(&steer(&mut world, 1, NodeVerb::Forget)), "it answers");
    lose(&mut world, 0);
    lose(&mut world, 1);
    assert!(is_refused(&steer(&mut world, 0, NodeVerb::Forget)), "a run holds something of it");
    let declared = DeclaredNode { cpus: Some(4), memory: None, features: Vec::new(), cards: Vec::new() };
    world.policy.declared.insert(world.nodes[1].name.clone(), declared);
    assert!(is_refused(&steer(&mut world, 1, NodeVerb::Forget)), "the conf declares it");
    world.policy.declared.clear();
    let before = node(&world, 1).last_order;
    assert!(is_done(&steer(&mut world, 1, NodeVerb::Forget)));
    assert_eq!(listed(&world), ["ws0"]);
    assert!(is_refused(&steer(&mut world, 1, NodeVerb::Resume)), "there is no such node");
    world.cluster = world.disk.read();
    world.planner.forget();
    assert_eq!(listed(&world), ["ws0"], "a restart brings it not back");
    // In the same life, and in another one.
    for joins in [false, true] {
        if joins {
            world.nodes[1].join();
        }
        find(&mut world, 1);
        report(&mut world);
        assert_eq!(listed(&world), ["ws0", "ws1"]);
        assert!(node(&world, 1).is_open() && node(&world, 1).last_order >= before);
        world.submit(3 + u8::from(joins), ANN, spec(r#""nodelist":["ws1"]"#));
        world.turn();
        (0..4).for_each(|_| go_on(&mut world));
        assert_eq!(world.cluster.job_count(), 1, "it runs jobs as before");
        lose(&mut world, 1);
        assert!(is_done(&steer(&mut world, 1, NodeVerb::Forget)));
    }
}

#[test]
fn a_restart_loses_sight_of_a_thousand_nodes_and_loses_none() {
    let mut world = World::joined();
    let name = |n: u32| -> NodeName { format!("n{n}").parse().unwrap() };
    for n in 0..1000 {
        let body = NodeReport::Joined {
            boot: BootId([1; 16]),
            id: None,
            cpus: 4,
            memory: MiB(4096),
            cards: Vec::new(),
            unbound: Vec::new(),
            runs: Vec::new(),
        };
        world.deliver((name(n), Epoch(1), Seq(1), body));
    }
    world.turn();
    world.submit(1, ANN, spec(r#""nodelist":["n7"]"#));
    world.turn();
    world.inputs.push(Input::NodeLost { node: name(3) });
    world.turn();
    world.now = world.now.after(Seconds(86_400));
    world.cluster = world.disk.read();
    world.planner.forget();
    world.inputs.push(Input::Restarted);
    world.turn();
    for node in world.cluster.nodes() {
        // However long ago it was seen last: its silence counts from now on.
        let link = Link::Suspect { since: world.now };
        assert!(node.link == link || node.name == name(3), "{}: {:?}", node.name, node.link);
    }
    assert_eq!(world.cluster.job(JobId(1)).unwrap().runs.len(), 1);
    for n in 0..1000 {
        world.inputs.push(Input::NodeHeard { node: name(n), epoch: Epoch(1) });
    }
    world.turn();
    assert!(world.cluster.nodes().filter(|node| node.link == Link::Up).count() == 1000);
}
