//! The state of a node and the one function that moves it. Restoring it is in `restore`, numbering reports in `outbox`.

use crate::{
    Control, Effect, HeadSeen, Identity, Input, LiveRun, Machine, Order, Record, Report, Serves, Stop,
    TurnAway,
    ends::{boot_lost, memory_lost, stopped},
    lease::Lease,
    outbox::Outbox,
    run::{After, Run, Stage},
    wishes::control,
};
use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    format,
    string::String,
    vec::Vec,
};
use gq_model::{
    Assignment, Beat, Card, End, Epoch, Fault, Outcome, Reason, RunKey, RunNumber, Seq, Timestamp,
};

/// Most runs a node keeps at a time, the ends that are not acknowledged among them. More are refused.
pub const MAX_RUNS: usize = 8192;
/// Most runs remembered after their end was acknowledged.
pub const MAX_TOMBSTONES: usize = 16_384;

/// A node.
#[derive(Debug)]
pub struct Node {
    me: Identity,
    pub(crate) runs: BTreeMap<RunKey, Run>,
    /// Runs that are over and acknowledged: never to be started.
    pub(crate) gone: BTreeSet<RunKey>,
    buried: VecDeque<RunKey>,
    /// Every order up to this number has been taken.
    pub(crate) taken: Seq,
    /// Highest life of the controller seen.
    pub(crate) controller: Epoch,
    pub(crate) outbox: Outbox,
    /// A sign of life that the controller saw, and the last order that it had written when it said so: that one has not come yet.
    pub(crate) unheard: Option<(Beat, Seq)>,
    pub(crate) joined: bool,
    /// The cards as they were told last.
    pub(crate) cards: Vec<Card>,
    /// Cards that wait until the report before them is acknowledged.
    pub(crate) cards_next: Option<Vec<Card>>,
    /// Why nothing can be started: as it was told last, and as it is.
    pub(crate) trouble: (Option<String>, Option<String>),
    /// Whether the site has an epilog: supervisors run it.
    pub(crate) has_epilog: bool,
}

impl Node {
    pub(crate) fn new(me: Identity) -> Self {
        Self {
            me,
            runs: BTreeMap::new(),
            gone: BTreeSet::new(),
            buried: VecDeque::new(),
            taken: Seq(0),
            controller: Epoch(0),
            outbox: Outbox::default(),
            unheard: None,
            joined: false,
            cards: Vec::new(),
            cards_next: None,
            trouble: (None, None),
            has_epilog: false,
        }
    }

    /// Whether the site has an epilog: the end of a run whose supervisor was killed then says that none was run.
    pub const fn expect_epilog(&mut self, has_epilog: bool) {
        self.has_epilog = has_epilog;
    }

    /// Every order up to this number has been taken.
    pub const fn taken(&self) -> Seq {
        self.taken
    }
    /// The highest life of the controller seen.
    pub const fn controller(&self) -> Epoch {
        self.controller
    }
    /// The lowest report kept; one more than the highest when none is.
    pub fn lowest(&self) -> Seq {
        self.outbox.lowest()
    }
    /// The highest report of this life.
    pub const fn highest(&self) -> Seq {
        self.outbox.highest()
    }
    /// The runs of which something is kept: those that live, and those whose end was not acknowledged.
    pub fn kept(&self) -> impl Iterator<Item = RunKey> + '_ {
        self.runs.keys().copied()
    }

    /// Whether a run is known and not over: what it was given is still its own.
    pub fn lives(&self, key: RunKey) -> bool {
        self.runs.get(&key).is_some_and(|run| !run.is_over())
    }

    /// Whether [`Node::number`] may be called a moment later without harm: there is nothing to say but starts.
    pub fn is_patient(&self) -> bool {
        self.joined && self.outbox.is_patient()
    }

    /// Numbers the reports made since the last call and returns those to be sent now, in order: nothing while the link
    /// is down, all that are owed after it came up.
    pub fn number(&mut self) -> Vec<(Seq, Report)> {
        if !self.joined {
            return Vec::new();
        }
        let before = self.outbox.highest();
        let letters = self.outbox.number();
        for (seq, report) in self.outbox.since(before) {
            if let Some(Run { stage: Stage::Over { seq: last, .. }, .. }) =
                report.end_of().and_then(|key| self.runs.get_mut(&key))
            {
                *last = Some(*seq);
            }
        }
        letters
    }

    /// Takes in what happened and says what is to be done, in order. Reports are made by [`Node::number`].
    pub fn decide(&mut self, input: Input) -> Vec<Effect> {
        let mut todo = Vec::new();
        match input {
            Input::Adopted { key, alive, at } => self.adopt(key, alive, at, &mut todo),
            Input::Join(machine) => self.join(machine),
            Input::Head(head) => self.head(head, &mut todo),
            Input::LinkUp => {
                self.outbox.link(true);
                self.tell_idle_again();
            }
            Input::LinkDown => self.outbox.link(false),
            Input::Order { seq, order, at } => self.order(seq, order, at, &mut todo),
            Input::Acked { epoch, up_to } => self.acked(epoch, up_to, &mut todo),
            Input::Seen { beat, up_to } => self.seen(beat, up_to, &mut todo),
            Input::Logged(record) => self.logged(record, &mut todo),
            Input::LaunchFailed { key, reason, detail } => {
                let failed = self.runs.get(&key).is_some_and(|run| matches!(run.stage, Stage::Launching));
                if failed {
                    self.tell_cards_first();
                    self.refuse(key, Fault::Site, reason, detail, &mut todo);
                }
            }
            Input::SupervisorGone { key } => self.supervisor_gone(key, &mut todo),
            Input::Swept { key, left, at } => self.swept(key, left, at, &mut todo),
            Input::Cards(cards) => self.look_at_cards(cards),
            Input::Overused { key, used } => {
                // A script that has ended keeps nothing for long.
                let is_alive = |run: &Run| matches!(run.stage, Stage::Up) && run.exited.is_none();
                if self.runs.get(&key).is_some_and(is_alive) {
                    todo.push(Effect::Control(key, Control::Overused(used)));
                }
            }
            Input::Trouble(why) => {
                self.trouble.1 = why;
                self.tell_trouble();
            }
            Input::Idle { key, since } => self.found_idle(key, since),
            Input::Vacated { key, used, at } => self.vacated(key, used, at, &mut todo),
        }
        todo
    }

    fn adopt(&mut self, key: RunKey, alive: bool, at: Timestamp, todo: &mut Vec<Effect>) {
        let other_boot = self.runs.get(&key).is_some_and(|run| run.boot.is_some_and(|b| b != self.me.boot));
        let Some(run) = self.runs.get_mut(&key) else { return };
        let Stage::Unsure { up } = run.stage else { return };
        if other_boot {
            self.end(key, boot_lost(), at, todo);
        } else if alive {
            run.stage = if up { Stage::Up } else { Stage::Launching };
            run.assignment = None;
            if up {
                run.wishes.tell(key, todo);
            }
        } else if up || run.started.is_some() {
            self.lose(key, After::End, todo);
        } else if let Some(stop) = run.wishes.stop {
            self.end(key, stopped(stop.why), at, todo);
        } else {
            // A supervisor says that it is up before it does anything else: no script of this run was executed.
            self.lose(key, After::Begin, todo);
        }
    }

    fn lose(&mut self, key: RunKey, after: After, todo: &mut Vec<Effect>) {
        if let Some(run) = self.runs.get_mut(&key) {
            run.stage = Stage::Lost(after);
            todo.push(Effect::Sweep { key, again: false });
        }
    }

    fn join(&mut self, machine: Machine) {
        if self.joined {
            return;
        }
        self.joined = true;
        self.cards.clone_from(&machine.cards);
        let live = self.runs.iter().filter(|(_, run)| !run.is_over());
        let runs = live.map(|(key, run)| LiveRun { key: *key, started: run.started }).collect();
        let (boot, id) = (self.me.boot, self.me.id);
        self.outbox.push(Report::Joined { boot, id, machine, runs, taken: self.taken });
        self.tell_trouble();
        for (key, run) in &self.runs {
            let owed = match (&run.stage, run.exited) {
                (Stage::Over { end, .. }, _) => Some(end.clone()),
                // Said again, since the one who asks whether it runs may not have heard it.
                (_, None) => run.pause(*key),
                (_, Some(_)) => None,
            };
            owed.into_iter().for_each(|report| self.outbox.push(report));
        }
    }

    fn head(&mut self, head: HeadSeen, todo: &mut Vec<Effect>) {
        if head.epoch < self.controller {
            let why = TurnAway::OldLife { epoch: head.epoch, seen: self.controller };
            return todo.push(Effect::TurnAway(why));
        }
        if head.highest < self.taken {
            let why = TurnAway::OldState { highest: head.highest, taken: self.taken };
            return todo.push(Effect::TurnAway(why));
        }
        self.controller = head.epoch;
        let expected = next(self.taken);
        if head.lowest > expected {
            self.taken = Seq(head.lowest.0.saturating_sub(1));
            todo.push(Effect::Skipped { from: expected, to: self.taken });
        }
        self.acked(head.ack_epoch, head.ack, todo);
    }

    fn order(&mut self, seq: Seq, order: Order, at: Timestamp, todo: &mut Vec<Effect>) {
        let expected = next(self.taken);
        if seq < expected {
            return;
        }
        if seq > expected {
            return todo.push(Effect::TurnAway(TurnAway::Gap { expected, got: seq }));
        }
        self.taken = seq;
        todo.push(Effect::Append(Record::Taken { seq, controller: self.controller, order: order.clone() }));
        match order {
            Order::Start(assignment) => self.start(assignment, at, todo),
            Order::Stop(key, stop) => self.stop(key, stop, at, todo),
            Order::Signal(..) | Order::Warn(..) | Order::Limit(..) | Order::Suspend(_) | Order::Resume(_) => {
                self.steer(&order, todo);
            }
        }
        if let Some((beat, up_to)) = self.unheard.take() {
            self.seen(beat, up_to, todo);
        }
    }

    /// Passes on what is wanted of a run that goes on.
    fn steer(&mut self, order: &Order, todo: &mut Vec<Effect>) {
        let Some((key, control)) = control(order) else { return };
        let Some(run) = self.runs.get_mut(&key) else {
            // So that the log need not keep this order for a run that nothing more will be heard of.
            return todo.push(Effect::Append(Record::Acked { key }));
        };
        match run.stage {
            Stage::Up => {
                run.wishes.take(order);
                run.wishes.was_warned();
                todo.push(Effect::Control(key, control));
            }
            // It is told when it is up.
            Stage::Unsure { .. } | Stage::Held | Stage::Launching => run.wishes.take(order),
            Stage::Lost(_) | Stage::Vacating(_) | Stage::Over { .. } => {}
        }
    }

    fn start(&mut self, assignment: Box<Assignment>, at: Timestamp, todo: &mut Vec<Effect>) {
        let key = assignment.key;
        if let Some(run) = self.runs.get(&key) {
            let last = match (&run.stage, run.exited, run.started) {
                (Stage::Over { end, .. }, _, _) => Some(end.clone()),
                (_, Some(at), _) => Some(Report::Exited { key, at }),
                (_, None, Some(at)) => Some(Report::Started { key, at }),
                (_, None, None) => None,
            };
            let is_over = run.has_ended() || run.exited.is_some();
            let pause = run.pause(key).filter(|_| !is_over);
            if self.joined {
                last.into_iter().chain(pause).for_each(|report| self.outbox.push(report));
            }
            return;
        }
        self.enter(assignment);
        self.begin(key, at, todo);
    }

    /// Enters a run whose start was taken, and whether it may be launched as things stand.
    pub(crate) fn enter(&mut self, assignment: Box<Assignment>) {
        let (key, boot, refusal) = (assignment.key, Some(assignment.boot), self.refusal(&assignment));
        let has_cards = !assignment.cards.is_empty();
        let lease = assignment.lease.map(Lease::of);
        self.dig_up(key);
        let run = Run { assignment: Some(assignment), boot, refusal, has_cards, lease, ..Run::unknown() };
        self.runs.insert(key, run);
    }

    /// Launches a run of which nothing was executed yet, or refuses it, or holds it until its turn comes.
    fn begin(&mut self, key: RunKey, at: Timestamp, todo: &mut Vec<Effect>) {
        let Some(run) = self.runs.get_mut(&key) else { return };
        let is_for_another =
            run.assignment.as_ref().and_then(|a| a.node_id).is_some_and(|id| id != self.me.id);
        if let Some((fault, detail)) = run.refusal.take() {
            self.refuse(key, fault, Reason::LaunchFailure, detail, todo);
        } else if run.boot != Some(self.me.boot) {
            self.end(key, boot_lost(), at, todo);
        } else if is_for_another {
            self.end(key, memory_lost(), at, todo);
        } else {
            self.go(key, todo);
        }
    }

    /// Why this node will not run it, and whose fault that is; none when it will.
    fn refusal(&self, assignment: &Assignment) -> Option<(Fault, String)> {
        let (key, uid) = (assignment.key, assignment.uid);
        let site = |why: String| Some((Fault::Site, why));
        if self.gone.contains(&key) {
            return site("this run was stopped or has ended before".into());
        }
        if assignment.node != self.me.node {
            return site(format!(
                "it is meant for the node {}, and this is {}",
                assignment.node, self.me.node
            ));
        }
        if self.later_known(key) {
            return site("a later run of this task has come already".into());
        }
        if self.runs.len() >= MAX_RUNS {
            return site(format!("this node keeps {MAX_RUNS} runs already; is gqd taking its reports?"));
        }
        match self.me.serves {
            Serves::Users { .. } if uid.0 == 0 => Some((Fault::User, "jobs of root are refused".into())),
            Serves::Users { gqd } if uid == gqd => {
                Some((Fault::User, "jobs of gqd's own account are refused".into()))
            }
            Serves::Only(mine) if uid != mine => {
                site(format!("this node runs jobs of uid {mine} only, not of uid {uid}"))
            }
            Serves::Users { .. } | Serves::Only(_) => None,
        }
    }

    fn stop(&mut self, key: RunKey, stop: Stop, at: Timestamp, todo: &mut Vec<Effect>) {
        // If its end was acknowledged, who asks again has forgotten that, and is told anew.
        self.dig_up(key);
        let Some(run) = self.runs.get_mut(&key) else {
            self.runs.insert(key, Run::unknown());
            return self.end(key, stopped(stop.why), at, todo);
        };
        match &run.stage {
            Stage::Over { end, .. } => {
                if self.joined {
                    self.outbox.push(end.clone());
                }
            }
            Stage::Held => self.end(key, stopped(stop.why), at, todo),
            // It is told when it is up.
            Stage::Unsure { .. } | Stage::Launching | Stage::Lost(_) => run.wishes.stop = Some(stop),
            // Its end is about to be said.
            Stage::Vacating(_) => {}
            Stage::Up => {
                run.wishes.stop = Some(stop);
                todo.push(Effect::Control(key, Control::Stop(stop)));
            }
        }
    }

    fn logged(&mut self, record: Record, todo: &mut Vec<Effect>) {
        match record {
            Record::Up { key } => self.up(key, todo),
            Record::Started { key, at } => {
                self.up(key, todo);
                let Some(run) = self.runs.get_mut(&key).filter(|run| !run.is_over()) else { return };
                if run.started.replace(at).is_none() && self.joined {
                    self.outbox.push(Report::Started { key, at });
                }
            }
            Record::Suspended { key, at } => self.paused(key, true, at),
            Record::Resumed { key, at } => self.paused(key, false, at),
            Record::Exited { key, at } => {
                let Some(run) = self.runs.get_mut(&key).filter(|run| !run.is_over()) else { return };
                if run.exited.replace(at).is_none() && self.joined {
                    self.outbox.push(Report::Exited { key, at });
                }
            }
            Record::Ended { key, outcome, started, ended, epilog } => {
                self.over(key, Report::Ended { key, outcome, started, ended, epilog }, todo);
            }
            Record::Refused { key, fault, reason, detail } => {
                self.over(key, Report::Refused { key, fault, reason, detail }, todo);
            }
            // Written by the node itself, which knows.
            Record::Life { .. } | Record::Taken { .. } | Record::Vacated { .. } | Record::Acked { .. } => {}
        }
    }

    fn paused(&mut self, key: RunKey, is_so: bool, at: Timestamp) {
        let Some(run) = self.runs.get_mut(&key).filter(|run| !run.is_over()) else { return };
        run.suspended = Some((is_so, at));
        if let (true, Some(report)) = (self.joined, run.pause(key)) {
            self.outbox.push(report);
        }
    }

    fn up(&mut self, key: RunKey, todo: &mut Vec<Effect>) {
        let Some(run) = self.runs.get_mut(&key) else { return };
        match &mut run.stage {
            Stage::Unsure { up } => *up = true,
            Stage::Launching => {
                run.stage = Stage::Up;
                let until = run.lease.and_then(|lease| lease.until);
                todo.extend(until.map(|until| Effect::Control(key, Control::Lease(until))));
                run.wishes.tell(key, todo);
            }
            Stage::Held | Stage::Up | Stage::Lost(_) | Stage::Vacating(_) | Stage::Over { .. } => {}
        }
    }

    fn supervisor_gone(&mut self, key: RunKey, todo: &mut Vec<Effect>) {
        match self.runs.get(&key).map(|run| &run.stage) {
            Some(Stage::Up) => self.lose(key, After::End, todo),
            Some(Stage::Launching) => self.lose(key, After::Refuse, todo),
            Some(
                Stage::Unsure { .. } | Stage::Held | Stage::Lost(_) | Stage::Vacating(_) | Stage::Over { .. },
            )
            | None => {}
        }
    }

    fn swept(&mut self, key: RunKey, left: u32, at: Timestamp, todo: &mut Vec<Effect>) {
        let Some(run) = self.runs.get(&key) else { return };
        let Stage::Lost(after) = run.stage else { return };
        if left > 0 {
            return todo.push(Effect::Sweep { key, again: true });
        }
        let lost = || Outcome::without_exit(End::Failed, Reason::SupervisorLost, "its supervisor was killed");
        let stopped_by = run.wishes.stop.map(|stop| stop.why);
        match (after, stopped_by) {
            (After::End, why) => self.end_unattended(key, why.map_or_else(lost, stopped), at, todo),
            (_, Some(why)) => self.end(key, stopped(why), at, todo),
            (After::Refuse, None) => {
                let detail = String::from("gqstep ended before it was up");
                self.refuse(key, Fault::Site, Reason::LaunchFailure, detail, todo);
            }
            (After::Begin, None) => self.begin(key, at, todo),
        }
    }

    fn acked(&mut self, epoch: Epoch, up_to: Seq, todo: &mut Vec<Effect>) {
        if epoch != self.me.epoch {
            return;
        }
        for (seq, key) in self.outbox.acked(up_to) {
            let done = matches!(
                self.runs.get(&key),
                Some(Run { stage: Stage::Over { seq: last, .. }, .. }) if *last == Some(seq)
            );
            if done {
                self.runs.remove(&key);
                self.bury(key);
                todo.push(Effect::Append(Record::Acked { key }));
                todo.push(Effect::Forget(key));
            }
        }
        self.tell_trouble();
        self.tell_all_idle();
        if !self.outbox.owes_cards()
            && let Some(cards) = self.cards_next.take()
        {
            self.look_at_cards(cards);
        }
    }

    pub(crate) fn launch(&mut self, key: RunKey, todo: &mut Vec<Effect>) {
        let Some(run) = self.runs.get_mut(&key) else { return };
        if let Some(assignment) = run.assignment.take() {
            run.stage = Stage::Launching;
            todo.push(Effect::Launch(assignment));
        }
    }

    /// Whether an earlier run of the same task is not over.
    pub(crate) fn earlier_lives(&self, key: RunKey) -> bool {
        self.runs.range(task_of(key)).take_while(|(k, _)| **k < key).any(|(_, run)| !run.is_over())
    }

    /// Whether a later run of the same task has come.
    fn later_known(&self, key: RunKey) -> bool {
        self.runs.range(task_of(key)).any(|(k, _)| *k > key)
    }

    pub(crate) fn bury(&mut self, key: RunKey) {
        if self.gone.insert(key) {
            self.buried.push_back(key);
        }
        if self.buried.len() > MAX_TOMBSTONES
            && let Some(oldest) = self.buried.pop_front()
        {
            self.gone.remove(&oldest);
        }
    }

    pub(crate) fn dig_up(&mut self, key: RunKey) {
        if self.gone.remove(&key) {
            self.buried.retain(|k| *k != key);
        }
    }
}

/// The keys of all runs of the task of `key`.
pub(crate) const fn task_of(key: RunKey) -> core::ops::RangeInclusive<RunKey> {
    RunKey { run: RunNumber(0), ..key }..=RunKey { run: RunNumber(u32::MAX), ..key }
}

const fn next(seq: Seq) -> Seq {
    Seq(seq.0.saturating_add(1))
}
