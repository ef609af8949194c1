//! Safety: whatever waits and runs, a plan gives nothing twice, nothing above what there is, nothing to who may not have it, and
//! goes in order.

use crate::lab::{Lab, a100s, card, name, partition};
use gq_cluster::{Cluster, Demand, Depth, Event, HeldBy, Link, Memory, PartitionState, Place, Shape};
use gq_model::{Card, CardAsk, CardHealth, JobId, MiB, Seconds, TaskIndex};
use gq_sched::Plan;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
pub struct Wish {
    shape: Shape,
    priority: i64,
    held: bool,
    later: bool,
    tasks: u32,
}

fn some<T: Clone + std::fmt::Debug + 'static>(weight: f64, of: Vec<T>) -> impl Strategy<Value = Option<T>> {
    prop::option::weighted(weight, prop::sample::select(of))
}

fn a_shape() -> impl Strategy<Value = Shape> {
    let demand = (
        1..9u32,
        prop_oneof![4 => (0..5u64).prop_map(|g| Memory::Amount(MiB(g * 1024))), 1 => Just(Memory::WholeNode)],
        0..4u32,
        some(0.2, vec!["a100", "rtx"]),
        some(0.2, vec![24, 40, 80]),
        prop::bool::weighted(0.1),
    );
    let names = (
        some(0.15, vec!["ws0", "ws1", "ws2"]),
        some(0.15, vec!["ws0", "ws1", "ws2"]),
        some(0.15, vec!["nvlink", "big"]),
        some(0.3, vec!["odd", "off"]),
        prop::option::weighted(0.9, 1..20u64),
    );
    (demand, names).prop_map(|((cpus, memory, count, model, gib, exclusive), names)| {
        let (list, not, feature, part, limit) = names;
        let ask = CardAsk {
            count,
            profile: None,
            model: model.filter(|_| count > 0).map(str::to_string),
            memory: gib.filter(|_| count > 0).map(|g| MiB(g * 1024)),
        };
        Shape {
            partition: part.unwrap_or("main").into(),
            demand: Demand { cpus, memory, cards: ask, exclusive },
            time_limit: limit.map(|l| Seconds(l * 10)),
            features: feature.map(str::to_string).into_iter().collect(),
            nodelist: list.map(name).into_iter().collect(),
            exclude: not.map(name).into_iter().collect(),
        }
    })
}

fn a_wish() -> impl Strategy<Value = Wish> {
    let rest = (-2..3i64, prop::bool::weighted(0.1), prop::bool::weighted(0.1), 1..4u32);
    (a_shape(), rest).prop_map(|(shape, (priority, held, later, tasks))| Wish {
        shape,
        priority,
        held,
        later,
        tasks,
    })
}

#[derive(Clone, Debug)]
enum Move {
    Submit(Wish),
    /// Starts what the plan says and goes on to the next end.
    Run,
    /// Starts what the plan says; time stands.
    Start,
    See(usize, u8),
    Drain(usize, bool),
    /// Its cards are looked at again: one may have failed.
    Cards(usize, bool),
}

fn a_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        8 => a_wish().prop_map(Move::Submit),
        2 => Just(Move::Run),
        2 => Just(Move::Start),
        1 => (0..4usize, 0..4u8).prop_map(|(n, link)| Move::See(n, link)),
        1 => (0..4usize, any::<bool>()).prop_map(|(n, on)| Move::Drain(n, on)),
        1 => (0..4usize, any::<bool>()).prop_map(|(n, bad)| Move::Cards(n, bad)),
    ]
}

const NAMES: [&str; 4] = ["ws0", "ws1", "ws2", "ws3"];

fn cards_of(node: usize) -> Vec<Card> {
    match node {
        0 => a100s(4),
        1 => vec![card(0, "RTX 3090", 24), card(1, "RTX 3090", 24), card(2, "A100-PCIE-40GB", 40)],
        2 => {
            let mut cards = a100s(2);
            cards[1].mig = true;
            cards
        }
        _ => Vec::new(),
    }
}

fn lab(depth: Depth) -> Lab {
    let mut lab = Lab::new();
    lab.policy.depth = depth;
    lab.policy.partitions.push(partition("odd", Some(&["ws1", "ws3"]), PartitionState::Drain));
    lab.policy.partitions.push(partition("off", None, PartitionState::Down));
    lab.featured("ws0", 8, 8192, cards_of(0), &["nvlink", "big"]);
    lab.featured("ws1", 6, 4096, cards_of(1), &["big"]);
    lab.node("ws2", 4, 4096, cards_of(2));
    lab.node("ws3", 16, 2048, cards_of(3));
    lab
}

fn play(lab: &mut Lab, step: &Move) {
    match step {
        Move::Submit(wish) => {
            let later = wish.later.then(|| lab.now.after(Seconds(100)));
            let held = wish.held.then_some(HeldBy::Admin);
            lab.submit_as(wish.shape.clone(), wish.priority, held, later, wish.tasks);
        }
        Move::Run => {
            lab.start();
            lab.let_one_end();
        }
        Move::Start => drop(lab.start()),
        Move::See(node, link) => {
            let since = lab.now;
            let link = match link {
                0 => Link::Suspect { since },
                1 => Link::Lost { since },
                _ => Link::Up,
            };
            lab.see(NAMES[*node], link);
        }
        Move::Drain(node, true) => {
            lab.apply(Event::NodeDrained { node: name(NAMES[*node]), reason: "fan".into() });
        }
        Move::Drain(node, false) => lab.apply(Event::NodeResumed { node: name(NAMES[*node]) }),
        Move::Cards(at, bad) => {
            let node = lab.cluster.node(&name(NAMES[*at])).unwrap();
            let mut cards = cards_of(*at);
            if let (true, Some(card)) = (*bad, cards.first_mut()) {
                card.health = CardHealth::Failed("Xid 79".into());
            }
            let (cpus, memory, features) = (node.cpus, node.memory, node.features.clone());
            let (node, boot) = (node.name.clone(), node.boot);
            lab.apply(Event::NodeFound { node, boot, cpus, memory, features, cards });
        }
    }
}

/// What is in use on a node, counted from the jobs.
#[derive(Default)]
struct Used {
    cpus: u32,
    memory: u64,
    cards: BTreeSet<u32>,
    runs: usize,
    alone: bool,
}

fn in_use(cluster: &Cluster) -> BTreeMap<String, Used> {
    let mut all: BTreeMap<String, Used> = BTreeMap::new();
    for run in cluster.jobs().flat_map(|job| job.runs.values()) {
        let used = all.entry(run.node.to_string()).or_default();
        used.cpus += run.cpus;
        used.memory += run.memory.0;
        used.cards.extend(run.cards.iter().map(|card| card.index));
        used.runs += 1;
        used.alone |= run.exclusive;
    }
    all
}

fn fits_ask(card: &Card, ask: &CardAsk) -> bool {
    ask.model.as_ref().is_none_or(|m| card.is_model(m)) && ask.memory.is_none_or(|m| card.memory >= m)
}

/// Every start is to be had, given the starts before it.
fn check_starts(lab: &Lab, plan: &Plan) -> Result<(), TestCaseError> {
    let mut all = in_use(&lab.cluster);
    let mut given: BTreeSet<(JobId, TaskIndex)> = BTreeSet::new();
    for start in &plan.starts {
        let job = lab.cluster.job(start.job).unwrap();
        let node = lab.cluster.node(&start.node).unwrap();
        let (shape, demand) = (&job.shape, &job.shape.demand);
        prop_assert!(job.is_eligible() && job.waiting.contains(start.task.0), "{start:?} does not wait");
        prop_assert!(given.insert((start.job, start.task)), "{start:?} is started twice");
        prop_assert!(node.link == Link::Up && node.drained.is_none(), "{start:?} is on a closed node");
        let part = lab.policy.partition(&shape.partition).unwrap();
        prop_assert!(part.state.starts() && part.has(&node.name), "{start:?} is not in its partition");
        prop_assert!(shape.nodelist.is_empty() || shape.nodelist.contains(&node.name));
        prop_assert!(!shape.exclude.contains(&node.name));
        prop_assert!(shape.features.iter().all(|f| node.features.contains(f)));
        let used = all.entry(node.name.to_string()).or_default();
        prop_assert!(!used.alone && (!demand.exclusive || used.runs == 0), "{start:?} is not alone");
        prop_assert_eq!(start.cpus, if demand.exclusive { node.cpus } else { demand.cpus });
        match demand.memory {
            Memory::Amount(amount) => prop_assert_eq!(start.memory, amount),
            Memory::WholeNode => prop_assert_eq!(start.memory, node.memory),
        }
        prop_assert_eq!(start.cards.len(), demand.cards.count as usize);
        for held in &start.cards {
            let card = node.cards.iter().find(|card| card.index == held.index).unwrap();
            prop_assert!(!card.mig && card.health == CardHealth::Good && fits_ask(card, &demand.cards));
            prop_assert!(used.cards.insert(card.index), "card {} is given twice: {start:?}", card.index);
        }
        used.cpus += start.cpus;
        used.memory += start.memory.0;
        used.runs += 1;
        used.alone |= start.exclusive;
        prop_assert!(used.cpus <= node.cpus && used.memory <= node.memory.0, "{start:?} is over capacity");
    }
    Ok(())
}

/// Jobs are started in order of place; one that is passed over leaves none of its own shape before it.
fn check_order(lab: &Lab, plan: &Plan) -> Result<(), TestCaseError> {
    let jobs: Vec<JobId> = plan.starts.iter().map(|start| start.job).collect();
    let places: Vec<Place> = jobs.iter().map(|id| Place::of(lab.cluster.job(*id).unwrap())).collect();
    prop_assert!(places.is_sorted(), "not in order: {jobs:?}");
    for (shape, group) in lab.cluster.queue().shapes() {
        let mut full = true;
        for place in group {
            let waiting = lab.cluster.job(place.job).unwrap().waiting.len();
            let started = jobs.iter().filter(|id| **id == place.job).count() as u64;
            prop_assert!(full || started == 0, "{} was passed by its like, {shape:?}", place.job);
            full = started == waiting;
        }
    }
    Ok(())
}

/// Whoever waits is told why, and a job that only closed nodes could run is promised nothing.
fn check_outlook(lab: &Lab, plan: &Plan) -> Result<(), TestCaseError> {
    for job in lab.cluster.jobs().filter(|job| !job.waiting.is_empty()) {
        let (reason, expected) = plan.outlook.of(job, &lab.policy);
        prop_assert!(reason != gq_model::Reason::None);
        let idle = job.held.is_some() || job.not_before.is_some();
        if let (false, Some(at)) = (idle, expected) {
            prop_assert!(at > lab.now, "{} is expected in the past", job.id);
        }
        prop_assert!(!idle || !plan.outlook.reserved.contains_key(&job.id));
        if reason == gq_model::Reason::NodesUnavailable {
            prop_assert!(!plan.outlook.reserved.contains_key(&job.id) && plan.outlook.first != Some(job.id));
        }
    }
    if let Depth::First(n) = lab.policy.depth {
        prop_assert!(plan.outlook.reserved.len() <= n as usize);
    }
    Ok(())
}

/// The same cluster, read back from its rows.
fn read_back(cluster: &Cluster) -> Cluster {
    let jobs = cluster.jobs().map(|job| serde_json::to_value(&**job).unwrap());
    let nodes = cluster.nodes().map(|node| serde_json::to_value(&**node).unwrap());
    let jobs = jobs.map(|row| serde_json::from_value(row).unwrap()).collect();
    let nodes = nodes.map(|row| serde_json::from_value(row).unwrap()).collect();
    Cluster::restore(cluster.last_job(), jobs, nodes).unwrap()
}

fn a_depth() -> impl Strategy<Value = Depth> {
    prop_oneof![Just(Depth::First(0)), Just(Depth::First(1)), Just(Depth::First(3)), Just(Depth::All)]
}

proptest! {
    #[test]
    fn a_plan_gives_nothing_twice_and_nothing_above_what_there_is(
        depth in a_depth(),
        moves in prop::collection::vec(a_move(), 1..50),
    ) {
        let mut lab = lab(depth);
        for step in &moves {
            play(&mut lab, step);
            let plan = lab.plan();
            check_starts(&lab, &plan)?;
            check_order(&lab, &plan)?;
            check_outlook(&lab, &plan)?;
        }
    }

    #[test]
    fn the_same_input_gives_the_same_plan(depth in a_depth(), moves in prop::collection::vec(a_move(), 1..50)) {
        let mut lab = lab(depth);
        for step in &moves {
            play(&mut lab, step);
        }
        let plan = lab.plan();
        prop_assert_eq!(&plan, &lab.plan());
        prop_assert_eq!(&plan, &gq_sched::plan(&read_back(&lab.cluster), &lab.policy, lab.now));
        // What is started is not started again, and what could not start then cannot now.
        lab.start();
        prop_assert_eq!(lab.plan().starts, vec![]);
    }

    #[test]
    fn when_arrivals_stop_the_queue_empties(depth in a_depth(), moves in prop::collection::vec(a_move(), 1..50)) {
        let mut lab = lab(depth);
        for step in &moves {
            play(&mut lab, step);
        }
        for (at, node) in NAMES.iter().enumerate() {
            lab.see(node, Link::Up);
            play(&mut lab, &Move::Drain(at, false));
            play(&mut lab, &Move::Cards(at, false));
        }
        let ids: Vec<JobId> = lab.cluster.jobs().map(|job| job.id).collect();
        for job in ids {
            lab.apply(Event::Released { job });
            lab.apply(Event::Ripened { job });
        }
        lab.policy.partitions.iter_mut().for_each(|p| p.state = PartitionState::Up);
        loop {
            lab.start();
            if !lab.let_one_end() {
                break;
            }
        }
        let empty = lab.plan();
        for job in lab.cluster.jobs() {
            let able = lab.cluster.nodes().any(|node| {
                gq_sched::eligible_by_name(&job.shape, node, &lab.policy)
                    && gq_sched::could_ever(&job.shape, node.cpus, node.memory, &node.cards)
            });
            prop_assert!(!able, "{} could run and never does: {:?}", job.id, job.shape);
            prop_assert_eq!(empty.outlook.of(job, &lab.policy).0, gq_model::Reason::NodesUnavailable);
        }
    }
}
