//! The one thread of `gqnode` that decides and acts: it takes all that waits, lets `gq-nodecore` decide, appends to the
//! log, syncs results, reports, launches. No decision of its own is longer than a match arm.

use crate::{
    accounts::Accounts,
    ballast::Ballast,
    border,
    broom::Task,
    event::Event,
    fitting::Fitting,
    health::Health,
    life::Life,
    link::{LinkError, Out},
    runs::Runs,
    site::{Site, StartError},
    spares::Spares,
    trouble::Trouble,
    watcher::Watcher,
};
use crossbeam_channel::{Receiver, Sender, select};
use gq_daemon::{Signal, now};
use gq_failpoint::{Step, step};
use gq_model::{Beat, Reason, RunKey, Seq};
use gq_nodecore::{Effect, Hands, Input, Node, Record, TurnAway};
use gq_nodelog::Log;
use gq_proto::CardNow;
use std::{
    io,
    path::PathBuf,
    time::{Duration, Instant},
};

/// Most events of one turn.
const MAX_BATCH: usize = 1024;
/// An acknowledgement waits so long for a report to travel with.
const ACK_DELAY: Duration = Duration::from_millis(100);
/// How often what has no event is looked after, and how often while something cannot be done or seen.
const TICK: Duration = Duration::from_secs(5);
const SHORT_TICK: Duration = Duration::from_millis(100);
/// From one attempt to write to a full disk to the next.
const FULL_DISK: Duration = Duration::from_secs(1);
/// Length at which a new segment of the log is begun.
const SEGMENT: u64 = 16 << 20;
/// How long the report of a start may wait for the end of a quick job to travel with.
const START_DELAY: Duration = Duration::from_millis(5);

/// Everything that the deciding thread holds.
pub struct Household {
    /// What this life stands on.
    pub site: Site,
    /// The mind.
    pub node: Node,
    /// The log.
    pub log: Log,
    /// The processes.
    pub runs: Runs,
    /// This life.
    pub life: Life,
    /// Who watches the log and the supervisors.
    pub watcher: Watcher,
    /// Who cleans up.
    pub broom: Sender<Task>,
    /// Who waits for cards.
    pub fitting: Fitting,
    /// What was seen of the cards last.
    pub health: Health,
    /// Who looks up accounts.
    pub accounts: Accounts,
    /// What happens.
    pub events: Receiver<Event>,
    /// Signals to this process.
    pub signals: Receiver<Signal>,
    /// What is thrown away when the disk is full.
    pub ballast: Ballast,
    /// What keeps this node from starting anything.
    pub trouble: Trouble,
    /// Folders of ended runs, for new ones.
    pub spares: Spares,
    /// The link's number and its outgoing end.
    pub link: Option<(u64, Out)>,
    /// The small things of the loop.
    pub loose: Loose,
}

/// Small things that the loop keeps.
#[derive(Debug, Default)]
pub struct Loose {
    /// Whether an end was recorded that is not synced.
    unsynced: bool,
    /// Acknowledged over this link.
    acked: Seq,
    /// When an acknowledgement is sent without a report to travel with.
    ack_due: Option<Instant>,
    /// When starts are reported that no end follows.
    starts_due: Option<Instant>,
    /// What could not be done yet.
    pub(crate) later: Vec<Effect>,
    /// Why a controller was turned away; said once.
    turned_away: Option<TurnAway>,
    /// The last sign of life, and when the next one is due.
    pub(crate) beat: Beat,
    pub(crate) beat_due: Option<Instant>,
    /// What the cards do, as it was seen last, and whether that was told over this link.
    pub(crate) now: Vec<CardNow>,
    pub(crate) now_told: bool,
    is_ready: bool,
}

/// Why the loop ends.
pub enum Stop {
    /// It was asked to.
    Asked,
    /// It cannot go on.
    Broken(StartError),
}
impl<E: Into<StartError>> From<E> for Stop {
    fn from(e: E) -> Self {
        Self::Broken(e.into())
    }
}

impl Household {
    /// Serves until it is told to stop or cannot go on.
    pub fn serve(&mut self) -> Stop {
        let mut next_tick = Instant::now() + TICK;
        loop {
            let dues = [self.loose.ack_due, self.loose.starts_due, self.loose.beat_due];
            let wake = dues.into_iter().flatten().fold(next_tick, Instant::min);
            let mut batch = Vec::new();
            let mut told = None;
            select! {
                recv(self.signals) -> signal => told = Some(signal),
                recv(self.events) -> event => batch.extend(event),
                default(wake.saturating_duration_since(Instant::now())) => {}
            }
            batch.extend(self.events.try_iter().take(MAX_BATCH));
            let mut turned = if batch.is_empty() { Ok(()) } else { self.turn(batch) };
            let time = Instant::now();
            if turned.is_ok() && time >= next_tick {
                turned = self.tick();
                let is_idle = self.loose.later.is_empty() && self.runs.unseen().is_empty();
                next_tick = time + if is_idle { TICK } else { SHORT_TICK };
            } else if !self.loose.later.is_empty() {
                next_tick = next_tick.min(time + SHORT_TICK);
            }
            if self.loose.starts_due.is_some_and(|due| due <= time) {
                self.report_now();
            }
            self.beat(time);
            if self.loose.ack_due.is_some_and(|due| due <= time) {
                self.send(Vec::new());
            }
            match (turned, told) {
                (Err(stop), _) => return stop,
                (Ok(()), Some(Ok(Signal::Stop) | Err(_))) => return Stop::Asked,
                (Ok(()), Some(Ok(Signal::Reload))) => self.reload(),
                (Ok(()), None) => {}
            }
        }
    }

    /// One turn: all that waits is taken in, then what was decided is done.
    fn turn(&mut self, batch: Vec<Event>) -> Result<(), Stop> {
        let mut todo = Vec::new();
        // All that a dead supervisor wrote is read before its death is taken in.
        if batch.iter().any(|event| matches!(event, Event::Log | Event::Gone(_))) {
            self.read_log(&mut todo)?;
        }
        for event in batch {
            self.take(event, &mut todo)?;
        }
        self.settle(todo)?;
        self.watch_cards();
        Ok(())
    }

    pub(crate) fn read_log(&mut self, todo: &mut Vec<Effect>) -> Result<(), Stop> {
        self.watcher.reading()?;
        for record in self.log.tail()? {
            self.runs.note(&record);
            if let gq_nodelog::Record::Up { key, .. } = &record
                && self.runs.is_unseen(*key)
            {
                self.runs.find(*key, &mut self.watcher);
            }
            if let gq_nodelog::Record::Refused { reason: Reason::NodeTrouble, detail, .. } = &record {
                self.trouble.found(detail, Instant::now());
                self.tell_trouble(todo);
            }
            self.decide(Input::Logged(border::from_disk(record)), todo);
        }
        Ok(())
    }

    pub(crate) fn decide(&mut self, input: Input, todo: &mut Vec<Effect>) {
        if let Input::Logged(record) = &input {
            self.loose.unsynced |= record.is_end();
        }
        todo.extend(self.node.decide(input));
    }

    fn take(&mut self, event: Event, todo: &mut Vec<Effect>) -> Result<(), Stop> {
        match event {
            Event::Log => {}
            Event::Gone(number) => {
                if let Some(key) = self.runs.gone(number) {
                    self.decide(Input::SupervisorGone { key }, todo);
                }
            }
            Event::Swept(key, left) => self.decide(Input::Swept { key, left, at: now() }, todo),
            Event::Looking => self.health.looking(Instant::now()),
            Event::Looked(look) => {
                let sharers = self.sharers();
                self.health.looked(look, &sharers);
                self.tell_cards(todo);
            }
            Event::Used(used) => self.weigh(&used, todo),
            Event::CardsNow(cards) => self.tell_now(cards),
            Event::Idle(changes) => self.found_idle(changes, todo),
            Event::Rests => self.health.rests(),
            Event::Fitted(key, fitted) => self.fitted(key, fitted, todo),
            Event::Vacated(key, used) => {
                if self.fitting.left(key) {
                    self.vacated(key, used, todo);
                }
            }
            Event::Account(uid, found) => self.account_told(uid, &found, todo),
            // If the link's thread is gone, so is what it wanted.
            Event::HeadWanted(give) => drop(give.send(self.head())),
            Event::NotLinked => self.say_ready(),
            Event::Linked(number, out, head) => {
                self.unlink();
                self.say_ready();
                let before = todo.len();
                self.hear(&head, todo)?;
                if let Some(why) = turned_away(todo.get(before..).unwrap_or_default()) {
                    self.say_turned_away(why);
                    out.close();
                    todo.truncate(before);
                    return Ok(());
                }
                log::info!("linked to gqd (its life {})", head.epoch);
                self.loose.acked = Seq(0);
                self.loose.beat_due = out.wants_beats().then(Instant::now);
                self.loose.now_told = false;
                self.link = Some((number, out));
                self.decide(Input::LinkUp, todo);
            }
            Event::Head(number, head) => {
                if self.is_link(number) {
                    self.hear(&head, todo)?;
                }
            }
            Event::Letters(number, said, orders) => {
                if self.is_link(number) {
                    if let Some((up_to, _)) = said {
                        self.decide(Input::Acked { epoch: self.life.epoch, up_to }, todo);
                    }
                    for order in orders {
                        let (seq, order) = (order.seq, border::from_order(order.body));
                        step(Step::OrderTake, || self.decide(Input::Order { seq, order, at: now() }, todo));
                    }
                    // A frame brings all that was written before it was.
                    self.seen(said.map_or(Beat(0), |(_, beat)| beat), self.node.taken(), todo);
                }
            }
            Event::Unlinked(number) => {
                if self.is_link(number) {
                    self.unlink();
                }
            }
        }
        Ok(())
    }

    fn is_link(&self, number: u64) -> bool {
        self.link.as_ref().is_some_and(|(current, _)| *current == number)
    }

    /// Does what was decided, in the order that `gq-nodecore` says.
    pub(crate) fn settle(&mut self, todo: Vec<Effect>) -> Result<(), Stop> {
        gq_nodecore::settle(self, todo)
    }

    /// Appends records. On a full disk it waits for room: nothing is acknowledged or launched meanwhile, and jobs go on.
    fn write(&mut self, records: &[gq_nodelog::Record]) -> Result<(), Stop> {
        if records.is_empty() {
            return Ok(());
        }
        let mut said = false;
        loop {
            match step(Step::LogAppend, || self.log.append_all(records)) {
                Ok(()) => {
                    if said {
                        log::info!("there is room on the disk again");
                    }
                    return Ok(());
                }
                Err(e) if e.is_disk_full() => {
                    if self.ballast.drop() {
                        log::warn!("{e}; the ballast was dropped");
                        continue;
                    }
                    if !std::mem::replace(&mut said, true) {
                        log::error!("{e}; no orders are taken and nothing is reported until there is room");
                    }
                    self.beat(Instant::now());
                    if self.signals.recv_timeout(FULL_DISK) == Ok(Signal::Stop) {
                        return Err(Stop::Asked);
                    }
                }
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Sends the reports that are owed, and says when a mere acknowledgement is due.
    fn report_now(&mut self) {
        self.loose.starts_due = None;
        let letters = self.node.number();
        if !letters.is_empty() {
            let letters = letters.into_iter();
            let epoch = self.life.epoch;
            self.send(letters.map(|(seq, report)| border::to_letter(seq, epoch, report)).collect());
        } else if self.link.is_some() && self.node.taken() > self.loose.acked && self.loose.ack_due.is_none()
        {
            self.loose.ack_due = Some(Instant::now() + ACK_DELAY);
        }
    }

    fn send(&mut self, letters: Vec<gq_proto::Report>) {
        self.send_with(Beat(0), letters);
    }

    pub(crate) fn send_with(&mut self, beat: Beat, letters: Vec<gq_proto::Report>) {
        self.loose.ack_due = None;
        let Some((_, out)) = &self.link else { return };
        let ack = self.node.taken();
        let cards = (!std::mem::replace(&mut self.loose.now_told, true)).then(|| self.loose.now.clone());
        match step(Step::ReportSend, || out.send(ack, beat, cards, letters)) {
            Ok(()) => self.loose.acked = ack,
            Err(e) => {
                if !matches!(e, LinkError::Stopping) {
                    log::warn!("the link to gqd is closed: {e}");
                }
                self.unlink();
            }
        }
    }

    fn unlink(&mut self) {
        if let Some((_, out)) = self.link.take() {
            out.close();
            (self.loose.ack_due, self.loose.beat_due) = (None, None);
            self.node.decide(Input::LinkDown);
        }
    }

    /// Removes what is kept of a run; its folder is kept for another run of its user.
    fn forget(&mut self, key: RunKey) {
        let heir = self.runs.heir(key);
        self.runs.forget(key);
        let folder = self.folder_of(key);
        if heir.is_some_and(|uid| self.spares.keep(uid, folder.clone())) {
            return;
        }
        match step(Step::RunForget, || std::fs::remove_dir(&folder)) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            // Something is in it, or its supervisor is about to remove the last of it.
            Err(_) => {
                if self.broom.try_send(Task::Remove(folder)).is_err() {
                    self.loose.later.push(Effect::Forget(key));
                }
            }
        }
    }

    pub(crate) fn folder_of(&self, key: RunKey) -> PathBuf {
        self.site.folder.join("runs").join(key.to_string())
    }

    /// Looks after what has no event.
    fn tick(&mut self) -> Result<(), Stop> {
        let mut todo = std::mem::take(&mut self.loose.later);
        self.read_log(&mut todo)?;
        self.give_up_launches(&mut todo);
        self.look_after_driver(&mut todo);
        for key in self.runs.unseen() {
            if self.is_alive(key) {
                self.runs.find(key, &mut self.watcher);
            } else {
                self.read_log(&mut todo)?;
                self.runs.lost(key);
                self.decide(Input::SupervisorGone { key }, &mut todo);
            }
        }
        self.ballast.look();
        self.tell_trouble(&mut todo);
        self.settle(todo)?;
        self.watch_cards();
        self.shorten_log()
    }

    /// Begins a new segment of the log when the current one is long, and drops those that nobody needs.
    pub(crate) fn shorten_log(&mut self) -> Result<(), Stop> {
        let head = self.life.record(self.site.boot, &self.node);
        let shortened = self.log.rotate_if(SEGMENT, &head).and_then(|_| {
            let live = self.node.kept().collect();
            self.log.drop_segments(&live)
        });
        match shortened {
            Ok(_) => Ok(()),
            Err(e @ gq_nodelog::LogError::Sync(_)) => Err(e.into()),
            Err(e) => {
                log::warn!("the log stays as long as it is: {e}");
                Ok(())
            }
        }
    }

    /// Reads the conf again; a bad one changes nothing.
    fn reload(&mut self) {
        match gq_conf::read(&self.site.conf_file) {
            Ok(config) => {
                self.site.config = config;
                self.site.look_at_hooks();
                self.node.expect_epilog(self.site.around().epilog.is_some());
                log::info!(
                    "the conf was read again; folders, names and sockets count from the next start on"
                );
                // Full: it is about to look, and the conf is looked at with the next reload.
                if !self.fitting.declare(self.site.declared()) {
                    log::warn!(
                        "the cards are being looked at; reload again in a moment if they were changed"
                    );
                }
            }
            Err(e) => log::error!("the conf has mistakes, and the old one stays in use:\n{e}"),
        }
    }

    fn say_ready(&mut self) {
        if !std::mem::replace(&mut self.loose.is_ready, true) {
            gq_daemon::ready();
        }
    }

    fn say_turned_away(&mut self, why: TurnAway) {
        if self.loose.turned_away.replace(why) != Some(why) {
            log::error!("gqd is not listened to: {why}");
        }
    }
}

impl Hands for Household {
    type Error = Stop;

    fn append(&mut self, records: Vec<Record>) -> Result<(), Stop> {
        self.loose.unsynced |= records.iter().any(Record::is_end);
        let records: Vec<gq_nodelog::Record> = records.into_iter().filter_map(border::to_disk).collect();
        self.write(&records)
    }

    fn owes_sync(&mut self) -> bool {
        std::mem::take(&mut self.loose.unsynced)
    }

    fn sync(&mut self) -> Result<(), Stop> {
        Ok(step(Step::LogSync, || self.log.sync())?)
    }

    /// Sends the reports that are due, or says when they are.
    fn report(&mut self) {
        if self.node.is_patient() && self.link.is_some() {
            self.loose.starts_due.get_or_insert_with(|| Instant::now() + START_DELAY);
        } else {
            self.report_now();
        }
    }

    fn act(&mut self, effect: Effect, todo: &mut Vec<Effect>) {
        match effect {
            Effect::Append(record) => todo.push(Effect::Append(record)),
            Effect::Launch(assignment) => self.launch(&assignment, todo),
            Effect::Control(key, control) => {
                // Another lease follows, and who is over his memory is found so again.
                use gq_nodecore::Control::{Lease, Overused};
                let is_passing = matches!(control, Lease(_) | Overused(_));
                if !step(Step::RunTell, || self.runs.control(key, border::to_host(control))) && !is_passing {
                    self.loose.later.push(Effect::Control(key, control));
                }
            }
            Effect::Sweep { key, again } => {
                let Some(remains) = self.runs.remains(key) else {
                    // Nothing was ever known of it, so nothing of it can be found.
                    return self.decide(Input::Swept { key, left: 0, at: now() }, todo);
                };
                self.runs.leave_untidy(key);
                log::info!("nobody supervises run {key}: what is left of it, if anything, is killed");
                if self.broom.try_send(Task::Sweep(key, remains, self.site.group(key))).is_err() {
                    self.loose.later.push(Effect::Sweep { key, again });
                }
            }
            Effect::Vacate(key) => self.vacate(key, todo),
            Effect::Forget(key) => self.forget(key),
            Effect::TurnAway(why) => {
                self.say_turned_away(why);
                self.unlink();
            }
            Effect::Skipped { from, to } => {
                log::error!("orders {from} to {to} are gone: this node took them and has lost its log since");
            }
        }
    }
}

pub(crate) fn turned_away(effects: &[Effect]) -> Option<TurnAway> {
    effects.iter().find_map(|effect| match effect {
        Effect::TurnAway(why) => Some(*why),
        _ => None,
    })
}
