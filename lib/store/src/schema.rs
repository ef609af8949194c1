//! Tables and their version. A format that a release wrote stays readable for ever; a newer one is refused untouched, and so is one
//! from before the first release.

use crate::{Store, StoreError};
use gq_model::{ClusterId, Epoch};
use rusqlite::{Connection, OptionalExtension, params};
use std::{path::Path, time::Duration};

/// The newest format this program knows.
const FORMAT: i64 = 4;
/// The oldest format it reads.
const OLDEST: i64 = 2;
/// Pages in the write-ahead log before it is folded into the database: 16 MiB.
const CHECKPOINT_PAGES: i64 = 4096;

const TABLES: &str = "
CREATE TABLE meta(key TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE job(id INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
CREATE TABLE event(seq INTEGER PRIMARY KEY, job INTEGER NOT NULL, at INTEGER NOT NULL, crc INTEGER NOT NULL, body TEXT NOT NULL) STRICT;
CREATE INDEX event_job ON event(job);
CREATE TABLE node(name TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE outbox(node TEXT NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY(node, seq)) STRICT, WITHOUT ROWID;
CREATE TABLE inbox(node TEXT PRIMARY KEY, epoch INTEGER NOT NULL, seq INTEGER NOT NULL, ordered INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE token(token BLOB PRIMARY KEY, job INTEGER NOT NULL, uid INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE booking(name TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE usage(uid INTEGER NOT NULL, account TEXT NOT NULL, charge INTEGER NOT NULL, at INTEGER NOT NULL, PRIMARY KEY(uid, account)) STRICT, WITHOUT ROWID;
CREATE TABLE run(
  job INTEGER NOT NULL, task INTEGER NOT NULL, run INTEGER NOT NULL, tasks TEXT,
  uid INTEGER NOT NULL, account TEXT, partition TEXT NOT NULL,
  state TEXT NOT NULL, reason TEXT NOT NULL, detail TEXT, exit_code INTEGER, signal INTEGER, again INTEGER NOT NULL,
  submitted INTEGER NOT NULL, started INTEGER, ended INTEGER NOT NULL,
  node TEXT, cpus INTEGER NOT NULL, memory INTEGER NOT NULL, cards TEXT,
  qos TEXT, licences TEXT, first_promise INTEGER, last_promise INTEGER, allocated INTEGER,
  rate INTEGER NOT NULL, worth INTEGER NOT NULL, time_limit INTEGER, restarts INTEGER,
  suspended INTEGER,
  PRIMARY KEY(job, task, run)) STRICT, WITHOUT ROWID;
CREATE INDEX run_ended ON run(ended);
CREATE INDEX run_user ON run(uid, ended);
CREATE INDEX run_account ON run(account, ended) WHERE account IS NOT NULL;
CREATE INDEX run_partition ON run(partition, ended);
";

/// What makes a file of format 2 one of format 3: runs know the time limit that they had, and how often their script was begun before.
const FROM_2: &str = "
BEGIN IMMEDIATE;
ALTER TABLE run ADD COLUMN time_limit INTEGER;
ALTER TABLE run ADD COLUMN restarts INTEGER;
UPDATE meta SET value = 3 WHERE key = 'format';
COMMIT;
";

/// And what makes one of format 3 one of format 4: runs know how long they were suspended.
const FROM_3: &str = "
BEGIN IMMEDIATE;
ALTER TABLE run ADD COLUMN suspended INTEGER;
UPDATE meta SET value = 4 WHERE key = 'format';
COMMIT;
";

fn tune(conn: &Connection) -> Result<(), StoreError> {
    conn.busy_timeout(Duration::from_secs(10))?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    conn.pragma_update(None, "cache_size", -4096)?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(())
}

pub(crate) fn create(path: &Path, id: ClusterId) -> Result<(), StoreError> {
    let mut conn = Connection::open(path)?;
    // The draft is renamed into place: it must be one file.
    conn.pragma_update(None, "journal_mode", "DELETE")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    let tx = conn.transaction()?;
    tx.execute_batch(TABLES)?;
    for (key, value) in [("format", FORMAT), ("epoch", 0), ("last_job", 0)] {
        tx.execute("INSERT INTO meta VALUES(?, ?)", params![key, value])?;
    }
    tx.execute("INSERT INTO meta VALUES('cluster', ?)", params![id.to_string()])?;
    tx.commit()?;
    conn.close().map_err(|(_, error)| error)?;
    Ok(())
}

pub(crate) fn open(path: &Path) -> Result<Store, StoreError> {
    let conn = Connection::open(path)?;
    let text = |key: &str| -> Result<i64, StoreError> {
        let value =
            conn.query_row("SELECT value FROM meta WHERE key = ?", [key], |row| row.get(0)).optional()?;
        value.ok_or_else(|| StoreError::Damaged(format!("meta has no {key}")))
    };
    let format = text("format")?;
    if format > FORMAT {
        return Err(StoreError::Newer { found: format, known: FORMAT });
    }
    if format < OLDEST {
        return Err(StoreError::Older { found: format, oldest: OLDEST });
    }
    let epoch = text("epoch")? + 1;
    let id: String = conn.query_row("SELECT value FROM meta WHERE key = 'cluster'", [], |row| row.get(0))?;
    let cluster_id = id.parse().map_err(|e| StoreError::Damaged(format!("meta.cluster: {e}")))?;
    tune(&conn)?;
    for (from, change) in [(2, FROM_2), (3, FROM_3)] {
        if format <= from {
            conn.execute_batch(change)?;
        }
    }
    conn.execute("UPDATE meta SET value = ? WHERE key = 'epoch'", [epoch])?;
    let epoch = u64::try_from(epoch).map_err(|_| StoreError::Damaged("meta.epoch is negative".into()))?;
    Ok(Store { conn, cluster_id, epoch: Epoch(epoch) })
}
