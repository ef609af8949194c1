//! The machine: worlds of confs and lists, requests, filling, and plain rules of placement.

use super::Log;
use crate::{
    baseline::place,
    fill::{Dice, draw},
    fragmentation::{CardState, NodeState, Wish},
    options::{Options, PlacementAsk, command},
    request::{Requests, cut},
    trace::{Names, Trace, TraceJob, UNLIMITED, WHOLE},
    watch::{Watch, idle, wish_of},
    world::World,
};
use gq_cluster::Depth;
use gq_model::{MemoryAsk, MiB, Seconds, TimeAsk, known_grid};
use proptest::prelude::*;
use std::sync::Arc;

fn world(words: &[&str]) -> Result<World, String> {
    let argv = ["gqsim", "log"].iter().chain(words).copied();
    let options = Options::of(&command().try_get_matches_from(argv).unwrap()).unwrap();
    World::of(&options, &mut Names::default()).map_err(|trouble| trouble.to_string())
}

#[test]
fn a_pool_is_one_node_without_conf() {
    let pool = world(&["--procs", "4008", "--policy", "fcfs"]).unwrap();
    assert_eq!((pool.nodes.len(), pool.nodes[0].cpus, pool.policy.depth), (1, 4008, Depth::Fcfs));
    assert!(!pool.counts_memory && pool.taken_as.is_empty());
    let depth = |words: &[&str]| world(&[&["--procs", "1"], words].concat()).unwrap().policy.depth;
    assert_eq!(depth(&["--policy", "greedy"]), Depth::First(0));
    assert_eq!(depth(&["--policy", "7"]), Depth::First(7));
    assert_eq!(depth(&["--policy", "conservative"]), Depth::All);
    assert_eq!(depth(&["--set", "scheduler.backfill=3"]), Depth::First(3));
    let weights = |words: &[&str]| world(&[&["--procs", "1"], words].concat()).unwrap().policy.weights;
    let plain = weights(&["--policy", "easy"]);
    assert_eq!((plain.age, plain.size, plain.fair_share), (0, 0, 0), "in order of submission");
    let own = gq_conf::parse("", std::path::Path::new("gq.conf")).unwrap().scheduler.weights;
    let default = weights(&[]);
    assert_eq!((default.age, default.size), (own.priority_age, own.priority_size));
    let set = weights(&["--policy", "easy", "--set", "scheduler.priority_age=7"]);
    assert_eq!((set.age, set.size), (7, 0));
}

#[test]
fn a_conf_is_taken_as_it_stands_but_for_what_is_set() {
    let text = "[[node]]\nname = \"ws[1-2]\"\ncpus = 8\n[[node.gpu]]\nmodel = \"A100-SXM4-80GB\"\nmemory = \"80G\"\nmig = true\n\
                [[partition]]\nname = \"few\"\nallow_users = [\"ann\"]\n[[partition]]\nname = \"lab\"\nallow_groups = [\"lab\"]\n";
    let conf = Log::new("gq.conf", text.as_bytes());
    let path = conf.path.to_str().unwrap();
    let lab =
        world(&["--conf", path, "--set", "node[ws2].gpu[0].count=3", "--placement", "random", "--seed", "5"])
            .unwrap();
    let cards: Vec<usize> = lab.nodes.iter().map(|node| node.cards.len()).collect();
    assert_eq!(cards, [1, 3]);
    assert!(lab.nodes.iter().flat_map(|node| &node.cards).all(|card| card.grid.is_some()));
    assert!(lab.policy.partition("few").unwrap().access.allow_users.is_some());
    assert!(lab.policy.partition("lab").unwrap().access.allow_users.is_none());
    assert_eq!(lab.taken_as.len(), 2, "{:?}", lab.taken_as);
    assert_eq!(lab.policy.slice_rule, gq_cluster::SliceRule::Random(5));
    let told = world(&["--conf", path, "--set", "partition[few].max_tim=1h"]).unwrap_err();
    assert!(told.contains("max_tim") && told.contains("max_time"), "{told}");
}

#[test]
fn a_list_of_nodes_has_cards_that_can_be_cut() {
    let list = Log::new("n.csv", b"sn,cpu_milli,memory_mib,gpu,model\na,64500,1024,2,P100\nb,1000,2048,0,\n");
    let lab = world(&["--nodes", list.path.to_str().unwrap()]).unwrap();
    assert_eq!((lab.nodes.len(), lab.nodes[0].cards.len(), lab.nodes[1].cards.len()), (2, 2, 0));
    let card = &lab.nodes[0].cards[0];
    assert!(card.mig && card.grid.is_some() && card.is_model("P100"));
    assert!(lab.policy.partitions[0].recut);
}

#[test]
fn a_part_of_a_card_becomes_a_slice_and_is_counted_as_one() {
    let grid = known_grid("A100-SXM4-80GB", MiB(80 << 10)).unwrap();
    let job = |cards, card_milli| TraceJob { cards, card_milli, cpus: 4, ..TraceJob::default() };
    let jobs = vec![job(1, 100), job(1, 286), job(1, 320), job(1, 460), job(1, 810), job(2, 1000), job(0, 0)];
    let mut trace = Trace { jobs, ..Trace::default() };
    cut(&mut trace, &grid);
    let seen: Vec<(&str, u32)> =
        trace.jobs.iter().map(|job| (trace.names.text(job.profile), job.card_milli)).collect();
    let whole = ("7g.80gb", 1000);
    assert_eq!(
        seen,
        [("1g.10gb", 125), ("2g.20gb", 250), ("3g.40gb", 500), ("4g.40gb", 500), whole, whole, ("", 0)]
    );
    let pool = world(&["--procs", "8"]).unwrap();
    let mut requests = Requests::new(&trace.names, &pool.policy, true, true);
    let spec = requests.of(&trace.jobs[5]);
    assert_eq!((spec.cards.count, spec.cards.profile.as_deref()), (2, Some("7g.80gb")));
    assert_eq!((spec.process_count(), spec.cpus(), spec.memory), (2, 4, MemoryAsk::PerNode(MiB(0))));
    assert!(Arc::ptr_eq(&spec, &requests.of(&trace.jobs[5])));
    let mut without = Requests::new(&trace.names, &pool.policy, false, false);
    let timed = TraceJob { cpus: 1, cards: 3, estimate: 60, memory: MiB(9), ..TraceJob::default() };
    let spec = without.of(&timed);
    assert_eq!((spec.cards.count, spec.cpus(), spec.time_limit), (0, 3, Some(TimeAsk::Limit(Seconds(60)))));
}

/// A small machine of eighths: cards in MIG mode and whole ones.
fn machine() -> Vec<NodeState> {
    let grid = Arc::new(known_grid("A100-SXM4-80GB", MiB(80 << 10)).unwrap());
    let mig = |count| vec![CardState { grid: Some(Arc::clone(&grid)), taken: 0 }; count];
    let node = |cpus_free, cards| NodeState { cpus_free, memory_free: MiB(100), cards };
    let mut mixed = mig(1);
    mixed.push(CardState { grid: None, taken: 0 });
    vec![node(16, mig(2)), node(4, mixed), node(64, mig(3)), node(8, Vec::new())]
}

fn wishes() -> impl Strategy<Value = Wish> {
    let profile =
        prop::sample::select(vec![None, Some("1g.10gb"), Some("2g.20gb"), Some("3g.40gb"), Some("7g.80gb")]);
    (0u32..6, 0u64..30, 0u32..3, profile).prop_map(|(cpus, memory, count, profile)| Wish {
        cpus,
        memory: MiB(memory),
        count,
        profile: profile.map(Arc::from),
        weight: 1,
    })
}

proptest! {
    /// A plain rule places a job exactly when some node takes it, and never hands out anything twice.
    #[test]
    fn plain_rules_hand_out_what_is_there_once(all in prop::collection::vec(wishes(), 1..60), which in 0usize..3, seed: u64) {
        let rule = [PlacementAsk::Best, PlacementAsk::First, PlacementAsk::Random][which];
        let (mut nodes, mut dice) = (machine(), Dice::new(seed));
        for wish in &all {
            let before = nodes.clone();
            let could = nodes.iter().any(|node| node.takes(wish));
            prop_assert_eq!(place(&mut nodes, wish, rule, &mut dice), could);
            let sum = |nodes: &[NodeState]| (nodes.iter().map(|n| u64::from(n.cpus_free)).sum::<u64>(), nodes.iter().map(|n| n.memory_free.0).sum::<u64>());
            let ((cpus, memory), (cpus_before, memory_before)) = (sum(&nodes), sum(&before));
            let took = u64::from(could);
            prop_assert_eq!((cpus_before - cpus, memory_before - memory), (took * u64::from(wish.cpus), took * wish.memory.0));
            let cards = |nodes: &[NodeState]| nodes.iter().flat_map(|n| n.cards.iter().map(|c| c.taken)).collect::<Vec<u16>>();
            let (now, then) = (cards(&nodes), cards(&before));
            prop_assert!(now.iter().zip(&then).all(|(now, then)| now & then == *then), "nothing is given back");
            let new: u32 = now.iter().zip(&then).map(|(now, then)| (now & !then).count_ones()).sum();
            let size = |wish: &Wish| wish.profile.as_deref().map_or(1..=8, |name| {
                let size = match name { "1g.10gb" => 1, "2g.20gb" => 2, "3g.40gb" => 4, _ => 8 };
                size..=size
            });
            if could {
                let (least, most) = (size(wish).start() * wish.count, size(wish).end() * wish.count);
                prop_assert!((least..=most).contains(&new), "{} units for {:?}", new, wish);
            }
        }
    }

    /// Every job of the log is drawn before any is drawn again, as many as are wanted, and the same seed draws the same.
    #[test]
    fn a_fill_is_a_fair_draw(cards in prop::collection::vec(0u32..3, 1..30), milli in 1u64..200_000, seed: u64) {
        let jobs: Vec<TraceJob> = (0u64..).zip(&cards).map(|(id, cards)| TraceJob { id, cards: *cards, card_milli: WHOLE, cpus: 1, ..TraceJob::default() }).collect();
        let trace = Trace { jobs, ..Trace::default() };
        let drawn = draw(&trace, milli, seed);
        prop_assert_eq!(&drawn, &draw(&trace, milli, seed));
        if cards.iter().all(|cards| *cards == 0) {
            prop_assert!(drawn.is_empty());
            return Ok(());
        }
        let asked: u64 = drawn.iter().map(TraceJob::milli).sum();
        prop_assert!(asked >= milli && asked - drawn.last().unwrap().milli() < milli);
        for round in drawn.chunks(cards.len()) {
            let mut ids: Vec<u64> = round.iter().map(|job| job.id).collect();
            ids.sort_unstable();
            ids.dedup();
            prop_assert_eq!(ids.len(), round.len());
        }
        prop_assert!(drawn.iter().zip(0..).all(|(job, second)| job.submit == second && job.run == UNLIMITED));
    }
}

#[test]
fn a_filled_machine_is_looked_at_when_all_its_cards_were_asked_for() {
    let list = Log::new("n.csv", b"sn,cpu_milli,memory_mib,gpu,model\na,64000,1024,2,P100\n");
    let lab = world(&["--nodes", list.path.to_str().unwrap()]).unwrap();
    let job = |submit| TraceJob { submit, cards: 1, card_milli: 500, cpus: 1, ..TraceJob::default() };
    let mut trace = Trace { jobs: (0..6).map(job).collect(), ..Trace::default() };
    let slice = trace.names.of("3g.40gb");
    trace.jobs.iter_mut().for_each(|job| job.profile = slice);
    let mut nodes = idle(&lab.nodes);
    let mut watch = Watch::over(&trace, &lab.nodes, true).unwrap();
    let mut dice = Dice::new(1);
    let mut placed = Vec::new();
    for job in &trace.jobs {
        placed.push(place(&mut nodes, &wish_of(job, &trace.names), PlacementAsk::First, &mut dice));
        if watch.arrive(job) {
            watch.look(&nodes);
        }
    }
    assert_eq!(placed, [true, true, true, true, false, false]);
    let figures = watch.end(&nodes);
    let full = figures.at_full.unwrap();
    assert_eq!((full.arrived, full.allocated, figures.overall.arrived), (1.0, 1.0, 1.5));
}
