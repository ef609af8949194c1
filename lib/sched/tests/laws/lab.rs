//! A lab: nodes and jobs, changed by events only, and a world that starts what the plan says and ends it when its time is over.

use gq_cluster::{
    Access, Cluster, Demand, Depth, Event, HeldBy, Limits, Link, Memory, NewJob, Next, Partition,
    PartitionState, Payer, Policy, Preempt, Serves, Shape, SliceRule, Stopping, Weights,
};
use gq_model::{
    BootId, Card, CardAsk, End, IndexSet, JobId, MiB, NodeName, Outcome, Placement, Reason, RunKey, Seconds,
    Slice, TaskIndex, Timestamp, Token, Uid, known_grid,
};
use gq_sched::{Plan, Planner, Start};
use proptest::{prelude::TestCaseError, test_runner::Config};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

#[derive(Clone)]
pub struct Lab {
    pub cluster: Cluster,
    pub policy: Policy,
    pub planner: Planner,
    pub now: Timestamp,
    /// Whether runs stay in their start until somebody says otherwise.
    pub slow: bool,
}

/// So many cases, unless `PROPTEST_CASES` says otherwise.
pub fn cases(count: u32) -> Config {
    let mut config = Config { max_shrink_time: 20_000, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = count;
    }
    config
}

pub fn name(text: &str) -> NodeName {
    text.parse().unwrap()
}

pub fn card(index: u32, model: &str, gib: u64) -> Card {
    let memory = gib * 1024;
    serde_json::from_str(&format!(r#"{{"index":{index},"model":"{model}","memory":{memory}}}"#)).unwrap()
}

pub fn a100s(count: u32) -> Vec<Card> {
    (0..count).map(|index| card(index, "A100-SXM4-80GB", 80)).collect()
}

/// A card in MIG mode with these slices: profile and first unit.
pub fn cut(index: u32, model: &str, gib: u64, slices: &[(&str, u8)]) -> Card {
    let grid = known_grid(model, MiB(gib * 1024)).unwrap();
    let slice = |(name, start): &(&str, u8)| {
        let profile = grid.profile(name).unwrap();
        Slice {
            profile: (*name).to_owned(),
            uuid: Some(format!("MIG-{index}-{start}-{}", profile.size)),
            memory: profile.memory,
            gpu_instance: None,
            compute_instance: None,
            placement: Some(Placement { start: *start, size: profile.size }),
            health: gq_model::CardHealth::Good,
        }
    };
    let slices = slices.iter().map(slice).collect();
    Card { mig: true, slices, grid: Some(grid), ..card(index, model, gib) }
}

/// A card that is shared in so many parts.
pub fn in_parts(parts: u8, card: Card) -> Card {
    Card { parts, ..card }
}

/// A card in MIG mode of which is only known which slices it has.
pub fn declared(index: u32, slices: u8) -> Card {
    let slice = Slice {
        profile: "1g.10gb".into(),
        uuid: None,
        memory: MiB(10_240),
        gpu_instance: None,
        compute_instance: None,
        placement: None,
        health: gq_model::CardHealth::Good,
    };
    Card { mig: true, slices: (0..slices).map(|_| slice.clone()).collect(), ..card(index, "Odd", 80) }
}

/// So many cpus and cards, some memory, a minute; by the default partition.
pub fn shape(cpus: u32, cards: u32) -> Shape {
    Shape {
        partition: "main".into(),
        demand: Demand {
            cpus,
            memory: Memory::Amount(MiB(64)),
            cards: CardAsk { count: cards, ..CardAsk::default() },
            exclusive: false,
        },
        time_limit: Some(Seconds(60)),
        time_min: None,
        features: Vec::new(),
        nodelist: Vec::new(),
        exclude: Vec::new(),
        licences: Vec::new(),
        reservation: None,
        slices_by_memory: false,
    }
}

pub fn slice_shape(profile: &str, count: u32) -> Shape {
    let plain = shape(1, 0);
    let cards = CardAsk { count, profile: Some(profile.into()), ..CardAsk::default() };
    Shape { demand: Demand { cards, ..plain.demand }, ..plain }
}

pub fn lasting(shape: Shape, seconds: u64) -> Shape {
    Shape { time_limit: Some(Seconds(seconds)), ..shape }
}

pub fn partition(name: &str, nodes: Option<&[&str]>, state: PartitionState) -> Partition {
    let nodes = nodes.map(|names| names.iter().map(|n| self::name(n)).collect());
    Partition {
        name: name.into(),
        nodes,
        max_time: None,
        default_time: None,
        state,
        priority: 0,
        depth: None,
        recut: false,
        slices_by_memory: true,
        cards_by_memory: true,
        shares: false,
        access: Access::default(),
        qos: None,
        allow_qos: None,
        tier: 1,
        preempt: Preempt::Off,
        grace: Seconds(0),
        idle: None,
        limits: Limits::default(),
    }
}

pub fn payer(uid: u32, partition: &str) -> Payer {
    Payer { uid: Uid(uid), partition: partition.into(), account: None, qos: None }
}

/// A job to be submitted.
#[derive(Clone, Debug)]
pub struct Wish {
    pub shape: Shape,
    pub payer: Payer,
    pub priority: i64,
    pub held: Option<HeldBy>,
    pub not_before: Option<Timestamp>,
    pub tasks: u32,
}

impl From<Shape> for Wish {
    fn from(shape: Shape) -> Self {
        let payer = payer(1000, &shape.partition);
        Self { shape, payer, priority: 0, held: None, not_before: None, tasks: 1 }
    }
}

impl Lab {
    pub fn new() -> Self {
        let policy = Policy {
            budgets: Vec::new(),
            prices: Vec::new(),
            currency: None,
            calendar: gq_model::Calendar::default(),
            cluster: "lab".into(),
            partitions: vec![partition("main", None, PartitionState::Up)],
            declared: BTreeMap::default(),
            qos: Vec::new(),
            accounts: Vec::new(),
            licences: BTreeMap::new(),
            weights: Weights::default(),
            half_life: Seconds(604_800),
            cpu_charge: 10,
            preempt_exempt: Seconds(0),
            slice_rule: SliceRule::LeastLoss,
            depth: Depth::First(1),
            default_mem_per_cpu: None,
            kill_wait: Seconds(30),
            over_limit: Seconds(0),
            requeue: false,
            lease: Seconds(600),
            kill_on_invalid_dep: false,
            max_array_size: 1000,
            max_job_count: 100_000,
            suspect_after: Seconds(30),
            lost_after: Seconds(120),
            serves: Serves::Everyone,
            admins: BTreeSet::new(),
            operators: BTreeSet::new(),
            private: gq_cluster::Private::default(),
            allow_test_run: false,
            containers: false,
        };
        let now = Timestamp::from_secs(1_000_000);
        Self { cluster: Cluster::default(), policy, planner: Planner::default(), now, slow: false }
    }

    pub fn apply(&mut self, event: Event) {
        self.cluster.apply(&event).unwrap();
        self.cluster.check().unwrap();
    }

    pub fn node(&mut self, node: &str, cpus: u32, memory: u64, cards: Vec<Card>) {
        self.featured(node, cpus, memory, cards, &[]);
    }

    pub fn featured(&mut self, node: &str, cpus: u32, memory: u64, cards: Vec<Card>, features: &[&str]) {
        self.apply(Event::NodeFound {
            node: name(node),
            boot: Some(BootId([1; 16])),
            id: None,
            cpus,
            memory: MiB(memory),
            features: features.iter().map(|f| (*f).to_owned()).collect(),
            cards,
        });
        self.see(node, Link::Up);
    }

    pub fn see(&mut self, node: &str, link: Link) {
        self.apply(Event::NodeSeen { node: name(node), link });
    }

    pub fn submit(&mut self, wish: impl Into<Wish>) -> JobId {
        let wish = wish.into();
        let id = JobId(self.cluster.last_job().0 + 1);
        let queue = self.cluster.queue();
        let payer = queue.shared_payer(&wish.shape, &wish.payer).unwrap_or_else(|| Arc::new(wish.payer));
        let shape = queue.shared(&wish.shape).unwrap_or_else(|| Arc::new(wish.shape));
        self.apply(Event::Submitted(Box::new(NewJob {
            id,
            uid: payer.uid,
            user: "ann".into(),
            token: Token([0; 16]),
            spec: serde_json::from_str(r#"{"name":"sim","work_dir":"/","umask":18}"#).unwrap(),
            job_file: format!("jobs/00/{id}.job"),
            sha256: "00".into(),
            at: self.now,
            shape,
            payer,
            priority: wish.priority,
            held: wish.held,
            not_before: wish.not_before,
            array: wish.tasks > 1,
            at_once: None,
            waits: None,
            main: None,
            tasks: IndexSet::range(0, wish.tasks - 1),
        })));
        id
    }

    /// What a planner that remembers nothing would do.
    pub fn fresh(&self) -> Plan {
        Planner::default().plan(&self.cluster, &self.policy, self.now)
    }

    /// What the next pass would say. A planner takes it that what it says is done: this one forgets that it was asked.
    pub fn plan(&self) -> Plan {
        self.planner.clone().plan(&self.cluster, &self.policy, self.now)
    }

    /// Plans and does what the plan says until it has nothing to add at this moment. `check` sees every plan before it is done.
    pub fn pass(
        &mut self,
        mut check: impl FnMut(&Self, &Plan) -> Result<(), TestCaseError>,
    ) -> Result<Plan, TestCaseError> {
        let (mut starts, mut preempt) = (Vec::new(), Vec::new());
        // Fewer than those after which a planner gives up.
        for _ in 0..12 {
            let mut plan = self.plan();
            check(self, &plan)?;
            drop(self.planner.plan(&self.cluster, &self.policy, self.now));
            plan.starts.iter().cloned().for_each(|start| self.give(start));
            for one in &plan.preempt {
                let due = self.now.after(one.grace);
                let why = Stopping::Preempt { again: one.again, due, ordered: false };
                self.apply(Event::Stopped { key: one.key, why, by: None });
            }
            starts.append(&mut plan.starts);
            preempt.append(&mut plan.preempt);
            if plan.outlook.look_again.is_none_or(|at| at > self.now) {
                return Ok(Plan { starts, preempt, outlook: plan.outlook });
            }
        }
        Err(TestCaseError::fail("the plan does not come to rest"))
    }

    /// Starts what the plan says, at once, and returns what it said.
    pub fn start(&mut self) -> Plan {
        self.pass(|_, _| Ok(())).unwrap()
    }

    pub fn give(&mut self, start: Start) {
        let job = self.cluster.job(start.job).unwrap();
        let key = RunKey { job: start.job, task: start.task, run: job.next_run(start.task) };
        let Start { node, cpus, memory, cards, exclusive, rate, promised, .. } = start;
        let (boot, at) = (BootId([1; 16]), self.now);
        self.apply(Event::Allocated {
            key,
            node,
            boot,
            node_id: None,
            lease: None,
            cpus,
            memory,
            cards,
            exclusive,
            rate,
            price: None,
            promised,
            own_limit: start.limit,
            at,
        });
        if !self.slow {
            self.apply(Event::Started { key, at, counted: at });
        }
    }

    pub fn end(&mut self, key: RunKey) {
        let run = &self.cluster.job(key.job).unwrap().runs[&key.task];
        let again = match run.stopping {
            Some(Stopping::Requeue | Stopping::RequeueHold(_)) => true,
            Some(Stopping::Preempt { again, .. } | Stopping::Idle { again }) => again,
            Some(Stopping::Cancel) | None => false,
        };
        let next = if again {
            Next::Again { not_before: None, site_fault: false, retry: false, held: None }
        } else {
            Next::Over
        };
        let outcome = Outcome::without_exit(End::Completed, Reason::None, "");
        self.apply(Event::RunEnded { key, outcome, started: None, at: self.now, next });
    }

    pub fn end_job(&mut self, job: JobId) {
        let key = self.cluster.job(job).unwrap().run_key(TaskIndex(0)).unwrap();
        self.end(key);
    }

    /// Runs that live, each with the time at which its limit passes, the first in front.
    pub fn due(&self) -> Vec<(Timestamp, RunKey)> {
        let ends = self.cluster.nodes().flat_map(|node| node.ends());
        let mut due: Vec<(Timestamp, RunKey)> = ends
            .map(|((until, job, task), _)| {
                (*until, self.cluster.job(*job).and_then(|j| j.run_key(*task)).unwrap())
            })
            .collect();
        due.sort_unstable();
        due
    }

    /// The next moment at which something happens by itself: a run reaches its limit, a job's time comes, the plan wants to look again.
    pub fn next(&self, plan: &Plan) -> Option<Timestamp> {
        let end = self.due().first().map(|(at, _)| *at);
        let ripe = self.cluster.queue().next_ripe().map(|(at, _)| at);
        end.into_iter().chain(ripe).chain(plan.outlook.look_again).min().map(|at| at.max(self.now))
    }

    /// Goes on to this moment: jobs whose time has come may start, runs that reach their limit end.
    pub fn go_to(&mut self, at: Timestamp) {
        self.now = self.now.max(at);
        let ripe: Vec<JobId> = self.cluster.queue().ripe(self.now).collect();
        ripe.into_iter().for_each(|job| self.apply(Event::Ripened { job, at: self.now }));
        let over = self.cluster.bookings().filter(|booking| booking.end <= self.now);
        let over: Vec<String> = over.map(|booking| booking.name.clone()).collect();
        over.into_iter().for_each(|name| self.apply(Event::Unbooked { name }));
        for (until, key) in self.due() {
            if until <= self.now {
                self.end(key);
            }
        }
    }

    /// Goes on to the next moment at which a run reaches its limit, and ends all that do; false when nothing runs.
    pub fn let_one_end(&mut self) -> bool {
        let Some((next, _)) = self.due().first().copied() else { return false };
        self.go_to(next);
        true
    }

    pub fn reason(&self, job: JobId) -> Reason {
        let outlook = self.plan().outlook;
        outlook.of(self.cluster.job(job).unwrap(), &self.policy).0
    }

    pub fn is_running(&self, job: JobId) -> bool {
        self.cluster.job(job).is_some_and(|job| !job.runs.is_empty())
    }

    pub fn node_of(&self, job: JobId) -> Option<String> {
        self.cluster.job(job)?.runs.values().next().map(|run| run.node.to_string())
    }

    pub fn cards_of(&self, job: JobId) -> Vec<u32> {
        let job = self.cluster.job(job).unwrap();
        job.runs.values().flat_map(|run| run.cards.iter().map(|card| card.index)).collect()
    }
}
