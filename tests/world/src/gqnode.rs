//! A life of `gqnode`: the node's real mind, and the real order of its turn, over the machine's log and processes. What the household does
//! in threads comes here one thing at a time.

use crate::{
    dice::Dice,
    fuse::Fuse,
    machine::{CPUS, Machine},
};
use gq_executor::{Life, from_disk, from_head, from_order, to_disk, to_letter};
use gq_model::{Beat, ClusterId, Epoch, MiB, NodeId, Reason, RunKey, Seq, Timestamp};
use gq_nodecore::{Effect, Hands, Identity, Input, Machine as Has, Node, Record, Serves};
use gq_nodelog as disk;
use gq_proto::{Head, LETTER_VERSION, Order, Reading, Report};
use std::{collections::VecDeque, convert::Infallible};

/// How often a node gives a sign of life over a socket, in microseconds.
const BEAT: u64 = 10_000_000;

/// What the node knows while it has the folders of its letters open.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) reading: Reading,
    /// The controller's head as it was heard last.
    pub(crate) theirs: Option<Head>,
    /// Whether the controller has said that it listens to this life.
    pub(crate) is_answered: bool,
    /// The lowest letter kept.
    pub(crate) lowest: Seq,
}

/// What a life of the node does with what it has to say.
#[derive(Debug)]
pub(crate) struct Saying {
    /// Every order up to this number has been taken.
    pub(crate) ack: Seq,
    /// A sign of life, when it is one.
    pub(crate) beat: Beat,
    pub(crate) letters: Vec<Report>,
}

/// A life.
#[derive(Debug)]
pub(crate) struct GqNode {
    pub(crate) node: Node,
    pub(crate) life: Life,
    pub(crate) fuse: Fuse,
    /// How much of the log was read.
    read: usize,
    unsynced: bool,
    /// Supervisors that died and of which nobody was told yet.
    pub(crate) gone: Vec<RunKey>,
    /// Runs whose remains are being killed.
    sweeps: Vec<RunKey>,
    /// Runs that have ended and whose cards are looked at before they are given on.
    vacating: Vec<RunKey>,
    /// Whether there is a link.
    pub(crate) is_linked: bool,
    /// What waits to leave on the link.
    pub(crate) sayings: VecDeque<Saying>,
    pub(crate) session: Option<Session>,
    /// The highest letter of this life that was written as a file; none before the first session.
    pub(crate) written: Option<Seq>,
    acked: Seq,
    beat: Beat,
    /// When the last sign of life was given over a socket.
    beaten: u64,
}

/// A life at work on its machine.
pub(crate) struct At<'a> {
    pub(crate) life: &'a mut GqNode,
    pub(crate) machine: &'a mut Machine,
    pub(crate) dice: &'a mut Dice,
    pub(crate) now: Timestamp,
    /// Microseconds on the clock that never jumps.
    pub(crate) clock: u64,
}

/// It is dead.
pub(crate) struct Dead;

impl GqNode {
    /// A new life on what the log says: a higher epoch, in the log before anybody hears of it.
    pub(crate) fn begin(machine: &mut Machine, dice: &mut Dice, now: Timestamp, clock: u64) -> Self {
        for assignment in machine.survivors() {
            let key = assignment.key;
            let what = disk::Taken::Start(Box::new(assignment));
            machine.log.append(disk::Record::Taken { seq: Seq(0), controller: Epoch(0), what });
            machine.log.append(disk::Record::Up { key, pid: 1, pid_start: 1 });
        }
        let wall = u64::try_from(now.0 / 1_000).unwrap_or(0);
        let Ok(life) = Life::after(&machine.log.records, wall, || Ok::<_, Infallible>(new_id(dice)));
        let me = Identity {
            node: machine.name.clone(),
            id: life.id,
            boot: machine.boot(),
            epoch: life.epoch,
            serves: Serves::Users { gqd: gq_model::Uid(877) },
        };
        let node = Node::restore(me, machine.log.records.iter().cloned().map(from_disk));
        machine.log.append(life.record(machine.boot(), &node));
        machine.log.sync();
        let mut life = Self {
            node,
            life,
            fuse: Fuse::default(),
            read: machine.log.records.len(),
            unsynced: false,
            gone: Vec::new(),
            sweeps: Vec::new(),
            vacating: Vec::new(),
            is_linked: false,
            sayings: VecDeque::new(),
            session: None,
            written: None,
            acked: Seq(0),
            beat: Beat(0),
            beaten: clock,
        };
        let mut at = At { life: &mut life, machine, dice, now, clock };
        let mut todo = Vec::new();
        for key in at.life.node.unsure().collect::<Vec<_>>() {
            let alive = at.machine.is_supervised(key);
            at.decide(Input::Adopted { key, alive, at: now }, &mut todo);
        }
        let has = Has { cpus: CPUS, memory: MiB(4096), cards: at.machine.cards.clone(), unbound: Vec::new() };
        at.decide(Input::Join(has), &mut todo);
        at.settle(todo);
        life
    }

    /// A sign of life: the boot clock in milliseconds, and never the same twice.
    pub(crate) fn next_beat(&mut self, clock: u64) -> Beat {
        self.beat = Beat((clock / 1_000).max(self.beat.0 + 1));
        self.beat
    }

    pub(crate) fn head(&mut self, cluster: ClusterId, machine: &Machine, clock: u64) -> Head {
        Head {
            version: LETTER_VERSION,
            cluster,
            node: machine.name.clone(),
            epoch: self.life.epoch,
            boot: Some(machine.boot()),
            node_id: Some(self.life.id),
            beat: self.next_beat(clock).0,
            seen: Beat(0),
            lowest: self.node.lowest(),
            highest: self.node.highest(),
            ack_epoch: self.node.controller(),
            ack: self.node.taken(),
            refusal: None,
            cards: None,
            past: Epoch(0),
        }
    }

    /// Whether something of its own waits to be done.
    pub(crate) fn is_busy(&self, machine: &Machine) -> bool {
        self.read < machine.log.records.len()
            || !self.gone.is_empty()
            || !self.sweeps.is_empty()
            || !self.vacating.is_empty()
    }

    pub(crate) fn unlink(&mut self) {
        if std::mem::take(&mut self.is_linked) {
            self.node.decide(Input::LinkDown);
        }
        self.sayings.clear();
        self.session = None;
    }
}

fn new_id(dice: &mut Dice) -> NodeId {
    NodeId(std::array::from_fn(|_| dice.roll(256) as u8))
}

impl At<'_> {
    pub(crate) fn decide(&mut self, input: Input, todo: &mut Vec<Effect>) {
        if let Input::Logged(record) = &input {
            self.life.unsynced |= record.is_end();
        }
        todo.extend(self.life.node.decide(input));
    }

    /// Does what was decided, unless it dies over it.
    pub(crate) fn settle(&mut self, todo: Vec<Effect>) {
        let _: Result<(), Dead> = gq_nodecore::settle(self, todo);
    }

    /// One turn of what happens on the machine itself. Nothing is done while its disk is full.
    pub(crate) fn turn(&mut self) {
        if self.machine.is_full {
            return;
        }
        let mut todo = Vec::new();
        self.read_log(&mut todo);
        for key in std::mem::take(&mut self.life.gone) {
            self.decide(Input::SupervisorGone { key }, &mut todo);
        }
        for key in std::mem::take(&mut self.life.vacating) {
            let at = self.now;
            self.decide(Input::Vacated { key, used: Vec::new(), at }, &mut todo);
        }
        self.settle(todo);
        let life = &mut *self.life;
        if life.is_linked && life.session.is_none() && self.clock.saturating_sub(life.beaten) >= BEAT {
            life.beaten = self.clock;
            let beat = life.next_beat(self.clock);
            life.acked = life.node.taken();
            life.sayings.push_back(Saying { ack: life.acked, beat, letters: Vec::new() });
        }
    }

    /// Cards are found idle, or in use again, as the dice will.
    pub(crate) fn judge(&mut self) {
        let node = &self.life.node;
        let at_work: Vec<RunKey> = node.kept().filter(|key| node.is_at_work(*key)).collect();
        let mut todo = Vec::new();
        for key in at_work {
            if self.dice.one_in(20) {
                let since = self.dice.one_in(2).then_some(self.now);
                self.decide(Input::Idle { key, since }, &mut todo);
            }
        }
        self.settle(todo);
    }

    /// What is left of runs is killed.
    pub(crate) fn sweep(&mut self) {
        if self.machine.is_full {
            return;
        }
        let mut todo = Vec::new();
        for key in std::mem::take(&mut self.life.sweeps) {
            let left = self.machine.sweep(key, self.dice);
            self.decide(Input::Swept { key, left, at: self.now }, &mut todo);
        }
        self.settle(todo);
    }

    fn read_log(&mut self, todo: &mut Vec<Effect>) {
        let new: Vec<disk::Record> =
            self.machine.log.records.get(self.life.read..).unwrap_or_default().to_vec();
        self.life.read = self.machine.log.records.len();
        for record in new {
            self.decide(Input::Logged(from_disk(record)), todo);
        }
    }

    /// A controller's head is heard. False: it is not listened to, or knows of a life of this node that the log does not tell of.
    pub(crate) fn hear(&mut self, head: &Head, todo: &mut Vec<Effect>) -> bool {
        let life = self.life.life;
        if life.is_outlived_by(head.ack_epoch) {
            let other = life.as_another(head.ack_epoch, new_id(self.dice));
            self.machine.log.append(other.record(self.machine.boot(), &self.life.node));
            self.machine.log.sync();
            self.life.fuse.light(0);
            return self.life.fuse.step();
        }
        let before = todo.len();
        self.decide(Input::Head(from_head(head)), todo);
        let is_turned_away = todo.iter().skip(before).any(|effect| matches!(effect, Effect::TurnAway(_)));
        if is_turned_away {
            todo.truncate(before);
        } else if head.ack_epoch == life.epoch {
            self.seen(head.seen, head.highest, todo);
        }
        !is_turned_away
    }

    fn seen(&mut self, beat: Beat, up_to: Seq, todo: &mut Vec<Effect>) {
        if beat > Beat(0) {
            self.decide(Input::Seen { beat, up_to }, todo);
        }
    }

    /// Orders come, and which reports were taken and which sign of life was seen.
    pub(crate) fn take(&mut self, said: Option<(Seq, Beat)>, orders: Vec<Order>) {
        let mut todo = Vec::new();
        if let Some((up_to, _)) = said {
            self.decide(Input::Acked { epoch: self.life.life.epoch, up_to }, &mut todo);
        }
        for order in orders {
            let input = Input::Order { seq: order.seq, order: from_order(order.body), at: self.now };
            self.decide(input, &mut todo);
        }
        let taken = self.life.node.taken();
        self.seen(said.map_or(Beat(0), |(_, beat)| beat), taken, &mut todo);
        self.settle(todo);
    }

    /// There is a link: all that is owed is said on it.
    pub(crate) fn link_up(&mut self, mut todo: Vec<Effect>) {
        self.life.is_linked = true;
        self.life.acked = Seq(0);
        self.decide(Input::LinkUp, &mut todo);
        self.settle(todo);
    }
}

impl Hands for At<'_> {
    type Error = Dead;

    fn append(&mut self, records: Vec<Record>) -> Result<(), Dead> {
        self.life.unsynced |= records.iter().any(Record::is_end);
        for record in records.into_iter().filter_map(to_disk) {
            if !self.life.fuse.step() {
                return Err(Dead);
            }
            let is_at_end = self.life.read == self.machine.log.records.len();
            self.machine.log.append(record);
            // Its own records are not read again; what supervisors wrote before them is.
            if is_at_end {
                self.life.read += 1;
            }
        }
        Ok(())
    }

    fn owes_sync(&mut self) -> bool {
        std::mem::take(&mut self.life.unsynced)
    }

    fn sync(&mut self) -> Result<(), Dead> {
        if !self.life.fuse.step() {
            return Err(Dead);
        }
        self.machine.log.sync();
        Ok(())
    }

    fn report(&mut self) {
        if !self.life.fuse.step() {
            return;
        }
        let letters = self.life.node.number();
        for key in letters.iter().filter_map(|(_, report)| report.end_of()) {
            assert!(self.machine.log.has_end(key), "the end of {key} is reported and not on disk");
        }
        let ack = self.life.node.taken();
        if self.life.is_linked && (!letters.is_empty() || ack > self.life.acked) {
            let epoch = self.life.life.epoch;
            let letters = letters.into_iter().map(|(seq, report)| to_letter(seq, epoch, report)).collect();
            self.life.acked = ack;
            self.life.sayings.push_back(Saying { ack, beat: Beat(0), letters });
        }
    }

    fn act(&mut self, effect: Effect, todo: &mut Vec<Effect>) {
        if !self.life.fuse.step() {
            return;
        }
        match effect {
            Effect::Append(record) => todo.push(Effect::Append(record)),
            Effect::Launch(assignment) => {
                if self.dice.one_in(30) {
                    let (key, reason) = (assignment.key, Reason::LaunchFailure);
                    return self.decide(Input::LaunchFailed { key, reason, detail: "no room".into() }, todo);
                }
                let until = self.life.node.leased_until(assignment.key);
                self.machine.launch(*assignment, until);
            }
            Effect::Control(key, control) => {
                self.machine.control(key, control, self.now, self.clock);
            }
            Effect::Sweep { key, .. } => self.life.sweeps.push(key),
            Effect::Vacate(key) => self.life.vacating.push(key),
            Effect::Forget(key) => {
                let is_over = |life: &crate::machine::Life| !life.supervised && !life.is_alive();
                if self.machine.lives.get(&key).is_some_and(is_over) {
                    self.machine.lives.remove(&key);
                }
            }
            Effect::TurnAway(_) => self.life.unlink(),
            Effect::Skipped { .. } => {}
        }
    }
}
