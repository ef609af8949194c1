//! A supervisor's one loop: from the fork to the last record. Everything that takes time is an event here.

use crate::{
    checkpoint::Checkpoint,
    errand::{Errand, Master},
    fence::{Fence, number},
    journal::Journal,
    launch::{Launch, Said, child},
    lease::{self, Lease},
    limit::{Due, Limit},
    outcome::{Cause, outcome},
    tidying::{self, Tidying},
    trouble::Trouble,
};
use gq_failpoint::{Step, step};
use gq_host::{Control, Event, Inbox, Limits, WaitedFor};
use gq_model::{
    Assignment, End, EndReason, Fault, MAX_SIGNAL, MiB, Outcome, RunKey, Seconds, SignalTo, Stage, Timestamp,
};
use gq_nodelog::Record;
use std::{
    io::PipeReader,
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, Instant},
};

/// How long the last processes of a run may take to go before it is said that the script has ended.
const EXITED_AFTER: Duration = Duration::from_millis(200);
/// How long the gentle signal waits for the word that says why it comes.
const WORD_AFTER: Duration = Duration::from_secs(2);
/// Most bytes that a child says before it becomes the script.
const MOST_SAID: usize = 64 << 10;

/// How a run ended.
#[derive(Debug)]
pub struct Last {
    /// The last record.
    pub record: Record,
    /// Why it was ended; none when it ended by itself.
    pub reason: Option<EndReason>,
}

/// A run that lives.
#[derive(Debug)]
pub struct Life<'a> {
    assignment: &'a Assignment,
    /// The run's folder.
    folder: BorrowedFd<'a>,
    /// For whom errands are done.
    master: Master<'a>,
    inbox: &'a mut Inbox,
    fence: Fence,
    limit: Limit,
    lease: Option<Lease>,
    /// The child that becomes the script.
    main: u32,
    /// What the child says; closed by its exec.
    pipe: Option<PipeReader>,
    said: Vec<u8>,
    trouble: Option<Trouble>,
    /// The folder for checkpoints, when the run has one.
    checkpoint: Option<Checkpoint>,
    started: Option<Timestamp>,
    /// What is wanted of the script when there is one: to be warned, to be suspended.
    warning: Option<EndReason>,
    /// Why it is being ended, as its script and the epilog are told.
    told: Option<EndReason>,
    pause_wanted: bool,
    is_paused: bool,
    /// The word that says why the gentle signal comes is being written; whether the hard one follows.
    word: Option<(Errand, bool)>,
    cause: Option<Cause>,
    /// How the script ended, and when.
    exit: Option<(WaitedFor, Timestamp)>,
    /// When the gentle signal is followed by the hard one.
    kill_at: Option<Instant>,
    /// When it is to be said that the script has ended and something of the run is left.
    exited_at: Option<Instant>,
    tidying: Tidying,
}

impl<'a> Life<'a> {
    /// Forks the child.
    pub fn begin(launch: &Launch<'a>, lease: Option<Lease>, inbox: &'a mut Inbox) -> Result<Self, Trouble> {
        let (reader, writer) = gq_host::patient_pipe().map_err(Trouble::kernel("a pipe"))?;
        let now = gq_host::boot_clock().map_err(Trouble::kernel("the boot clock"))?;
        let Assignment { memory, cpus, .. } = *launch.assignment;
        let limits = Limits { memory, cpus, processes: launch.processes, devices: launch.devices };
        launch.group.make(&limits).map_err(Trouble::kernel("the control group"))?;
        let forked = step(Step::StepFork, || gq_host::fork(|| child(launch, writer)));
        let main = forked.map_err(|e| {
            // Empty, and nobody comes back for it.
            let _ = launch.group.remove();
            Trouble::kernel("a process for the script")(e)
        })?;
        let mut life = Self {
            assignment: launch.assignment,
            folder: launch.folder,
            master: Master { account: launch.account, supervisor: launch.supervisor },
            inbox,
            fence: Fence::new(launch.assignment.key, main, launch.group.clone()),
            limit: Limit::new(launch.assignment, launch.taken, now),
            lease,
            main,
            pipe: Some(reader),
            said: Vec::new(),
            trouble: None,
            checkpoint: None,
            started: None,
            warning: None,
            told: None,
            pause_wanted: false,
            is_paused: false,
            word: None,
            cause: None,
            exit: None,
            kill_at: None,
            exited_at: None,
            tidying: Tidying::Owed,
        };
        // Who stops his own child before it is the script, or names a folder that hangs, holds cards no longer for it.
        life.set_timer();
        Ok(life)
    }

    /// Lives until nothing of the run is left, and returns how it ended. `words`: what `gqnode` said before it began.
    pub fn live(mut self, journal: &mut Journal, words: Vec<Control>) -> Last {
        for word in words {
            self.take(Event::Control(word), journal);
        }
        loop {
            let now = Instant::now();
            let due = self.due(journal, now);
            let retry = journal.flush().map(|wait| now + wait);
            let next = [due, retry].into_iter().flatten().min();
            let timeout = next.map(|at| at.saturating_duration_since(now));
            let events = match self.inbox.wait(self.pipe.as_ref().map(AsFd::as_fd), timeout) {
                Ok(events) => events,
                Err(e) => {
                    eprintln!("gqstep {}: waiting: {e}", self.assignment.key);
                    std::thread::sleep(EXITED_AFTER);
                    vec![Event::Child]
                }
            };
            let more = self.fence.takes_more().filter(|at| *at <= Instant::now()).map(|_| Event::Child);
            for event in events.into_iter().chain(more) {
                if self.take(event, journal) {
                    return self.last();
                }
            }
        }
    }

    /// Does what is due by now; returns when something is due next.
    fn due(&mut self, journal: &mut Journal, now: Instant) -> Option<Instant> {
        if self.kill_at.is_some_and(|at| at <= now) {
            self.kill_at = None;
            self.fence.kill(now);
        }
        if self.exited_at.is_some_and(|at| at <= now) {
            self.exited_at = None;
            if let Some((_, at)) = self.exit.filter(|_| self.started.is_some()) {
                journal.push(Record::Exited { key: self.assignment.key, at });
            }
        }
        if let Some((_, kill)) = self.word.take_if(|(word, _)| word.until() <= now) {
            self.terminate(kill, journal);
        }
        let tidied_by = match &self.tidying {
            Tidying::Errand(errand, _) => Some(errand.until()),
            Tidying::Owed | Tidying::Done => None,
        };
        if tidied_by.is_some_and(|at| at <= now) {
            self.fence.kill(now);
        }
        let word = self.word.as_ref().map(|(word, _)| word.until());
        let tidied_by = tidied_by.filter(|at| *at > now);
        let more = self.fence.takes_more();
        [self.fence.round(now), more, self.kill_at, self.exited_at, word, tidied_by]
            .into_iter()
            .flatten()
            .min()
    }

    /// Acts on an event; says whether the run is over.
    fn take(&mut self, event: Event, journal: &mut Journal) -> bool {
        match event {
            Event::Readable => self.hear(journal),
            Event::Child => return self.reap(journal),
            Event::Deadline => self.time_due(),
            Event::Control(Control::Stop(kind, reason)) => self.end(Cause::Stop(kind), reason),
            Event::Control(Control::Signal(signal, to)) => self.pass_on(signal, to),
            Event::Control(Control::Warn(reason)) => self.warn(reason, journal),
            Event::Control(Control::Limit(limit)) => {
                self.limit.change(limit.map(|s| Seconds(u64::from(s))), clock());
                self.set_timer();
            }
            Event::Control(Control::Lease(until)) => {
                if let Some(lease) = &mut self.lease {
                    lease.renew(until, clock());
                    self.set_timer();
                }
            }
            Event::Control(Control::Overused(used)) => self.be_over(used),
            Event::Control(Control::Suspend) => self.suspend(journal),
            Event::Control(Control::Resume) => self.resume(journal),
        }
        false
    }

    /// Reads what the child has said: where the folder for checkpoints is, and what kept it from becoming the script. Nothing more
    /// comes when all is well.
    fn hear(&mut self, journal: &mut Journal) {
        let Some(pipe) = &mut self.pipe else { return };
        let more = gq_host::read_available(pipe, &mut self.said, MOST_SAID);
        if !matches!(more, Ok(true)) || self.said.len() > MOST_SAID {
            self.pipe = None;
            self.heard(journal);
        }
    }

    /// The child has said all.
    fn heard(&mut self, journal: &mut Journal) {
        let Said { checkpoint, trouble } = Said::read(&std::mem::take(&mut self.said));
        self.checkpoint = checkpoint;
        self.trouble = trouble;
        if self.trouble.is_some() || self.cause.is_some() {
            // Killed before it became the script, or never to become it.
            return;
        }
        let at = gq_host::now();
        self.started = Some(at);
        journal.push(Record::Started { key: self.assignment.key, at, session: self.main });
        self.limit.restart(clock());
        self.set_timer();
        if let Some(reason) = self.warning.take() {
            self.warn(reason, journal);
        }
        if self.pause_wanted {
            self.suspend(journal);
        }
    }

    fn reap(&mut self, journal: &mut Journal) -> bool {
        let reaped = self.fence.reap(Instant::now());
        let has_ended = |pid| reaped.ended.iter().find(|(ended, _)| *ended == pid);
        if let Some((_, how)) = has_ended(self.main).filter(|_| self.exit.is_none()) {
            // What the child said stands in the pipe even when its death is seen first.
            self.hear(journal);
            if self.pipe.take().is_some() {
                self.heard(journal);
            }
            step(Step::StepExited, || self.exit = Some((*how, gq_host::now())));
            self.kill_at = None;
            if reaped.left {
                let now = Instant::now();
                self.fence.kill(now);
                self.exited_at = Some(now + EXITED_AFTER);
            }
        }
        if let Some((_, kill)) = self.word.take_if(|(word, _)| has_ended(word.pid()).is_some()) {
            self.terminate(kill, journal);
        }
        self.exit.is_some() && !reaped.left && self.is_tidied()
    }

    /// Whether all is done that is owed after the last process; begins to do it.
    fn is_tidied(&mut self) -> bool {
        let key = self.assignment.key;
        self.tidying = match std::mem::replace(&mut self.tidying, Tidying::Done) {
            Tidying::Owed => {
                self.fence.rest();
                let own = self.checkpoint.as_ref().filter(|checkpoint| checkpoint.is_own());
                let own = own.map(|own| (own, self.is_complete()));
                step(Step::StepTidy, || tidying::begin(key, self.folder, own, self.master))
            }
            Tidying::Errand(_, scratch) => step(Step::StepTidied, || tidying::finish(key, scratch)),
            Tidying::Done => Tidying::Done,
        };
        let is_done = matches!(self.tidying, Tidying::Done);
        if !is_done {
            self.exited_at.get_or_insert_with(|| Instant::now() + EXITED_AFTER);
        }
        is_done
    }

    /// Whether the job has done all that it was to do.
    fn is_complete(&self) -> bool {
        let how = self.exit.map(|(how, _)| how).filter(|_| self.started.is_some());
        self.assignment.stage == Stage::Main && self.outcome(how).end == End::Completed
    }

    fn outcome(&self, how: Option<WaitedFor>) -> Outcome {
        let lack = self.fence.ran_out_of_memory().then_some(self.assignment.memory);
        outcome(self.cause, how, lack)
    }

    /// Does what the lease and the time limit ask for by now.
    fn time_due(&mut self) {
        while let Some(due) = self.lease.as_mut().and_then(|lease| lease.due(clock())) {
            self.end(Cause::Lease, Some(EndReason::NodeLost));
            match due {
                lease::Due::Warning => {}
                lease::Due::End => self.fence.kill(Instant::now()),
            }
        }
        while let Some(due) = self.limit.due(clock()).filter(|_| !self.is_ending()) {
            match due {
                Due::Signal(ask) => {
                    self.pass_on(ask.signal, if ask.batch { SignalTo::Batch } else { SignalTo::Steps });
                }
                Due::End => return self.end(Cause::TimeLimit, Some(EndReason::TimeLimit)),
                Due::Deadline => return self.end(Cause::Deadline, Some(EndReason::Deadline)),
            }
        }
        self.set_timer();
    }

    /// Whether its script has ended, or is being ended: then its time limit asks for nothing any more.
    const fn is_ending(&self) -> bool {
        self.cause.is_some() || self.exit.is_some()
    }

    fn set_timer(&mut self) {
        let now = clock();
        let limit = self.limit.next(now).filter(|_| !self.is_ending());
        let lease = self.lease.as_ref().and_then(|lease| lease.next(now));
        match [limit, lease].into_iter().flatten().min() {
            None => self.inbox.clear_deadline(),
            Some(after) => {
                if let Err(e) = self.inbox.set_deadline(after) {
                    let key = self.assignment.key;
                    eprintln!("gqstep {key}: no timer for its time limit or lease: {e}; it is ended");
                    self.end(Cause::TimeLimit, Some(EndReason::TimeLimit));
                    if self.lease.is_some() {
                        self.fence.kill(Instant::now());
                    }
                }
            }
        }
    }

    /// Sends a signal to processes of the run. Before the script is there, nobody is who could do something with any but the hard one.
    fn pass_on(&mut self, signal: u8, to: SignalTo) {
        let signal = i32::from(signal);
        // Who is suspended goes on when the controller says so, since his time stands still.
        let is_for_us = self.is_paused && signal == number::CONT;
        let is_early = self.started.is_none() && signal != number::KILL;
        if self.exit.is_none() && (1..=i32::from(MAX_SIGNAL)).contains(&signal) && !is_for_us && !is_early {
            self.fence.signal(signal, to);
        }
    }

    /// Stops the processes of the run in place, and the clock of its limit.
    fn suspend(&mut self, journal: &mut Journal) {
        if self.is_ending() || self.is_paused {
            return;
        }
        // A script that is not there yet, or is to be told something first, is stopped a moment later.
        self.pause_wanted = self.started.is_none() || self.word.is_some();
        if self.pause_wanted {
            return;
        }
        self.fence.stop();
        self.is_paused = true;
        self.limit.pause(clock());
        self.set_timer();
        journal.push(Record::Suspended { key: self.assignment.key, at: gq_host::now() });
    }

    /// Lets a suspended run go on.
    fn resume(&mut self, journal: &mut Journal) {
        self.pause_wanted = false;
        if !std::mem::take(&mut self.is_paused) || self.exit.is_some() {
            return;
        }
        self.limit.go_on(clock());
        self.set_timer();
        self.fence.go_on();
        journal.push(Record::Resumed { key: self.assignment.key, at: gq_host::now() });
    }

    /// Says why the run will be ended, and sends the gentle signal.
    fn warn(&mut self, reason: EndReason, journal: &mut Journal) {
        if self.is_ending() {
            return;
        }
        if self.started.is_none() {
            self.warning = Some(reason);
            return;
        }
        self.resume(journal);
        self.be_gentle(Some(reason), false);
    }

    /// Begins to end the run. The first cause stays, and a script that has ended by itself has ended so.
    fn end(&mut self, cause: Cause, reason: Option<EndReason>) {
        if self.is_ending() {
            return;
        }
        self.cause = Some(cause);
        self.told = self.told.or(reason);
        if self.started.is_none() {
            // No script yet that could do something with a gentle signal.
            self.fence.kill(Instant::now());
            return;
        }
        self.be_gentle(reason, true);
    }

    /// Ends a run that uses more memory of the card that it shares than it declared.
    fn be_over(&mut self, used: MiB) {
        let share = self.assignment.cards.iter().find_map(|card| card.share);
        if let Some(declared) = share.map(|share| share.memory).filter(|declared| used > *declared) {
            self.end(Cause::GpuMemory { used, declared }, Some(EndReason::GpuMemory));
        }
    }

    /// Has the reason written where the script finds it, if it has such a place; then the gentle signal follows.
    fn be_gentle(&mut self, reason: Option<EndReason>, kill: bool) {
        self.told = self.told.or(reason);
        let told = reason.zip(self.checkpoint.as_ref());
        let word = told.and_then(|(reason, checkpoint)| {
            Errand::send(self.master, WORD_AFTER, || checkpoint.write_reason(reason)).ok()
        });
        match word {
            Some(word) => self.word = Some((word, kill)),
            None => self.send_gentle(kill),
        }
    }

    /// The reason was written, or would have been waited for too long.
    fn terminate(&mut self, kill: bool, journal: &mut Journal) {
        self.send_gentle(kill);
        if self.pause_wanted {
            self.suspend(journal);
        }
    }

    fn send_gentle(&mut self, kill: bool) {
        if self.exit.is_some() {
            return;
        }
        self.fence.terminate();
        if kill {
            self.kill_at = Instant::now().checked_add(Duration::from_secs(self.assignment.kill_wait.0));
        }
    }

    fn last(self) -> Last {
        let ended = self.exit.map_or_else(gq_host::now, |(_, at)| at);
        let how = self.exit.map(|(how, _)| how).filter(|_| self.started.is_some());
        let (key, started, mut outcome) = (self.assignment.key, self.started, self.outcome(how));
        outcome.measured(|used| *used = self.fence.used());
        let record = match (self.trouble, self.cause) {
            (Some(trouble), None) => refusal(key, trouble, ended),
            _ => Record::Ended { key, outcome, started, ended, epilog: None },
        };
        Last { record, reason: self.told }
    }
}

/// The boot clock. It was read at the beginning; a kernel that does not tell it any more stops the time of the run.
pub fn clock() -> Duration {
    gq_host::boot_clock().unwrap_or_default()
}

/// The last record of a run that was not started.
pub fn refusal(key: RunKey, trouble: Trouble, ended: Timestamp) -> Record {
    let Trouble { fault, reason, detail } = trouble;
    match fault {
        Fault::Site => Record::Refused { key, fault, reason, detail },
        Fault::User => Record::Ended {
            key,
            outcome: Outcome::without_exit(End::Failed, reason, detail),
            started: None,
            ended,
            epilog: None,
        },
    }
}
