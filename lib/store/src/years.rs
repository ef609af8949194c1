//! Years: what ended long ago, in a file for each calendar year beside the state. Which of their rows count the state alone says, in one row of its
//! own (`Ledger`): so a question that reads that row first and then the files sees every run once, whatever is being moved meanwhile.

use crate::{StoreError, commit::signed, load::unsigned, record};
use gq_model::{JobId, Timestamp, year_begin};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};

/// The folder of the files, beside the state.
pub(crate) const FOLDER: &str = "history";
/// The key of the ledger in `meta`.
const KEY: &str = "years";

/// What the state says of the files of years.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ledger {
    /// The last batch of jobs whose rows count there; those of later ones count in the state still.
    pub(crate) batch: i64,
    /// The years that have a file.
    pub(crate) years: BTreeSet<i64>,
    /// Jobs of that batch of which the state has rows still, that do not count.
    pub(crate) leaving: Vec<u64>,
}

impl Ledger {
    pub(crate) fn read(state: &Connection) -> Result<Self, StoreError> {
        let mut select = state.prepare_cached("SELECT value FROM meta WHERE key = ?")?;
        let text: Option<String> = select.query_row([KEY], |row| row.get(0)).optional()?;
        let read = |text: String| serde_json::from_str(&text);
        Ok(text
            .map(read)
            .transpose()
            .map_err(|e| StoreError::Damaged(format!("meta.{KEY}: {e}")))?
            .unwrap_or_default())
    }

    pub(crate) fn write(&self, state: &Connection) -> Result<(), StoreError> {
        let mut put = state.prepare_cached(&record::put("meta", 3))?;
        put.execute(params![KEY, serde_json::to_string(self)?])?;
        Ok(())
    }
}

/// The files of years, opened when they are needed.
#[derive(Debug)]
pub(crate) struct Years {
    folder: PathBuf,
    /// The cluster whose state it is.
    cluster: String,
    open: RefCell<BTreeMap<i64, Connection>>,
}

impl Years {
    /// Those of a state.
    ///
    /// # Errors
    /// When it does not say of which cluster it is.
    pub(crate) fn beside(database: &Path, state: &Connection) -> Result<Self, StoreError> {
        let cluster = cluster_of(state)?;
        Ok(Self { folder: database.with_file_name(FOLDER), cluster, open: RefCell::default() })
    }

    pub(crate) fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Whether a file is of a format that is known, and of this cluster.
    ///
    /// # Errors
    /// When it is not.
    pub(crate) fn check(&self, year: &Connection) -> Result<(), StoreError> {
        known_format(year)?;
        let cluster = cluster_of(year)?;
        if cluster == self.cluster {
            return Ok(());
        }
        Err(StoreError::Damaged(format!("it is of cluster {cluster}, and the state of {}", self.cluster)))
    }

    pub(crate) fn path(&self, year: i64) -> PathBuf {
        self.folder.join(format!("{year}.db"))
    }

    fn reader(&self, path: &Path) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags)?;
        conn.busy_timeout(Duration::from_secs(10))?;
        crate::schema::acquaint(&conn)?;
        conn.pragma_update(None, "cache_size", -1024)?;
        self.check(&conn)?;
        Ok(conn)
    }

    /// Asks the file of a year.
    ///
    /// # Errors
    /// [`StoreError::Year`] when it is not there, or cannot be read.
    pub(crate) fn ask<T>(
        &self,
        year: i64,
        ask: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let path = self.path(year);
        if !path.exists() {
            return Err(StoreError::Year { path, why: "it is not there".into() });
        }
        let known = self.open.borrow_mut().remove(&year);
        let asked = known.map_or_else(|| self.reader(&path), Ok).and_then(|conn| {
            let answer = ask(&conn)?;
            self.open.borrow_mut().insert(year, conn);
            Ok(answer)
        });
        asked.map_err(|source| StoreError::Year { path, why: source.to_string() })
    }

    /// Asks the file that has the rows of a job that count: the state, or that of a year.
    pub(crate) fn at_job<T>(
        &self,
        state: &Connection,
        id: JobId,
        ask: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match self.year_of(state, id)? {
            Some(year) => self.ask(year, ask),
            None => ask(state),
        }
    }

    /// The year in whose file a job is; none when it is in the state, or nowhere.
    fn year_of(&self, state: &Connection, id: JobId) -> Result<Option<i64>, StoreError> {
        let ledger = Ledger::read(state)?;
        let here = || state.prepare_cached("SELECT 1 FROM event WHERE job = ?")?.exists([signed(id.0)]);
        if ledger.years.is_empty() || (!ledger.leaving.contains(&id.0) && here()?) {
            return Ok(None);
        }
        let last: i64 =
            state.query_row("SELECT value FROM meta WHERE key = 'last_job'", [], |row| row.get(0))?;
        if id.0 > unsigned(last) {
            return Ok(None);
        }
        for year in ledger.years.iter().rev() {
            let has = |conn: &Connection| Ok(batch_of(conn, id)?.is_some_and(|batch| batch <= ledger.batch));
            if self.ask(*year, has)? {
                return Ok(Some(*year));
            }
        }
        Ok(None)
    }

    /// Has the state, and the files of those years in which something may have ended from `from` on and before `until`, asked one after the other, oldest
    /// first, and the state last: each with the condition that leaves out what does not count there. Stops when one of them says so.
    pub(crate) fn each(
        &self,
        state: &Connection,
        (from, until): (Option<Timestamp>, Option<Timestamp>),
        mut ask: impl FnMut(&Connection, &str) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        // What is moved meanwhile stays in this view of the state.
        let state = state.unchecked_transaction()?;
        let ledger = Ledger::read(&state)?;
        for year in &ledger.years {
            if from.is_some_and(|from| from >= year_begin(year + 1)) {
                continue;
            }
            let goes_on = self.ask(*year, |conn| {
                if until.is_some_and(|until| first_end(conn).is_ok_and(|first| first >= until)) {
                    return Ok(true);
                }
                let later = jobs_behind(conn, ledger.batch)?;
                ask(conn, &without(later.iter().map(|(_, job)| job.0)))
            })?;
            if !goes_on {
                return Ok(());
            }
        }
        ask(&state, &without(ledger.leaving.iter().copied()))?;
        Ok(())
    }
}

impl Years {
    /// The same the other way round, the newest first: the state, and then every year that can be read, until one cannot.
    pub(crate) fn each_back(
        &self,
        state: &Connection,
        mut ask: impl FnMut(&Connection, &str) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let state = state.unchecked_transaction()?;
        let ledger = Ledger::read(&state)?;
        let mut goes_on = ask(&state, &without(ledger.leaving.iter().copied()))?;
        let mut years = ledger.years.iter().rev();
        while goes_on && let Some(year) = years.next() {
            let asked = self.ask(*year, |conn| {
                let later = jobs_behind(conn, ledger.batch)?;
                ask(conn, &without(later.iter().map(|(_, job)| job.0)))
            });
            goes_on = match asked {
                Err(StoreError::Year { .. }) => false,
                asked => asked?,
            };
        }
        Ok(())
    }
}

/// The condition that leaves out the rows of these jobs; nothing when there are none.
fn without(jobs: impl Iterator<Item = u64>) -> String {
    let jobs: Vec<String> = jobs.map(|job| job.to_string()).collect();
    if jobs.is_empty() { String::new() } else { format!(" AND job NOT IN ({})", jobs.join(",")) }
}

fn cluster_of(conn: &Connection) -> Result<String, StoreError> {
    Ok(conn.query_row("SELECT value FROM meta WHERE key = 'cluster'", [], |row| row.get(0))?)
}

/// The format of a year's file; the rows of runs and events are as in a state of that format.
fn known_format(conn: &Connection) -> Result<(), StoreError> {
    let found: i64 = conn.query_row("SELECT value FROM meta WHERE key = 'format'", [], |row| row.get(0))?;
    match found {
        crate::schema::FORMAT => Ok(()),
        found if found > crate::schema::FORMAT => {
            Err(StoreError::Newer { found, known: crate::schema::FORMAT })
        }
        found => Err(StoreError::Older { found, oldest: crate::schema::FORMAT }),
    }
}

/// In which batch a job came into a year's file.
fn batch_of(year: &Connection, id: JobId) -> Result<Option<i64>, StoreError> {
    let mut select = year.prepare_cached("SELECT batch FROM part WHERE job = ?")?;
    Ok(select.query_row([signed(id.0)], |row| row.get(0)).optional()?)
}

/// The jobs of a year's file that came in later batches than this one.
pub(crate) fn jobs_behind(year: &Connection, batch: i64) -> Result<Vec<(i64, JobId)>, StoreError> {
    let mut select =
        year.prepare_cached("SELECT batch, job FROM part WHERE batch > ? ORDER BY batch, job")?;
    let jobs = select.query_map([batch], |row| Ok((row.get(0)?, JobId(unsigned(row.get(1)?)))))?;
    Ok(jobs.collect::<Result<_, _>>()?)
}

/// When the first of the runs of a file ended.
pub(crate) fn first_end(year: &Connection) -> Result<Timestamp, StoreError> {
    let mut select = year.prepare_cached("SELECT min(ended) FROM run INDEXED BY run_sums")?;
    Ok(Timestamp(select.query_row([], |row| row.get::<_, Option<i64>>(0))?.unwrap_or(i64::MAX)))
}
