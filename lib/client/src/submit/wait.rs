//! Waiting for the end of a job (`--wait`), with the progress of an array on a terminal. Goes on when `gqd` is restarted meanwhile.

use super::PROGRAM;
use crate::{
    link::Link,
    progress,
    stat::clock::Clock,
    trouble::{Trouble, UNREACHABLE, say},
};
use gq_conf::Config;
use gq_model::JobId;
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

/// Blocks until the job has ended; the exit code is the job's, in an array that of the worst task.
pub(super) fn wait_for(conf: &Config, job: JobId, mut bar: Option<Bar>) -> Result<u8, Trouble> {
    let mut lost: Option<Instant> = None;
    loop {
        let opened = Instant::now();
        let answer = Link::open_at(conf.sock()).and_then(|link| ask(&link, job, bar.as_mut()));
        if let Some(bar) = &mut bar {
            bar.clear();
        }
        let trouble = match answer {
            Ok(end) => return Ok(end.outcome.map_or(1, |outcome| outcome.client_code())),
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

fn ask(link: &Link, job: JobId, mut bar: Option<&mut Bar>) -> Result<WaitedEnd, Trouble> {
    link.wait_for(None)?;
    let mut ended = None;
    link.ask_in_parts(Ask::Wait { job, progress: bar.is_some() }, |part| match (part, &mut bar) {
        (Reply::Progress(array), Some(bar)) => {
            bar.show(&array);
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
