//! The planner by itself: 100,000 jobs of 1,000 shapes wait for 1,000 nodes with 8 cards; one core, no disk, no daemon.

use crate::{percentile, say};
use gq_cluster::{Cluster, Demand, Depth, Event, Link, Memory, NewJob, Next, Payer, Policy, Shape};
use gq_model::{
    BootId, Card, CardAsk, End, IndexSet, JobId, JobSpec, MiB, NodeName, Outcome, Reason, RunKey, Seconds,
    Timestamp, Token, Uid,
};
use gq_sched::{Plan, Planner, forecast};
use std::{sync::Arc, time::Instant};

const NODES: u32 = 1_000;
const SHAPES: u64 = 1_000;
const JOBS: u64 = 100_000;
const EVENTS: u32 = 5_000;

/// Numbers without pattern (SplitMix64), always the same ones.
struct Numbers(u64);
impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

fn card(index: u32) -> Card {
    Card {
        uuid: Some(format!("GPU-{index}")),
        minor: Some(index),
        nvlink: (0..8).filter(|peer| *peer != index).map(|peer| (peer, 12)).collect(),
        ..Card::whole(index, "NVIDIA A100-SXM4-80GB", MiB(81_920))
    }
}

struct World {
    cluster: Cluster,
    policy: Policy,
    planner: Planner,
    now: i64,
    numbers: Numbers,
    shapes: Vec<Arc<Shape>>,
    payer: Arc<Payer>,
    spec: Arc<JobSpec>,
    runs: Vec<RunKey>,
}

impl World {
    fn new(depth: Depth) -> Self {
        let mut numbers = Numbers(7);
        let mut cluster = Cluster::default();
        for at in 0..NODES {
            let node: NodeName = format!("n{at:04}").parse().unwrap();
            let cards = (0..8).map(card).collect();
            let boot = Some(BootId([7; 16]));
            let found = Event::NodeFound {
                node: node.clone(),
                boot,
                id: None,
                cpus: 128,
                memory: MiB(1 << 20),
                features: vec![],
                cards,
            };
            cluster.apply(&found).unwrap();
            cluster.apply(&Event::NodeSeen { node, link: Link::Up }).unwrap();
        }
        let shapes = (0..SHAPES).map(|at| {
            let cards = [1, 1, 1, 2, 2, 4, 8, 0][numbers.below(8) as usize];
            Arc::new(Shape {
                partition: "main".into(),
                demand: Demand {
                    cpus: 1 + numbers.below(16) as u32,
                    memory: Memory::Amount(MiB(1024 * (1 + numbers.below(64)))),
                    cards: CardAsk { count: cards, ..CardAsk::default() },
                    exclusive: false,
                },
                time_limit: Some(Seconds(600 + 60 * numbers.below(1_000) + at)),
                time_min: None,
                features: vec![],
                nodelist: vec![],
                exclude: vec![],
                licences: vec![],
                reservation: None,
                slices_by_memory: false,
            })
        });
        let shapes = shapes.collect();
        let payer = Arc::new(Payer { uid: Uid(1000), partition: "main".into(), account: None, qos: None });
        let policy = Policy { depth, ..Policy::plain("bench") };
        let spec =
            Arc::new(serde_json::from_str::<JobSpec>(r#"{"name":"x","work_dir":"/","umask":18}"#).unwrap());
        Self {
            cluster,
            policy,
            planner: Planner::default(),
            now: 1_000_000,
            numbers,
            shapes,
            payer,
            spec,
            runs: vec![],
        }
    }

    fn at(&self) -> Timestamp {
        Timestamp::from_secs(self.now)
    }

    fn submit(&mut self) {
        let id = JobId(self.cluster.last_job().0 + 1);
        let shape = Arc::clone(&self.shapes[self.numbers.below(SHAPES) as usize]);
        let new = NewJob {
            id,
            uid: Uid(1000),
            user: "u".into(),
            token: Token([0; 16]),
            spec: Arc::clone(&self.spec),
            job_file: String::new(),
            sha256: String::new(),
            at: self.at(),
            shape,
            payer: Arc::clone(&self.payer),
            priority: 0,
            held: None,
            not_before: None,
            array: false,
            at_once: None,
            waits: None,
            main: None,
            tasks: IndexSet::range(0, 0),
        };
        self.cluster.apply(&Event::Submitted(Box::new(new))).unwrap();
    }

    /// One pass; returns what it took in seconds, without carrying the starts out.
    fn pass(&mut self) -> f64 {
        let began = Instant::now();
        let plan = self.planner.plan(&self.cluster, &self.policy, self.at());
        let took = began.elapsed().as_secs_f64();
        self.begin(plan);
        took
    }

    fn begin(&mut self, plan: Plan) {
        for start in plan.starts {
            let key = RunKey { job: start.job, task: start.task, run: gq_model::RunNumber(1) };
            let event = Event::Allocated {
                key,
                node: start.node,
                boot: BootId([7; 16]),
                node_id: None,
                lease: None,
                cpus: start.cpus,
                memory: start.memory,
                cards: start.cards,
                exclusive: start.exclusive,
                rate: start.rate,
                price: None,
                promised: start.promised,
                own_limit: None,
                at: self.at(),
            };
            self.cluster.apply(&event).unwrap();
            self.runs.push(key);
        }
    }

    /// Some run ends.
    fn end_one(&mut self) {
        let at = self.numbers.below(self.runs.len() as u64) as usize;
        let key = self.runs.swap_remove(at);
        let outcome = Outcome::without_exit(End::Completed, Reason::None, String::new());
        let event = Event::RunEnded { key, outcome, started: None, at: self.at(), next: Next::Over };
        self.cluster.apply(&event).unwrap();
    }
}

/// The rows of the planner.
pub(crate) fn rows() {
    for (name, depth) in [("easy", Depth::First(1)), ("10 reservations", Depth::First(10))] {
        let mut world = World::new(depth);
        (0..JOBS).for_each(|_| world.submit());
        let first = world.pass();
        say(&format!("plan, {name}: first pass, all nodes empty, ms"), format!("{:.1}", first * 1e3));
        say("  jobs started by it", world.runs.len());
        let mut took: Vec<f64> = Vec::new();
        for _ in 0..EVENTS {
            world.now += 1;
            world.end_one();
            world.submit();
            took.push(world.pass());
        }
        let longest = took.iter().copied().fold(first, f64::max);
        say("  pass after an end and an arrival, p50 / p99, ms", {
            let p50 = percentile(&mut took, 50) * 1e3;
            format!("{p50:.3} / {:.3}", percentile(&mut took, 99) * 1e3)
        });
        say("  longest pass of all, ms", format!("{:.1}", longest * 1e3));
        world.planner.forget();
        say("  a pass that remembers nothing, ms", format!("{:.1}", world.pass() * 1e3));
        if depth == Depth::First(1) {
            let began = Instant::now();
            let found = forecast(&world.cluster, &world.policy, &world.planner, world.at());
            let took = began.elapsed().as_secs_f64();
            let (waiting, known) = (world.cluster.queue().len(), found.starts.len());
            say("plan: starts of all waiting jobs estimated, s", format!("{took:.2}"));
            say("  waiting jobs, with an expected start", format!("{waiting}, {known}"));
        }
    }
    growth();
}

/// How the cost of an event grows with the queue and with the shapes.
fn growth() {
    for (jobs, shapes) in
        [(1_000u64, 100u64), (10_000, 100), (100_000, 100), (100_000, 300), (100_000, 1_000)]
    {
        let mut world = World::new(Depth::First(1));
        world.shapes.truncate(shapes as usize);
        let all: Vec<Arc<Shape>> = world.shapes.iter().cycle().take(SHAPES as usize).cloned().collect();
        world.shapes = all;
        // The nodes are filled first, so that every case has the same running jobs.
        (0..20_000).for_each(|_| world.submit());
        world.pass();
        let waiting: Vec<JobId> =
            world.cluster.jobs().filter(|job| job.runs.is_empty()).map(|job| job.id).collect();
        for id in waiting {
            let outcome = Outcome::without_exit(End::Cancelled, Reason::Cancelled, String::new());
            let tasks = IndexSet::range(0, 0);
            let event = Event::TasksEnded { job: id, tasks, outcome, at: world.at() };
            world.cluster.apply(&event).unwrap();
        }
        (0..jobs).for_each(|_| world.submit());
        let began = Instant::now();
        let mut passes = 0.0;
        for _ in 0..1_000 {
            world.now += 1;
            world.end_one();
            world.submit();
            passes += world.pass();
        }
        let took = began.elapsed().as_secs_f64();
        say(
            &format!("plan: {jobs} jobs, {shapes} shapes: an end and an arrival, us"),
            format!("{:.0} ({:.0})", took * 1e3, passes * 1e3),
        );
    }
}
