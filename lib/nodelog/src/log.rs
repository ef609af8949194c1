//! The log of a node as `gqnode` holds it: opened once, written, followed, rotated, trimmed.

use crate::{append::Appender, record::Record, scan::Scan, segment::Segment, watch::Watch};
use gq_failpoint::{Step, step};
use gq_model::RunKey;
use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Seek},
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};
use thiserror::Error;

/// Why the log could not be used.
#[derive(Debug, Error)]
pub enum LogError {
    /// Another process has it open.
    #[error("{0}: another gqnode uses this log; stop it first")]
    InUse(PathBuf),
    /// A segment or the folder cannot be opened, made or removed.
    #[error("{0}: cannot be opened: {1}")]
    Open(PathBuf, #[source] io::Error),
    /// A segment cannot be read.
    #[error("{0}: cannot be read: {1}")]
    Read(PathBuf, #[source] io::Error),
    /// A segment was written by a newer version of gq.
    #[error("{0}: written by a newer gq (version {1} of the records); use that version")]
    Newer(PathBuf, u32),
    /// Lines that were synced are not what was written.
    #[error(
        "{}: {lines} lines, the first at offset {offset}, are not what was written, and were durable\n  try: gqnode --accept-loss, to go \
         on without them; supervisors that live are found again",
        path.display()
    )]
    Damaged {
        /// The segment.
        path: PathBuf,
        /// How many.
        lines: u64,
        /// Where the first is.
        offset: u64,
    },
    /// Records were not appended.
    #[error("the node's log cannot be written: {0}; make room on its disk")]
    Append(#[source] io::Error),
    /// Records may not be durable. Stop; do not try again.
    #[error("the node's log cannot be synced: {0}; the disk is failing")]
    Sync(#[source] io::Error),
    /// The folder cannot be watched.
    #[error("{0}: cannot be watched: {1}; see fs.inotify.max_user_watches and max_user_instances")]
    Watch(PathBuf, #[source] io::Error),
}

impl LogError {
    /// Whether the disk is full or read-only: it may work again later.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Append(e) | Self::Open(_, e) => matches!(
                e.kind(),
                io::ErrorKind::StorageFull
                    | io::ErrorKind::QuotaExceeded
                    | io::ErrorKind::ReadOnlyFilesystem
                    | io::ErrorKind::WriteZero
            ),
            Self::InUse(_)
            | Self::Read(..)
            | Self::Newer(..)
            | Self::Damaged { .. }
            | Self::Sync(_)
            | Self::Watch(..) => false,
        }
    }
}

/// The node's log. One process holds it; supervisors append to its segments.
#[derive(Debug)]
pub struct Log {
    dir: PathBuf,
    /// The folder: locked while the log is open, synced when segments come and go.
    folder: File,
    /// Oldest first; the last is the one we write. Never empty.
    older: Vec<Segment>,
    current: Segment,
    appender: Appender,
    /// Runs that can be forgotten.
    acked: BTreeSet<RunKey>,
    /// Runs whose supervisor has written something, so that its segment is known.
    seen: BTreeSet<RunKey>,
}

impl Log {
    /// Opens (or makes) the log in the folder `dir` and returns all its records, oldest first.
    ///
    /// Torn lines are skipped with a warning. What nobody wrote is kept aside and blanked, as long as nobody can have relied on it.
    ///
    /// # Errors
    /// [`LogError::InUse`], [`LogError::Newer`], [`LogError::Damaged`], or what the disk says.
    pub fn open(dir: &Path) -> Result<(Self, Vec<Record>), LogError> {
        Self::open_with(dir, false)
    }

    /// As [`Log::open`], without what is damaged, whoever relied on it.
    ///
    /// # Errors
    /// As [`Log::open`], but for [`LogError::Damaged`].
    pub fn open_at_a_loss(dir: &Path) -> Result<(Self, Vec<Record>), LogError> {
        Self::open_with(dir, true)
    }

    fn open_with(dir: &Path, accept_loss: bool) -> Result<(Self, Vec<Record>), LogError> {
        let opened = |e| LogError::Open(dir.to_path_buf(), e);
        match DirBuilder::new().mode(0o700).create(dir) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(opened(e)),
            _ => {}
        }
        let folder = File::open(dir).map_err(opened)?;
        match folder.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LogError::InUse(dir.to_path_buf())),
            Err(TryLockError::Error(e)) => return Err(opened(e)),
        }
        let numbers = numbers(dir).map_err(opened)?;
        look_through(numbers.iter().map(|number| segment_path(dir, *number)), accept_loss)?;
        let mut older = Vec::new();
        for number in numbers {
            let path = segment_path(dir, number);
            let reader = File::open(&path).map_err(|e| LogError::Open(path.clone(), e))?;
            older.push(Segment::new(number, path, reader));
        }
        let current = match older.pop() {
            Some(last) => last,
            None => make_segment(dir, &folder, 1)?,
        };
        let appender = open_to_append(&current.path)?;
        let mut log = Self {
            dir: dir.to_path_buf(),
            folder,
            older,
            current,
            appender,
            acked: BTreeSet::new(),
            seen: BTreeSet::new(),
        };
        let records = log.tail()?;
        for segment in log.older.iter().chain([&log.current]).filter(|s| s.is_torn()) {
            log::warn!("{}: the last line is torn and was skipped", segment.path.display());
        }
        Ok((log, records))
    }

    /// Appends one record with one write.
    ///
    /// # Errors
    /// [`LogError::Append`] when it was not written whole: the disk is full. Append it again when there is room.
    pub fn append(&mut self, record: &Record) -> Result<(), LogError> {
        self.append_all(std::slice::from_ref(record))
    }

    /// Appends records with one write; an empty slice does nothing.
    ///
    /// # Errors
    /// As [`Log::append`]; append all of them again.
    pub fn append_all(&mut self, records: &[Record]) -> Result<(), LogError> {
        if records.is_empty() {
            return Ok(());
        }
        let len = self.appender.append_all(records)?;
        // Nobody else has this open file, so its position is the end of what was written just now.
        let end = self.appender.file().stream_position().map_err(LogError::Append)?;
        self.current.wrote(len, end, records);
        for record in records {
            note(&mut self.acked, &mut self.seen, record);
        }
        Ok(())
    }

    /// Makes durable all that was appended here, and all of others that [`Log::tail`] has returned.
    ///
    /// # Errors
    /// [`LogError::Sync`]: records may be lost. Never call again after that; stop.
    pub fn sync(&mut self) -> Result<(), LogError> {
        for segment in self.older.iter_mut().chain([&mut self.current]).filter(|s| s.dirty) {
            segment.reader.sync_data().map_err(LogError::Sync)?;
            segment.dirty = false;
        }
        Ok(())
    }

    /// Opens the current segment for the supervisor of the run `key`: its standard output.
    ///
    /// # Errors
    /// [`LogError::Open`] when there are no file descriptors left.
    pub fn hand_out(&mut self, key: RunKey) -> Result<OwnedFd, LogError> {
        let fd = open_file(&self.current.path)?.into();
        self.current.runs.insert(key);
        Ok(fd)
    }

    /// Returns what others have appended since the last call (or since [`Log::open`]), oldest first in each segment.
    ///
    /// # Errors
    /// [`LogError::Read`] when the disk fails.
    pub fn tail(&mut self) -> Result<Vec<Record>, LogError> {
        let mut records = Vec::new();
        for segment in self.older.iter_mut().chain([&mut self.current]) {
            segment.read(&mut |record| records.push(record))?;
        }
        for record in &records {
            note(&mut self.acked, &mut self.seen, record);
        }
        Ok(records)
    }

    /// Begins a new segment with `head` when the current one is longer than `size` bytes; says whether it did.
    ///
    /// `head`: what must be known when every older segment is gone, a [`Record::Life`].
    ///
    /// # Errors
    /// When the disk is full; the current segment then stays in use.
    pub fn rotate_if(&mut self, size: u64, head: &Record) -> Result<bool, LogError> {
        let path = &self.current.path;
        let length = self.current.reader.metadata().map_err(|e| LogError::Read(path.clone(), e))?.len();
        if length <= size {
            return Ok(false);
        }
        let next = make_segment(&self.dir, &self.folder, self.current.number.saturating_add(1))?;
        self.appender = open_to_append(&next.path)?;
        self.older.push(std::mem::replace(&mut self.current, next));
        step(Step::LogRotate, || self.append(head))?;
        self.sync()?;
        Ok(true)
    }

    /// Deletes old segments that nobody needs: all their runs are acknowledged, none of them is in `live`, and no
    /// older segment that stays speaks of them. Returns how many were deleted.
    ///
    /// # Errors
    /// [`LogError::Open`] when the folder cannot be changed.
    pub fn drop_segments(&mut self, live: &BTreeSet<RunKey>) -> Result<usize, LogError> {
        // A supervisor that has written nothing yet may hold any segment.
        if !live.iter().all(|key| self.seen.contains(key)) {
            return Ok(0);
        }
        let mut needed = BTreeSet::new();
        let mut dropped = 0;
        let mut kept = Vec::new();
        for segment in std::mem::take(&mut self.older) {
            let free = segment
                .runs
                .iter()
                .all(|key| self.acked.contains(key) && !live.contains(key) && !needed.contains(key));
            if !free {
                needed.extend(segment.runs.iter().copied());
                kept.push(segment);
                continue;
            }
            // Synced one by one: a later segment may hold the acknowledgement of a run of an earlier one.
            let remove = || fs::remove_file(&segment.path).and_then(|()| self.folder.sync_all());
            let gone = step(Step::LogDrop, remove);
            if let Err(e) = gone {
                log::warn!("{}: cannot be removed: {e}", segment.path.display());
                needed.extend(segment.runs.iter().copied());
                kept.push(segment);
                continue;
            }
            dropped += 1;
        }
        self.older = kept;
        if dropped > 0 {
            let mut known: BTreeSet<RunKey> = self.current.runs.clone();
            known.extend(self.older.iter().flat_map(|s| s.runs.iter().copied()));
            self.acked.retain(|key| known.contains(key));
            self.seen.retain(|key| known.contains(key));
        }
        Ok(dropped)
    }

    /// Watches the log's folder; see [`Watch::wait`].
    ///
    /// # Errors
    /// As [`Watch::open`].
    pub fn watch(&self) -> Result<Watch, LogError> {
        Watch::open(&self.dir)
    }
}

/// Looks through all segments before one of them is used or changed.
fn look_through(paths: impl Iterator<Item = PathBuf>, accept_loss: bool) -> Result<(), LogError> {
    let scans = paths.map(Scan::of).collect::<Result<Vec<_>, _>>()?;
    let acked = scans.iter().flat_map(|scan| scan.acked.iter().copied()).collect();
    if !accept_loss {
        scans.iter().try_for_each(|scan| scan.refuse_damage(&acked))?;
    }
    scans.iter().try_for_each(Scan::blank)
}

fn note(acked: &mut BTreeSet<RunKey>, seen: &mut BTreeSet<RunKey>, record: &Record) {
    match record {
        Record::Acked { key } => {
            acked.insert(*key);
        }
        Record::Up { key, .. }
        | Record::Started { key, .. }
        | Record::Suspended { key, .. }
        | Record::Resumed { key, .. }
        | Record::Exited { key, .. }
        | Record::Ended { key, .. }
        | Record::Refused { key, .. }
        | Record::Vacated { key, .. } => {
            seen.insert(*key);
        }
        Record::Life { .. } | Record::Taken { .. } => {}
    }
}

fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:016x}.log"))
}

fn numbers(dir: &Path) -> io::Result<BTreeSet<u64>> {
    let mut numbers = BTreeSet::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let digits = name.to_str().and_then(|n| n.strip_suffix(".log")).filter(|d| d.len() == 16);
        if let Some(number) = digits.and_then(|d| u64::from_str_radix(d, 16).ok()) {
            numbers.insert(number);
        }
    }
    Ok(numbers)
}

fn make_segment(dir: &Path, folder: &File, number: u64) -> Result<Segment, LogError> {
    let path = segment_path(dir, number);
    let opened = |e| LogError::Open(path.clone(), e);
    // Left over from a rotation that failed half-way, it may be there already: empty, and ours to use.
    step(Step::LogSegment, || OpenOptions::new().append(true).create(true).mode(0o600).open(&path))
        .map_err(opened)?;
    let reader = File::open(&path).map_err(opened)?;
    folder.sync_all().map_err(LogError::Sync)?;
    Ok(Segment::new(number, path, reader))
}

fn open_file(path: &Path) -> Result<File, LogError> {
    OpenOptions::new().append(true).open(path).map_err(|e| LogError::Open(path.to_path_buf(), e))
}

fn open_to_append(path: &Path) -> Result<Appender, LogError> {
    Ok(Appender::from_fd(open_file(path)?.into()))
}
