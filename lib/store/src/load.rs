//! The state from its rows, and what else a life of the controller needs to begin with.

use crate::{Store, StoreError, ends::tasks_of, record, schema::RUN};
use gq_cluster::{Booking, Cluster, Event, Job, Node, Purse, Rows, Spent, Usage};
use gq_model::{CardTime, IndexSet, JobId, NodeName, Outcome, Seq, Timestamp, Token, Uid};
use rusqlite::Connection;

impl Store {
    /// Loads the state.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when a row is not what was written or the rows contradict each other.
    pub fn load(&self) -> Result<Cluster, StoreError> {
        let last: i64 =
            self.conn.query_row("SELECT value FROM meta WHERE key = 'last_job'", [], |row| row.get(0))?;
        let rows = Rows {
            last_job: JobId(unsigned(last)),
            jobs: self.jobs()?,
            nodes: self.nodes()?,
            bookings: self.bookings()?,
            usage: self.usage()?,
            spent: self.spent()?,
        };
        Cluster::restore(rows).map_err(|illegal| StoreError::Damaged(illegal.to_string()))
    }

    fn jobs(&self) -> Result<Vec<Job>, StoreError> {
        let mut jobs = Vec::new();
        let mut select = self.conn.prepare_cached("SELECT * FROM job ORDER BY id")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let (id, body): (i64, &str) = (row.get(0)?, text(row, 1)?);
            record::whole(row, || format!("the row of job {id}"))?;
            jobs.push(record::read::<Job>(body, || format!("the row of job {id}"))?);
        }
        Ok(jobs)
    }

    fn nodes(&self) -> Result<Vec<Node>, StoreError> {
        let mut nodes = Vec::new();
        let mut select = self.conn.prepare_cached("SELECT * FROM node ORDER BY name")?;
        let mut count = self.conn.prepare_cached("SELECT * FROM inbox WHERE node = ?")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let (name, body) = (text(row, 0)?, text(row, 1)?);
            record::whole(row, || format!("the row of node {name}"))?;
            let mut node = record::read::<Node>(body, || format!("the row of node {name}"))?;
            let mut counts = count.query([name])?;
            let Some(counts) = counts.next()? else {
                return Err(StoreError::Damaged(format!("the letters of node {name} are not counted")));
            };
            record::whole(counts, || format!("the count of letters of node {name}"))?;
            node.epoch.0 = unsigned(counts.get(1)?);
            node.last_report.0 = unsigned(counts.get(2)?);
            node.last_order.0 = unsigned(counts.get(3)?);
            nodes.push(node);
        }
        Ok(nodes)
    }

    fn bookings(&self) -> Result<Vec<Booking>, StoreError> {
        let mut bookings = Vec::new();
        let mut select = self.conn.prepare_cached("SELECT * FROM booking ORDER BY name")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let (name, body) = (text(row, 0)?, text(row, 1)?);
            record::whole(row, || format!("the row of reservation {name}"))?;
            bookings.push(record::read::<Booking>(body, || format!("the row of reservation {name}"))?);
        }
        Ok(bookings)
    }

    fn usage(&self) -> Result<Vec<(Option<String>, Uid, Usage)>, StoreError> {
        let mut select = self.conn.prepare_cached("SELECT * FROM usage")?;
        let mut rows = select.query([])?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            let (uid, account): (u32, String) = (row.get(0)?, row.get(1)?);
            record::whole(row, || format!("the use of cards by uid {uid} {account}"))?;
            let usage = Usage { charge: unsigned(row.get(2)?), at: Timestamp(row.get(3)?) };
            all.push((Some(account).filter(|name| !name.is_empty()), Uid(uid), usage));
        }
        Ok(all)
    }

    fn spent(&self) -> Result<Vec<(Purse, Spent)>, StoreError> {
        let mut select = self.conn.prepare_cached("SELECT * FROM spent")?;
        let mut rows = select.query([])?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            let budget: String = row.get(0)?;
            record::whole(row, || format!("what was taken of budget {budget}"))?;
            let uid = u32::try_from(row.get::<_, i64>(1)?).ok().map(Uid);
            let spent = Spent { day: row.get(2)?, used: CardTime(unsigned(row.get(3)?)), told: row.get(4)? };
            all.push((Purse { budget, uid }, spent));
        }
        Ok(all)
    }

    /// Orders that are not acknowledged, of every node, in order.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn letters(&self) -> Result<Vec<(NodeName, Seq, Vec<u8>)>, StoreError> {
        let mut select = self.conn.prepare_cached("SELECT * FROM outbox ORDER BY node, seq")?;
        let mut rows = select.query([])?;
        let mut letters = Vec::new();
        while let Some(row) = rows.next()? {
            let (name, seq): (&str, i64) = (text(row, 0)?, row.get(1)?);
            record::whole(row, || format!("order {seq} to node {name}"))?;
            let node = name.parse().map_err(|e| StoreError::Damaged(format!("outbox: {name:?}: {e}")))?;
            letters.push((node, Seq(unsigned(seq)), row.get(2)?));
        }
        Ok(letters)
    }

    /// The job that a token is, with its user.
    ///
    /// # Errors
    /// When it cannot be looked up.
    pub fn token(&self, token: Token) -> Result<Option<(JobId, Uid)>, StoreError> {
        crate::history::token(&self.conn, token)
    }

    /// Whether a job of this id was ever accepted.
    ///
    /// # Errors
    /// When it cannot be looked up.
    pub fn was_job(&self, id: JobId) -> Result<bool, StoreError> {
        let known = self.years.at_job(&self.conn, id, |conn| {
            let mut select = conn.prepare_cached("SELECT 1 FROM event WHERE job = ? LIMIT 1")?;
            Ok(select.exists([crate::commit::signed(id.0)])?)
        });
        // What is in no file that can be read was in one that cannot.
        known.or_else(|error| if matches!(error, StoreError::Year { .. }) { Ok(true) } else { Err(error) })
    }

    /// The user of a job and the account that it is charged to, if there ever was one of this id.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn owner(&self, id: JobId) -> Result<Option<(Uid, Option<String>)>, StoreError> {
        match self.years.at_job(&self.conn, id, |conn| crate::history::first_event(conn, id))? {
            Some(Event::Submitted(new)) => Ok(Some((new.uid, new.payer.account.clone()))),
            Some(_) => Err(crate::history::headless(id)),
            None => Ok(None),
        }
    }

    /// How a job ended of which nothing lives: the outcome with the highest code for a waiting client.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn worst_outcome(&self, id: JobId) -> Result<Option<Outcome>, StoreError> {
        self.years.at_job(&self.conn, id, |conn| worst_outcome(conn, id))
    }

    /// What became of the tasks of a job that have ended for good: which of them COMPLETED, which did not, and the latest start.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn ends_of(&self, id: JobId) -> Result<(IndexSet, IndexSet, Option<Timestamp>), StoreError> {
        self.years.at_job(&self.conn, id, |conn| ends_of(conn, id))
    }

    /// Forgets tokens of jobs that ended before `before`.
    ///
    /// # Errors
    /// When it cannot be done.
    pub fn forget_tokens(&mut self, before: Timestamp) -> Result<usize, StoreError> {
        let forgotten = self.conn.execute(
            "DELETE FROM token WHERE job NOT IN (SELECT id FROM job)
             AND (SELECT max(ended) FROM run WHERE run.job = token.job) < ?",
            [before.0],
        )?;
        Ok(forgotten + self.forget_tokens_of_years(before)?)
    }

    /// The same for jobs of which the state has no runs any more.
    fn forget_tokens_of_years(&mut self, before: Timestamp) -> Result<usize, StoreError> {
        let mut select = self.conn.prepare_cached(
            "SELECT job FROM token WHERE job NOT IN (SELECT id FROM job) AND job NOT IN (SELECT job FROM run)",
        )?;
        let jobs =
            select.query_map([], |row| Ok(JobId(unsigned(row.get(0)?))))?.collect::<Result<Vec<_>, _>>()?;
        let mut forgotten = 0;
        for job in jobs {
            let ended = self.years.at_job(&self.conn, job, |conn| crate::history::last_end(conn, job))?;
            if ended.is_some_and(|at| at < before.0) {
                forgotten +=
                    self.conn.execute("DELETE FROM token WHERE job = ?", [crate::commit::signed(job.0)])?;
            }
        }
        Ok(forgotten)
    }

    /// The audit trail of a job, in order.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when a record is not what was written.
    pub fn trail(&self, job: JobId) -> Result<Vec<Event>, StoreError> {
        self.years.at_job(&self.conn, job, |conn| crate::history::trail(conn, job))
    }
}

/// See [`Store::worst_outcome`].
fn worst_outcome(conn: &Connection, id: JobId) -> Result<Option<Outcome>, StoreError> {
    let mut select = conn.prepare_cached(&format!(
        "SELECT state, reason, exit_code, signal, max(detail), min(crc IS row_crc({RUN})) FROM run
         WHERE job = ? AND again = 0 GROUP BY state, reason, exit_code, signal",
    ))?;
    let mut rows = select.query([crate::commit::signed(id.0)])?;
    let mut worst: Option<Outcome> = None;
    while let Some(row) = rows.next()? {
        let damaged =
            |what: &dyn std::fmt::Display| StoreError::Damaged(format!("a run of job {id}: {what}"));
        if !row.get::<_, bool>(5)? {
            return Err(crate::history::damaged_run(id));
        }
        let state = text(row, 0)?.parse().map_err(|e| damaged(&e))?;
        let gq_model::JobState::Ended(end) = state else { return Err(damaged(&"its state is no end")) };
        let outcome = Outcome {
            end,
            reason: text(row, 1)?.parse().map_err(|e| damaged(&e))?,
            exit_code: row.get(2)?,
            signal: row.get(3)?,
            detail: row.get::<_, Option<String>>(4)?.unwrap_or_default(),
            used: None,
        };
        if worst.as_ref().is_none_or(|worst| outcome.client_code() > worst.client_code()) {
            worst = Some(outcome);
        }
    }
    Ok(worst)
}

/// See [`Store::ends_of`].
fn ends_of(conn: &Connection, id: JobId) -> Result<(IndexSet, IndexSet, Option<Timestamp>), StoreError> {
    let mut select = conn.prepare_cached(&format!(
        "SELECT task, tasks, state = 'COMPLETED', started, crc IS row_crc({RUN}) FROM run
         WHERE job = ? AND again = 0 ORDER BY task",
    ))?;
    let mut rows = select.query([crate::commit::signed(id.0)])?;
    let (mut good, mut bad, mut started) = (IndexSet::default(), IndexSet::default(), None);
    while let Some(row) = rows.next()? {
        if !row.get::<_, bool>(4)? {
            return Err(crate::history::damaged_run(id));
        }
        let set = if row.get(2)? { &mut good } else { &mut bad };
        match row.get::<_, Option<String>>(1)? {
            Some(tasks) => {
                *set = set.or(&tasks_of(&tasks, id)?);
            }
            None => {
                set.insert(row.get(0)?);
            }
        }
        started = started.max(row.get::<_, Option<i64>>(3)?.map(Timestamp));
    }
    Ok((good, bad, started))
}

/// A text column without a copy.
pub(crate) fn text<'a>(row: &'a rusqlite::Row<'_>, column: usize) -> Result<&'a str, StoreError> {
    row.get_ref(column)?.as_str().map_err(|e| StoreError::Damaged(e.to_string()))
}

pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
