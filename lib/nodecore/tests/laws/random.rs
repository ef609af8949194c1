//! Random histories, and the laws that hold on each of them.

use crate::samples::{NOW, assignment, boot, ended, identity, key, stop};
use gq_model::{
    Assignment, Beat, BootId, CardUse, EndReason, Epoch, Reason, RunKey, Seconds, Seq, SignalTo, Timestamp,
};
use gq_nodecore::{Control, Effect, Input, Machine, Node, Order, Record, Report, StopWhy};
use std::collections::{BTreeMap, BTreeSet};

struct Dice(u64);
impl Dice {
    fn roll(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n.max(1)
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.roll(n) == 0
    }
    fn pick(&mut self, n: usize) -> usize {
        self.roll(n.max(1) as u64) as usize
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Born,
    Up,
    Started,
    Exited,
    Ended,
}

fn has_cards(key: RunKey) -> bool {
    key.job.0.is_multiple_of(2)
}

/// An assignment, for every second job with a card.
fn given(key: RunKey, boot: BootId) -> Box<Assignment> {
    let mut given = assignment(key, boot);
    if has_cards(key) {
        given.cards.push(CardUse::whole(0, Some("GPU-1".into())));
    }
    given
}

struct World {
    seed: u64,
    dice: Dice,
    node: Node,
    epoch: u64,
    boot: BootId,
    log: Vec<Record>,
    /// Written by supervisors, not yet handed to the node.
    unread: Vec<Record>,
    supervisors: BTreeMap<RunKey, Step>,
    /// Dead supervisors that the node was not told of.
    deaths: Vec<RunKey>,
    sweeps: Vec<RunKey>,
    /// Runs whose cards are to be looked at.
    leaving: Vec<RunKey>,
    /// Processes left behind by killed supervisors.
    strays: BTreeMap<RunKey, u32>,
    orders: Vec<Order>,
    delivered: usize,
    link: bool,
    /// What the controller was sent, by life and number.
    sent: BTreeMap<(u64, u64), Report>,
    acked: u64,
    /// Runs whose script may have run.
    executed: BTreeSet<RunKey>,
    /// Runs that were stopped before their start came.
    stopped_first: BTreeSet<RunKey>,
    starts: BTreeMap<RunKey, u32>,
    next_run: BTreeMap<u64, u32>,
    /// The boot clock, in seconds.
    clock: u64,
    /// The controller's words that it saw the node, on their way: the sign of life, and the orders written by then.
    words: Vec<(u64, usize)>,
    /// The latest sign of life of a word that came in this life, all of whose orders were taken.
    heard: Option<u64>,
    /// Words that came, and wait for orders.
    unheard: Vec<(u64, usize)>,
}

/// The lease of every run with an even number of its job.
const LEASE: u64 = 100;

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            seed,
            dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            node: Node::restore(identity(1, boot(1)), []),
            epoch: 1,
            boot: boot(1),
            log: Vec::new(),
            unread: Vec::new(),
            supervisors: BTreeMap::new(),
            deaths: Vec::new(),
            sweeps: Vec::new(),
            leaving: Vec::new(),
            strays: BTreeMap::new(),
            orders: Vec::new(),
            delivered: 0,
            link: false,
            sent: BTreeMap::new(),
            acked: 0,
            executed: BTreeSet::new(),
            stopped_first: BTreeSet::new(),
            starts: BTreeMap::new(),
            next_run: BTreeMap::new(),
            clock: 1,
            words: Vec::new(),
            heard: None,
            unheard: Vec::new(),
        };
        world.input(Input::Join(Machine::default()));
        world
    }

    fn input(&mut self, input: Input) {
        let effects = self.node.decide(input);
        let cut = if self.dice.one_in(40) { Some(self.dice.pick(effects.len() + 1)) } else { None };
        for (i, effect) in effects.into_iter().enumerate() {
            if cut == Some(i) {
                return self.restart(false);
            }
            let life = self.epoch;
            self.act(effect);
            if self.epoch != life {
                return; // It was killed again meanwhile.
            }
        }
        if cut.is_some() {
            return self.restart(false);
        }
        for (seq, report) in self.node.number() {
            assert!(self.link, "seed {}: sent without a link", self.seed);
            let life = self.sent.range((self.epoch, 0)..(self.epoch + 1, 0)).count() as u64;
            match self.sent.get(&(self.epoch, seq.0)) {
                Some(before) => {
                    assert_eq!(*before, report, "seed {}: other bytes for number {seq}", self.seed)
                }
                None => assert_eq!(seq.0, life + 1, "seed {}: numbers have a hole", self.seed),
            }
            let first = matches!(report, Report::Joined { .. });
            assert_eq!(first, seq.0 == 1, "seed {}: Joined is the first letter and no other", self.seed);
            let early = self.leaving.iter().find(|key| report.end_of() == Some(**key));
            assert_eq!(early, None, "seed {}: an end was told before its cards were looked at", self.seed);
            self.sent.insert((self.epoch, seq.0), report);
        }
    }

    fn act(&mut self, effect: Effect) {
        let seed = self.seed;
        match effect {
            Effect::Append(record) => self.log.push(record),
            Effect::Launch(a) => {
                let same = |k: &&RunKey| (k.job, k.task) == (a.key.job, a.key.task);
                assert!(
                    !self.supervisors.iter().any(|(k, step)| same(&k) && *step < Step::Ended)
                        && !self.strays.keys().any(|k| same(&k)),
                    "seed {seed}: {} launched while a run of its task lives",
                    a.key
                );
                assert!(!self.executed.contains(&a.key), "seed {seed}: {} was executed twice", a.key);
                assert!(!self.stopped_first.contains(&a.key), "seed {seed}: {} was stopped before", a.key);
                assert_eq!(a.boot, self.boot, "seed {seed}: a start of another boot was obeyed");
                assert_eq!(a.lease.is_some(), self.node.leased_until(a.key).is_some(), "seed {seed}");
                self.assert_lease(self.node.leased_until(a.key));
                if self.dice.one_in(20) {
                    let reason = Reason::CardGone;
                    return self.input(Input::LaunchFailed { key: a.key, reason, detail: "no room".into() });
                }
                self.supervisors.insert(a.key, Step::Born);
            }
            Effect::Control(key, Control::Stop(_)) => {
                if self.supervisors.get(&key).is_some_and(|step| *step < Step::Exited) && self.dice.one_in(2)
                {
                    self.supervisors.insert(key, Step::Exited);
                }
            }
            Effect::Sweep { key, .. } => self.sweeps.push(key),
            Effect::Vacate(key) => {
                assert!(has_cards(key), "seed {seed}: {key} held no cards");
                self.leaving.push(key);
            }
            Effect::Forget(key) => {
                let is_end = |r: &Report| r.end_of() == Some(key);
                assert!(
                    self.sent.values().any(is_end),
                    "seed {seed}: {key} forgotten before its end was sent"
                );
            }
            Effect::Control(key, Control::Lease(until)) => {
                assert_eq!(key.job.0 % 2, 0, "seed {seed}: {key} has no lease");
                self.assert_lease(Some(until));
            }
            Effect::Control(..) | Effect::Skipped { .. } => {}
            Effect::TurnAway(why) => panic!("seed {seed}: {why}"),
        }
    }

    /// No lease goes beyond what the controller has said, in a word whose orders were all taken.
    fn assert_lease(&self, until: Option<Seconds>) {
        if let Some(until) = until {
            let most = self.heard.map(|beat| beat + LEASE);
            assert!(Some(until.0) <= most, "seed {}: a lease until {until}, of {most:?}", self.seed);
        }
    }

    /// The controller sees the node, and says so; its words come in order, late or never.
    fn word(&mut self) {
        if self.dice.one_in(2) {
            return self.words.push((self.clock, self.orders.len()));
        }
        if self.words.is_empty() || !self.link {
            return;
        }
        let (beat, up_to) = self.words.remove(0);
        self.unheard.push((beat, up_to));
        self.note_heard();
        self.input(Input::Seen { beat: Beat(beat * 1000), up_to: Seq(up_to as u64) });
    }

    /// What of the words that came is in force by now.
    fn note_heard(&mut self) {
        let taken = self.node.taken().0 as usize;
        for (beat, _) in self.unheard.extract_if(.., |(_, up_to)| *up_to <= taken) {
            self.heard = self.heard.max(Some(beat));
        }
    }

    /// The node is killed and starts again, perhaps with the machine.
    fn restart(&mut self, reboot: bool) {
        if reboot {
            self.boot = boot(self.boot.0[0].wrapping_add(1));
            self.supervisors.clear();
            self.strays.clear();
        }
        self.epoch += 1;
        (self.link, self.acked) = (false, 0);
        self.words.clear();
        self.unheard.clear();
        self.heard = None;
        self.log.append(&mut self.unread);
        self.deaths.clear();
        self.sweeps.clear();
        self.leaving.clear();
        self.node = Node::restore(identity(self.epoch, self.boot), self.log.iter().cloned());
        let life = self.epoch;
        for key in self.node.unsure().collect::<Vec<_>>() {
            let alive = self.supervisors.contains_key(&key);
            self.input(Input::Adopted { key, alive, at: NOW });
            if self.epoch != life {
                return; // It was killed again meanwhile.
            }
        }
        self.input(Input::Join(Machine::default()));
    }

    fn supervisor(&mut self) {
        let keys: Vec<RunKey> = self.supervisors.keys().copied().collect();
        let Some(&key) = keys.get(self.dice.pick(keys.len())) else { return };
        let step = self.supervisors[&key];
        if step < Step::Ended && self.dice.one_in(15) {
            if step > Step::Up {
                self.strays.insert(key, 2);
            }
            self.supervisors.remove(&key);
            return self.deaths.push(key);
        }
        let (next, record) = match step {
            Step::Born => (Step::Up, Record::Up { key }),
            Step::Up => {
                self.executed.insert(key);
                (Step::Started, Record::Started { key, at: Timestamp(1) })
            }
            Step::Started => (Step::Exited, Record::Exited { key, at: Timestamp(2) }),
            Step::Exited => (Step::Ended, ended(key)),
            Step::Ended => {
                self.supervisors.remove(&key);
                return self.deaths.push(key);
            }
        };
        self.supervisors.insert(key, next);
        self.unread.push(record);
    }

    fn read_log(&mut self) {
        // The log is the truth: all that is read stands in it, even if the node is killed while it reads.
        let records = std::mem::take(&mut self.unread);
        self.log.extend(records.iter().cloned());
        for record in records {
            let life = self.epoch;
            self.input(Input::Logged(record));
            if self.epoch != life {
                return;
            }
        }
    }

    fn deliver(&mut self) {
        let at = if self.dice.one_in(8) { self.dice.pick(self.delivered + 1) } else { self.delivered };
        let Some(order) = self.orders.get(at).cloned() else { return };
        self.delivered = self.delivered.max(at + 1);
        if (at as u64) < self.node.taken().0 {
            let before = self.node.highest();
            let effects = self.node.decide(Input::Order { seq: Seq(at as u64 + 1), order, at: NOW });
            assert!(
                effects.is_empty() && self.node.highest() == before,
                "seed {}: an old order was obeyed",
                self.seed
            );
            return;
        }
        // After a crash an order may not have been taken: the controller sends from the first one not acknowledged.
        let next = self.node.taken().0 as usize;
        let Some(order) = self.orders.get(next).cloned() else { return };
        self.delivered = self.delivered.max(next + 1);
        match &order {
            Order::Start(a) => {
                *self.starts.entry(a.key).or_default() += 1;
            }
            Order::Stop(key, _) => {
                if !self.starts.contains_key(key) {
                    self.stopped_first.insert(*key);
                }
            }
            Order::Signal(..) | Order::Warn(..) | Order::Limit(..) | Order::Suspend(_) | Order::Resume(_) => {
            }
        }
        // It is taken before what it is about is decided.
        for (beat, _) in self.unheard.extract_if(.., |(_, up_to)| *up_to <= next + 1) {
            self.heard = self.heard.max(Some(beat));
        }
        self.input(Input::Order { seq: Seq(next as u64 + 1), order, at: NOW });
    }

    fn some_wish(&mut self, key: RunKey) -> Order {
        match self.dice.pick(5) {
            0 => Order::Signal(key, 10, SignalTo::All),
            1 => Order::Warn(key, EndReason::Preemption),
            2 => Order::Limit(key, Some(Seconds(9))),
            3 => Order::Suspend(key),
            _ => Order::Resume(key),
        }
    }

    fn new_order(&mut self) {
        let job = 1 + self.dice.pick(5) as u64;
        let last = self.next_run.get(&job).copied().unwrap_or(0);
        let order = match self.dice.pick(8) {
            0 => Order::Stop(key(job, last.max(1)), stop(StopWhy::Requeue)),
            1 => Order::Stop(key(job, last + 1), stop(StopWhy::Cancel)),
            2 if last > 0 => Order::Start(given(key(job, last), self.boot)),
            3 => self.some_wish(key(job, last.max(1))),
            n => {
                self.next_run.insert(job, last + 1);
                let boot = if n == 4 && self.dice.one_in(4) { boot(99) } else { self.boot };
                Order::Start(given(key(job, last + 1), boot))
            }
        };
        self.orders.push(order);
    }

    fn step(&mut self) {
        self.clock += self.dice.roll(20);
        match self.dice.pick(19) {
            0 | 1 => self.new_order(),
            2..=4 => self.deliver(),
            5..=8 => self.supervisor(),
            9 | 10 => self.read_log(),
            11 => self.tell_deaths(),
            12 => {
                self.sweep();
                self.vacate();
            }
            13 => {
                self.link = !self.link;
                self.input(if self.link { Input::LinkUp } else { Input::LinkDown });
            }
            14 => self.ack(),
            15..=17 => self.word(),
            _ => {
                if self.dice.one_in(10) {
                    let reboot = self.dice.one_in(3);
                    self.restart(reboot);
                }
            }
        }
    }

    fn tell_deaths(&mut self) {
        // All that a dead supervisor wrote is handed in before its death.
        let life = self.epoch;
        self.read_log();
        if self.epoch == life
            && let Some(key) = self.deaths.pop()
        {
            self.input(Input::SupervisorGone { key });
        }
    }

    fn vacate(&mut self) {
        if let Some(key) = self.leaving.pop() {
            let used = vec![gq_model::CardUsed { looks: 1, ..gq_model::CardUsed::default() }];
            self.input(Input::Vacated { key, used, at: Timestamp(7) });
        }
    }

    fn sweep(&mut self) {
        let Some(key) = self.sweeps.pop() else { return };
        let left = self.strays.get(&key).copied().unwrap_or(0).saturating_sub(1);
        if left == 0 {
            self.strays.remove(&key);
        } else {
            self.strays.insert(key, left);
        }
        self.input(Input::Swept { key, left, at: NOW });
    }

    fn ack(&mut self) {
        let highest =
            self.sent.range((self.epoch, 0)..(self.epoch + 1, 0)).next_back().map_or(0, |((_, s), _)| *s);
        self.acked += self.dice.pick((highest - self.acked) as usize + 1) as u64;
        self.input(Input::Acked { epoch: Epoch(self.epoch), up_to: Seq(self.acked) });
    }

    /// Arrivals stop: everything must come to its end and be forgotten.
    fn settle(&mut self) {
        for _ in 0..2000 {
            if (self.node.taken().0 as usize) < self.orders.len() {
                self.deliver();
            }
            self.word();
            self.supervisor();
            self.tell_deaths();
            self.sweep();
            self.vacate();
            if !self.link {
                self.link = true;
                self.input(Input::LinkUp);
            }
            self.ack();
        }
        let (seed, kept) = (self.seed, self.node.kept().collect::<Vec<_>>());
        assert!(kept.is_empty(), "seed {seed}: {kept:?} never came to an end that was acknowledged");
        for (key, times) in &self.starts {
            let mut ends: Vec<&Report> = self.sent.values().filter(|r| r.end_of() == Some(*key)).collect();
            ends.dedup();
            assert!(!ends.is_empty(), "seed {seed}: {key} was started and its end never told");
            let stops = self.orders.iter().any(|o| matches!(o, Order::Stop(k, _) if k == key));
            if *times == 1 && !stops {
                assert_eq!(ends.len(), 1, "seed {seed}: {key} ended twice: {ends:?}");
            }
        }
    }
}

#[test]
fn the_laws_hold_on_random_histories() {
    for seed in 1..=200 {
        let mut world = World::new(seed);
        for _ in 0..400 {
            world.step();
        }
        world.settle();
    }
}
