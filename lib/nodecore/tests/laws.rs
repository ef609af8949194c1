//! The laws of a node, tried on random histories: orders that come twice, supervisors that are killed, a node that is
//! killed between any two acts, machines that boot again, links that break. The seed is in every message.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says so when it fails")]

use gq_model::{
    Assignment, BootId, End, EndReason, Epoch, JobId, MiB, NodeName, Outcome, Reason, RunKey, RunNumber,
    Seconds, Seq, SignalTo, TaskIndex, Timestamp, Uid,
};
use gq_nodecore::{
    Control, Effect, HeadSeen, Identity, Input, Machine, Node, Order, Record, Report, Serves, Stop, StopWhy,
    TurnAway,
};
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
}

fn boot(n: u8) -> BootId {
    BootId([n; 16])
}
fn stop(why: StopWhy) -> Stop {
    Stop { why, reason: None }
}

fn key(job: u64, run: u32) -> RunKey {
    RunKey { job: JobId(job), task: TaskIndex(0), run: RunNumber(run) }
}
fn name() -> NodeName {
    "n1".parse().unwrap()
}
fn assignment(key: RunKey, boot: BootId) -> Box<Assignment> {
    Box::new(Assignment {
        key,
        boot,
        node: name(),
        uid: Uid(1000),
        job_file: String::new(),
        sha256: String::new(),
        partition: String::new(),
        cluster: String::new(),
        cpus: 1,
        memory: MiB(1),
        cards: Vec::new(),
        time_limit: None,
        kill_wait: Seconds(30),
        array: None,
        allow_test_run: false,
        bounds: None,
        stage: gq_model::Stage::Main,
        restarts: None,
        over_limit: Seconds(0),
        until_deadline: false,
        signal: None,
        account: None,
        qos: None,
        user: String::new(),
        name: None,
        may_run_again: false,
    })
}
fn identity(epoch: u64, boot: BootId) -> Identity {
    Identity { node: name(), boot, epoch: Epoch(epoch), serves: Serves::Users }
}
fn ended(key: RunKey) -> Record {
    let outcome = Outcome::without_exit(End::Completed, Reason::None, "");
    Record::Ended { key, outcome, started: Some(Timestamp(1)), ended: Timestamp(2), epilog: None }
}

const NOW: Timestamp = Timestamp(7);

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
            Effect::Forget(key) => {
                let is_end = |r: &Report| r.end_of() == Some(key);
                assert!(
                    self.sent.values().any(is_end),
                    "seed {seed}: {key} forgotten before its end was sent"
                );
            }
            Effect::Control(..) | Effect::Skipped { .. } => {}
            Effect::TurnAway(why) => panic!("seed {seed}: {why}"),
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
        self.log.append(&mut self.unread);
        self.deaths.clear();
        self.sweeps.clear();
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
            2 if last > 0 => Order::Start(assignment(key(job, last), self.boot)),
            3 => self.some_wish(key(job, last.max(1))),
            n => {
                self.next_run.insert(job, last + 1);
                let boot = if n == 4 && self.dice.one_in(4) { boot(99) } else { self.boot };
                Order::Start(assignment(key(job, last + 1), boot))
            }
        };
        self.orders.push(order);
    }

    fn step(&mut self) {
        match self.dice.pick(16) {
            0 | 1 => self.new_order(),
            2..=4 => self.deliver(),
            5..=8 => self.supervisor(),
            9 | 10 => self.read_log(),
            11 => self.tell_deaths(),
            12 => self.sweep(),
            13 => {
                self.link = !self.link;
                self.input(if self.link { Input::LinkUp } else { Input::LinkDown });
            }
            14 => self.ack(),
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
            self.supervisor();
            self.tell_deaths();
            self.sweep();
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

fn joined(records: Vec<Record>) -> Node {
    let mut node = Node::restore(identity(3, boot(1)), records);
    node.decide(Input::Join(Machine::default()));
    node.decide(Input::LinkUp);
    node.number();
    node
}

#[test]
fn a_controller_of_an_earlier_life_or_an_older_copy_is_turned_away() {
    let mut node = joined(vec![Record::Life { controller: Epoch(5), taken: Seq(10) }]);
    let head = |epoch, lowest, highest| {
        let (lowest, highest) = (Seq(lowest), Seq(highest));
        Input::Head(HeadSeen { epoch: Epoch(epoch), lowest, highest, ack_epoch: Epoch(0), ack: Seq(0) })
    };
    let old = TurnAway::OldLife { epoch: Epoch(4), seen: Epoch(5) };
    assert_eq!(node.decide(head(4, 11, 10)), [Effect::TurnAway(old)]);
    let old = TurnAway::OldState { highest: Seq(9), taken: Seq(10) };
    assert_eq!(node.decide(head(6, 10, 9)), [Effect::TurnAway(old)]);
    assert_eq!(node.decide(head(5, 11, 10)), []);
    // The node lost its log: the controller keeps letters from 14 on only.
    assert_eq!(node.decide(head(5, 14, 20)), [Effect::Skipped { from: Seq(11), to: Seq(13) }]);
    assert_eq!(node.taken(), Seq(13));
    let gap = TurnAway::Gap { expected: Seq(14), got: Seq(15) };
    let order = Order::Signal(key(1, 1), 1, SignalTo::All);
    assert_eq!(node.decide(Input::Order { seq: Seq(15), order, at: NOW }), [Effect::TurnAway(gap)]);
}

#[test]
fn jobs_of_root_and_of_strangers_are_refused() {
    for (serves, uid, runs) in [
        (Serves::Users, 0, false),
        (Serves::Users, 1000, true),
        (Serves::Only(Uid(1000)), 1000, true),
        (Serves::Only(Uid(1000)), 1001, false),
        (Serves::Only(Uid(1000)), 0, false),
        (Serves::Only(Uid(0)), 0, true),
    ] {
        let me = Identity { serves, ..identity(1, boot(1)) };
        let mut node = Node::restore(me, []);
        node.decide(Input::Join(Machine::default()));
        let mut a = assignment(key(1, 1), boot(1));
        a.uid = Uid(uid);
        let effects = node.decide(Input::Order { seq: Seq(1), order: Order::Start(a), at: NOW });
        assert_eq!(effects.iter().any(|e| matches!(e, Effect::Launch(_))), runs, "{serves:?} {uid}");
    }
}

#[test]
fn a_start_of_another_boot_is_a_lost_node() {
    let mut node = joined(Vec::new());
    let order = Order::Start(assignment(key(1, 1), boot(2)));
    node.decide(Input::Order { seq: Seq(1), order, at: NOW });
    let reports = node.number();
    assert!(
        matches!(&reports[..], [(_, Report::Ended { outcome, .. })] if outcome.end == End::NodeFail),
        "{reports:?}"
    );
}

/// A node, and what it says is to be told to the supervisor of the one run that there is.
struct Told {
    node: Node,
    log: Vec<Record>,
    seq: u64,
}

impl Told {
    fn new() -> Self {
        let mut told = Self { node: joined(Vec::new()), log: Vec::new(), seq: 0 };
        told.order(Order::Start(assignment(key(1, 1), boot(1))));
        told
    }
    fn input(&mut self, input: Input) -> Vec<Control> {
        let effects = self.node.decide(input);
        self.log.extend(effects.iter().filter_map(|effect| match effect {
            Effect::Append(record) => Some(record.clone()),
            _ => None,
        }));
        let controls = effects.into_iter().filter_map(|effect| match effect {
            Effect::Control(_, control) => Some(control),
            _ => None,
        });
        controls.collect()
    }
    fn order(&mut self, order: Order) -> Vec<Control> {
        self.seq += 1;
        self.input(Input::Order { seq: Seq(self.seq), order, at: NOW })
    }
    fn logged(&mut self, record: Record) -> Vec<Control> {
        self.log.push(record.clone());
        self.input(Input::Logged(record))
    }
    /// The node is started again; returns what the living supervisor is told then.
    fn again(&mut self) -> Vec<Control> {
        self.node = Node::restore(identity(4, boot(1)), self.log.iter().cloned());
        self.input(Input::Adopted { key: key(1, 1), alive: true, at: NOW })
    }
}

#[test]
fn what_is_wanted_of_a_run_before_its_supervisor_is_up_is_told_when_it_is() {
    let run = key(1, 1);
    let mut told = Told::new();
    for order in [
        Order::Limit(run, Some(Seconds(5))),
        Order::Limit(run, None),
        Order::Suspend(run),
        Order::Warn(run, EndReason::Drain),
        Order::Signal(run, 10, SignalTo::All),
    ] {
        assert_eq!(told.order(order), []);
    }
    let all = [Control::Limit(None), Control::Suspend, Control::Warn(EndReason::Drain)];
    assert_eq!(told.logged(Record::Up { key: run }), all);
    assert_eq!(told.logged(Record::Up { key: run }), [], "once");

    // Now each is told at once.
    let to = SignalTo::Batch;
    assert_eq!(told.order(Order::Signal(run, 12, to)), [Control::Signal(12, to)]);
    assert_eq!(told.order(Order::Resume(run)), [Control::Resume]);
    assert_eq!(told.order(Order::Limit(run, Some(Seconds(7)))), [Control::Limit(Some(Seconds(7)))]);
    assert_eq!(told.order(Order::Warn(run, EndReason::Preemption)), [Control::Warn(EndReason::Preemption)]);

    // A later life of the node says again what may not have been told and does no harm if it was.
    assert_eq!(told.again(), [Control::Limit(Some(Seconds(7))), Control::Resume]);
    let why = Stop { why: StopWhy::Requeue, reason: Some(EndReason::Requeue) };
    assert_eq!(told.order(Order::Stop(run, why)), [Control::Stop(why)]);
    assert_eq!(told.again(), [Control::Limit(Some(Seconds(7))), Control::Resume, Control::Stop(why)]);
}

#[test]
fn a_warning_that_was_taken_before_the_supervisor_was_up_outlives_the_node() {
    let run = key(1, 1);
    let mut told = Told::new();
    told.order(Order::Warn(run, EndReason::Drain));
    assert_eq!(told.again(), []);
    assert_eq!(told.logged(Record::Up { key: run }), [Control::Warn(EndReason::Drain)]);
}

#[test]
fn a_wish_for_an_unknown_run_leaves_nothing_behind() {
    let mut node = joined(Vec::new());
    let effects = node.decide(Input::Order { seq: Seq(1), order: Order::Suspend(key(7, 1)), at: NOW });
    assert!(matches!(&effects[1..], [Effect::Append(Record::Acked { key: k })] if *k == key(7, 1)));
    assert_eq!((node.kept().count(), node.number().len()), (0, 0));
}

#[test]
fn a_suspension_is_reported_and_said_again_by_the_next_life_and_after_the_same_start() {
    let run = key(1, 1);
    let mut told = Told::new();
    told.logged(Record::Up { key: run });
    told.logged(Record::Started { key: run, at: Timestamp(1) });
    told.logged(Record::Suspended { key: run, at: Timestamp(2) });
    let said = |told: &mut Told| -> Vec<Report> { told.node.number().into_iter().map(|(_, r)| r).collect() };
    let (started, suspended, resumed) = (
        Report::Started { key: run, at: Timestamp(1) },
        Report::Suspended { key: run, at: Timestamp(2) },
        Report::Resumed { key: run, at: Timestamp(3) },
    );
    assert_eq!(said(&mut told), [started.clone(), suspended.clone()]);
    told.order(Order::Start(assignment(run, boot(1))));
    assert_eq!(said(&mut told), [started, suspended.clone()]);

    told.again();
    told.input(Input::Join(Machine::default()));
    told.input(Input::LinkUp);
    assert!(matches!(&said(&mut told)[..], [Report::Joined { .. }, last] if *last == suspended));
    told.logged(Record::Resumed { key: run, at: Timestamp(3) });
    assert_eq!(said(&mut told), [resumed]);
    // A run that has ended is not said to be suspended.
    told.logged(Record::Suspended { key: run, at: Timestamp(4) });
    told.logged(ended(run));
    told.again();
    told.input(Input::Join(Machine::default()));
    told.input(Input::LinkUp);
    assert!(matches!(&said(&mut told)[..], [Report::Joined { .. }, Report::Ended { .. }]));
}

#[test]
fn an_exit_is_not_told_in_the_same_breath_as_the_end() {
    let mut node = joined(Vec::new());
    let order = Order::Start(assignment(key(1, 1), boot(1)));
    node.decide(Input::Order { seq: Seq(1), order, at: NOW });
    for record in [
        Record::Up { key: key(1, 1) },
        Record::Started { key: key(1, 1), at: Timestamp(1) },
        Record::Exited { key: key(1, 1), at: Timestamp(2) },
        ended(key(1, 1)),
    ] {
        node.decide(Input::Logged(record));
    }
    let reports = node.number();
    assert!(
        matches!(&reports[..], [(Seq(2), Report::Started { .. }), (Seq(3), Report::Ended { .. })]),
        "{reports:?}"
    );
}

#[test]
fn cards_are_told_when_they_changed_and_one_letter_of_them_at_a_time() {
    let mut node = joined(Vec::new());
    let cards = |n: u32| -> Vec<gq_model::Card> {
        (0..n)
            .map(|index| gq_model::Card {
                index,
                uuid: None,
                model: "A".into(),
                memory: MiB(1),
                minor: None,
                nvlink: Vec::new(),
                mig: false,
                slices: Vec::new(),
                grid: None,
                fixed: false,
                health: gq_model::CardHealth::Good,
            })
            .collect()
    };
    node.decide(Input::Cards(cards(0)));
    assert!(node.number().is_empty());
    for n in [1, 2, 3] {
        node.decide(Input::Cards(cards(n)));
    }
    let first = node.number();
    assert_eq!(first, [(Seq(2), Report::Cards(cards(1)))]);
    node.decide(Input::Acked { epoch: Epoch(3), up_to: Seq(2) });
    assert_eq!(node.number(), [(Seq(3), Report::Cards(cards(3)))]);
}
