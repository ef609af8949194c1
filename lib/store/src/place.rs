//! The state directory: its folder, the lock that keeps a second controller out, and the ballast that makes room for results when
//! the disk is full.

use crate::{Store, StoreError, schema};
use fs2::FileExt;
use gq_failpoint::{Step, step};
use gq_model::ClusterId;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use thiserror::Error;

const DATABASE: &str = "gq.db";
const DRAFT: &str = "gq.db.new";
const LOCK: &str = "lock";
pub(crate) const BALLAST: &str = "ballast";
/// How long, and how often, it is tried to lock the state: a `gqd` that was killed a moment ago may not be quite dead.
const LOCK_WAIT: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(20);
/// Room kept for the results of running jobs.
const BALLAST_BYTES: u64 = 64 << 20;

/// Why a state directory was not taken.
#[derive(Debug, Error)]
pub enum PlaceError {
    /// There is no state there.
    #[error("{}: no state here\n  try: gqd --init for a new queue; if there was one, look whether its disk is mounted", .0.display())]
    NoState(PathBuf),
    /// There is something, and it is no state.
    #[error("{}: not empty, and no state of gq\n  try: another state_dir, or empty it", .0.display())]
    Strange(PathBuf),
    /// There is state already.
    #[error("{}: there is a queue here already\n  try: gqd without --init", .0.display())]
    Taken(PathBuf),
    /// Another controller holds it.
    #[error("{}: another gqd holds this state: {holder}", path.display())]
    Held {
        /// The lock file.
        path: PathBuf,
        /// What the holder wrote of itself.
        holder: String,
    },
    /// Others may read or write the folder.
    #[error("{}: mode {mode:o} lets others in\n  try: chmod 700", path.display())]
    Open {
        /// The folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The system refused something.
    #[error("{}: {source}", path.display())]
    Io {
        /// With which file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// What was made there may not be on disk.
    #[error("{}: cannot be synced: {source}; look at its disk", path.display())]
    Sync {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The database was not taken.
    #[error("{}: {source}", path.display())]
    Store {
        /// The database.
        path: PathBuf,
        /// Why.
        source: StoreError,
    },
}

impl PlaceError {
    /// Whether there is no room.
    fn is_full(&self) -> bool {
        match self {
            Self::Store { source: StoreError::Full(_), .. } => true,
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            Self::NoState(_)
            | Self::Strange(_)
            | Self::Taken(_)
            | Self::Held { .. }
            | Self::Open { .. }
            | Self::Sync { .. }
            | Self::Store { .. } => false,
        }
    }
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> PlaceError {
    move |source| PlaceError::Io { path: path.to_owned(), source }
}

pub(crate) fn sync_folder(dir: &Path) -> Result<(), PlaceError> {
    let synced = File::open(dir).and_then(|folder| folder.sync_all());
    synced.map_err(|source| PlaceError::Sync { path: dir.to_owned(), source })
}

/// A state directory that is held: nobody else has it while this lives.
pub struct Place {
    dir: PathBuf,
    _lock: File,
}

impl Place {
    /// Makes a new, empty state in `dir`, which must not exist or be empty.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub fn init(dir: &Path, id: ClusterId, myself: &str) -> Result<Self, PlaceError> {
        if dir.join(DATABASE).exists() {
            return Err(PlaceError::Taken(dir.to_owned()));
        }
        if !dir.exists() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io_at(dir))?;
        }
        let names = || -> Result<Vec<String>, PlaceError> {
            let entries = fs::read_dir(dir).map_err(io_at(dir))?;
            Ok(entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
        };
        if names()?.iter().any(|name| name != LOCK && name != "node" && !name.starts_with(DRAFT)) {
            return Err(PlaceError::Strange(dir.to_owned()));
        }
        let place = Self::hold(dir, myself)?;
        // The database appears under its name only when it is whole. What an init that was cut short has left of one, and the journal
        // beside it, would be taken for a part of the new one.
        let (draft, path) = (dir.join(DRAFT), dir.join(DATABASE));
        for left in names()?.iter().filter(|name| name.starts_with(DRAFT)).map(|name| dir.join(name)) {
            fs::remove_file(&left).map_err(io_at(&left))?;
        }
        let made = step(Step::StateDraft, || schema::create(&draft, id));
        let made = made.map_err(|source| PlaceError::Store { path: draft.clone(), source });
        made.and_then(|()| {
            fs::set_permissions(&draft, fs::Permissions::from_mode(0o600)).map_err(io_at(&draft))?;
            step(Step::StateName, || fs::rename(&draft, &path)).map_err(io_at(&path))
        })?;
        Ok(place)
    }

    /// Takes hold of the state in `dir`.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub fn open(dir: &Path, myself: &str) -> Result<Self, PlaceError> {
        if !dir.join(DATABASE).exists() {
            let empty = fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none());
            return Err(if empty {
                PlaceError::NoState(dir.to_owned())
            } else {
                PlaceError::Strange(dir.to_owned())
            });
        }
        Self::hold(dir, myself)
    }

    fn hold(dir: &Path, myself: &str) -> Result<Self, PlaceError> {
        let mode = fs::metadata(dir).map_err(io_at(dir))?.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(PlaceError::Open { path: dir.to_owned(), mode });
        }
        let path = dir.join(LOCK);
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let mut lock = file.map_err(io_at(&path))?;
        let until = Instant::now() + LOCK_WAIT;
        while FileExt::try_lock_exclusive(&lock).is_err() {
            if Instant::now() < until {
                std::thread::sleep(LOCK_PAUSE);
                continue;
            }
            let mut holder = String::new();
            let _ = lock.take(256).read_to_string(&mut holder);
            return Err(PlaceError::Held { path, holder: holder.trim().escape_debug().to_string() });
        }
        // What the lock says is for people only; holding it is what counts.
        let said = lock.set_len(0).and_then(|()| lock.rewind()).and_then(|()| writeln!(lock, "{myself}"));
        if let Err(error) = said {
            log::warn!("{}: {error}", path.display());
        }
        Ok(Self { dir: dir.to_owned(), _lock: lock })
    }

    /// Opens the store in it, as a new life of the controller; on a full disk at the ballast's cost.
    ///
    /// # Errors
    /// [`PlaceError::Store`].
    pub fn store(&self) -> Result<Store, PlaceError> {
        // Whoever made it may have been killed before its name was sure to stay.
        step(Step::StateSync, || sync_folder(&self.dir))?;
        match self.try_to_open() {
            Err(error) if error.is_full() && self.dir.join(BALLAST).exists() => {
                self.drop_ballast();
                self.try_to_open()
            }
            opened => opened,
        }
    }

    fn try_to_open(&self) -> Result<Store, PlaceError> {
        let path = self.database();
        // The log's name has to be durable before anything in it is acknowledged, and SQLite does not look whether it is.
        let log = crate::wal::log_of(&path);
        if !log.exists() {
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&log)
                .map_err(io_at(&log))?;
            sync_folder(&self.dir)?;
        }
        schema::open(&path).map_err(|source| PlaceError::Store { path, source })
    }

    /// The path of the database.
    pub fn database(&self) -> PathBuf {
        self.dir.join(DATABASE)
    }

    /// Makes the ballast, so that there is room to give away later. Says whether it is there.
    pub fn fill_ballast(&self) -> bool {
        let path = self.dir.join(BALLAST);
        if path.metadata().is_ok_and(|m| m.len() >= BALLAST_BYTES) {
            return true;
        }
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let made = step(Step::StateBallast, || FileExt::allocate(&file?, BALLAST_BYTES));
        if let Err(error) = made {
            log::warn!("{}: cannot keep 64 MiB in reserve: {error}", path.display());
            self.drop_ballast();
            return false;
        }
        true
    }

    /// Gives the ballast's room away.
    pub fn drop_ballast(&self) {
        let path = self.dir.join(BALLAST);
        match step(Step::StateUnballast, || fs::remove_file(&path)) {
            Ok(()) => log::warn!("{}: gave up the reserve to record results", path.display()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => log::warn!("{}: {error}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_waited_for_a_moment_and_never_shared() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let first = Place::init(&state, ClusterId([7; 16]), "the first").unwrap();
        let second = std::thread::scope(|scope| {
            let second = scope.spawn(|| Place::open(&state, "the second"));
            // Sooner or later than the second asks: it has it either way.
            drop(first);
            second.join().unwrap().unwrap()
        });
        let begin = Instant::now();
        match Place::open(&state, "the third") {
            Err(PlaceError::Held { holder, .. }) => assert_eq!(holder, "the second"),
            other => panic!("{:?}", other.err()),
        }
        assert!(begin.elapsed() >= LOCK_WAIT);
        drop(second);
    }
}
