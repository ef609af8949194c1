//! One segment: a file of lines, read from where the last reading stopped.

use crate::{
    line::{self, Line},
    log::LogError,
    record::Record,
};
use gq_model::RunKey;
use std::{
    collections::{BTreeSet, VecDeque},
    fs::File,
    os::unix::fs::FileExt,
    path::PathBuf,
};

/// Longest line; a longer one is damage.
const MAX_LINE: usize = 4 << 20;
/// Bytes read at a time.
const CHUNK: usize = 64 << 10;

/// A segment and what was read of it.
#[derive(Debug)]
pub struct Segment {
    pub number: u64,
    pub path: PathBuf,
    pub reader: File,
    /// Runs that its records speak of, or whose supervisors may write to it.
    pub runs: BTreeSet<RunKey>,
    /// Whether it holds bytes, read or written by us, that were not synced.
    pub dirty: bool,
    /// Where the next reading begins.
    offset: u64,
    /// The beginning of a line whose end has not been seen.
    unfinished: Vec<u8>,
    /// Byte ranges that this process wrote, not to be handed out again by reading.
    own: VecDeque<(u64, u64)>,
    /// Lines that were torn or damaged.
    bad: u64,
}

impl Segment {
    pub fn new(number: u64, path: PathBuf, reader: File) -> Self {
        Self {
            number,
            path,
            reader,
            runs: BTreeSet::new(),
            dirty: false,
            offset: 0,
            unfinished: Vec::new(),
            own: VecDeque::new(),
            bad: 0,
        }
    }

    /// Notes that this process wrote `len` bytes that end at `end`.
    pub fn wrote(&mut self, len: u64, end: u64, records: &[Record]) {
        self.own.push_back((end.saturating_sub(len), end));
        self.runs.extend(records.iter().filter_map(Record::key));
        self.dirty = true;
    }

    /// Reads what was appended since the last reading and hands every record of others to `take`.
    pub fn read(&mut self, take: &mut dyn FnMut(Record)) -> Result<(), LogError> {
        let mut chunk = vec![0; CHUNK];
        let bad_before = self.bad;
        loop {
            let n = match self.reader.read_at(&mut chunk, self.offset) {
                Ok(0) => break,
                Ok(n) => n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(LogError::Read(self.path.clone(), e)),
            };
            self.dirty = true;
            let mut rest = chunk.get(..n).unwrap_or_default();
            while let Some(at) = rest.iter().position(|b| *b == b'\n') {
                let (head, tail) = rest.split_at(at);
                rest = tail.get(1..).unwrap_or_default();
                let mut line = std::mem::take(&mut self.unfinished);
                line.extend_from_slice(head);
                self.offset += at as u64 + 1;
                self.line(&line, take)?;
                line.clear();
                self.unfinished = line;
            }
            self.offset += rest.len() as u64;
            if self.unfinished.len() + rest.len() <= MAX_LINE {
                self.unfinished.extend_from_slice(rest);
            }
        }
        if self.bad > bad_before {
            log::warn!(
                "{}: {} lines are torn or damaged and were skipped",
                self.path.display(),
                self.bad - bad_before
            );
        }
        Ok(())
    }

    /// Whether the last line has no end: torn, once its writer is dead.
    pub const fn is_torn(&self) -> bool {
        !self.unfinished.is_empty()
    }

    /// Takes a line whose newline was the byte before `self.offset`.
    fn line(&mut self, line: &[u8], take: &mut dyn FnMut(Record)) -> Result<(), LogError> {
        while self.own.front().is_some_and(|(_, end)| *end < self.offset) {
            self.own.pop_front();
        }
        if self.own.front().is_some_and(|(start, end)| *start < self.offset && self.offset <= *end) {
            return Ok(());
        }
        match line::read(line) {
            Line::Empty => {}
            Line::Record(record) => {
                self.runs.extend(record.key());
                take(*record);
            }
            Line::Bad => self.bad += 1,
            Line::Newer(v) => return Err(LogError::Newer(self.path.clone(), v)),
        }
        Ok(())
    }
}
