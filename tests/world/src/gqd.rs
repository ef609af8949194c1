//! A life of `gqd`: the real turn, store, post and welcome. What the hub does on its clock and the threads beside it comes here one thing
//! at a time.

use crate::{
    courier::{Going, Keeping, NotKept},
    dice::Dice,
    fuse::Fuse,
    spool::Spool,
};
use gq_cluster::{Cluster, Link, Policy, Serves};
use gq_controller::{Bundle, LinkId, Post, StoreKeeper, welcome};
use gq_engine::{Answer, ClientId, Context, Input, NodeReport, Turn, TurnError};
use gq_model::{ClusterId, Epoch, JobId, NodeName, Seq, Timestamp, Uid};
use gq_proto::{Head, LETTER_VERSION, Reading};
use gq_sched::Planner;
use gq_store::Place;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

pub(crate) const CLUSTER: ClusterId = ClusterId([7; 16]);

const CONF: &str = r#"
[cluster]
name = "world"
lost_after = "120s"
[scheduler]
max_job_count = 60
kill_wait = "30s"
[[partition]]
name = "main"
recut = true
default = true
default_time = "10m"
[[partition]]
name = "high"
priority = 10
[[node]]
name = "ws0"
[[node]]
name = "ws1"
[[node]]
name = "ws2"
"#;

struct Nobody;

impl gq_policy::People for Nobody {
    fn users(&mut self, _: &str, _: &[String]) -> BTreeSet<Uid> {
        BTreeSet::new()
    }
    fn members(&mut self, _: &str, _: &[String]) -> Option<BTreeSet<Uid>> {
        None
    }
}

/// The policy of every life.
pub(crate) fn policy() -> Policy {
    let config = gq_conf::parse(CONF, Path::new("gq.conf")).unwrap_or_else(|errors| panic!("{errors}"));
    gq_policy::policy_of(&config, Serves::Everyone, &mut Nobody)
}

/// What is known of a node that writes its letters as files.
#[derive(Debug)]
pub(crate) struct Office {
    /// Its life and beat as last seen, and when that changed.
    pub(crate) seen: Option<(Epoch, u64, u64)>,
    pub(crate) reading: Reading,
    pub(crate) its_ack: Seq,
    pub(crate) ack: Seq,
    pub(crate) highest: Seq,
    pub(crate) lowest: Seq,
    pub(crate) beat: u64,
    /// When our head was last written.
    pub(crate) beaten: Option<u64>,
}

impl Default for Office {
    fn default() -> Self {
        Self {
            seen: None,
            reading: Reading::after(Seq(0)),
            its_ack: Seq(0),
            ack: Seq(0),
            highest: Seq(0),
            lowest: Seq(1),
            beat: 0,
            beaten: None,
        }
    }
}

/// A life.
pub(crate) struct Gqd {
    pub(crate) cluster: Cluster,
    policy: Policy,
    planner: Planner,
    pub(crate) keeper: StoreKeeper,
    pub(crate) post: Post,
    _place: Place,
    pub(crate) fuse: Fuse,
    pub(crate) inputs: Vec<Input>,
    /// Nodes out of sight, and since when on the clock that never jumps.
    silent: BTreeMap<NodeName, u64>,
    deferred: Vec<Input>,
    is_degraded: bool,
    look_again: Option<Timestamp>,
    looked: Option<Timestamp>,
    pub(crate) offices: BTreeMap<NodeName, Office>,
}

/// What a life stands on.
pub(crate) struct Ground<'a> {
    pub(crate) spool: &'a mut Spool,
    pub(crate) dice: &'a mut Dice,
    pub(crate) is_full: bool,
    /// The wall clock, and the one that never jumps in microseconds.
    pub(crate) now: Timestamp,
    pub(crate) clock: u64,
}

impl Gqd {
    /// A new life on what is in the state directory. None when there is no room even for that.
    pub(crate) fn begin(state: &Path, ground: &mut Ground<'_>) -> Option<Self> {
        if ground.is_full {
            return None;
        }
        let place = Place::open(state, "a life").unwrap_or_else(|error| panic!("{error}"));
        let store = place.store().unwrap_or_else(|error| panic!("{error}"));
        let cluster = store.load().unwrap_or_else(|error| panic!("{error}"));
        let letters = store.letters().unwrap_or_else(|error| panic!("{error}"));
        let post = Post::new(store.epoch(), letters);
        let mut gqd = Self {
            cluster,
            policy: policy(),
            planner: Planner::default(),
            keeper: StoreKeeper { store, acknowledged: Vec::new() },
            post,
            _place: place,
            fuse: Fuse::default(),
            inputs: vec![Input::Declared, Input::Restarted],
            silent: BTreeMap::new(),
            deferred: Vec::new(),
            is_degraded: false,
            look_again: None,
            looked: None,
            offices: BTreeMap::new(),
        };
        gqd.put_in_order(ground.spool);
        gqd.turn(ground);
        let nodes = gqd.cluster.nodes().filter(|node| matches!(node.link, Link::Suspect { .. }));
        gqd.silent = nodes.map(|node| (node.name.clone(), ground.clock)).collect();
        Some(gqd)
    }

    /// Job files without a record go back, and records whose move was lost get their file, as `upkeep` does it.
    fn put_in_order(&self, spool: &mut Spool) {
        for job in self.cluster.jobs() {
            if spool.file(&job.job_file).is_some() {
                continue;
            }
            let names = [format!("drop/.s.{}", job.token), format!("drop/{}.job", job.token)];
            let is_moved = names.iter().any(|name| spool.rename(name, &job.job_file));
            assert!(is_moved, "the file of job {} is gone", job.id);
            spool.sync(job.job_file.rsplit_once('/').map_or("", |(folder, _)| folder));
        }
        let ids = |name: &str| name.rsplit_once('/')?.1.strip_suffix(".job")?.parse().ok().map(JobId);
        let accepted: Vec<String> = spool.accepted().map(str::to_owned).collect();
        for name in accepted {
            let is_known = ids(&name).is_some_and(|id| self.was_job(id));
            if let Some(token) = spool.file(&name).filter(|_| !is_known).map(|file| file.token) {
                spool.rename(&name, &format!("drop/.s.{token}"));
            }
        }
    }

    /// Whether there is, or was, such a job.
    pub(crate) fn was_job(&self, id: JobId) -> bool {
        self.cluster.job(id).is_some()
            || self.keeper.store.was_job(id).unwrap_or_else(|error| panic!("{error}"))
    }

    /// One turn of all that came in. The answers that reached their clients.
    pub(crate) fn turn(&mut self, ground: &mut Ground<'_>) -> Vec<(ClientId, Answer)> {
        let inputs = std::mem::take(&mut self.inputs);
        let mut answers = Vec::new();
        match self.run(&inputs, ground, &mut answers) {
            Ok(()) => {}
            Err(TurnError::NotKept(NotKept::Full)) => self.no_room(&inputs, ground, &mut answers),
            Err(TurnError::NotKept(NotKept::Dead)) => return answers,
            Err(TurnError::NotKept(NotKept::Store(error))) => panic!("the store failed: {error}"),
            Err(TurnError::Broken(_)) if self.fuse.is_burnt() => return answers,
            Err(TurnError::Broken(why)) => panic!("the turn broke: {why}"),
        }
        for input in &inputs {
            if let Input::Report { node, epoch, .. } = input
                && let Some(state) = self.cluster.node(node).filter(|state| state.epoch == *epoch)
            {
                self.post.taken(node, state.last_report);
            }
        }
        answers
    }

    fn run(
        &mut self,
        inputs: &[Input],
        ground: &mut Ground<'_>,
        answers: &mut Vec<(ClientId, Answer)>,
    ) -> Result<(), TurnError<NotKept>> {
        let [_, low, high, ..] = self.cluster.last_job().0.to_le_bytes();
        let context = Context { now: ground.now, shard: (high << 4) | (low >> 4) };
        let Self { cluster, policy, planner, keeper, post, fuse, .. } = self;
        let mut keeping = Keeping { keeper, fuse, is_full: ground.is_full };
        let mut going = Going {
            spool: ground.spool,
            post,
            fuse,
            dice: ground.dice,
            answers: Vec::new(),
            look_again: None,
            loose: Vec::new(),
        };
        let done = Turn::run(cluster, policy, planner, context, inputs, &mut keeping, &mut going);
        answers.append(&mut going.answers);
        self.look_again = going.look_again;
        done
    }

    /// There is no room: what nodes say is tried once more, in the room of the ballast if there is some.
    fn no_room(&mut self, inputs: &[Input], ground: &mut Ground<'_>, answers: &mut Vec<(ClientId, Answer)>) {
        self.is_degraded = true;
        let of_nodes: Vec<Input> = inputs.iter().filter(|input| input.is_of_nodes()).cloned().collect();
        let was_full = std::mem::replace(&mut ground.is_full, ground.dice.one_in(2));
        let retried = self.run(&of_nodes, ground, answers);
        ground.is_full = was_full;
        match retried {
            Ok(()) | Err(TurnError::NotKept(NotKept::Dead)) => {}
            Err(TurnError::NotKept(NotKept::Full)) => {
                self.post.cut_all();
                let rest = of_nodes.into_iter().filter(|input| !matches!(input, Input::Report { .. }));
                self.deferred.extend(rest);
            }
            Err(TurnError::NotKept(NotKept::Store(error))) => panic!("the store failed: {error}"),
            Err(TurnError::Broken(_)) if self.fuse.is_burnt() => {}
            Err(TurnError::Broken(why)) => panic!("the turn broke: {why}"),
        }
    }

    /// What time alone brings.
    pub(crate) fn notice_time(&mut self, now: Timestamp, clock: u64, is_full: bool) {
        let ripe = self.cluster.queue().next_ripe().is_some_and(|(at, _)| at <= now);
        let grace = self.cluster.preempted().next().is_some_and(|(due, _)| *due <= now);
        let alarm = self.cluster.alarms().next().is_some_and(|(at, _)| *at <= now);
        let plan = self.look_again.filter(|at| *at <= now && self.looked != Some(*at));
        self.looked = plan.or(self.looked);
        if ripe || grace || alarm || plan.is_some() {
            self.inputs.push(Input::Schedule);
        }
        let lost_after = self.policy.lost_after.0 * 1_000_000;
        let is_lost = |since: &u64| clock.saturating_sub(*since) >= lost_after;
        let lost: Vec<NodeName> =
            self.silent.iter().filter(|(_, since)| is_lost(since)).map(|(node, _)| node.clone()).collect();
        for node in lost {
            self.silent.remove(&node);
            self.inputs.push(Input::NodeLost { node });
        }
        if self.is_degraded && !is_full {
            self.is_degraded = false;
            self.inputs.append(&mut self.deferred);
        }
        self.post.send_acks();
    }

    /// A node comes with its head, and a link.
    pub(crate) fn node_up(
        &mut self,
        head: &Head,
        link: LinkId,
        out: crossbeam_channel::Sender<Bundle>,
    ) -> Result<Head, String> {
        let known = self.cluster.node(&head.node);
        let ordered = known.map_or(Seq(0), |node| node.last_order);
        let linked = self.post.linked(&head.node);
        let ack = welcome(head, CLUSTER, known.map(|node| &**node), linked)?;
        if self.post.acknowledged(&head.node, head.ack) {
            self.keeper.acknowledged.push((head.node.clone(), head.ack));
        }
        self.post.connect(&head.node, (link, head.epoch), out, ack, ordered);
        self.silent.remove(&head.node);
        self.inputs.push(Input::NodeHeard { node: head.node.clone(), epoch: head.epoch });
        let (lowest, highest) = self.post.span(&head.node, ordered);
        Ok(Head {
            version: LETTER_VERSION,
            cluster: CLUSTER,
            node: head.node.clone(),
            epoch: self.keeper.store.epoch(),
            boot: None,
            beat: 0,
            lowest,
            highest,
            ack_epoch: head.epoch,
            ack,
        })
    }

    /// Letters came in.
    pub(crate) fn letters(
        &mut self,
        node: &NodeName,
        epoch: Epoch,
        ack: Seq,
        reports: Vec<(Seq, Box<NodeReport>)>,
    ) {
        if self.post.linked(node) != Some(epoch) {
            return;
        }
        if self.post.acknowledged(node, ack) {
            self.keeper.acknowledged.push((node.clone(), ack));
        }
        let report = |(seq, body)| Input::Report { node: node.clone(), epoch, seq, body };
        self.inputs.extend(reports.into_iter().map(report));
    }

    /// A link is gone, and since when nothing was seen of the node.
    pub(crate) fn node_down(&mut self, node: &NodeName, link: LinkId, since: u64) {
        if self.post.disconnect(node, link) {
            self.silent.entry(node.clone()).or_insert(since);
            self.inputs.push(Input::NodeSilent { node: node.clone() });
        }
    }
}
