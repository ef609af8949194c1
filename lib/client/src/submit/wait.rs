//! Waiting for the end of a job (`--wait`), with the progress of an array on a terminal, and a word when what the job waits for can no longer
//! come. Goes on when `gqd` is restarted meanwhile.

use super::PROGRAM;
use crate::{
    link::Link,
    progress,
    stat::clock::Clock,
    trouble::{Trouble, UNREACHABLE, say, say_hint},
};
use gq_conf::Config;
use gq_model::{JobId, Reason};
use gq_proto::{ArrayView, Ask, Reply, WaitedEnd};
use std::{
    io::{self, IsTerminal, Write},
    thread::sleep,
    time::{Duration, Instant},
};

/// How long it goes on while `gqd` cannot be reached.
const PATIENCE: Duration = Duration::from_secs(3600);
/// How often it tries.
const PAUSE: Duration = Duration::from_secs(1);
/// A connection that held so long shows that `gqd` was there.
const HELD: Duration = Duration::from_secs(10);

/// A line on the terminal that is written over as an array goes on.
pub(super) struct Bar {
    clock: Clock,
    drawn: bool,
}

impl Bar {
    /// A bar when it is wanted and stderr is a terminal.
    pub(super) fn wanted(wanted: bool) -> Option<Self> {
        (wanted && io::stderr().is_terminal()).then(Self::new)
    }

    pub(super) fn new() -> Self {
        Self { clock: Clock::system(), drawn: false }
    }

    fn show(&mut self, array: &ArrayView) {
        let width =
            terminal_size::terminal_size_of(io::stderr()).map_or(80, |(width, _)| usize::from(width.0));
        let text = progress::line(array, &self.clock, width.saturating_sub(1));
        // What cannot be shown is lost: the job goes on all the same.
        let _ = write!(io::stderr(), "\r{text}\x1b[K");
        self.drawn = true;
    }

    /// Takes the line away, so that other words have a line of their own.
    fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// What is shown while a job is waited for.
#[derive(Default)]
pub(super) struct Shown {
    /// How far an array is.
    pub(super) bar: Option<Bar>,
    /// What was said last to be waited for in vain.
    pub(super) vain: Vec<String>,
}

impl Shown {
    fn clear(&mut self) {
        if let Some(bar) = &mut self.bar {
            bar.clear();
        }
    }

    /// Says what can no longer come; once, though every life of `gqd` tells it anew.
    fn say_vain(&mut self, job: JobId, conditions: Vec<String>) {
        if conditions == self.vain {
            return;
        }
        self.clear();
        say(PROGRAM, &format!("job {job} waits for what can no longer happen: {}", conditions.join(", ")));
        say_hint(&format!("gqctl update {job} --dependency=..., or gqcancel {job}"));
        self.vain = conditions;
    }
}

/// Blocks until the job has ended; the exit code is the job's, in an array that of the worst task.
pub(super) fn wait_for(conf: &Config, job: JobId, mut shown: Shown) -> Result<u8, Trouble> {
    let mut lost: Option<Instant> = None;
    loop {
        let opened = Instant::now();
        let answer = Link::open_to(conf).and_then(|link| ask(&link, job, &mut shown));
        shown.clear();
        let trouble = match answer {
            Ok(end) => return Ok(ended(&end)),
            Err(trouble) if trouble.code() != UNREACHABLE => return Err(trouble),
            Err(trouble) => trouble,
        };
        if opened.elapsed() >= HELD {
            lost = None;
        }
        if lost.is_none() {
            say(PROGRAM, &format!("still waiting for job {job}: {trouble}"));
        }
        if lost.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            return Err(trouble
                .with_hint(format!("gqstat -j {job}, when gqd is back: how the job ended is not known")));
        }
        sleep(PAUSE);
    }
}

/// The exit code that an end means; says what no script can have said.
fn ended(end: &WaitedEnd) -> u8 {
    let Some(outcome) = &end.outcome else { return 1 };
    if outcome.reason == Reason::DependencyNeverSatisfied {
        let job = end.job;
        say(
            PROGRAM,
            &format!(
                "job {job}, or what was left of it, was cancelled: what it waited for can no longer happen"
            ),
        );
        say_hint(&format!("gqstat --why {job}, and --kill-on-invalid-dep=no keeps such a job in the queue"));
    }
    outcome.client_code()
}

fn ask(link: &Link, job: JobId, shown: &mut Shown) -> Result<WaitedEnd, Trouble> {
    link.wait_for(None)?;
    let mut ended = None;
    let question = Ask::Wait { job, progress: shown.bar.is_some(), hopeless: true };
    link.ask_in_parts(question, |part| match (part, &mut shown.bar) {
        (Reply::Progress(array), Some(bar)) => {
            bar.show(&array);
            Ok(true)
        }
        (Reply::Hopeless { conditions }, _) => {
            shown.say_vain(job, conditions);
            Ok(true)
        }
        (Reply::Waited(end), _) => {
            ended = Some(end);
            Ok(false)
        }
        _ => Err(link.astray()),
    })?;
    ended.ok_or_else(|| link.astray())
}
