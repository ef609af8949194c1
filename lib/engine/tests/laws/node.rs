//! A node of the world: follows orders, keeps the ends of its runs until they are acknowledged, reboots, forgets. Runs with a lease begin and
//! go on only by the controller's word that it sees the node.

use gq_engine::{NodeReport, Order};
use gq_model::{
    Assignment, BootId, Card, CardUse, End, Epoch, Fault, MiB, NodeId, NodeName, Outcome, Placement, Reason,
    RunKey, Seconds, Seq, Slice, Timestamp, known_grid,
};
use std::collections::BTreeMap;

/// A run that lives.
#[derive(Clone, Debug)]
pub struct Live {
    pub assignment: Assignment,
    pub started: Option<Timestamp>,
    pub exited: bool,
    /// The outcome that a stop asks for.
    pub stop: Option<Outcome>,
    /// Whether it was told to make room.
    pub warned: bool,
    /// Until when it may live, when it has a lease.
    pub until: Option<Timestamp>,
}

/// The controller's word that it saw a node as it was at `beat`, when it had written orders up to `up_to`.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub beat: Timestamp,
    pub up_to: Seq,
}

/// What keeps a run from starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    Of(Fault),
    CardGone,
    /// The site's prolog failed.
    Prolog,
}

#[derive(Debug)]
pub struct FakeNode {
    pub name: NodeName,
    pub boot: u8,
    pub id: u8,
    pub epoch: Epoch,
    /// Whether letters go through.
    pub linked: bool,
    pub taken: Seq,
    pub live: BTreeMap<RunKey, Live>,
    /// Runs that live and of which it knows nothing, since it has lost its log.
    pub ghosts: BTreeMap<RunKey, Live>,
    /// Runs with a lease that wait for the controller's word.
    held: BTreeMap<RunKey, Assignment>,
    /// The word for whose orders it waits.
    unheard: Option<Seen>,
    /// Ends, each with the number of the report that told it last.
    pub ends: BTreeMap<RunKey, (NodeReport, Seq)>,
    /// Reports of this life that were not acknowledged.
    pub outbox: BTreeMap<Seq, NodeReport>,
    /// Whole cards, then cards in MIG mode with the slices they are cut into.
    pub cards: Vec<Card>,
    next: u64,
}

/// A card of a kind that can be cut.
pub fn card(index: u32, mig: bool) -> Card {
    let text = format!(r#"{{"index":{index},"model":"A100","memory":81920,"mig":{mig}}}"#);
    let card: Card = serde_json::from_str(&text).unwrap();
    Card { grid: known_grid("A100", MiB(81_920)).filter(|_| mig), ..card }
}

pub fn cancelled(reason: Reason) -> Outcome {
    Outcome::without_exit(End::Cancelled, reason, "")
}

impl FakeNode {
    pub fn new(name: &str, cards: Vec<Card>) -> Self {
        Self {
            cards,
            name: name.parse().unwrap(),
            boot: 1,
            id: 1,
            epoch: Epoch(0),
            linked: true,
            taken: Seq(0),
            live: BTreeMap::new(),
            ghosts: BTreeMap::new(),
            held: BTreeMap::new(),
            unheard: None,
            ends: BTreeMap::new(),
            outbox: BTreeMap::new(),
            next: 1,
        }
    }

    pub fn boot_id(&self) -> BootId {
        BootId([self.boot; 16])
    }

    pub fn node_id(&self) -> NodeId {
        NodeId([self.id; 16])
    }

    /// A new life: what it has, what lives, and every end that was not acknowledged.
    pub fn join(&mut self) {
        self.epoch.0 += 1;
        self.next = 1;
        self.outbox.clear();
        let live = self.live.iter().map(|(key, live)| (*key, live.started));
        let runs = live.chain(self.held.keys().map(|key| (*key, None))).collect();
        let (boot, id, cards) = (self.boot_id(), Some(self.node_id()), self.cards.clone());
        let unbound = Vec::new();
        self.say(NodeReport::Joined { boot, id, cpus: 4, memory: MiB(4096), cards, unbound, runs });
        let ends: Vec<NodeReport> = self.ends.values().map(|(end, _)| end.clone()).collect();
        ends.into_iter().for_each(|end| self.say(end));
    }

    pub fn say(&mut self, report: NodeReport) {
        let seq = Seq(self.next);
        self.next += 1;
        if let NodeReport::Ended { key, .. } | NodeReport::Refused { key, .. } = &report {
            self.ends.insert(*key, (report.clone(), seq));
        }
        self.outbox.insert(seq, report);
    }

    pub fn acknowledged(&mut self, epoch: Epoch, up_to: Seq) {
        if epoch == self.epoch {
            self.outbox.retain(|seq, _| *seq > up_to);
            self.ends.retain(|_, (_, seq)| *seq > up_to);
        }
    }

    /// The machine is booted again: what lived is dead; `wiped` says that nothing of it is remembered.
    pub fn reboot(&mut self, now: Timestamp, wiped: bool) {
        self.boot += 1;
        let held = std::mem::take(&mut self.held);
        let live = std::mem::take(&mut self.live).into_iter().map(|(key, live)| (key, live.started));
        for (key, started) in live.chain(held.into_keys().map(|key| (key, None))) {
            let outcome = Outcome::without_exit(End::NodeFail, Reason::NodeFailure, "booted again");
            self.say(NodeReport::Ended { key, outcome, started, ended: now, epilog: None });
        }
        self.ghosts.clear();
        self.unheard = None;
        if wiped {
            self.wipe();
        }
    }

    /// Its log is gone: it knows nothing of what lives.
    pub fn wipe(&mut self) {
        self.lose_log();
        self.ghosts.append(&mut self.live);
    }

    /// Its log is gone, and it finds what lives all the same.
    pub fn lose_log(&mut self) {
        self.id += 1;
        self.ends.clear();
        self.held.clear();
        self.unheard = None;
        self.taken = Seq(0);
    }

    /// Runs whose lease is over have ended themselves, whether or not the node knows of it.
    pub fn expire(&mut self, now: Timestamp) {
        let is_over = |live: &Live| live.until.is_some_and(|until| until <= now);
        self.ghosts.retain(|_, live| !is_over(live));
        let over: Vec<RunKey> = self.live.iter().filter(|(_, l)| is_over(l)).map(|(key, _)| *key).collect();
        for key in over {
            let Some(live) = self.live.remove(&key) else { continue };
            let outcome = Outcome::without_exit(End::NodeFail, Reason::NodeFailure, "cut off");
            self.say(NodeReport::Ended { key, outcome, started: live.started, ended: now, epilog: None });
        }
    }

    /// The controller's word came. Returns the runs that begin to live.
    pub fn hear(&mut self, seen: Seen, now: Timestamp) -> Vec<RunKey> {
        if seen.up_to > self.taken {
            self.unheard.get_or_insert(seen);
            return Vec::new();
        }
        let until = |span: Seconds| seen.beat.after(span);
        for live in self.live.values_mut() {
            live.until = live.until.max(live.assignment.lease.map(until));
        }
        let mut begun = Vec::new();
        for (key, assignment) in std::mem::take(&mut self.held) {
            self.live(assignment.clone(), assignment.lease.map(until));
            begun.push(key);
        }
        // Of a word that came very late nothing begins to live.
        self.expire(now);
        begun.retain(|key| self.live.contains_key(key));
        begun
    }

    /// Takes an order. Returns the runs that begin to live.
    pub fn take(&mut self, seq: Seq, order: &Order, now: Timestamp, trouble: Option<Trouble>) -> Vec<RunKey> {
        if self.taken == Seq(0) {
            // It lost its log: it goes on from the lowest order kept.
            self.taken = Seq(seq.0 - 1);
        }
        assert_eq!(seq.0, self.taken.0 + 1, "{} waits for another order", self.name);
        self.taken = seq;
        let mut begun: Vec<RunKey> = self.follow(order, now, trouble).into_iter().collect();
        if let Some(seen) = self.unheard.take() {
            begun.extend(self.hear(seen, now));
        }
        begun
    }

    fn follow(&mut self, order: &Order, now: Timestamp, trouble: Option<Trouble>) -> Option<RunKey> {
        match order {
            Order::Start(assignment) => return self.start(assignment, now, trouble),
            Order::Cancel(key, _) => self.stop(*key, cancelled(Reason::Cancelled), now),
            Order::Requeue(key, _) => self.stop(*key, cancelled(Reason::Requeued), now),
            Order::Stray(key) => self.stop(*key, cancelled(Reason::Cancelled), now),
            Order::Warn(key, _) => {
                if let Some(live) = self.live.get_mut(key).filter(|live| live.started.is_some()) {
                    live.warned = true;
                }
            }
            Order::Signal(..) | Order::Limit(..) => {}
            Order::Suspend(key) => self.say(NodeReport::Suspended(*key, now)),
            Order::Resume(key) => self.say(NodeReport::Resumed(*key, now)),
        }
        None
    }

    fn start(&mut self, assignment: &Assignment, now: Timestamp, trouble: Option<Trouble>) -> Option<RunKey> {
        let key = assignment.key;
        assert_eq!(assignment.node, self.name);
        if self.live.contains_key(&key) || self.held.contains_key(&key) || self.ends.contains_key(&key) {
            return None;
        }
        if assignment.boot != self.boot_id() || assignment.node_id != Some(self.node_id()) {
            let outcome = Outcome::without_exit(End::NodeFail, Reason::NodeFailure, "another boot");
            self.say(NodeReport::Ended { key, outcome, started: None, ended: now, epilog: None });
            return None;
        }
        if let Some(trouble) = trouble {
            let (fault, reason) = match trouble {
                Trouble::Of(Fault::User) => (Fault::User, Reason::WorkDir),
                Trouble::Of(Fault::Site) => (Fault::Site, Reason::LaunchFailure),
                Trouble::CardGone => (Fault::Site, Reason::CardGone),
                Trouble::Prolog => (Fault::Site, Reason::Prolog),
            };
            self.say(NodeReport::Refused { key, fault, reason, detail: "no".into() });
            return None;
        }
        if assignment.lease.is_some() {
            self.held.insert(key, assignment.clone());
            return None;
        }
        self.live(assignment.clone(), None);
        Some(key)
    }

    fn live(&mut self, assignment: Assignment, until: Option<Timestamp>) {
        let cards = assignment.cards.clone();
        let live = Live { started: None, exited: false, stop: None, warned: false, until, assignment };
        self.live.insert(live.assignment.key, live);
        self.cut(&cards);
    }

    /// Cuts the slices that a run was given and that are not there, in place of idle ones.
    fn cut(&mut self, cards: &[CardUse]) {
        let mut changed = false;
        for one in cards {
            let (Some(profile), Some(placement), None) = (&one.slice, one.placement, &one.uuid) else {
                continue;
            };
            let held: Vec<Placement> = self
                .live
                .values()
                .flat_map(|live| &live.assignment.cards)
                .filter(|other| other.index == one.index && *other != one)
                .filter_map(|other| other.placement)
                .collect();
            assert!(held.iter().all(|other| !other.overlaps(placement)), "{one:?} lies over {held:?}");
            let card = self.cards.iter_mut().find(|card| card.index == one.index).unwrap();
            card.slices.retain(|slice| !slice.placement.is_some_and(|other| other.overlaps(placement)));
            let memory = card.grid.as_ref().unwrap().profile(profile).unwrap().memory;
            let uuid = format!("MIG-{}-{}-{}-{}", self.name, card.index, placement.start, placement.size);
            card.slices.push(Slice {
                profile: profile.clone(),
                uuid: Some(uuid),
                memory,
                gpu_instance: None,
                compute_instance: None,
                placement: Some(placement),
                health: gq_model::CardHealth::Good,
            });
            changed = true;
        }
        if changed {
            self.say(NodeReport::Cards(self.cards.clone()));
        }
    }

    fn stop(&mut self, key: RunKey, outcome: Outcome, now: Timestamp) {
        self.held.remove(&key);
        if let Some(live) = self.live.get_mut(&key) {
            live.stop = Some(outcome);
        } else if let Some((end, _)) = self.ends.get(&key).cloned() {
            self.say(end);
        } else {
            self.say(NodeReport::Ended { key, outcome, started: None, ended: now, epilog: None });
        }
    }

    /// It says of one of its runs that may be asked about whether its cards are idle.
    pub fn say_idle(&mut self, pick: usize, since: Option<Timestamp>) {
        let asked = self.live.iter().filter(|(_, live)| live.assignment.idle.is_some());
        let asked: Vec<RunKey> =
            asked.filter(|(_, live)| live.started.is_some()).map(|(key, _)| *key).collect();
        if let Some(key) = asked.get(pick % asked.len().max(1)) {
            self.say(NodeReport::Idle(*key, since));
        }
    }

    /// The next thing happens to a run: its script starts, exits, all of it is gone.
    pub fn go_on(&mut self, key: RunKey, code: u8, now: Timestamp) {
        let Some(live) = self.live.get_mut(&key) else { return };
        let stopped = live.stop.is_some();
        if live.started.is_none() && !stopped {
            live.started = Some(now);
            self.say(NodeReport::Started(key, now));
        } else if live.started.is_some() && !live.exited {
            live.exited = true;
            self.say(NodeReport::Exited(key, now));
        } else {
            let end = if code == 0 { End::Completed } else { End::Failed };
            let own = Outcome { exit_code: Some(code), ..Outcome::without_exit(end, Reason::None, "") };
            let by_signal =
                Outcome { signal: Some(15), ..Outcome::without_exit(End::Failed, Reason::RaisedSignal, "") };
            let Some(live) = self.live.remove(&key) else { return };
            let own = if live.warned && code > 1 { by_signal } else { own };
            let outcome = live.stop.unwrap_or(own);
            self.say(NodeReport::Ended { key, outcome, started: live.started, ended: now, epilog: None });
        }
    }
}
