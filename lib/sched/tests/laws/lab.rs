//! A lab: nodes and jobs, changed by events only, and a world that starts what the plan says and ends it when its time is over.

use gq_cluster::{
    Cluster, Demand, Depth, Event, HeldBy, Link, Memory, NewJob, Next, Partition, PartitionState, Policy,
    Serves, Shape,
};
use gq_model::{
    BootId, Card, CardAsk, End, IndexSet, JobId, MiB, NodeName, Outcome, Reason, RunKey, Seconds, TaskIndex,
    Timestamp, Token, Uid,
};
use gq_sched::{Plan, Start};
use std::{collections::BTreeSet, sync::Arc};

pub struct Lab {
    pub cluster: Cluster,
    pub policy: Policy,
    pub now: Timestamp,
    /// How much the nodes' clocks go ahead, in microseconds.
    pub skew: i64,
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
        features: Vec::new(),
        nodelist: Vec::new(),
        exclude: Vec::new(),
    }
}

pub fn lasting(shape: Shape, seconds: u64) -> Shape {
    Shape { time_limit: Some(Seconds(seconds)), ..shape }
}

pub fn partition(name: &str, nodes: Option<&[&str]>, state: PartitionState) -> Partition {
    let nodes = nodes.map(|names| names.iter().map(|n| self::name(n)).collect());
    Partition { name: name.into(), nodes, max_time: None, default_time: None, state, priority: 0 }
}

impl Lab {
    pub fn new() -> Self {
        let policy = Policy {
            cluster: "lab".into(),
            partitions: vec![partition("main", None, PartitionState::Up)],
            declared: Default::default(),
            depth: Depth::First(1),
            default_mem_per_cpu: None,
            kill_wait: Seconds(30),
            max_array_size: 1000,
            max_job_count: 100_000,
            lost_after: Seconds(120),
            serves: Serves::Everyone,
            admins: BTreeSet::new(),
            allow_test_run: false,
        };
        Self { cluster: Cluster::default(), policy, now: Timestamp::from_secs(1_000_000), skew: 0 }
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
            cpus,
            memory: MiB(memory),
            features: features.iter().map(|f| f.to_string()).collect(),
            cards,
        });
        self.see(node, Link::Up);
    }

    pub fn see(&mut self, node: &str, link: Link) {
        self.apply(Event::NodeSeen { node: name(node), link });
    }

    pub fn submit(&mut self, shape: Shape) -> JobId {
        self.submit_as(shape, 0, None, None, 1)
    }

    pub fn submit_as(
        &mut self,
        shape: Shape,
        priority: i64,
        held: Option<HeldBy>,
        not_before: Option<Timestamp>,
        tasks: u32,
    ) -> JobId {
        let id = JobId(self.cluster.last_job().0 + 1);
        self.apply(Event::Submitted(Box::new(NewJob {
            id,
            uid: Uid(1000),
            user: "ann".into(),
            token: Token([0; 16]),
            spec: serde_json::from_str(r#"{"name":"sim","work_dir":"/","umask":18}"#).unwrap(),
            job_file: format!("jobs/00/{id}.job"),
            sha256: "00".into(),
            at: self.now,
            shape: Arc::new(shape),
            priority,
            held,
            not_before,
            array: tasks > 1,
            tasks: IndexSet::range(0, tasks - 1),
        })));
        id
    }

    pub fn plan(&self) -> Plan {
        gq_sched::plan(&self.cluster, &self.policy, self.now)
    }

    /// Starts what the plan says, at once, and returns what it said.
    pub fn start(&mut self) -> Plan {
        let plan = self.plan();
        for start in plan.starts.clone() {
            self.give(start);
        }
        plan
    }

    fn give(&mut self, start: Start) {
        let job = self.cluster.job(start.job).unwrap();
        let key = RunKey { job: start.job, task: start.task, run: job.next_run(start.task) };
        let Start { node, cpus, memory, cards, exclusive, .. } = start;
        let (boot, at) = (BootId([1; 16]), self.now);
        self.apply(Event::Allocated { key, node, boot, cpus, memory, cards, exclusive, at });
        self.apply(Event::Started { key, at: Timestamp(at.0 + self.skew) });
    }

    pub fn end(&mut self, key: RunKey) {
        let outcome = Outcome::without_exit(End::Completed, Reason::None, "");
        self.apply(Event::RunEnded { key, outcome, started: None, at: self.now, next: Next::Over });
    }

    pub fn end_job(&mut self, job: JobId) {
        let key = self.cluster.job(job).unwrap().run_key(TaskIndex(0)).unwrap();
        self.end(key);
    }

    /// Runs that live, each with the time at which its limit passes.
    pub fn due(&self) -> Vec<(Timestamp, RunKey)> {
        let runs = self.cluster.jobs().flat_map(|job| {
            job.runs.iter().map(|(task, run)| {
                let limit = job.shape.time_limit.unwrap_or(Seconds(1_000));
                (run.started().unwrap_or(self.now).after(limit), job.run_key(*task).unwrap())
            })
        });
        runs.collect()
    }

    /// Goes on to the next moment at which a run reaches its limit, and ends all that do; false when nothing runs.
    pub fn let_one_end(&mut self) -> bool {
        let due = self.due();
        let Some(next) = due.iter().map(|(at, _)| *at).min() else { return false };
        self.now = self.now.max(next);
        for (at, key) in due {
            if at <= self.now {
                self.end(key);
            }
        }
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
