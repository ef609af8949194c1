//! Traces: what every log is read into, whatever its form, and what there is to say of the reading. Knows no form of a log itself.

use crate::trouble::Trouble;
use flate2::bufread::MultiGzDecoder;
use gq_model::{JobSpec, MiB};
use std::{
    collections::HashMap,
    fmt,
    fs::File,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Most jobs of one log.
const MAX_JOBS: usize = 50_000_000;
/// Longest line of a log, in bytes.
const MAX_LINE: u64 = 64 << 10;
/// How many lines that did not parse are kept word for word.
const MAX_KEPT: usize = 5;
/// What a job without a time limit is taken to ask for, in seconds.
pub(crate) const UNLIMITED: i64 = 365 * 86_400;
/// Longest time that is read, in seconds: some 3000 years. What is longer is an error of the log.
pub(crate) const MOST_SECONDS: i64 = 100_000_000_000;
/// A whole card in thousandths.
pub(crate) const WHOLE: u32 = 1000;

/// A name that a log uses again and again: its place in [`Names`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name(pub(crate) u32);

/// The names of a log, each kept once. The first one is empty.
#[derive(Debug)]
pub(crate) struct Names {
    list: Vec<Arc<str>>,
    index: HashMap<Arc<str>, Name>,
}

impl Default for Names {
    fn default() -> Self {
        let mut names = Self { list: Vec::new(), index: HashMap::new() };
        names.of("");
        names
    }
}

impl Names {
    /// The place of `text`.
    pub(crate) fn of(&mut self, text: &str) -> Name {
        if let Some(name) = self.index.get(text) {
            return *name;
        }
        let name = Name(u32::try_from(self.list.len()).unwrap_or(u32::MAX));
        let text: Arc<str> = Arc::from(text);
        self.list.push(Arc::clone(&text));
        self.index.insert(text, name);
        name
    }

    /// The text of a name, shared.
    pub(crate) fn shared(&self, name: Name) -> Arc<str> {
        self.list.get(name.0 as usize).cloned().unwrap_or_default()
    }

    /// The text of a name.
    pub(crate) fn text(&self, name: Name) -> &str {
        self.list.get(name.0 as usize).map_or("", |text| text)
    }
}

/// A job of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TraceJob {
    /// Its number in the log.
    pub(crate) id: u64,
    /// When it is submitted, in seconds of the log.
    pub(crate) submit: i64,
    /// How long it runs, in seconds; never longer than `estimate`.
    pub(crate) run: i64,
    /// Its time limit, in seconds; [`UNLIMITED`] when it has none.
    pub(crate) estimate: i64,
    /// Processors or cpus.
    pub(crate) cpus: u32,
    /// Memory; 0 when the log does not say.
    pub(crate) memory: MiB,
    /// Cards.
    pub(crate) cards: u32,
    /// How much of each card, in thousandths: less than [`WHOLE`] is a part of one card.
    pub(crate) card_milli: u32,
    /// The profile of the slices it gets instead of whole cards; empty for none.
    pub(crate) profile: Name,
    /// The model of the cards; empty for any.
    pub(crate) model: Name,
    /// Whose it is.
    pub(crate) user: Name,
    /// Its account (or group).
    pub(crate) account: Name,
    /// Its partition or queue.
    pub(crate) partition: Name,
    /// The line it stands in, counted from 1; 0 when it comes from no line.
    pub(crate) line: u64,
    /// What was asked word for word, when the log has it.
    pub(crate) spec: Option<Arc<JobSpec>>,
}

impl TraceJob {
    /// How wide the job is: its cards, or its cpus when it asks for none.
    pub(crate) fn width(&self) -> u32 {
        if self.cards > 0 { self.cards } else { self.cpus }
    }

    /// Cards held, in thousandths.
    pub(crate) fn milli(&self) -> u64 {
        u64::from(self.cards) * u64::from(self.card_milli.min(WHOLE))
    }
}

/// A line that does not parse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    file: PathBuf,
    line: u64,
    what: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.what)
    }
}

/// Why jobs of a log were left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Dropped {
    /// They never ran.
    pub(crate) no_run: u64,
    /// They ask for no processor.
    pub(crate) no_width: u64,
    /// They ask for more processors than there are.
    pub(crate) too_wide: u64,
    /// They were submitted before the log begins.
    pub(crate) no_submit: u64,
}

impl Dropped {
    pub(crate) fn total(&self) -> u64 {
        self.no_run + self.no_width + self.too_wide + self.no_submit
    }
}

/// What there is to say of the reading of a log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    /// Jobs left out.
    pub(crate) dropped: Dropped,
    /// How many lines did not parse.
    pub(crate) malformed: u64,
    /// The first of them.
    pub(crate) kept: Vec<Malformed>,
    /// How the log's words were taken, where it matters for the figures.
    pub(crate) taken_as: Vec<String>,
}

/// A log that was read.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// Its jobs, in the order of the file.
    pub(crate) jobs: Vec<TraceJob>,
    /// The names in them.
    pub(crate) names: Names,
    /// What there is to say of the reading.
    pub(crate) notes: Notes,
}

/// How a log is to be read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    /// Whether a line that does not parse ends it all.
    pub(crate) strict: bool,
    /// Only the first so many jobs that are not dropped.
    pub(crate) first: Option<usize>,
    /// Wider jobs are dropped.
    pub(crate) widest: Option<u32>,
}

/// Gathers the jobs of a log and counts what was not taken.
pub(crate) struct Gather<'a> {
    path: &'a Path,
    pub(crate) reading: Reading,
    pub(crate) trace: Trace,
}

impl<'a> Gather<'a> {
    pub(crate) fn new(path: &'a Path, reading: Reading) -> Self {
        Self { path, reading, trace: Trace::default() }
    }

    /// Whether no more jobs are wanted.
    pub(crate) fn is_full(&self) -> bool {
        self.reading.first.is_some_and(|most| self.trace.jobs.len() >= most)
    }

    /// Takes a job, or drops it: the rules are those of scheduling studies over the Parallel Workloads Archive.
    /// Times out of all reason make its line one that does not parse.
    pub(crate) fn take(&mut self, mut job: TraceJob) -> Result<(), Trouble> {
        let times = [("submitted at", job.submit), ("run time", job.run), ("time limit", job.estimate)];
        if let Some((what, seconds)) = times.into_iter().find(|(_, seconds)| *seconds > MOST_SECONDS) {
            let text = format!("{what}: {seconds} seconds are out of all reason");
            return self.malformed(job.line, text);
        }
        let dropped = &mut self.trace.notes.dropped;
        if job.run <= 0 {
            dropped.no_run += 1;
        } else if job.width() == 0 {
            dropped.no_width += 1;
        } else if self.reading.widest.is_some_and(|widest| job.width() > widest) {
            dropped.too_wide += 1;
        } else if job.submit < 0 {
            dropped.no_submit += 1;
        } else {
            // Killed at its limit.
            job.run = job.run.min(job.estimate);
            if self.trace.jobs.len() >= MAX_JOBS {
                let text = format!("{}: more than {MAX_JOBS} jobs", self.path.display());
                return Err(Trouble::usage(text).hint("--first K reads the first K only"));
            }
            self.trace.jobs.push(job);
        }
        Ok(())
    }

    /// Notes a line that does not parse; a trouble when the reading is strict.
    pub(crate) fn malformed(&mut self, line: u64, what: impl Into<String>) -> Result<(), Trouble> {
        let malformed = Malformed { file: self.path.to_owned(), line, what: what.into() };
        if self.reading.strict {
            return Err(Trouble::usage(malformed.to_string())
                .hint("without --strict such lines are counted and left out"));
        }
        let notes = &mut self.trace.notes;
        notes.malformed += 1;
        if notes.kept.len() < MAX_KEPT {
            notes.kept.push(malformed);
        }
        Ok(())
    }
}

/// Opens a file for reading; what is compressed by gzip, by its content, is unpacked.
pub(crate) fn open(path: &Path) -> Result<Box<dyn BufRead>, Trouble> {
    let file = File::open(path).map_err(|e| Trouble::unread(path, &e))?;
    let mut file = BufReader::with_capacity(64 << 10, file);
    let head = file.fill_buf().map_err(|e| Trouble::unread(path, &e))?;
    if head.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(BufReader::with_capacity(64 << 10, MultiGzDecoder::new(file))));
    }
    Ok(Box::new(file))
}

/// Reads a line without its end into `line`. Returns whether there was one; a line that is too long is cut, and the rest skipped.
pub(crate) fn next_line(from: &mut dyn BufRead, line: &mut Vec<u8>, path: &Path) -> Result<bool, Trouble> {
    line.clear();
    let unread = |e| Trouble::unread(path, &e);
    let read = (&mut *from).take(MAX_LINE).read_until(b'\n', line).map_err(unread)?;
    if read as u64 == MAX_LINE && line.last() != Some(&b'\n') {
        from.skip_until(b'\n').map_err(unread)?;
    }
    while line.last().is_some_and(|b| matches!(b, b'\n' | b'\r')) {
        line.pop();
    }
    Ok(read > 0)
}
