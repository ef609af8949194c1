//! What the controller keeps: live rows, ended runs, the audit trail, reservations, use of cards, letters on their way, tokens, and the
//! lock, in one SQLite file.
//!
//! Knows events and rows, decides nothing. Rooms: `place` (folder, lock, ballast), `schema` (tables and their version),
//! `record` (the form of rows, and their checksums), `commit` (one turn, one transaction), `load` (the state from its rows), `history` and `ends`
//! (what has ended, on a connection of its own), `past` (which runs fit, and sums of them), `waits` (how long they waited), `archive` and `years` (what ended long ago, moved to
//! a file for each year, and read there); `wal` and `check` (is it what was written?), `salvage` (what can be read of what is damaged).

mod archive;
mod check;
mod commit;
mod ends;
mod history;
mod load;
mod past;
mod place;
mod record;
mod room;
mod salvage;
mod schema;
mod waits;
mod wal;
mod years;

pub use archive::{Archivist, Parting};
pub use commit::Batch;
pub use ends::Alike;
pub use history::{EndedJob, EndedRun, History};
pub use past::{By, Fits, MAX_SUMS, MAX_WORDS, Mark, PastRun, Sums};
pub use place::{Place, PlaceError};
pub use room::Room;
pub use waits::{Spread, Waits};

use gq_model::{ClusterId, Epoch};
use rusqlite::{Connection, ErrorCode};
use std::path::PathBuf;
use thiserror::Error;

/// Why something was not kept or not read.
#[derive(Debug, Error)]
pub enum StoreError {
    /// There is no room, or the disk takes no writing at present. Nothing was kept; it may be tried again when there is room.
    #[error("no room to record: {0}")]
    Full(rusqlite::Error),
    /// What was written may not be on disk. It is never tried again: the daemon must stop and read anew what is there.
    #[error(
        "the state cannot be synced, so it is not known whether the last of it was kept: {0}; look at the disk of state_dir"
    )]
    Sync(rusqlite::Error),
    /// The database failed otherwise. What it holds is not known: the daemon must stop and read it anew.
    #[error("the state database failed: {0}")]
    Database(rusqlite::Error),
    /// A row, or the file, is not what was written.
    #[error(
        "damaged: {0}\n  try: a copy of state_dir from before; or gqd --accept-loss, to go on without what cannot be read"
    )]
    Damaged(String),
    /// The file of a year cannot be read, or not be written. What is in the state is not concerned.
    #[error("{}: {why}\n  try: put a copy of it back; what ended in that year is nowhere else", path.display())]
    Year {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The files are of a newer gq.
    #[error("state of format {found}; this gq knows formats up to {known}: nothing was touched")]
    Newer {
        /// The format found.
        found: i64,
        /// The newest known.
        known: i64,
    },
    /// The files are of a gq from before its first release.
    #[error(
        "state of format {found}; this gq reads formats from {oldest} on: nothing was touched\n  try: let the old gq finish its jobs, then gqd --init in an empty state_dir"
    )]
    Older {
        /// The format found.
        found: i64,
        /// The oldest that is read.
        oldest: i64,
    },
    /// A row could not be written as JSON.
    #[error("cannot write a row: {0}")]
    Json(#[from] serde_json::Error),
}

/// Whether a sync failed. It may never be tried again: the system may have dropped what it could not write.
fn is_failed_sync(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error().map(|e| e.extended_code),
        Some(rusqlite::ffi::SQLITE_IOERR_FSYNC | rusqlite::ffi::SQLITE_IOERR_DIR_FSYNC)
    )
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        if is_failed_sync(&error) {
            return Self::Sync(error);
        }
        match error.sqlite_error_code() {
            Some(
                ErrorCode::DiskFull
                | ErrorCode::ReadOnly
                | ErrorCode::CannotOpen
                | ErrorCode::SystemIoFailure,
            ) => Self::Full(error),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(error.to_string()),
            _ => Self::Database(error),
        }
    }
}

/// The controller's store. One connection, one writer.
pub struct Store {
    conn: Connection,
    years: years::Years,
    cluster_id: ClusterId,
    epoch: Epoch,
    /// How often it was looked whether there is room again.
    probes: i64,
}

impl Store {
    /// The cluster's identity, made with the state directory.
    pub fn cluster_id(&self) -> ClusterId {
        self.cluster_id
    }
    /// This life of the controller; higher than every one before.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }
}
