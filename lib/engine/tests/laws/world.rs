//! The world: a controller made of the real turn, nodes, users.

use crate::{
    keeper::{Disk, Post},
    node::{FakeNode, Seen, Trouble, card},
    site::policy,
};
use gq_cluster::{Booked, Booking, Cluster, Event, Fate, Link, Node, Policy, Role};
use gq_engine::{
    Actor, Answer, ClientId, Context, Input, NodeReport, NodeVerb, Selection, Submission, Turn, TurnError,
    Verb,
};
use gq_model::{Epoch, JobId, JobRef, JobSpec, NodeName, RunKey, Seconds, Seq, Timestamp, Token, Uid};
use gq_sched::Planner;
use std::collections::{BTreeMap, BTreeSet};

pub const ANN: Uid = Uid(1001);
pub const BOB: Uid = Uid(1002);
/// Coordinates `physics`, above `optics`, which is Ann's account.
pub const CAROL: Uid = Uid(1003);
/// An operator.
pub const OLIVE: Uid = Uid(1004);
pub const ROOT: Uid = Uid(0);

pub struct World {
    pub cluster: Cluster,
    pub policy: Policy,
    pub planner: Planner,
    pub disk: Disk,
    pub post: Post,
    pub nodes: Vec<FakeNode>,
    pub now: Timestamp,
    pub inputs: Vec<Input>,
    /// Every report that was ever sent, for those that come late.
    pub sent: Vec<(NodeName, Epoch, Seq, NodeReport)>,
    /// Arrays whose throttle was changed while more tasks ran.
    pub throttled: BTreeSet<JobId>,
    /// Ids that were told to somebody, each with its token and user.
    pub told: BTreeMap<JobId, (Token, Uid)>,
    /// When the controller last saw a sign of life of each node.
    pub seen: Vec<Timestamp>,
    /// Signs of life of each node on their way to the controller, and its words that it saw them on their way back.
    pub beats: Vec<Vec<Timestamp>>,
    pub words: Vec<Vec<Seen>>,
    /// Jobs of nodes that an admin vouched to be dead, and were not.
    pub lied: BTreeSet<JobId>,
    clients: u64,
}

pub fn actor(uid: Uid) -> Actor {
    let role = match uid {
        ROOT => Role::Admin,
        OLIVE => Role::Operator,
        _ => Role::User,
    };
    Actor { uid, role }
}

pub fn spec(text: &str) -> JobSpec {
    let comma = if text.is_empty() { "" } else { "," };
    serde_json::from_str(&format!(r#"{{"name":"sim","work_dir":"/home","umask":18{comma}{text}}}"#)).unwrap()
}

pub fn named(job: JobId) -> Selection {
    Selection { jobs: vec![JobRef { job, tasks: None }], ..Selection::default() }
}

/// How a client was refused, if he was.
pub fn refusal(world: &World, client: ClientId) -> Option<gq_engine::Refusal> {
    match &world.post.replies[&client] {
        Answer::Refused(refusal) => Some(refusal.clone()),
        _ => None,
    }
}

/// Orders reach nodes, the next thing happens to every run, reports come back.
pub fn go_on(world: &mut World) {
    for at in 0..world.nodes.len() {
        world.deliver_orders(at, usize::MAX, None);
    }
    for (at, key) in world.live_keys() {
        let now = world.now;
        world.nodes[at].go_on(key, 0, now);
    }
    report(world);
}

/// Reports come back.
pub fn report(world: &mut World) {
    for at in 0..world.nodes.len() {
        world.send_reports(at, usize::MAX);
    }
    world.turn();
}

/// Whether runs of a node may live of which nobody can tell.
fn is_blind(cluster: &Cluster, node: &Node) -> bool {
    let run = |(job, task)| cluster.job(job)?.runs.get(&task);
    node.runs().filter_map(run).any(|run| !node.vouches_for(run))
}

impl World {
    pub fn new() -> Self {
        let policy = policy();
        Self {
            cluster: Cluster::default(),
            policy,
            planner: Planner::default(),
            disk: Disk::default(),
            post: Post::default(),
            nodes: vec![
                FakeNode::new("ws0", vec![card(0, false), card(1, false)]),
                FakeNode::new("ws1", vec![card(0, true), card(1, false)]),
            ],
            now: Timestamp::from_secs(1_000_000),
            inputs: Vec::new(),
            sent: Vec::new(),
            throttled: BTreeSet::new(),
            told: BTreeMap::new(),
            seen: vec![Timestamp::from_secs(1_000_000); 2],
            beats: vec![Vec::new(); 2],
            words: vec![Vec::new(); 2],
            lied: BTreeSet::new(),
            clients: 0,
        }
    }

    /// A world whose nodes have joined.
    pub fn joined() -> Self {
        Self::new().join()
    }

    /// The same, and the second card of the second node is shared in so many parts.
    pub fn sharing(parts: u8) -> Self {
        let mut world = Self::new();
        world.nodes[1].cards[1].parts = parts;
        world.join()
    }

    fn join(mut self) -> Self {
        let world = &mut self;
        for at in 0..world.nodes.len() {
            world.nodes[at].join();
            world.send_reports(at, usize::MAX);
        }
        world.turn();
        self
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
        let past = self.past(spec.dependency.as_ref());
        let submission = Box::new(Submission {
            by: actor(uid),
            user: format!("user{uid}"),
            token: Token([token; 16]),
            drop_name,
            spec: spec.into(),
            sha256: "00".into(),
        });
        self.inputs.push(Input::Submit { client: Some(client), submission, known, past });
        client
    }

    pub fn command(&mut self, uid: Uid, verb: Verb, select: Selection) -> ClientId {
        let client = self.client();
        let named = select.jobs.iter().map(|named| named.job);
        let ended = named.filter(|id| self.post.over.contains_key(id)).map(|id| self.disk.gone(id)).collect();
        if let Verb::Update(changes) = &verb
            && changes.iter().any(|change| matches!(change, gq_model::Change::AtOnce(_)))
        {
            self.throttled.extend(self.cluster.jobs().map(|job| job.id));
        }
        let past = match &verb {
            Verb::Update(changes) => changes
                .iter()
                .filter_map(|change| match change {
                    gq_model::Change::Dependency(asked) => Some(self.past(asked.as_ref())),
                    _ => None,
                })
                .flatten()
                .collect(),
            _ => Vec::new(),
        };
        self.inputs.push(Input::Command { client, by: actor(uid), verb, select, ended, past });
        client
    }

    /// What became of the jobs that a dependency names, as the disk tells.
    fn past(&self, asked: Option<&gq_model::Dependency>) -> Vec<gq_engine::Past> {
        let jobs: BTreeSet<JobId> = asked.into_iter().flat_map(|asked| asked.jobs()).collect();
        jobs.into_iter().filter(|job| self.told.contains_key(job)).map(|job| self.disk.past(job)).collect()
    }

    pub fn drain(&mut self, at: usize, reason: Option<&str>) -> ClientId {
        let verb = reason.map_or(NodeVerb::Resume, |reason| NodeVerb::Drain(reason.into()));
        self.steer(ROOT, at, verb)
    }

    /// Somebody wants something done to a node.
    pub fn steer(&mut self, uid: Uid, at: usize, verb: NodeVerb) -> ClientId {
        let client = self.client();
        let nodes = vec![self.nodes[at].name.clone()];
        self.inputs.push(Input::Nodes { client, by: actor(uid), verb, nodes });
        client
    }

    /// Time passes; leases end in it.
    pub fn wait(&mut self, span: Seconds) {
        self.now = self.now.after(span);
        self.nodes.iter_mut().for_each(|node| node.expire(self.now));
    }

    /// A node gives a sign of life.
    pub fn beat(&mut self, at: usize) {
        if self.nodes[at].linked {
            self.beats[at].push(self.now);
        }
    }

    /// The controller sees the signs of life of a node, and says so.
    pub fn see(&mut self, at: usize) {
        let node = &self.nodes[at];
        let known = self.cluster.node(&node.name).filter(|known| known.epoch == node.epoch);
        if let (true, Some(known), Some(beat)) = (node.linked, known, self.beats[at].pop()) {
            self.beats[at].clear();
            self.seen[at] = self.now;
            self.words[at].push(Seen { beat, up_to: known.last_order });
        }
    }

    /// Such a word reaches its node.
    pub fn tell(&mut self, at: usize) {
        if let (true, false) = (self.nodes[at].linked, self.words[at].is_empty()) {
            let word = self.words[at].remove(0);
            for key in self.nodes[at].hear(word, self.now) {
                self.assert_one_life(at, key);
            }
        }
    }

    /// What is on its way to and from a node is lost: it begins another life, or its controller does.
    pub fn lose_words(&mut self, at: usize) {
        self.beats[at].clear();
        self.words[at].clear();
    }

    /// The controller has seen nothing of a node for as long as is said, and acts on it at once.
    pub fn lease_over(&mut self, at: usize) {
        if !self.nodes[at].linked {
            let node = self.nodes[at].name.clone();
            let silence = Seconds(self.now.micros_since(self.seen[at]) / 1_000_000);
            self.inputs.push(Input::LeaseOver { node, silence });
            self.run(false, &[]);
        }
    }

    /// An admin vouches that a node is dead: it is, or he lies.
    pub fn fence(&mut self, at: usize, is_dead: bool) {
        let now = self.now;
        if is_dead {
            // Switched off; what it says when it boots again is another life's.
            self.nodes[at].reboot(now, false);
            self.nodes[at].join();
            self.nodes[at].linked = false;
            self.lose_words(at);
        } else {
            let node = &self.nodes[at];
            self.lied.extend(node.live.keys().chain(node.ghosts.keys()).map(|key| key.job));
            let held = self.cluster.node(&node.name).into_iter().flat_map(|node| node.runs());
            self.lied.extend(held.map(|(job, _)| job));
        }
        self.steer(ROOT, at, NodeVerb::Fence);
        self.run(false, &[]);
    }

    /// An admin keeps a node, or one card of it, from a time on.
    pub fn book(&mut self, booking: Booking, ignore_jobs: bool) -> ClientId {
        let client = self.client();
        let booking = Box::new(booking);
        self.inputs.push(Input::Book { client, by: actor(ROOT), booking, replace: true, ignore_jobs });
        client
    }

    pub fn unbook(&mut self, name: &str) -> ClientId {
        let client = self.client();
        self.inputs.push(Input::Unbook { client, by: actor(ROOT), name: name.into() });
        client
    }

    /// A booking of a node, that begins and ends so many seconds from now.
    pub fn booking(&self, name: &str, at: usize, cards: Option<Vec<u32>>, span: (u64, u64)) -> Booking {
        Booking {
            name: name.into(),
            start: self.now.after(Seconds(span.0)),
            end: self.now.after(Seconds(span.1)),
            takes: vec![Booked { node: self.nodes[at].name.clone(), cards }],
            users: vec![ANN],
            accounts: Vec::new(),
            maintenance: false,
        }
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
    pub fn deliver_orders(&mut self, at: usize, most: usize, trouble: Option<Trouble>) {
        if !self.nodes[at].linked || self.nodes[at].epoch == Epoch(0) {
            return;
        }
        let name = self.nodes[at].name.clone();
        let taken = self.nodes[at].taken;
        let kept = self.disk.rows.outbox.entry(name).or_default();
        let orders: Vec<_> =
            kept.range(Seq(taken.0 + 1)..).map(|(s, o)| (*s, o.clone())).take(most).collect();
        for (seq, order) in orders {
            for key in self.nodes[at].take(seq, &order, self.now, trouble) {
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
        let others = |node: &FakeNode| -> Vec<RunKey> {
            let all = node.live.keys().chain(node.ghosts.keys());
            all.filter(|k| (k.job, k.task) == (key.job, key.task)).copied().collect()
        };
        let lives: Vec<RunKey> = self.nodes.iter().flat_map(others).collect();
        assert!(lives == [key] || self.lied.contains(&key.job), "one task lives twice: {lives:?}");
        let (mut cpus, mut memory, mut units) = (0, 0, 0);
        let cards = &self.nodes[at].cards;
        let layout = gq_cluster::Layout::of(cards);
        // Where an admin lied of a node that has lost its log, nobody can tell.
        let is_known = |key: &RunKey| !self.lied.contains(&key.job);
        let ghosts = self.nodes[at].ghosts.iter().filter(|(key, _)| is_known(key));
        for (other, live) in self.nodes[at].live.iter().chain(ghosts) {
            for held in &live.assignment.cards {
                let its = layout.units(cards, std::slice::from_ref(held));
                assert!(
                    its != 0 && its & units == 0,
                    "{other} has {held:?}, which another has or nobody can"
                );
                units |= its;
            }
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
        let done = Turn::run(
            &mut self.cluster,
            &self.policy,
            &mut self.planner,
            context,
            &inputs,
            &mut self.disk,
            &mut self.post,
        );
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
        self.check_limits();
        let new: Vec<Event> = self.disk.rows.events.get(events..).unwrap_or_default().to_vec();
        self.check_starts(&new);
        if done.is_ok() {
            self.check_due();
        }
        for node in &mut self.nodes {
            if let Some(known) = self.cluster.node(&node.name).filter(|_| done.is_ok()) {
                node.acknowledged(known.epoch, known.last_report);
            }
        }
        done.is_ok()
    }

    pub fn live_keys(&self) -> Vec<(usize, RunKey)> {
        let of = |(at, node): (usize, &FakeNode)| -> Vec<(usize, RunKey)> {
            node.live.keys().map(|key| (at, *key)).collect()
        };
        self.nodes.iter().enumerate().flat_map(of).collect()
    }

    /// Everybody is in sight and does what is to be done, for so long as anything is to be done; an admin looks after nodes that had
    /// trouble.
    pub fn settle(&mut self) {
        for _ in 0..200 {
            for at in 0..self.nodes.len() {
                if self.cluster.node(&self.nodes[at].name).is_some_and(|node| node.drained.is_some()) {
                    self.drain(at, None);
                }
                // What a turn that was not kept had to say of a link is said again, as the daemon does.
                let known = self.cluster.node(&self.nodes[at].name);
                let is_up = known.is_some_and(|node| node.link == Link::Up);
                // What nobody can tell of, an admin looks after.
                if known.is_some_and(|node| is_blind(&self.cluster, node)) && is_up {
                    self.nodes[at].ghosts.clear();
                    self.steer(ROOT, at, NodeVerb::Fence);
                }
                if !self.nodes[at].linked || !is_up {
                    self.nodes[at].linked = true;
                    let (node, epoch) = (self.nodes[at].name.clone(), self.nodes[at].epoch);
                    self.inputs.push(Input::NodeHeard { node, epoch });
                }
                if self.nodes[at].epoch == Epoch(0) {
                    self.nodes[at].join();
                }
                self.deliver_orders(at, usize::MAX, None);
                self.beat(at);
                self.see(at);
                self.tell(at);
            }
            // What a requeue held on its way is released.
            let is_held =
                |job: &&std::sync::Arc<gq_cluster::Job>| job.held.is_some() || !job.held_tasks.is_empty();
            let held: Vec<JobId> = self.cluster.jobs().filter(is_held).map(|job| job.id).collect();
            for job in held {
                self.command(ROOT, Verb::Release, named(job));
            }
            // What can no longer come is waited for no longer.
            let in_vain: Vec<JobId> = self
                .cluster
                .jobs()
                .filter(|job| {
                    job.waits.as_ref().is_some_and(|w| w.fate() == Fate::Never || !w.never().is_empty())
                })
                .map(|job| job.id)
                .collect();
            for job in in_vain {
                self.command(ROOT, Verb::Cancel, named(job));
            }
            for (at, key) in self.live_keys() {
                let now = self.now;
                self.nodes[at].go_on(key, 0, now);
            }
            for at in 0..self.nodes.len() {
                self.send_reports(at, usize::MAX);
            }
            self.wait(Seconds(100));
            self.turn();
            if self.cluster.job_count() == 0 {
                return;
            }
        }
        panic!("still here: {:?}", self.cluster.jobs().collect::<Vec<_>>());
    }
}
