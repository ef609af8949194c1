//! The look at a segment before it is used: which of its lines are not what was written, and how far it was synced for certain. A line that was cut
//! off is the beginning of one, and costs itself alone: its writer wrote it again, or is dead. What else is no line was written by nobody.

use crate::{
    line::{self, Line},
    log::LogError,
    record::Record,
};
use gq_model::RunKey;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// What a segment holds, apart from its records.
#[derive(Debug, Default)]
pub struct Scan {
    path: PathBuf,
    bytes: Vec<u8>,
    /// Where lines lie that nobody wrote: from, to.
    bad: Vec<(usize, usize)>,
    /// Behind the last record of a life: what comes before it was synced when that life began.
    life: usize,
    /// Behind the end of each run.
    ends: BTreeMap<RunKey, usize>,
    /// Runs whose ends were acknowledged, and so synced before.
    pub acked: BTreeSet<RunKey>,
}

impl Scan {
    /// Looks through the segment at `path`.
    ///
    /// # Errors
    /// [`LogError::Newer`], and [`LogError::Read`] when the disk fails.
    pub fn of(path: PathBuf) -> Result<Self, LogError> {
        let bytes = fs::read(&path).map_err(|e| LogError::Read(path.clone(), e))?;
        let mut scan = Self { path, ..Self::default() };
        let mut at = 0;
        let mut lines = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(line) = lines.next() {
            let (from, to) = (at, at + line.len());
            at = to + 1;
            // The newline after it is that of the next write, which an empty line would follow only if it had one of its own.
            let ends_itself = lines.peek().is_some_and(|next| next.is_empty());
            match line::read(line) {
                Line::Empty => {}
                Line::Record(record) => scan.note(&record, to),
                Line::Bad if !ends_itself && line::is_torn(line) => {}
                Line::Bad => scan.bad.push((from, to)),
                Line::Newer(v) => return Err(LogError::Newer(scan.path, v)),
            }
        }
        scan.bytes = bytes;
        Ok(scan)
    }

    fn note(&mut self, record: &Record, to: usize) {
        match record {
            Record::Life { .. } => self.life = to,
            Record::Ended { key, .. } | Record::Refused { key, .. } => drop(self.ends.insert(*key, to)),
            Record::Acked { key } => drop(self.acked.insert(*key)),
            Record::Taken { .. }
            | Record::Up { .. }
            | Record::Started { .. }
            | Record::Suspended { .. }
            | Record::Resumed { .. }
            | Record::Exited { .. }
            | Record::Vacated { .. } => {}
        }
    }

    /// Refuses a segment with damage where it was synced. `acked`: the runs whose ends were acknowledged, by any segment.
    ///
    /// # Errors
    /// [`LogError::Damaged`].
    pub fn refuse_damage(&self, acked: &BTreeSet<RunKey>) -> Result<(), LogError> {
        let ends = self.ends.iter().filter(|(key, _)| acked.contains(key)).map(|(_, to)| *to);
        let synced = ends.fold(self.life, usize::max);
        let mut damaged = self.bad.iter().filter(|(from, _)| *from < synced);
        match damaged.next() {
            Some((offset, _)) => {
                let lines = 1 + damaged.count() as u64;
                Err(LogError::Damaged { path: self.path.clone(), lines, offset: *offset as u64 })
            }
            None => Ok(()),
        }
    }

    /// Keeps what nobody wrote in a file of its own, and blanks it here. Nobody is disturbed by that who appends.
    ///
    /// # Errors
    /// [`LogError::Append`], [`LogError::Sync`].
    pub fn blank(&self) -> Result<(), LogError> {
        if self.bad.is_empty() {
            return Ok(());
        }
        let (copy, mut to) = new_copy(&self.path).map_err(LogError::Append)?;
        let segment = OpenOptions::new().write(true).open(&self.path).map_err(LogError::Append)?;
        let mut count = 0;
        for bytes in self.bad.iter().filter_map(|(from, to)| self.bytes.get(*from..*to)) {
            to.write_all(bytes).and_then(|()| to.write_all(b"\n")).map_err(LogError::Append)?;
            count += bytes.len();
        }
        to.sync_all().map_err(LogError::Sync)?;
        for (from, to) in &self.bad {
            segment.write_all_at(&vec![b'\n'; to - from], *from as u64).map_err(LogError::Append)?;
        }
        segment.sync_data().map_err(LogError::Sync)?;
        log::warn!(
            "{}: {} lines ({count} bytes), the first at offset {}, were written by nobody; they are cut, and kept in {}",
            self.path.display(),
            self.bad.len(),
            self.bad.first().map_or(0, |(from, _)| *from),
            copy.display()
        );
        Ok(())
    }
}

/// A new file beside a segment, which is no segment.
fn new_copy(path: &Path) -> io::Result<(PathBuf, File)> {
    for number in 1u32.. {
        let copy = path.with_extension(format!("cut-{number}"));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&copy) {
            Ok(file) => return Ok((copy, file)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
