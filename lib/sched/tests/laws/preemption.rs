//! Preemption: only who may be told to make room is, no more than it takes, and then the job in front starts.

use crate::{
    lab::{Lab, Wish, cases, partition, payer},
    site::{Machine, cards_of, machines, node_name},
    wishes::{a_booking, a_shape},
};
use gq_cluster::{Booking, Depth, Event, Limits, PartitionState, Preempt, Qos, Shape, Stopping};
use gq_model::{JobId, NodeName, RunKey, Seconds};
use gq_sched::Plan;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
struct Case {
    machines: Vec<Machine>,
    low: Vec<(Shape, u32, bool)>,
    high: Shape,
    exempt: u64,
    grace: u64,
    depth: Depth,
    pass_after: u64,
}

fn a_case() -> impl Strategy<Value = Case> {
    let depth =
        prop_oneof![Just(Depth::First(0)), Just(Depth::First(1)), Just(Depth::All), Just(Depth::Fcfs)];
    let low = prop::collection::vec((a_shape(), 1..4u32, prop::bool::weighted(0.2)), 1..20);
    let times = (prop::sample::select(vec![0, 10]), prop::sample::select(vec![0, 5]), 0..20u64);
    (machines(), low, a_shape(), depth, times).prop_map(
        |(machines, low, high, depth, (exempt, grace, pass_after))| Case {
            machines,
            low,
            high,
            exempt,
            grace,
            depth,
            pass_after,
        },
    )
}

/// A lab full of jobs of a low tier, of which some may not be preempted.
fn lab(case: &Case) -> Lab {
    let mut lab = Lab::new();
    lab.policy.depth = case.depth;
    lab.policy.preempt_exempt = Seconds(case.exempt);
    let low = &mut lab.policy.partitions[0];
    (low.preempt, low.grace, low.tier, low.recut) = (Preempt::Requeue, Seconds(case.grace), 1, true);
    let mut high = partition("high", None, PartitionState::Up);
    (high.tier, high.recut, high.priority) = (2, true, 1);
    lab.policy.partitions.push(high);
    let limits = Limits::default();
    lab.policy.qos = vec![Qos { name: "safe".into(), preempt: Some(Preempt::Off), limits, ..Qos::default() }];
    for (at, machine) in case.machines.iter().enumerate() {
        let cards = cards_of(machine.kind);
        lab.featured(&node_name(at), machine.cpus, machine.gib * 1024, cards, &machine.features());
    }
    for (shape, tasks, safe) in &case.low {
        let shape = Shape { partition: "main".into(), time_limit: Some(Seconds(1_000)), ..shape.clone() };
        let payer = gq_cluster::Payer { qos: safe.then(|| "safe".into()), ..payer(1000, "main") };
        lab.submit(Wish { tasks: *tasks, payer, ..shape.into() });
    }
    lab.start();
    lab.go_to(lab.now.after(Seconds(case.pass_after)));
    lab
}

/// Whether the job could start on this node if these runs were gone.
fn starts_without(lab: &Lab, job: JobId, node: &NodeName, gone: &[RunKey]) -> bool {
    let mut lab = lab.clone();
    for key in gone {
        lab.end_for_good(*key);
    }
    // Nobody else, and nowhere else.
    let ids: Vec<JobId> = lab.cluster.jobs().map(|other| other.id).filter(|id| *id != job).collect();
    for id in ids {
        lab.apply(Event::Held { job: id, by: gq_cluster::HeldBy::Admin });
    }
    let nodes: Vec<NodeName> = lab.cluster.nodes().map(|n| n.name.clone()).filter(|n| n != node).collect();
    for node in nodes {
        lab.apply(Event::NodeDrained { node, reason: "not here".into() });
    }
    lab.fresh().starts.iter().any(|start| start.job == job)
}

impl Lab {
    /// Ends a run for ever, whatever was said of it.
    fn end_for_good(&mut self, key: RunKey) {
        self.apply(Event::Stopped { key, why: Stopping::Cancel, by: None });
        self.end(key);
    }
}

fn check(lab: &Lab, plan: &Plan, case: &Case) -> Result<(), TestCaseError> {
    let mut nodes: BTreeSet<(JobId, NodeName)> = BTreeSet::new();
    for one in &plan.preempt {
        let victim = lab.cluster.job(one.key.job).unwrap();
        let run = &victim.runs[&one.key.task];
        prop_assert_eq!(&victim.shape.partition, "main");
        prop_assert!(victim.payer.qos.is_none(), "{one:?} may not be preempted");
        prop_assert!(lab.now >= run.counted.after(Seconds(case.exempt)), "{one:?} is exempt");
        prop_assert!(one.again && one.grace == Seconds(case.grace) && run.stopping.is_none());
        prop_assert_eq!(&lab.cluster.job(one.by).unwrap().shape.partition, "high");
        nodes.insert((one.by, run.node.clone()));
    }
    let told: BTreeSet<RunKey> = plan.preempt.iter().map(|one| one.key).collect();
    prop_assert_eq!(told.len(), plan.preempt.len(), "somebody is told twice");
    for (job, node) in &nodes {
        let keys: Vec<RunKey> = plan.preempt.iter().filter(|one| one.by == *job).map(|one| one.key).collect();
        prop_assert!(starts_without(lab, *job, node, &keys), "{job} does not start when they are gone");
        for at in 0..keys.len() {
            let but_one: Vec<RunKey> =
                keys.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, key)| *key).collect();
            prop_assert!(!starts_without(lab, *job, node, &but_one), "{} need not go", keys[at].job);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(128))]
    #[test]
    fn only_who_may_is_told_to_make_room_no_more_than_it_takes_and_then_the_first_starts(
        case in a_case(),
        booking in prop::option::weighted(0.3, a_booking()),
    ) {
        let mut lab = lab(&case);
        booking.into_iter().for_each(|wish| lab.book("ws0", &wish));
        let high = Shape { partition: "high".into(), time_limit: Some(Seconds(100)), ..case.high.clone() };
        let job = lab.submit(high);
        let mut told = 0;
        for _ in 0..40 {
            let plan = lab.pass(|lab, plan| check(lab, plan, &case))?;
            told += plan.preempt.len();
            if lab.is_running(job) || lab.cluster.job(job).is_none() {
                break;
            }
            // While room is made nobody else is told to make some.
            let again = lab.pass(|lab, plan| check(lab, plan, &case))?;
            prop_assert_eq!(again.preempt, vec![]);
            match lab.next(&plan) {
                Some(next) if told > 0 => lab.go_to(next),
                _ => break,
            }
        }
        prop_assert!(told == 0 || lab.is_running(job), "{job} does not start although others made room");
    }

    #[test]
    fn two_in_front_never_tell_the_same_run_to_make_room(case in a_case(), other in a_shape()) {
        let mut lab = lab(&case);
        let mut higher = partition("higher", None, PartitionState::Up);
        (higher.tier, higher.recut) = (2, true);
        lab.policy.partitions.push(higher);
        lab.planner.forget();
        for (name, shape) in [("high", &case.high), ("higher", &other)] {
            lab.submit(Shape { partition: name.into(), time_limit: Some(Seconds(100)), ..shape.clone() });
        }
        lab.pass(crate::audit::check_preempt)?;
    }
}

#[test]
fn nobody_makes_room_where_a_booking_keeps_the_job_out() {
    let mut lab = Lab::new();
    lab.policy.partitions[0].preempt = Preempt::Cancel;
    let mut high = partition("high", None, PartitionState::Up);
    high.tier = 2;
    lab.policy.partitions.push(high);
    lab.node("ws0", 4, 8192, Vec::new());
    let low = lab.submit(crate::lab::lasting(crate::lab::shape(4, 0), 30));
    lab.start();
    let start = lab.now.after(Seconds(40));
    lab.apply(Event::Booked(Box::new(Booking {
        name: "window".into(),
        start,
        end: start.after(Seconds(100)),
        takes: vec![gq_cluster::Booked { node: "ws0".parse().unwrap(), cards: None }],
        users: Vec::new(),
        accounts: Vec::new(),
        maintenance: true,
    })));
    let job = lab.submit(Shape { partition: "high".into(), ..crate::lab::shape(1, 0) });
    let plan = lab.start();
    assert!(plan.preempt.is_empty() && lab.is_running(low) && !lab.is_running(job));
}
