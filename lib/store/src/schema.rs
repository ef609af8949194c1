//! Tables and their version. A format that a release wrote stays readable for ever; a newer one is refused untouched, and so is one
//! from before the first release.

use crate::{Store, StoreError, check, record, wal, years::Years};
use gq_failpoint::{Step, step};
use gq_model::{ClusterId, Epoch};
use rusqlite::{Connection, OptionalExtension, config::DbConfig, hooks::Wal, params};
use std::{ffi::c_int, path::Path, time::Duration};

/// The newest format this program knows; of the files of years too, whose runs and events are the same: whoever raises it brings these up as well.
pub(crate) const FORMAT: i64 = 6;
/// The oldest format it reads.
const OLDEST: i64 = 2;
/// Pages in the write-ahead log before it is folded into the database: 16 MiB.
const CHECKPOINT_PAGES: c_int = 4096;

const TABLES: &str = "
CREATE TABLE meta(key TEXT PRIMARY KEY, value ANY NOT NULL, crc INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE job(id INTEGER PRIMARY KEY, body TEXT NOT NULL, crc INTEGER NOT NULL) STRICT;
CREATE TABLE event(seq INTEGER PRIMARY KEY, job INTEGER NOT NULL, at INTEGER NOT NULL, crc INTEGER NOT NULL, body TEXT NOT NULL) STRICT;
CREATE INDEX event_job ON event(job);
CREATE TABLE node(name TEXT PRIMARY KEY, body TEXT NOT NULL, crc INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE outbox(node TEXT NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY(node, seq)) STRICT, WITHOUT ROWID;
CREATE TABLE inbox(node TEXT PRIMARY KEY, epoch INTEGER NOT NULL, seq INTEGER NOT NULL, ordered INTEGER NOT NULL, crc INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE token(token BLOB PRIMARY KEY, job INTEGER NOT NULL, uid INTEGER NOT NULL, crc INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE booking(name TEXT PRIMARY KEY, body TEXT NOT NULL, crc INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE spent(budget TEXT NOT NULL, uid INTEGER NOT NULL, day INTEGER NOT NULL, used INTEGER NOT NULL, told INTEGER NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY(budget, uid)) STRICT, WITHOUT ROWID;
CREATE TABLE usage(uid INTEGER NOT NULL, account TEXT NOT NULL, charge INTEGER NOT NULL, at INTEGER NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY(uid, account)) STRICT, WITHOUT ROWID;
";

/// What is in the file of a year beside its runs.
const YEAR: &str = "
CREATE TABLE meta(key TEXT PRIMARY KEY, value ANY NOT NULL, crc INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE event(seq INTEGER PRIMARY KEY, job INTEGER NOT NULL, at INTEGER NOT NULL, crc INTEGER NOT NULL, body TEXT NOT NULL) STRICT;
CREATE INDEX event_job ON event(job);
CREATE TABLE part(job INTEGER PRIMARY KEY, batch INTEGER NOT NULL) STRICT;
CREATE INDEX part_batch ON part(batch);
";

/// What has ended. `used`: what was measured, as JSON; of that by itself, for sums: `cpu_used`, microseconds of cpu time, and `gpu_used`, in how many
/// thousandths its cards were in use; `idle_times`, how often its cards were found idle, and, when they were taken for that, `given_back`: what was left of
/// its time limit, in seconds times thousandths of a card. `cost`: what its cards cost, in millionths. Questions about many runs are answered of the index `run_sums` alone, which has all that they look at.
const RUNS: &str = "
CREATE TABLE run(
  job INTEGER NOT NULL, task INTEGER NOT NULL, run INTEGER NOT NULL, tasks TEXT,
  uid INTEGER NOT NULL, account TEXT, partition TEXT NOT NULL,
  state TEXT NOT NULL, reason TEXT NOT NULL, detail TEXT, exit_code INTEGER, signal INTEGER, again INTEGER NOT NULL,
  submitted INTEGER NOT NULL, started INTEGER, ended INTEGER NOT NULL,
  node TEXT, cpus INTEGER NOT NULL, memory INTEGER NOT NULL, cards TEXT,
  qos TEXT, licences TEXT, first_promise INTEGER, last_promise INTEGER, allocated INTEGER,
  rate INTEGER NOT NULL, worth INTEGER NOT NULL, time_limit INTEGER, restarts INTEGER, suspended INTEGER,
  used TEXT, released INTEGER, name TEXT, array INTEGER, cpu_used INTEGER, gpu_used INTEGER, idle_times INTEGER, given_back INTEGER, cost INTEGER, crc INTEGER NOT NULL,
  PRIMARY KEY(job, task, run)) STRICT, WITHOUT ROWID;
CREATE INDEX run_user ON run(uid, ended);
CREATE INDEX run_sums ON run(
  ended, job, task, run, uid, account, partition, node, state, name, again, submitted, allocated, started, suspended,
  cpus, memory, worth, first_promise, released, cpu_used, gpu_used, idle_times, given_back, cost);
";

/// How many columns a run has.
pub(crate) const RUN_COLUMNS: usize = 40;
/// The columns of a run but its checksum, for questions that look at many runs at once.
pub(crate) const RUN: &str = "job, task, run, tasks, uid, account, partition, state, reason, detail, exit_code, signal, again, \
     submitted, started, ended, node, cpus, memory, cards, qos, licences, first_promise, last_promise, allocated, rate, worth, \
     time_limit, restarts, suspended, used, released, name, array, cpu_used, gpu_used, idle_times, given_back, cost";

/// The same in format 5. What is written here of older formats is never changed.
const RUN_5: &str = "job, task, run, tasks, uid, account, partition, state, reason, detail, exit_code, signal, again, \
     submitted, started, ended, node, cpus, memory, cards, qos, licences, first_promise, last_promise, allocated, rate, worth, \
     time_limit, restarts, suspended, used, released, name, array, cpu_used, gpu_used";

/// What had ended, in format 5.
const RUNS_5: &str = "
CREATE TABLE run(
  job INTEGER NOT NULL, task INTEGER NOT NULL, run INTEGER NOT NULL, tasks TEXT,
  uid INTEGER NOT NULL, account TEXT, partition TEXT NOT NULL,
  state TEXT NOT NULL, reason TEXT NOT NULL, detail TEXT, exit_code INTEGER, signal INTEGER, again INTEGER NOT NULL,
  submitted INTEGER NOT NULL, started INTEGER, ended INTEGER NOT NULL,
  node TEXT, cpus INTEGER NOT NULL, memory INTEGER NOT NULL, cards TEXT,
  qos TEXT, licences TEXT, first_promise INTEGER, last_promise INTEGER, allocated INTEGER,
  rate INTEGER NOT NULL, worth INTEGER NOT NULL, time_limit INTEGER, restarts INTEGER, suspended INTEGER,
  used TEXT, released INTEGER, name TEXT, array INTEGER, cpu_used INTEGER, gpu_used INTEGER, crc INTEGER NOT NULL,
  PRIMARY KEY(job, task, run)) STRICT, WITHOUT ROWID;
CREATE INDEX run_user ON run(uid, ended);
CREATE INDEX run_sums ON run(
  ended, job, task, run, uid, account, partition, node, state, name, again, submitted, allocated, started, suspended,
  cpus, memory, worth, first_promise, released, cpu_used, gpu_used);
";

/// The columns of a run in format 4.
const RUN_4: &str = "job, task, run, tasks, uid, account, partition, state, reason, detail, exit_code, signal, again, \
     submitted, started, ended, node, cpus, memory, cards, qos, licences, first_promise, last_promise, allocated, rate, worth, \
     time_limit, restarts, suspended";

/// What makes a file of format 2 one of format 3: runs know the time limit that they had, and how often their script was begun before.
const FROM_2: &str = "
ALTER TABLE run ADD COLUMN time_limit INTEGER;
ALTER TABLE run ADD COLUMN restarts INTEGER;
";

/// And what makes one of format 3 one of format 4, besides checksums: runs know how long they were suspended.
const FROM_3: &str = "ALTER TABLE run ADD COLUMN suspended INTEGER;";

/// And what makes one of format 4 one of format 5: runs know what they used, when what they held was free again, and the name and the label for
/// accounting that their job was submitted with. A row that is not what was written is known as such still.
const FROM_4: [&str; 4] = [
    "CREATE TEMP TABLE submission AS SELECT job,
       CASE WHEN json_valid(body) THEN json_extract(body, '$.r.Submitted.spec.name') END AS name,
       CASE WHEN json_valid(body) THEN json_extract(body, '$.r.Submitted.spec.account') END AS label,
       CASE WHEN json_valid(body) THEN json_extract(body, '$.r.Submitted.array') END AS array
     FROM event WHERE seq IN (SELECT min(seq) FROM event GROUP BY job);
     CREATE UNIQUE INDEX temp.submission_job ON submission(job);
     DROP INDEX run_ended; DROP INDEX run_user; DROP INDEX run_account; DROP INDEX run_partition;
     ALTER TABLE run RENAME TO run_4;",
    RUNS_5,
    "INSERT INTO run
     SELECT run_4.job, task, run, tasks, uid, coalesce(account, label), partition, state, reason, detail, exit_code, signal, again,
       submitted, started, ended, node, cpus, memory, cards, qos, licences, first_promise, last_promise, allocated, rate, worth,
       time_limit, restarts, suspended, NULL, NULL, name, array, NULL, NULL, CASE WHEN whole THEN 0 ELSE -1 END
     FROM (SELECT *, crc IS row_crc({RUN_4}) AS whole FROM run_4) AS run_4 LEFT JOIN temp.submission USING (job);",
    "UPDATE run SET crc = row_crc({RUN_5}) WHERE crc = 0;
     DROP TABLE run_4; DROP TABLE temp.submission;",
];

/// And what makes one of format 5 one of format 6: runs know how often their cards were found idle, what was given back when they were taken, and
/// what they cost; and what was taken of budgets is kept.
const FROM_5: [&str; 4] = [
    "CREATE TABLE spent(budget TEXT NOT NULL, uid INTEGER NOT NULL, day INTEGER NOT NULL, used INTEGER NOT NULL, told INTEGER NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY(budget, uid)) STRICT, WITHOUT ROWID;
     DROP INDEX run_user; DROP INDEX run_sums;
     ALTER TABLE run RENAME TO run_5;",
    RUNS,
    "INSERT INTO run SELECT {RUN_5}, NULL, NULL, NULL, CASE WHEN crc IS row_crc({RUN_5}) THEN 0 ELSE -1 END FROM run_5;",
    "UPDATE run SET crc = row_crc({RUN}) WHERE crc = 0;
     DROP TABLE run_5;",
];

/// All tables, and how many of their first columns are their key.
pub(crate) const TABLES_AND_KEYS: [(&str, usize); 11] = [
    ("meta", 1),
    ("event", 1),
    ("job", 1),
    ("node", 1),
    ("inbox", 1),
    ("outbox", 2),
    ("token", 1),
    ("booking", 1),
    ("usage", 2),
    ("spent", 2),
    ("run", 3),
];

/// The tables whose rows have a checksum since format 4, with their columns before it.
const CHECKED: [(&str, &str); 9] = [
    ("meta", "key, value"),
    ("job", "id, body"),
    ("node", "name, body"),
    ("outbox", "node, seq, body"),
    ("inbox", "node, epoch, seq, ordered"),
    ("token", "token, job, uid"),
    ("booking", "name, body"),
    ("usage", "uid, account, charge, at"),
    ("run", RUN_4),
];

fn tune(conn: &mut Connection) -> Result<(), StoreError> {
    conn.busy_timeout(Duration::from_secs(10))?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "cache_size", -4096)?;
    conn.wal_hook(Some(fold_in))?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Folds the write-ahead log into the database when it is long. If there is no room, or somebody reads, the next commit tries again; a sync that
/// failed is told as the failure of this commit, and is not tried again.
fn fold_in(log: &mut Wal, pages: c_int) -> rusqlite::Result<()> {
    if pages < CHECKPOINT_PAGES {
        return Ok(());
    }
    log.checkpoint().or_else(|error| if crate::is_failed_sync(&error) { Err(error) } else { Ok(()) })
}

/// Whether the write-ahead log is folded in when the last connection is closed.
pub(crate) fn fold_in_at_close(conn: &Connection, folds: bool) -> Result<(), StoreError> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !folds)?;
    Ok(())
}

/// What every connection needs. What is sorted is sorted in memory: `/tmp` is no place of gq's.
pub(crate) fn acquaint(conn: &Connection) -> Result<(), StoreError> {
    record::know_checksums(conn)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(())
}

/// Makes the tables of a year's file. Runs and events are as in a state of this format; `part` says which jobs are there, and in which batch they came.
pub(crate) fn create_year(conn: &Connection, cluster: &str) -> Result<(), StoreError> {
    conn.execute_batch(YEAR)?;
    conn.execute_batch(RUNS)?;
    conn.execute(&record::put("meta", 3), params!["format", FORMAT])?;
    conn.execute(&record::put("meta", 3), params!["cluster", cluster])?;
    Ok(())
}

pub(crate) fn create(path: &Path, id: ClusterId) -> Result<(), StoreError> {
    let mut conn = Connection::open(path)?;
    acquaint(&conn)?;
    // The draft is renamed into place: it must be one file.
    conn.pragma_update(None, "journal_mode", "DELETE")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    let tx = conn.transaction()?;
    tx.execute_batch(TABLES)?;
    tx.execute_batch(RUNS)?;
    for (key, value) in [("format", FORMAT), ("epoch", 0), ("last_job", 0)] {
        tx.execute(&record::put("meta", 3), params![key, value])?;
    }
    tx.execute(&record::put("meta", 3), params!["cluster", id.to_string()])?;
    tx.commit()?;
    conn.close().map_err(|(_, error)| error)?;
    Ok(())
}

pub(crate) fn open(path: &Path) -> Result<Store, StoreError> {
    wal::look(path)?;
    let mut conn = Connection::open(path)?;
    // What is refused is left as it is.
    fold_in_at_close(&conn, false)?;
    acquaint(&conn)?;
    let format = known_format(&conn)?;
    check::structure(&conn, path)?;
    tune(&mut conn)?;
    if format < FORMAT {
        step(Step::StateMigrate, || bring_up(&mut conn, format))?;
    }
    check::meta(&conn)?;
    let epoch = number(&conn, "epoch")? + 1;
    let id: String = conn.query_row("SELECT value FROM meta WHERE key = 'cluster'", [], |row| row.get(0))?;
    let cluster_id = id.parse().map_err(|e| StoreError::Damaged(format!("meta.cluster: {e}")))?;
    fold_all_in(&conn)?;
    step(Step::StateLife, || conn.execute(&record::put("meta", 3), params!["epoch", epoch]))?;
    let epoch = u64::try_from(epoch).map_err(|_| StoreError::Damaged("meta.epoch is negative".into()))?;
    fold_in_at_close(&conn, true)?;
    crate::archive::settle(path);
    let years = Years::beside(path, &conn)?;
    Ok(Store { conn, years, cluster_id, epoch: Epoch(epoch), probes: 0 })
}

/// The format of a file that this program can read.
///
/// # Errors
/// [`StoreError::Newer`], [`StoreError::Older`].
pub(crate) fn known_format(conn: &Connection) -> Result<i64, StoreError> {
    match number(conn, "format")? {
        found if found > FORMAT => Err(StoreError::Newer { found, known: FORMAT }),
        found if found < OLDEST => Err(StoreError::Older { found, oldest: OLDEST }),
        found => Ok(found),
    }
}

fn number(conn: &Connection, key: &str) -> Result<i64, StoreError> {
    let value = conn.query_row("SELECT value FROM meta WHERE key = ?", [key], |row| row.get(0)).optional()?;
    value.ok_or_else(|| StoreError::Damaged(format!("meta has no {key}")))
}

/// Makes a file of an older format one of this. Whole or not at all.
fn bring_up(conn: &mut Connection, format: i64) -> Result<(), StoreError> {
    let tx = conn.transaction()?;
    if format < 3 {
        tx.execute_batch(FROM_2)?;
    }
    if format < 4 {
        tx.execute_batch(FROM_3)?;
        for (table, columns) in CHECKED {
            tx.execute_batch(&format!(
                "ALTER TABLE {table} ADD COLUMN crc INTEGER NOT NULL DEFAULT 0; UPDATE {table} SET crc = row_crc({columns});"
            ))?;
        }
    }
    let columns = |statements: &str| {
        statements.replace("{RUN}", RUN).replace("{RUN_5}", RUN_5).replace("{RUN_4}", RUN_4)
    };
    if format < 5 {
        for statements in FROM_4 {
            tx.execute_batch(&columns(statements))?;
        }
    }
    for statements in FROM_5 {
        tx.execute_batch(&columns(statements))?;
    }
    tx.execute(&record::put("meta", 3), params!["format", FORMAT])?;
    tx.commit()?;
    Ok(())
}

/// Folds all of the write-ahead log in, which writes it once more. After a sync that failed, the life before has left what the system holds in
/// memory and may never have written; a log that goes on behind such a gap would lose all that comes after it with the next loss of power.
fn fold_all_in(conn: &Connection) -> Result<(), StoreError> {
    match conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())) {
        Ok(()) => Ok(()),
        Err(error) if crate::is_failed_sync(&error) => Err(error.into()),
        Err(error) => {
            log::warn!("the write-ahead log is not folded in: {error}");
            Ok(())
        }
    }
}
