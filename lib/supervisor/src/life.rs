//! A supervisor's one loop: from the fork to the last record. Everything that takes time is an event here.

use crate::{
    fence::Fence,
    journal::Journal,
    launch::{Launch, child},
    outcome::{Cause, outcome},
    trouble::Trouble,
};
use gq_host::{Control, Event, Inbox, WaitedFor};
use gq_model::{Assignment, End, EndReason, Fault, Outcome, RunKey, Timestamp};
use gq_nodelog::Record;
use std::{
    io::{self, PipeReader, Read},
    os::fd::AsFd,
    time::{Duration, Instant},
};

/// How long the last processes of a run may take to go before it is said that the script has ended.
const EXITED_AFTER: Duration = Duration::from_millis(200);

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
    inbox: &'a mut Inbox,
    fence: Fence,
    /// The child that becomes the script.
    main: u32,
    /// What the child says; closed by its exec.
    pipe: Option<PipeReader>,
    trouble: Option<Trouble>,
    started: Option<Timestamp>,
    cause: Option<Cause>,
    /// How the script ended, and when.
    exit: Option<(WaitedFor, Timestamp)>,
    /// When the gentle signal is followed by the hard one.
    kill_at: Option<Instant>,
    /// When it is to be said that the script has ended and something of the run is left.
    exited_at: Option<Instant>,
}

impl<'a> Life<'a> {
    /// Forks the child.
    pub fn begin(launch: &Launch<'a>, inbox: &'a mut Inbox) -> Result<Self, Trouble> {
        let (reader, writer) = io::pipe().map_err(Trouble::kernel("a pipe"))?;
        let main =
            gq_host::fork(|| child(launch, writer)).map_err(Trouble::kernel("a process for the script"))?;
        let mut life = Self {
            assignment: launch.assignment,
            inbox,
            fence: Fence::new(launch.assignment.key, main),
            main,
            pipe: Some(reader),
            trouble: None,
            started: None,
            cause: None,
            exit: None,
            kill_at: None,
            exited_at: None,
        };
        // Who stops his own child before it is the script, or names a folder that hangs, holds cards no longer for it.
        life.limit_time();
        Ok(life)
    }

    /// Lets the run end after its time limit, counted from now.
    fn limit_time(&mut self) {
        if let Some(limit) = self.assignment.time_limit
            && let Err(e) = self.inbox.set_deadline(Duration::from_secs(limit.0))
        {
            eprintln!("gqstep {}: no timer for its time limit: {e}; it is ended", self.assignment.key);
            self.end(Cause::TimeLimit);
        }
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
            for event in events {
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
        [self.fence.round(now), self.kill_at, self.exited_at].into_iter().flatten().min()
    }

    /// Acts on an event; says whether the run is over.
    fn take(&mut self, event: Event, journal: &mut Journal) -> bool {
        match event {
            Event::Readable => self.hear(journal),
            Event::Child => return self.reap(journal),
            Event::Deadline => self.end(Cause::TimeLimit),
            Event::Control(Control::Stop(kind)) => self.end(Cause::Stop(kind)),
            Event::Control(Control::Signal(signal)) => {
                if self.exit.is_none() && (1..=64).contains(&signal) {
                    self.fence.signal(i32::from(signal));
                }
            }
        }
        false
    }

    /// Reads what the child says before it becomes the script: nothing, when all is well.
    fn hear(&mut self, journal: &mut Journal) {
        let Some(mut pipe) = self.pipe.take() else { return };
        let mut bytes = Vec::new();
        if pipe.read_to_end(&mut bytes).is_err() || !bytes.is_empty() {
            self.trouble = Some(Trouble::from_bytes(&bytes));
            return;
        }
        if self.cause.is_some() {
            // Killed before it became the script.
            return;
        }
        let at = gq_host::now();
        self.started = Some(at);
        journal.push(Record::Started { key: self.assignment.key, at, session: self.main });
        self.limit_time();
    }

    fn reap(&mut self, journal: &mut Journal) -> bool {
        let reaped = self.fence.reap();
        if let Some((_, how)) = reaped.ended.iter().find(|(pid, _)| *pid == self.main && self.exit.is_none())
        {
            // What the child said stands in the pipe even when its death is seen first.
            self.hear(journal);
            self.exit = Some((*how, gq_host::now()));
            self.kill_at = None;
            if reaped.left {
                let now = Instant::now();
                self.fence.kill(now);
                self.exited_at = Some(now + EXITED_AFTER);
            }
        }
        self.exit.is_some() && !reaped.left
    }

    /// Begins to end the run. The first cause stays, and a script that has ended by itself has ended so.
    fn end(&mut self, cause: Cause) {
        if self.cause.is_some() || self.exit.is_some() {
            return;
        }
        self.cause = Some(cause);
        let now = Instant::now();
        if self.started.is_none() {
            // No script yet that could do something with a gentle signal.
            self.fence.kill(now);
            return;
        }
        self.fence.terminate();
        let wait = Duration::from_secs(self.assignment.kill_wait.0);
        self.kill_at = now.checked_add(wait);
    }

    fn last(self) -> Last {
        let ended = self.exit.map_or_else(gq_host::now, |(_, at)| at);
        let how = self.exit.map(|(how, _)| how).filter(|_| self.started.is_some());
        let (key, started) = (self.assignment.key, self.started);
        let record = match (self.trouble, self.cause) {
            (Some(trouble), None) => refusal(key, trouble, ended),
            (_, cause) => Record::Ended { key, outcome: outcome(cause, how), started, ended, epilog: None },
        };
        Last { record, reason: self.cause.and_then(|cause| cause.reason(self.assignment.until_deadline)) }
    }
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
