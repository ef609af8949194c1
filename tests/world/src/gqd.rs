//! A life of `gqd`: the real turn, store, post and welcome. What the hub does on its clock and the threads beside it comes here one thing
//! at a time.

use crate::{
    courier::{Going, Keeping, NotKept},
    dice::Dice,
    fuse::Fuse,
    spool::Spool,
};
use gq_cluster::{Cluster, Node, Policy, Serves};
use gq_controller::{Bundle, Known, LinkId, Post, Silence, StoreKeeper};
use gq_engine::{Answer, ClientId, Context, Gone, Input, NodeReport, Turn, TurnError};
use gq_model::{Beat, ClusterId, Epoch, JobId, NodeName, Seq, Timestamp, Uid};
use gq_proto::{Head, Reading, Refusal};
use gq_sched::Planner;
use gq_store::Place;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::OnceLock,
    time::{Duration, Instant},
};

pub(crate) const CLUSTER: ClusterId = ClusterId([7; 16]);

const CONF: &str = r#"
[cluster]
name = "world"
lost_after = "120s"
[scheduler]
max_job_count = 60
kill_wait = "30s"
lease = "150s"
[[partition]]
name = "main"
recut = true
default = true
default_time = "10m"
idle_after = "1m"
idle_grace = "30s"
idle_action = "requeue"
[[partition]]
name = "high"
priority = 10
idle_after = "1m"
idle_grace = "0s"
idle_action = "cancel"
[[budget]]
name = "each"
every_user = true
card_hours = 0.5
period = "day"
when_used_up = "low_priority"
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

/// The clock that never jumps, in microseconds, as an instant.
pub(crate) fn instant(clock: u64) -> Instant {
    static DAWN: OnceLock<Instant> = OnceLock::new();
    *DAWN.get_or_init(Instant::now) + Duration::from_micros(clock)
}

/// What is known of a node that writes its letters as files.
#[derive(Debug)]
pub(crate) struct Office {
    /// Its head as last seen of the node that is linked, or of any while none is.
    pub(crate) seen: Option<Head>,
    /// How long it was looked at since without a sign of life, and when it was looked at last.
    pub(crate) silence: u64,
    pub(crate) looked: u64,
    pub(crate) refusal: Option<String>,
    pub(crate) answer_due: bool,
    pub(crate) reading: Reading,
    pub(crate) its_ack: Seq,
    pub(crate) ack_epoch: Epoch,
    pub(crate) ack: Seq,
    pub(crate) past: Epoch,
    pub(crate) highest: Seq,
    pub(crate) lowest: Seq,
    pub(crate) beat: u64,
    /// When our head was last written.
    pub(crate) beaten: Option<u64>,
}

impl Office {
    pub(crate) fn new(known: Option<&Node>, clock: u64) -> Self {
        let zero = (Epoch(0), Seq(0), Seq(0));
        let (ack_epoch, ack, highest) =
            known.map_or(zero, |node| (node.epoch, node.last_report, node.last_order));
        Self {
            seen: None,
            silence: 0,
            looked: clock,
            refusal: None,
            answer_due: false,
            reading: Reading::after(Seq(0)),
            its_ack: Seq(0),
            ack_epoch,
            ack,
            past: Epoch(0),
            highest,
            lowest: Seq(1),
            beat: 0,
            beaten: None,
        }
    }

    /// Whether a head is of the node that was seen last, in the life that was.
    pub(crate) fn is_of(&self, head: &Head) -> bool {
        self.seen.as_ref().is_some_and(|seen| (seen.node_id, seen.epoch) == (head.node_id, head.epoch))
    }

    /// Whether a head is a sign of life.
    pub(crate) fn is_sign(&self, head: &Head, is_linked: bool) -> bool {
        let Some(seen) = &self.seen else { return false };
        let is_new = (seen.node_id, seen.epoch, seen.beat) != (head.node_id, head.epoch, head.beat);
        let is_twin = seen.node_id != head.node_id || seen.epoch > head.epoch;
        is_new && !(is_linked && is_twin)
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
    /// Nodes out of sight.
    silent: Silence,
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
            keeper: StoreKeeper::new(store),
            post,
            _place: place,
            fuse: Fuse::default(),
            inputs: vec![Input::Declared, Input::Restarted],
            silent: Silence::default(),
            deferred: Vec::new(),
            is_degraded: false,
            look_again: None,
            looked: None,
            offices: BTreeMap::new(),
        };
        gqd.put_in_order(ground.spool);
        gqd.turn(ground);
        gqd.silent = Silence::after_start(&gqd.cluster, instant(ground.clock));
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
    pub(crate) fn gone(&self, id: JobId) -> Option<Gone> {
        self.keeper.gone(id).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn was_job(&self, id: JobId) -> bool {
        self.cluster.job(id).is_some()
            || self.keeper.store.was_job(id).unwrap_or_else(|error| panic!("{error}"))
    }

    /// One turn of all that came in. The answers that reached their clients.
    pub(crate) fn turn(&mut self, ground: &mut Ground<'_>) -> Vec<(ClientId, Answer)> {
        if !self.inputs.is_empty() {
            self.inputs.splice(0..0, std::mem::take(&mut self.deferred));
        }
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
                self.post.taken(node, *epoch, state.last_report);
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
        let idle = self.cluster.reclaims().next().is_some_and(|(due, _)| *due <= now);
        let plan = self.look_again.filter(|at| *at <= now && self.looked != Some(*at));
        self.looked = plan.or(self.looked);
        if ripe || grace || alarm || idle || plan.is_some() {
            self.inputs.push(Input::Schedule);
        }
        let lost = self.silent.lost(self.policy.lost_after, instant(clock));
        self.inputs.extend(lost.map(|node| Input::NodeLost { node }));
        if !self.is_degraded {
            self.inputs.extend(self.silent.leases_over(&self.cluster, instant(clock)));
        }
        if self.is_degraded && !is_full {
            self.is_degraded = false;
            self.inputs.push(Input::Schedule);
        }
        self.post.send_acks();
    }

    /// A node comes with its head, and a link.
    pub(crate) fn node_up(
        &mut self,
        head: &Head,
        link: LinkId,
        out: crossbeam_channel::Sender<Bundle>,
    ) -> Result<Head, Refusal> {
        let node = self.cluster.node(&head.node).map(|node| &**node);
        let known = Known {
            cluster: CLUSTER,
            epoch: self.keeper.store.epoch(),
            node,
            linked: self.post.linked(&head.node),
        };
        known.welcome(head)?;
        if self.post.acknowledged(&head.node, head.ack) {
            self.keeper.acknowledged.push((head.node.clone(), head.ack));
        }
        let ordered = node.map_or(Seq(0), |node| node.last_order);
        self.post.connect(&head.node, (link, head.epoch), out, known.taken(head), ordered);
        self.silent.is_back(&head.node);
        self.inputs.push(Input::NodeHeard { node: head.node.clone(), epoch: head.epoch });
        Ok(known.answer(head, self.post.span(&head.node, ordered)))
    }

    /// Letters came in.
    pub(crate) fn letters(
        &mut self,
        node: &NodeName,
        epoch: Epoch,
        (ack, beat): (Seq, Beat),
        reports: Vec<(Seq, Box<NodeReport>)>,
    ) {
        if self.post.linked(node) != Some(epoch) {
            return;
        }
        if beat > Beat(0) {
            self.post.beat(node, beat);
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
            self.silent.fell_silent(node, instant(since));
            self.inputs.push(Input::NodeSilent { node: node.clone() });
        }
    }
}
