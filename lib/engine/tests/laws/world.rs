//! The world: a controller made of the real turn, nodes, users; and what holds after every turn.

use crate::{
    keeper::{Disk, Post},
    node::FakeNode,
};
use gq_cluster::{Cluster, Depth, Event, Partition, PartitionState, Place, Policy, Serves, Shape};
use gq_engine::{
    Actor, Answer, ClientId, Context, Input, Keeper, NodeReport, Selection, Submission, Turn, TurnError, Verb,
};
use gq_model::{
    Epoch, Fault, JobId, JobRef, JobSpec, NodeName, RunKey, RunNumber, Seconds, Seq, TaskIndex, Timestamp,
    Token, Uid,
};
use std::collections::{BTreeMap, BTreeSet};

pub const ANN: Uid = Uid(1001);
pub const ROOT: Uid = Uid(0);

pub struct World {
    pub cluster: Cluster,
    pub policy: Policy,
    pub disk: Disk,
    pub post: Post,
    pub nodes: Vec<FakeNode>,
    pub now: Timestamp,
    pub inputs: Vec<Input>,
    /// Every report that was ever sent, for those that come late.
    pub sent: Vec<(NodeName, Epoch, Seq, NodeReport)>,
    /// Ids that were told to somebody, each with its token and user.
    pub told: BTreeMap<JobId, (Token, Uid)>,
    clients: u64,
}

pub fn actor(uid: Uid) -> Actor {
    Actor { uid, admin: uid == ROOT }
}

pub fn spec(text: &str) -> JobSpec {
    let comma = if text.is_empty() { "" } else { "," };
    serde_json::from_str(&format!(r#"{{"name":"sim","work_dir":"/home","umask":18{comma}{text}}}"#)).unwrap()
}

pub fn named(job: JobId) -> Selection {
    Selection { jobs: vec![JobRef { job, tasks: None }], ..Selection::default() }
}

impl World {
    pub fn new() -> Self {
        let policy = Policy {
            cluster: "lab".into(),
            partitions: vec![Partition {
                name: "main".into(),
                nodes: None,
                max_time: None,
                default_time: Some(Seconds(600)),
                state: PartitionState::Up,
                priority: 0,
            }],
            declared: BTreeMap::new(),
            depth: Depth::First(1),
            default_mem_per_cpu: None,
            kill_wait: Seconds(30),
            max_array_size: 1000,
            max_job_count: 40,
            lost_after: Seconds(120),
            serves: Serves::Everyone,
            admins: BTreeSet::new(),
            allow_test_run: false,
        };
        Self {
            cluster: Cluster::default(),
            policy,
            disk: Disk::default(),
            post: Post::default(),
            nodes: vec![FakeNode::new("ws0"), FakeNode::new("ws1")],
            now: Timestamp::from_secs(1_000_000),
            inputs: Vec::new(),
            sent: Vec::new(),
            told: BTreeMap::new(),
            clients: 0,
        }
    }

    /// A world whose nodes have joined.
    pub fn joined() -> Self {
        let mut world = Self::new();
        for at in 0..world.nodes.len() {
            world.nodes[at].join();
            world.send_reports(at, usize::MAX);
        }
        world.turn();
        world
    }

    fn client(&mut self) -> ClientId {
        self.clients += 1;
        ClientId(self.clients)
    }

    /// A client stores a job file and names its token.
    pub fn submit(&mut self, token: u8, uid: Uid, spec: JobSpec) -> ClientId {
        let client = self.client();
        let drop_name = format!(".s.{token}.{uid}");
        let known = self.disk.rows.tokens.get(&Token([token; 16])).copied();
        self.post.drop_box.insert(drop_name.clone());
        let submission = Box::new(Submission {
            by: actor(uid),
            user: format!("user{uid}"),
            token: Token([token; 16]),
            drop_name,
            spec: spec.into(),
            sha256: "00".into(),
        });
        self.inputs.push(Input::Submit { client: Some(client), submission, known });
        client
    }

    pub fn command(&mut self, uid: Uid, verb: Verb, select: Selection) -> ClientId {
        let client = self.client();
        let named = select.jobs.iter().map(|named| named.job);
        let ended = named.filter(|id| self.post.over.contains_key(id)).collect();
        self.inputs.push(Input::Command { client, by: actor(uid), verb, select, ended });
        client
    }

    pub fn drain(&mut self, at: usize, reason: Option<&str>) -> ClientId {
        let client = self.client();
        let nodes = vec![self.nodes[at].name.clone()];
        let drain = reason.map(str::to_string);
        self.inputs.push(Input::Nodes { client, by: actor(ROOT), nodes, drain });
        client
    }

    /// A node sends the first of its reports that were not acknowledged.
    pub fn send_reports(&mut self, at: usize, most: usize) {
        let node = &self.nodes[at];
        if !node.linked {
            return;
        }
        let reports = node.outbox.iter().take(most);
        let letters: Vec<_> =
            reports.map(|(seq, report)| (node.name.clone(), node.epoch, *seq, report.clone())).collect();
        self.sent.extend(letters.iter().cloned());
        letters.into_iter().for_each(|letter| self.deliver(letter));
    }

    pub fn deliver(&mut self, (node, epoch, seq, report): (NodeName, Epoch, Seq, NodeReport)) {
        self.inputs.push(Input::Report { node, epoch, seq, body: Box::new(report) });
    }

    /// A node takes the next orders kept for it; whoever begins to live is alone with its task and its cards.
    pub fn deliver_orders(&mut self, at: usize, most: usize, fault: Option<Fault>) {
        if !self.nodes[at].linked || self.nodes[at].epoch == Epoch(0) {
            return;
        }
        let name = self.nodes[at].name.clone();
        let taken = self.nodes[at].taken;
        let kept = self.disk.rows.outbox.entry(name).or_default();
        let orders: Vec<_> =
            kept.range(Seq(taken.0 + 1)..).map(|(s, o)| (*s, o.clone())).take(most).collect();
        for (seq, order) in orders {
            if let Some(key) = self.nodes[at].take(seq, &order, self.now, fault) {
                self.assert_one_life(at, key);
            }
        }
    }

    /// A node says which orders it took: they are forgotten here.
    pub fn acknowledge_orders(&mut self, at: usize) {
        let node = &self.nodes[at];
        let kept = self.disk.rows.outbox.entry(node.name.clone()).or_default();
        // The highest is kept, so that the row of numbers can be checked.
        let last = kept.last_key_value().map(|(seq, _)| *seq);
        kept.retain(|seq, _| *seq > node.taken || Some(*seq) == last);
    }

    fn assert_one_life(&self, at: usize, key: RunKey) {
        let mine = &self.nodes[at].live[&key].assignment;
        let others = |node: &FakeNode| -> Vec<RunKey> {
            node.live.keys().filter(|k| (k.job, k.task) == (key.job, key.task)).copied().collect()
        };
        let lives: Vec<RunKey> = self.nodes.iter().flat_map(others).collect();
        assert_eq!(lives, [key], "one task lives twice");
        let (mut cpus, mut memory) = (0, 0);
        for (other, live) in &self.nodes[at].live {
            let shared = |index| live.assignment.cards.iter().any(|card| card.index == index);
            let twice = *other != key && mine.cards.iter().any(|card| shared(card.index));
            assert!(!twice, "{key} and {other} have one card");
            cpus += live.assignment.cpus;
            memory += live.assignment.memory.0;
        }
        assert!(cpus <= 4 && memory <= 4096, "more lives on a node than it can hold");
    }

    /// One turn over what has come in; must be kept.
    pub fn turn(&mut self) {
        assert!(self.run(false, &[]), "the turn was not kept");
    }

    /// One turn; says whether it was kept.
    pub fn run(&mut self, disk_full: bool, refusing: &[bool]) -> bool {
        let inputs = std::mem::take(&mut self.inputs);
        let before = (self.post.drop_box.clone(), self.post.jobs.clone());
        self.post.replies.clear();
        self.post.published = false;
        self.post.orders.clear();
        self.post.refusing = refusing.to_vec();
        self.disk.full = disk_full;
        let context = Context { now: self.now, shard: 7 };
        let events = self.disk.rows.events.len();
        let done =
            Turn::run(&mut self.cluster, &self.policy, context, &inputs, &mut self.disk, &mut self.post);
        self.disk.full = false;
        match &done {
            Ok(()) => {}
            Err(TurnError::NotKept(_)) => {
                assert_eq!(before, (self.post.drop_box.clone(), self.post.jobs.clone()), "files moved");
                assert_eq!(events, self.disk.rows.events.len());
                assert!(!self.post.published && self.post.orders.is_empty());
                let refused = |answer: &Answer| matches!(answer, Answer::Refused(_));
                assert!(self.post.replies.values().all(refused), "told what is not on disk");
            }
            Err(TurnError::Broken(why)) => panic!("the turn broke: {why}"),
        }
        self.check_answers(&inputs);
        self.check_state();
        for node in &mut self.nodes {
            if let Some(known) = self.cluster.node(&node.name).filter(|_| done.is_ok()) {
                node.acknowledged(known.epoch, known.last_report);
            }
        }
        done.is_ok()
    }

    /// Everybody is answered once, and whoever has an id has a job that is his.
    fn check_answers(&mut self, inputs: &[Input]) {
        let mut asked = 0;
        for input in inputs {
            let client = match input {
                Input::Submit { client: Some(client), .. }
                | Input::Command { client, .. }
                | Input::Nodes { client, .. } => client,
                _ => continue,
            };
            asked += 1;
            let answer = self.post.replies.get(client).unwrap_or_else(|| panic!("{client:?} waits for ever"));
            if let (Input::Submit { submission, .. }, Answer::Submitted(id)) = (input, answer) {
                let owner = (submission.token, submission.by.uid);
                let token = self.disk.rows.tokens.get(&submission.token);
                assert_eq!(token, Some(&(*id, submission.by.uid)), "job {id} is not on disk as told");
                let file = format!("jobs/07/{id}.job");
                assert!(self.post.jobs.contains_key(&file), "job {id} was told and has no job file");
                assert_eq!(*self.told.entry(*id).or_insert(owner), owner, "job {id} is two");
            }
        }
        assert_eq!(asked, self.post.replies.len());
    }

    /// The state is sound, is what is on disk, is what happened; jobs live or have ended once.
    fn check_state(&mut self) {
        self.cluster.check().unwrap();
        assert_same(&self.cluster, &self.disk.load().unwrap());
        let (mut folded, mut runs) = (Cluster::default(), BTreeMap::<(JobId, TaskIndex), RunNumber>::new());
        for event in &self.disk.rows.events {
            folded.apply(event).unwrap();
            if let Event::Allocated { key, .. } = event {
                let last = runs.insert((key.job, key.task), key.run);
                assert_eq!(last.map_or(0, |run| run.0) + 1, key.run.0, "{key} is not the next run");
            }
        }
        assert_same(&self.cluster, &folded);
        for (job, _) in self.disk.rows.tokens.values() {
            let ended = self.disk.rows.ended.get(job).copied().unwrap_or(0);
            let lives = self.cluster.job(*job).is_some();
            assert_eq!(lives, ended == 0, "job {job} lives, or has ended once, and not both");
            assert_eq!(lives, !self.post.over.contains_key(job), "the end of job {job} was not told");
            assert!(ended <= 1);
        }
        assert_eq!(self.post.jobs.len(), self.disk.rows.tokens.len(), "a job file without a job");
    }

    pub fn live_keys(&self) -> Vec<(usize, RunKey)> {
        let of = |(at, node): (usize, &FakeNode)| -> Vec<(usize, RunKey)> {
            node.live.keys().map(|key| (at, *key)).collect()
        };
        self.nodes.iter().enumerate().flat_map(of).collect()
    }

    /// Everybody is in sight and does what is to be done, for so long as anything is to be done.
    pub fn settle(&mut self) {
        for _ in 0..200 {
            for at in 0..self.nodes.len() {
                if !self.nodes[at].linked {
                    self.nodes[at].linked = true;
                    let (node, epoch) = (self.nodes[at].name.clone(), self.nodes[at].epoch);
                    self.inputs.push(Input::NodeHeard { node, epoch });
                }
                if self.nodes[at].epoch == Epoch(0) {
                    self.nodes[at].join();
                }
                self.deliver_orders(at, usize::MAX, None);
            }
            for (at, key) in self.live_keys() {
                let now = self.now;
                self.nodes[at].go_on(key, 0, now);
            }
            for at in 0..self.nodes.len() {
                self.send_reports(at, usize::MAX);
            }
            self.now = self.now.after(Seconds(100));
            self.turn();
            if self.cluster.job_count() == 0 {
                return;
            }
        }
        panic!("still here: {:?}", self.cluster.jobs().collect::<Vec<_>>());
    }
}

type Queued = (Vec<(Shape, Vec<Place>)>, usize, Option<(Timestamp, JobId)>);

fn queued(cluster: &Cluster) -> Queued {
    let queue = cluster.queue();
    let shapes = queue.shapes().map(|(shape, places)| ((**shape).clone(), places.iter().copied().collect()));
    (shapes.collect(), queue.len(), queue.next_ripe())
}

/// The same jobs, nodes, holdings and queue.
pub fn assert_same(a: &Cluster, b: &Cluster) {
    assert!(
        a.jobs().eq(b.jobs()),
        "jobs differ: {:?} {:?}",
        a.jobs().collect::<Vec<_>>(),
        b.jobs().collect::<Vec<_>>()
    );
    assert!(
        a.nodes().eq(b.nodes()),
        "nodes differ: {:?} {:?}",
        a.nodes().collect::<Vec<_>>(),
        b.nodes().collect::<Vec<_>>()
    );
    assert_eq!(queued(a), queued(b));
}
