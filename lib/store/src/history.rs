//! What has ended, read on a connection of its own, so that no question about the past stops the controller's loop.

use crate::{
    StoreError,
    load::{text, unsigned},
    record,
    years::Years,
};
use gq_cluster::{Event, NewJob};
use gq_model::{
    CardUse, JobId, MiB, NodeName, Outcome, RunNumber, Seconds, TaskIndex, Timestamp, Token, Uid, Used,
};
use rusqlite::{Connection, OpenFlags, Row};
use std::{path::Path, time::Duration};

/// A run that ended, or tasks that never started.
#[derive(Clone, Debug)]
pub struct EndedRun {
    /// The task; the first one of `tasks`.
    pub task: TaskIndex,
    /// The attempt.
    pub run: RunNumber,
    /// Tasks that never started, as `0-9,12`, when it is those of an array.
    pub tasks: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether the task went on afterwards.
    pub again: bool,
    /// When its script was started.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub ended: Timestamp,
    /// Where it was.
    pub node: Option<NodeName>,
    /// Cpus it held.
    pub cpus: u32,
    /// Memory it held.
    pub memory: MiB,
    /// Cards it held.
    pub cards: Vec<CardUse>,
    /// What its cards were worth, in thousandths of a card.
    pub worth: u32,
    /// What it was charged for each second, in thousandths of a card.
    pub rate: u32,
    /// The time limit it had; none when it had none, or was written by a program that did not keep it.
    pub time_limit: Option<Seconds>,
    /// How often its script was begun before; none as for the time limit.
    pub restarts: Option<u32>,
    /// How long it was suspended, in microseconds.
    pub suspended: u64,
    /// How often its cards were found idle.
    pub idle_times: u32,
    /// What was left of its time limit when it was ended for that, in seconds times thousandths of a card.
    pub given_back: Option<u64>,
    /// When it was given what it held; it was charged from then on.
    pub allocated: Option<Timestamp>,
    /// When its job was first promised to start.
    pub first_promise: Option<Timestamp>,
    /// When it was last promised to start.
    pub last_promise: Option<Timestamp>,
}

/// A job of which something has ended.
#[derive(Clone, Debug)]
pub struct EndedJob {
    /// The job as it was accepted.
    pub new: NewJob,
    /// What of it has ended.
    pub runs: Vec<EndedRun>,
}

/// A reader of the past.
pub struct History {
    pub(crate) conn: Connection,
    pub(crate) years: Years,
}

impl History {
    /// Opens the database for reading.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(database: &Path) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(database, flags)?;
        conn.busy_timeout(Duration::from_secs(10))?;
        crate::schema::acquaint(&conn)?;
        conn.pragma_update(None, "cache_size", -1024)?;
        let years = Years::beside(database, &conn)?;
        Ok(Self { conn, years })
    }

    /// Asks the file that has the rows of a job, in one view of the state.
    pub(crate) fn at_job<T>(
        &self,
        id: JobId,
        ask: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let state = self.conn.unchecked_transaction()?;
        self.years.at_job(&state, id, ask)
    }

    /// A job by its id, if there ever was one.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn job(&self, id: JobId) -> Result<Option<EndedJob>, StoreError> {
        self.at_job(id, |conn| job(conn, id))
    }

    /// The job that a token is, with its user.
    ///
    /// # Errors
    /// When it cannot be looked up.
    pub fn token(&self, token: Token) -> Result<Option<(JobId, Uid)>, StoreError> {
        self::token(&self.conn, token)
    }

    /// Which of these jobs ended before `before`, nothing of them living: their job files may go.
    ///
    /// # Errors
    /// When it cannot be looked up.
    pub fn ended_before(&self, ids: &[JobId], before: Timestamp) -> Result<Vec<JobId>, StoreError> {
        let mut live = self.conn.prepare_cached("SELECT 1 FROM job WHERE id = ?")?;
        let mut gone = Vec::new();
        for id in ids {
            let key = crate::commit::signed(id.0);
            let ended = self.at_job(*id, |conn| last_end(conn, *id))?;
            if ended.is_some_and(|at| at < before.0) && !live.exists([key])? {
                gone.push(*id);
            }
        }
        Ok(gone)
    }

    /// Ids of jobs of which something ended in one of these states, newest first, at most `most`; where the file of a year cannot be read, those
    /// that ended later.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn ended_in(&self, states: &[&str], most: usize) -> Result<Vec<JobId>, StoreError> {
        let mut ids = Vec::new();
        self.years.each_back(&self.conn, |conn, counts| {
            ids.extend(ended_in(conn, counts, states, most.saturating_sub(ids.len()))?);
            Ok(ids.len() < most)
        })?;
        Ok(ids)
    }
}

fn ended_in(conn: &Connection, counts: &str, states: &[&str], most: usize) -> Result<Vec<JobId>, StoreError> {
    let marks = vec!["?"; states.len()].join(",");
    let query = format!(
        "SELECT DISTINCT job FROM run WHERE again = 0 AND state IN ({marks}){counts} ORDER BY ended DESC LIMIT {most}"
    );
    let mut select = conn.prepare_cached(&query)?;
    let ids = select.query_map(rusqlite::params_from_iter(states), |row| Ok(JobId(unsigned(row.get(0)?))))?;
    Ok(ids.collect::<Result<_, _>>()?)
}

/// When the last run of a job ended.
pub(crate) fn last_end(conn: &Connection, id: JobId) -> Result<Option<i64>, StoreError> {
    let mut last = conn.prepare_cached("SELECT max(ended) FROM run WHERE job = ?")?;
    Ok(last.query_row([crate::commit::signed(id.0)], |row| row.get(0))?)
}

pub(crate) fn token(conn: &Connection, token: Token) -> Result<Option<(JobId, Uid)>, StoreError> {
    let mut select = conn.prepare_cached("SELECT * FROM token WHERE token = ?")?;
    let mut rows = select.query([token.0])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    record::whole(row, || format!("token {token}"))?;
    Ok(Some((JobId(unsigned(row.get(1)?)), Uid(row.get(2)?))))
}

pub(crate) fn job(conn: &Connection, id: JobId) -> Result<Option<EndedJob>, StoreError> {
    let new = match first_event(conn, id)? {
        Some(Event::Submitted(new)) => new,
        Some(_) => return Err(headless(id)),
        None => return Ok(None),
    };
    let mut select = conn.prepare_cached("SELECT * FROM run WHERE job = ? ORDER BY task, run")?;
    let mut rows = select.query([crate::commit::signed(id.0)])?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        runs.push(run(row, id)?);
    }
    Ok(Some(EndedJob { new: *new, runs }))
}

/// What the trail of a job begins with.
pub(crate) fn first_event(conn: &Connection, id: JobId) -> Result<Option<Event>, StoreError> {
    let mut select = conn.prepare_cached("SELECT crc, body FROM event WHERE job = ? ORDER BY seq LIMIT 1")?;
    let mut rows = select.query([crate::commit::signed(id.0)])?;
    rows.next()?.map(|row| event(row, id)).transpose()
}

pub(crate) fn headless(id: JobId) -> StoreError {
    StoreError::Damaged(format!("the trail of job {id} does not begin with its submission"))
}

pub(crate) fn trail(conn: &Connection, job: JobId) -> Result<Vec<Event>, StoreError> {
    let mut select = conn.prepare_cached("SELECT crc, body FROM event WHERE job = ? ORDER BY seq")?;
    let mut rows = select.query([crate::commit::signed(job.0)])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        events.push(event(row, job)?);
    }
    Ok(events)
}

pub(crate) fn event(row: &Row<'_>, job: JobId) -> Result<Event, StoreError> {
    read_event(row.get(0)?, text(row, 1)?, job)
}

/// Reads an event of a job.
pub(crate) fn read_event(crc: u32, body: &str, job: JobId) -> Result<Event, StoreError> {
    if crc32fast::hash(body.as_bytes()) != crc {
        return Err(StoreError::Damaged(format!("an event of job {job}: the checksum does not fit")));
    }
    let event: Event = record::read(body, || format!("an event of job {job}"))?;
    if event.job() != Some(job) {
        return Err(StoreError::Damaged(format!("an event of job {job} is of another")));
    }
    Ok(event)
}

/// That a run of a job is not what was written.
pub(crate) fn damaged_run(job: JobId) -> StoreError {
    StoreError::Damaged(format!("a run of job {job}: the checksum does not fit"))
}

pub(crate) fn run(row: &Row<'_>, job: JobId) -> Result<EndedRun, StoreError> {
    record::whole(row, || format!("a run of job {job}"))?;
    let damaged = |what: &dyn std::fmt::Display| StoreError::Damaged(format!("a run of job {job}: {what}"));
    let state: gq_model::JobState = text(row, 7)?.parse().map_err(|e| damaged(&e))?;
    let gq_model::JobState::Ended(end) = state else { return Err(damaged(&"its state is no end")) };
    let cards: Option<String> = row.get(19)?;
    let used: Option<String> = row.get(30)?;
    let used = used.map(|used| serde_json::from_str::<Used>(&used)).transpose().map_err(|e| damaged(&e))?;
    let released = row.get::<_, Option<i64>>(31)?.map(Timestamp);
    let used = Used { released, ..used.unwrap_or_default() };
    let node: Option<String> = row.get(16)?;
    Ok(EndedRun {
        task: TaskIndex(row.get(1)?),
        run: RunNumber(row.get(2)?),
        tasks: row.get(3)?,
        outcome: Outcome {
            end,
            reason: text(row, 8)?.parse().map_err(|e| damaged(&e))?,
            detail: row.get::<_, Option<String>>(9)?.unwrap_or_default(),
            exit_code: row.get(10)?,
            signal: row.get(11)?,
            used: Some(Box::new(used)).filter(|used| !used.is_empty()),
        },
        again: row.get(12)?,
        started: row.get::<_, Option<i64>>(14)?.map(Timestamp),
        ended: Timestamp(row.get(15)?),
        node: node.map(|n| n.parse()).transpose().map_err(|e| damaged(&e))?,
        cpus: row.get(17)?,
        memory: MiB(unsigned(row.get(18)?)),
        cards: cards
            .map(|c| serde_json::from_str(&c))
            .transpose()
            .map_err(|e| damaged(&e))?
            .unwrap_or_default(),
        first_promise: row.get::<_, Option<i64>>(22)?.map(Timestamp),
        last_promise: row.get::<_, Option<i64>>(23)?.map(Timestamp),
        allocated: row.get::<_, Option<i64>>(24)?.map(Timestamp),
        rate: row.get(25)?,
        worth: row.get(26)?,
        time_limit: row.get::<_, Option<i64>>(27)?.map(|limit| Seconds(unsigned(limit))),
        restarts: row.get(28)?,
        suspended: row.get::<_, Option<i64>>(29)?.map(unsigned).unwrap_or_default(),
        idle_times: row.get::<_, Option<u32>>(36)?.unwrap_or_default(),
        given_back: row.get::<_, Option<i64>>(37)?.map(unsigned),
    })
}
