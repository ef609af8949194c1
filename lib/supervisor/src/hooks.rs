//! What the site does around a run: the programs of its prolog before the script, those of its epilog when nothing of the run is
//! left. They are of the site, see nothing that a user typed, and nothing of them outlasts them.

use crate::{
    fence::Fence,
    journal::Journal,
    launch::Launch,
    lease::{Due, Lease},
    life::{Last, Life, clock, refusal},
    outcome::{Cause, outcome},
    shown::{Shown, to_log},
    trouble::Trouble,
    variables::{indices, visible},
};
use gq_failpoint::{Step, step};
use gq_host::{Around, Control, Event, Group, HookFolder, Inbox, WaitedFor};
use gq_model::{End, EndReason, JobState, Outcome, Reason, RunKey, Stage, Timestamp};
use gq_nodelog::Record;
use std::{
    os::fd::AsFd,
    path::Path,
    time::{Duration, Instant},
};

/// Exit code of a prolog by which it says that the job, not the site, is at fault.
const JOBS_FAULT: u8 = 100;
/// Most words of `gqnode` that are kept for the run while its prolog is at work.
const MAX_WORDS: usize = 64;
/// How long an epilog takes before it is said that the script has ended; and the pause after a failed wait.
const EXITED_AFTER: Duration = Duration::from_millis(200);
/// The folders in which the programs of a site look for others.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Lives a run with what the site does before and after it; returns its last record. The epilog is run for every run whose prolog was
/// begun, once, however the run ended.
pub fn around(
    launch: &Launch<'_>,
    around: &Around,
    mut lease: Option<Lease>,
    inbox: &mut Inbox,
    journal: &mut Journal,
) -> Record {
    let key = launch.assignment.key;
    let mut words = Vec::new();
    let begun = match &around.prolog {
        Some(folder) => {
            step(Step::StepProlog, || prolog(launch, folder, &mut lease, inbox, journal, &mut words))
        }
        None => Ok(()),
    };
    // Nothing of the user's begins that might not live any more.
    let begun = match lease.as_mut().and_then(|lease| lease.due(clock())) {
        Some(_) => begun.and(Err(Unbegun::Stopped(Cause::Lease, Some(EndReason::NodeLost)))),
        None => begun,
    };
    let last = match begun {
        Ok(()) => match Life::begin(launch, lease, inbox) {
            Ok(life) => life.live(journal, words),
            Err(trouble) => Last { record: refusal(key, trouble, gq_host::now()), reason: None },
        },
        Err(Unbegun::Trouble(trouble)) => {
            Last { record: refusal(key, trouble, gq_host::now()), reason: None }
        }
        Err(Unbegun::Stopped(cause, reason)) => Last { record: stopped(launch, cause), reason },
    };
    match &around.epilog {
        Some(folder) => step(Step::StepEpilog, || epilog(launch, folder, last, inbox, journal)),
        None => last.record,
    }
}

/// Why a run is not begun.
enum Unbegun {
    Trouble(Trouble),
    Stopped(Cause, Option<EndReason>),
}

fn stopped(launch: &Launch<'_>, cause: Cause) -> Record {
    let (key, ended) = (launch.assignment.key, gq_host::now());
    let outcome = outcome(Some(cause), None, None);
    Record::Ended { key, outcome, started: None, ended, epilog: None }
}

fn prolog(
    launch: &Launch<'_>,
    folder: &HookFolder,
    lease: &mut Option<Lease>,
    inbox: &mut Inbox,
    journal: &mut Journal,
    words: &mut Vec<Control>,
) -> Result<(), Unbegun> {
    let site = |detail: String| Unbegun::Trouble(Trouble::away(Reason::Prolog, detail));
    let programs = gq_host::hook_programs(&folder.dir).map_err(|e| site(format!("prolog: {e}")))?;
    let env = environment(launch, "prolog", Vec::new());
    let mut shift = Shift::new(launch, "prolog", folder, inbox, journal);
    shift.lease = lease.as_mut();
    shift.set_timer();
    for program in &programs {
        let done = shift.run(program, &env);
        words.append(&mut shift.words);
        if let Some((cause, reason)) = shift.stop {
            return Err(Unbegun::Stopped(cause, reason));
        }
        if let Err(Failed { detail, code }) = done {
            return Err(match code {
                Some(JOBS_FAULT) => Unbegun::Trouble(Trouble::user(Reason::Prolog, detail)),
                _ => site(detail),
            });
        }
    }
    Ok(())
}

/// Runs every program of the epilog, also when one before it failed: what one has to clean is no matter of another.
fn epilog(
    launch: &Launch<'_>,
    folder: &HookFolder,
    mut last: Last,
    inbox: &mut Inbox,
    journal: &mut Journal,
) -> Record {
    let env = environment(launch, "epilog", end_variables(&last));
    let mut shift = Shift::new(launch, "epilog", folder, inbox, journal);
    shift.exited = exited(&last.record).map(|at| (shift.begun + EXITED_AFTER, at));
    let mut failures = Vec::new();
    match gq_host::hook_programs(&folder.dir) {
        Ok(programs) => {
            for program in &programs {
                failures.extend(shift.run(program, &env).err().map(|failed| failed.detail));
            }
        }
        Err(e) => failures.push(format!("epilog: {e}")),
    }
    let more = failures.len().saturating_sub(1);
    if let Some(mut detail) = failures.into_iter().next() {
        if more > 0 {
            detail.push_str(&format!(" (and {more} more)"));
        }
        failed(&mut last.record, detail);
    }
    last.record
}

/// When the script ended of a run that was begun.
fn exited(record: &Record) -> Option<Timestamp> {
    match record {
        Record::Ended { started: Some(_), ended, .. } => Some(*ended),
        _ => None,
    }
}

/// Has the last record tell that the epilog failed.
fn failed(record: &mut Record, failure: String) {
    match record {
        Record::Ended { epilog, .. } => *epilog = Some(failure),
        Record::Refused { detail, .. } => detail.push_str(&format!("; {failure}")),
        Record::Life { .. }
        | Record::Taken { .. }
        | Record::Up { .. }
        | Record::Started { .. }
        | Record::Suspended { .. }
        | Record::Resumed { .. }
        | Record::Exited { .. }
        | Record::Vacated { .. }
        | Record::Acked { .. } => {}
    }
}

/// Why a program did not do.
struct Failed {
    detail: String,
    /// Its exit code, if it exited.
    code: Option<u8>,
}

/// One folder's programs at work.
struct Shift<'r> {
    key: RunKey,
    /// `prolog` or `epilog`.
    kind: &'static str,
    kill_wait: Duration,
    inbox: &'r mut Inbox,
    journal: &'r mut Journal,
    begun: Instant,
    /// How long they may take together.
    time: Duration,
    /// Why the run is not to begin; an epilog is never stopped.
    stop: Option<(Cause, Option<EndReason>)>,
    /// The lease of a run that has not begun.
    lease: Option<&'r mut Lease>,
    /// Other words of `gqnode`, for the run.
    words: Vec<Control>,
    /// When it is to be said that the script has ended, and when it did.
    exited: Option<(Instant, Timestamp)>,
}

/// One program at work.
struct Program {
    fence: Fence,
    main: u32,
    shown: Shown,
    how: Option<WaitedFor>,
    late: bool,
    /// When the gentle signal is followed by the hard one.
    kill_at: Option<Instant>,
}

impl<'r> Shift<'r> {
    fn new(
        launch: &Launch<'_>,
        kind: &'static str,
        folder: &HookFolder,
        inbox: &'r mut Inbox,
        journal: &'r mut Journal,
    ) -> Self {
        let kill_wait = Duration::from_secs(launch.assignment.kill_wait.0);
        let time = Duration::from_secs(folder.time.0);
        let (key, begun) = (launch.assignment.key, Instant::now());
        let (stop, words, exited) = (None, Vec::new(), None);
        Self { key, kind, kill_wait, inbox, journal, begun, time, stop, lease: None, words, exited }
    }

    /// Runs a program to its end, and until nothing of it is left.
    fn run(&mut self, program: &Path, env: &[Vec<u8>]) -> Result<(), Failed> {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = format!("{} {name}", self.kind);
        let failed = |what: String, code| Failed { detail: format!("{name} {what}"), code };
        let time = gq_model::Seconds(self.time.as_secs());
        let within = format!("within {}_time ({time})", self.kind);
        if self.begun.elapsed() >= self.time {
            return Err(failed(format!("was not begun {within}"), None));
        }
        let begun = gq_host::output_pipe()
            .and_then(|(reader, writer)| Ok((gq_host::run_hook(program, env, &writer)?, reader)));
        let (main, reader) =
            begun.map_err(|e| failed(format!("cannot be started: {}", gq_host::words(&e)), None))?;
        let shown = Shown::new(format!("gqstep {}: {name}", self.key), to_log, reader);
        let fence = Fence::new(self.key, main, Group::default());
        let mut running = Program { fence, main, shown, how: None, late: false, kill_at: None };
        while !self.step(&mut running) {}
        let last = running.shown.finish();
        let last = if last.is_empty() { last } else { format!(": {last}") };
        match running.how {
            _ if running.late => Err(failed(format!("did not end {within}{last}"), None)),
            Some(WaitedFor::Code(0)) => Ok(()),
            Some(WaitedFor::Code(code)) => {
                Err(failed(format!("ended with exit code {code}{last}"), Some(code)))
            }
            Some(WaitedFor::Signal { number, .. }) => {
                Err(failed(format!("was ended by signal {number}{last}"), None))
            }
            None => Err(failed(format!("ended, and nobody knows how{last}"), None)),
        }
    }

    /// Waits for what happens next; says whether the program has ended and nothing of it is left.
    fn step(&mut self, running: &mut Program) -> bool {
        let next = self.due(running, Instant::now());
        let timeout = next.map(|at| at.saturating_duration_since(Instant::now()));
        let events = match self.inbox.wait(running.shown.pipe().map(AsFd::as_fd), timeout) {
            Ok(events) => events,
            Err(e) => {
                to_log(&format!("gqstep {}: waiting: {e}", self.key));
                std::thread::sleep(EXITED_AFTER);
                vec![Event::Child]
            }
        };
        let mut over = false;
        for event in events {
            match event {
                Event::Readable => running.shown.read(),
                Event::Child => over |= running.reap(),
                Event::Control(word) => self.hear(word, running),
                Event::Deadline => self.look_at_lease(running),
            }
        }
        over
    }

    /// Does what is due by now; returns when something is due next.
    fn due(&mut self, running: &mut Program, now: Instant) -> Option<Instant> {
        let end = self.begun.checked_add(self.time).filter(|_| !running.late && running.how.is_none());
        if end.is_some_and(|end| end <= now) {
            running.late = true;
            running.fence.kill(now);
        }
        if running.kill_at.is_some_and(|at| at <= now) {
            running.kill_at = None;
            running.fence.kill(now);
        }
        if let Some((_, at)) = self.exited.filter(|(due, _)| *due <= now) {
            self.exited = None;
            self.journal.push(Record::Exited { key: self.key, at });
        }
        let retry = self.journal.flush().map(|wait| now + wait);
        let exited = self.exited.map(|(due, _)| due);
        let end = end.filter(|_| !running.late);
        [end, running.fence.round(now), running.kill_at, exited, retry].into_iter().flatten().min()
    }

    /// Ends a prolog: the run is not to begin.
    fn stop(&mut self, cause: Cause, reason: Option<EndReason>, running: &mut Program) {
        if self.stop.replace(self.stop.unwrap_or((cause, reason))).is_none() && running.how.is_none() {
            running.fence.terminate();
            running.kill_at = Instant::now().checked_add(self.kill_wait);
        }
    }

    /// Does what the lease of the run that follows asks for by now. The time limit of one that has ended asks for nothing any more.
    fn look_at_lease(&mut self, running: &mut Program) {
        while let Some(due) = self.lease.as_mut().and_then(|lease| lease.due(clock())) {
            self.stop(Cause::Lease, Some(EndReason::NodeLost), running);
            match due {
                Due::Warning => {}
                Due::End => running.fence.kill(Instant::now()),
            }
        }
        self.set_timer();
    }

    fn set_timer(&mut self) {
        let next = self.lease.as_ref().and_then(|lease| lease.next(clock()));
        // Without a timer the lease is looked at when the prolog has ended.
        match next.map(|after| self.inbox.set_deadline(after)) {
            None => self.inbox.clear_deadline(),
            Some(Ok(())) => {}
            Some(Err(e)) => to_log(&format!("gqstep {}: no timer for its lease: {e}", self.key)),
        }
    }

    /// Takes a word of `gqnode`: a prolog is ended when the run is not to begin, an epilog by nobody.
    fn hear(&mut self, word: Control, running: &mut Program) {
        match word {
            // No script is there yet that could use a card.
            Control::Overused(_) => {}
            _ if self.kind == "epilog" => {}
            Control::Stop(kind, reason) => self.stop(Cause::Stop(kind), reason, running),
            Control::Lease(until) => {
                if let Some(lease) = &mut self.lease {
                    lease.renew(until, clock());
                    self.set_timer();
                }
            }
            Control::Signal(..)
            | Control::Warn(_)
            | Control::Limit(_)
            | Control::Suspend
            | Control::Resume => {
                if self.words.len() < MAX_WORDS {
                    self.words.push(word);
                }
            }
        }
    }
}

impl Program {
    /// Takes what has ended; says whether nothing is left. What a program leaves running is killed.
    fn reap(&mut self) -> bool {
        let reaped = self.fence.reap(Instant::now());
        if let Some((_, how)) = reaped.ended.iter().find(|(pid, _)| *pid == self.main && self.how.is_none()) {
            self.how = Some(*how);
            self.kill_at = None;
            if reaped.left {
                self.fence.kill(Instant::now());
            }
        }
        self.how.is_some() && !reaped.left
    }
}

/// A word; nothing when it is none.
fn plain(text: &str) -> String {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'@' | b'+');
    if text.bytes().all(is_plain) { text.to_owned() } else { String::new() }
}

/// A comma list of words; those are left out that are none. The names of slices of old drivers have slashes.
fn plain_list(text: &str) -> String {
    let is_word = |word: &&str| word.is_empty() || !plain(&word.replace('/', "-")).is_empty();
    text.split(',').filter(is_word).collect::<Vec<_>>().join(",")
}

/// All that a program of the site finds in its environment: nothing that a user typed, and of what the controller says only what
/// is a plain word.
fn environment(launch: &Launch<'_>, kind: &str, more: Vec<(&'static str, String)>) -> Vec<Vec<u8>> {
    let (a, account) = (launch.assignment, launch.account);
    let stage = match a.stage {
        Stage::Main => "main",
        Stage::Prep => "prep",
    };
    let (job, gpus) = (a.key.job.to_string(), indices(&a.cards));
    let billed = a.account.as_deref().map(plain).unwrap_or_default();
    let mut all = vec![
        ("PATH", PATH.to_owned()),
        ("HOME", "/".to_owned()),
        ("LANG", "C".to_owned()),
        ("GQ_HOOK", kind.to_owned()),
        ("GQ_STAGE", stage.to_owned()),
        ("GQ_RUN", a.key.run.to_string()),
        ("GQ_UID", a.uid.to_string()),
        ("GQ_GID", account.gid.to_string()),
        ("GQ_USER", plain(&account.name)),
        ("GQ_PARTITION", plain(&a.partition)),
        ("GQ_ACCOUNT", billed.clone()),
        ("GQ_CLUSTER_NAME", plain(&a.cluster)),
        ("GQ_NODE", a.node.to_string()),
        ("GQ_GPUS", gpus.clone()),
        ("CUDA_VISIBLE_DEVICES", plain_list(&visible(&a.cards))),
        ("SLURM_CLUSTER_NAME", plain(&a.cluster)),
        ("SLURM_JOB_ACCOUNT", billed),
        ("SLURM_JOB_GID", account.gid.to_string()),
        ("SLURM_JOB_GPUS", gpus),
        ("SLURM_JOB_PARTITION", plain(&a.partition)),
        ("SLURM_JOB_UID", a.uid.to_string()),
        ("SLURM_JOB_USER", plain(&account.name)),
        ("SLURM_SCRIPT_CONTEXT", format!("{kind}_slurmd")),
        ("SLURMD_NODENAME", a.node.to_string()),
    ];
    all.extend(["GQ_JOB_ID", "SLURM_JOB_ID", "SLURM_JOBID"].map(|name| (name, job.clone())));
    if let Some((array, task)) = a.array {
        all.extend(["GQ_ARRAY_JOB_ID", "SLURM_ARRAY_JOB_ID"].map(|name| (name, array.to_string())));
        all.extend(["GQ_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_ID"].map(|name| (name, task.to_string())));
    }
    all.extend(more);
    all.iter().map(|(name, value)| format!("{name}={value}").into_bytes()).collect()
}

/// What an epilog is told of the end, as far as it is known here.
fn end_variables(last: &Last) -> Vec<(&'static str, String)> {
    let word = |reason: EndReason| reason.word().to_owned();
    let mut all = vec![("GQ_END_REASON", last.reason.map(word).unwrap_or_default())];
    let refused = Outcome::without_exit(End::LaunchFailed, Reason::None, String::new());
    let outcome = match &last.record {
        Record::Ended { outcome, .. } => outcome,
        _ => &refused,
    };
    let number = |number: Option<u8>| number.map(|n| n.to_string()).unwrap_or_default();
    all.push(("GQ_STATE", JobState::Ended(outcome.end).name().to_owned()));
    all.push(("GQ_EXIT_CODE", number(outcome.exit_code)));
    all.push(("GQ_SIGNAL", number(outcome.signal)));
    all
}
