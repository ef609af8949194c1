//! How the tasks of a job have ended: those that ended alike together, or each by itself, a page at a time. Nothing is kept of an array
//! but a set of indices for each way to end.

use crate::{EndedRun, History, StoreError, history::run, load::text, record, schema::RUN};
use gq_cluster::{Amendment, Event, NewJob};
use gq_model::{IndexSet, JobId, TaskIndex, Timestamp};
use rusqlite::{Row, params};

/// Tasks of a job that ended alike: in one state, for one reason, with one exit code and signal.
#[derive(Clone, Debug)]
pub struct Alike {
    /// How the first of them ended.
    pub first: EndedRun,
    /// Which.
    pub tasks: IndexSet,
    /// When the first of them was started; none when they never were.
    pub started: Option<Timestamp>,
    /// When the last of them ended.
    pub ended: Timestamp,
}

/// The last run of each task, by its own.
const APART: &str = "SELECT * FROM run WHERE job = ?1 AND again = 0 AND tasks IS NULL AND task >= ?2 AND task <= ?3 ORDER BY task, run";
/// Tasks that never started.
const NEVER: &str = "SELECT * FROM run WHERE job = ?1 AND again = 0 AND tasks IS NOT NULL ORDER BY task, run";

/// What was said anew of a job, among the first events of its trail.
const AMENDED: &str = "SELECT crc, body FROM (SELECT seq, crc, body FROM event WHERE job = ?1 ORDER BY seq LIMIT ?2) \
                       WHERE instr(body, '\"Amended\"') ORDER BY seq";
/// How many events of a trail are looked through for that: the trail of a large array has millions.
const AMENDED_WITHIN: i64 = 10_000;

impl History {
    /// A job as it was accepted, with what was said anew of it since, if there ever was one of this id.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn accepted(&self, id: JobId) -> Result<Option<NewJob>, StoreError> {
        self.at_job(id, |conn| {
            let mut new = match crate::history::first_event(conn, id)? {
                Some(Event::Submitted(new)) => *new,
                Some(_) => return Err(crate::history::headless(id)),
                None => return Ok(None),
            };
            let mut select = conn.prepare_cached(AMENDED)?;
            let mut rows = select.query(params![crate::commit::signed(id.0), AMENDED_WITHIN])?;
            while let Some(row) = rows.next()? {
                if let Event::Amended { what, .. } = crate::history::event(row, id)? {
                    amend(&mut new, what);
                }
            }
            Ok(Some(new))
        })
    }

    /// The tasks that have ended, of `only` these: those that ended alike together, in order of their first.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn ends_alike(&self, id: JobId, only: Option<&IndexSet>) -> Result<Vec<Alike>, StoreError> {
        let (first, last) = match only {
            None => (0, u32::MAX),
            Some(only) => match (only.first(), only.last()) {
                (Some(first), Some(last)) => (first, last),
                _ => return Ok(Vec::new()),
            },
        };
        let mut groups = self.at_job(id, |conn| {
            let mut groups = Vec::new();
            let mut select = conn.prepare_cached(APART)?;
            let mut rows = select.query(params![crate::commit::signed(id.0), first, last])?;
            while let Some(row) = rows.next()? {
                gather(row, id, only, &mut groups)?;
            }
            Ok(groups)
        })?;
        // Whoever asks for a few that have run need not look through all that never did.
        let found: u64 = groups.iter().map(|group: &Alike| group.tasks.len()).sum();
        if only.is_none_or(|only| found < only.len()) {
            groups.extend(self.never_started(id, only)?);
        }
        groups.sort_by_key(|group| group.tasks.first());
        Ok(groups)
    }

    /// The tasks that ended without ever having started, of `only` these: those that ended alike together.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn never_started(&self, id: JobId, only: Option<&IndexSet>) -> Result<Vec<Alike>, StoreError> {
        self.at_job(id, |conn| {
            let mut groups = Vec::new();
            let mut select = conn.prepare_cached(NEVER)?;
            let mut rows = select.query([crate::commit::signed(id.0)])?;
            while let Some(row) = rows.next()? {
                gather(row, id, only, &mut groups)?;
            }
            Ok(groups)
        })
    }

    /// The last runs of the first `most` tasks from `first` to `last` that have ended, each by itself; not tasks that never started.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn ends_apart(
        &self,
        id: JobId,
        (first, last): (u32, u32),
        most: usize,
    ) -> Result<Vec<EndedRun>, StoreError> {
        self.at_job(id, |conn| {
            let mut select = conn.prepare_cached(&format!("{APART} LIMIT ?4"))?;
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let mut rows = select.query(params![crate::commit::signed(id.0), first, last, most])?;
            let mut runs = Vec::new();
            while let Some(row) = rows.next()? {
                runs.push(run(row, id)?);
            }
            Ok(runs)
        })
    }

    /// The tasks that have ended otherwise than COMPLETED.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn failed(&self, id: JobId) -> Result<IndexSet, StoreError> {
        self.at_job(id, |conn| {
            let completed = gq_model::JobState::Ended(gq_model::End::Completed).name();
            let mut select = conn.prepare_cached(&format!(
                "SELECT task, tasks, crc IS row_crc({RUN}) FROM run
                 WHERE job = ? AND again = 0 AND state <> ? ORDER BY task, run"
            ))?;
            let mut rows = select.query(params![crate::commit::signed(id.0), completed])?;
            let mut failed = IndexSet::default();
            while let Some(row) = rows.next()? {
                if !row.get::<_, bool>(2)? {
                    return Err(crate::history::damaged_run(id));
                }
                failed = match row.get_ref(1)?.as_str_or_null() {
                    Ok(Some(tasks)) => failed.or(&tasks_of(tasks, id)?),
                    _ => {
                        failed.insert(row.get(0)?);
                        failed
                    }
                };
            }
            Ok(failed)
        })
    }
}

/// Changes a job as it was accepted into what it became.
fn amend(new: &mut NewJob, what: Amendment) {
    match what {
        Amendment::Spec(spec) => new.spec = spec,
        Amendment::Shape(shape, payer) => {
            new.payer = payer;
            // Of a job of two stages it is what its own script needs.
            *new.main.as_mut().unwrap_or(&mut new.shape) = shape;
        }
        Amendment::Priority(priority) => new.priority = priority,
        Amendment::AtOnce(most) => new.at_once = most,
        Amendment::NotBefore(_) | Amendment::Waits(_) | Amendment::RunLimit(..) => {}
    }
}

/// Puts a row of the table of runs to those that ended alike.
fn gather(
    row: &Row<'_>,
    id: JobId,
    only: Option<&IndexSet>,
    groups: &mut Vec<Alike>,
) -> Result<(), StoreError> {
    record::whole(row, || format!("a run of job {id}"))?;
    let task: u32 = row.get(1)?;
    let many = match row.get_ref(3)?.as_str_or_null() {
        Ok(Some(tasks)) => {
            let tasks = tasks_of(tasks, id)?;
            Some(only.map_or_else(|| tasks.clone(), |only| tasks.and(only)))
        }
        _ => None,
    };
    let is_meant = match &many {
        Some(tasks) => !tasks.is_empty(),
        None => only.is_none_or(|only| only.contains(task)),
    };
    if !is_meant {
        return Ok(());
    }
    let (state, reason) = (text(row, 7)?, text(row, 8)?);
    let (exit_code, signal): (Option<u8>, Option<u8>) = (row.get(10)?, row.get(11)?);
    let started = row.get::<_, Option<i64>>(14)?.map(Timestamp);
    let ended = Timestamp(row.get(15)?);
    let alike = |group: &&mut Alike| {
        let outcome = &group.first.outcome;
        (outcome.exit_code, outcome.signal) == (exit_code, signal)
            && outcome.reason.word() == reason
            && gq_model::JobState::Ended(outcome.end).name() == state
            && group.first.tasks.is_some() == many.is_some()
    };
    match groups.iter_mut().find(alike) {
        Some(group) => {
            match many {
                Some(tasks) => group.tasks = group.tasks.or(&tasks),
                None => {
                    group.tasks.insert(task);
                }
            }
            group.started = [group.started, started].into_iter().flatten().min();
            group.ended = group.ended.max(ended);
        }
        None => {
            let tasks = many.unwrap_or_else(|| IndexSet::range(task, task));
            let mut first = run(row, id)?;
            first.task = TaskIndex(tasks.first().unwrap_or(task));
            groups.push(Alike { first, tasks, started, ended });
        }
    }
    Ok(())
}

/// The tasks of a row.
pub(crate) fn tasks_of(text: &str, id: JobId) -> Result<IndexSet, StoreError> {
    IndexSet::of_written(text)
        .ok_or_else(|| StoreError::Damaged(format!("tasks of job {id}: no set of tasks")))
}
