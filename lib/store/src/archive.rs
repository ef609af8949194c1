//! The archive: moves what ended long ago from the state into the files of years, a batch of whole jobs at a time. First it is copied, and synced there;
//! then one small transaction of the state says that it counts there (see `years`); and then it is removed from the state, piece by piece. What is cut
//! short at any point goes on from there. A job of which nothing lives never changes, so a copy stays good.

use crate::{
    Store, StoreError, check,
    commit::signed,
    load::unsigned,
    schema,
    years::{FOLDER, Ledger, Years, jobs_behind},
};
use gq_failpoint::{Step, step};
use gq_model::{JobId, Timestamp, year_of};
use rusqlite::{Connection, OpenFlags, Transaction, params, params_from_iter, types::Value};
use std::{
    collections::BTreeSet,
    fs::DirBuilder,
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

/// Rows of a batch: with so many it is full, however many the last of its jobs has.
const ROWS: u64 = 1000;
/// Jobs of a batch at most.
const JOBS: usize = 250;

/// Jobs whose rows are in the file of a year, and do not count there before the state says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parting {
    batch: i64,
    year: i64,
    jobs: Vec<JobId>,
}

impl Parting {
    /// Which jobs.
    pub fn jobs(&self) -> &[JobId] {
        &self.jobs
    }
}

/// Copies what ended long ago. It has a connection of its own; what it finds to be moved is for the [`Store`] to say and to remove.
pub struct Archivist {
    state: Connection,
    years: Years,
    folder: PathBuf,
    /// Where it goes on in the order of ends.
    behind: (i64, i64),
    /// Jobs that stay where they are: something of them is damaged.
    damaged: BTreeSet<JobId>,
}

impl Archivist {
    /// For the state in this file.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(database: &Path) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let state = Connection::open_with_flags(database, flags)?;
        state.busy_timeout(Duration::from_secs(10))?;
        schema::acquaint(&state)?;
        let (years, folder) = (Years::beside(database, &state)?, database.with_file_name(FOLDER));
        Ok(Self { state, years, folder, behind: (i64::MIN, 0), damaged: BTreeSet::new() })
    }

    /// Copies the next jobs of which nothing lives and everything ended before `before`; or finds those that were copied and do not count yet. None when
    /// there are no more.
    ///
    /// # Errors
    /// When something cannot be read, or the file of a year not written; nothing is lost by that.
    pub fn copy(&mut self, before: Timestamp) -> Result<Option<Parting>, StoreError> {
        let ledger = Ledger::read(&self.state)?;
        if let Some(parting) = self.copied(&ledger)? {
            return Ok(Some(parting));
        }
        let Some((year, jobs)) = self.old(before, &ledger)? else { return Ok(None) };
        let batch = ledger.batch + 1;
        let path = self.years.path(year);
        let of_year = |source: StoreError| StoreError::Year { path: path.clone(), why: source.to_string() };
        let copied = step(Step::HistoryCopy, || self.write(year, batch, &jobs)).map_err(of_year)?;
        let (jobs, damaged): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| copied.contains(job));
        for job in damaged {
            log::error!(
                "job {job} stays in the state, and is not moved to {}: something of it is damaged",
                path.display()
            );
            self.damaged.insert(job);
        }
        if jobs.is_empty() { self.copy(before) } else { Ok(Some(Parting { batch, year, jobs })) }
    }

    /// The first batch that was copied and does not count yet. What of it lives, since the state is an older one that was put back, is copied anew when
    /// it has ended.
    fn copied(&self, ledger: &Ledger) -> Result<Option<Parting>, StoreError> {
        let mut first: Option<Parting> = None;
        for year in years_in(&self.folder) {
            let jobs = self.years.ask(year, |conn| jobs_behind(conn, ledger.batch))?;
            let Some((batch, _)) = jobs.first().copied() else { continue };
            if first.as_ref().is_none_or(|first| batch < first.batch) {
                let jobs = jobs.into_iter().filter(|(of, _)| *of == batch).map(|(_, job)| job).collect();
                first = Some(Parting { batch, year, jobs });
            }
        }
        if let Some(parting) = &mut first {
            self.take_back_live(parting)?;
        }
        Ok(first)
    }

    fn take_back_live(&self, parting: &mut Parting) -> Result<(), StoreError> {
        let mut lives = self.state.prepare_cached("SELECT 1 FROM job WHERE id = ?")?;
        let mut live = Vec::new();
        for job in &parting.jobs {
            if lives.exists([signed(job.0)])? {
                live.push(*job);
            }
        }
        if live.is_empty() {
            return Ok(());
        }
        parting.jobs.retain(|job| !live.contains(job));
        let mut conn = self.writer(parting.year)?;
        let tx = conn.transaction()?;
        for (job, table) in live.iter().flat_map(|job| ["part", "run", "event"].map(|table| (job, table))) {
            tx.execute(&format!("DELETE FROM {table} WHERE job = ?"), [signed(job.0)])?;
        }
        Ok(tx.commit()?)
    }

    /// The next old jobs, all of one year.
    fn old(&mut self, before: Timestamp, ledger: &Ledger) -> Result<Option<(i64, Vec<JobId>)>, StoreError> {
        let mut select = self.state.prepare_cached(
            "SELECT ended, job FROM run INDEXED BY run_sums WHERE (ended, job) > (?, ?) AND ended < ? ORDER BY ended, job",
        )?;
        let mut lives = self.state.prepare_cached("SELECT 1 FROM job WHERE id = ?")?;
        let mut last = self.state.prepare_cached("SELECT max(ended) FROM run WHERE job = ?")?;
        let mut size = self.state.prepare_cached(
            "SELECT (SELECT count(*) FROM run WHERE job = ?1) + (SELECT count(*) FROM event WHERE job = ?1)",
        )?;
        let mut rows = select.query(params![self.behind.0, self.behind.1, before.0])?;
        let (mut jobs, mut year, mut count): (Vec<JobId>, Option<i64>, u64) = (Vec::new(), None, 0);
        while let Some(row) = rows.next()? {
            let place: (i64, i64) = (row.get(0)?, row.get(1)?);
            let job = JobId(unsigned(place.1));
            let ended: i64 = last.query_row([place.1], |row| row.get(0))?;
            let of = year_of(Timestamp(ended));
            if ledger.leaving.contains(&job.0)
                || jobs.contains(&job)
                || self.damaged.contains(&job)
                || ended >= before.0
                || lives.exists([place.1])?
            {
                self.behind = place;
                continue;
            }
            if year.is_some_and(|year| year != of) {
                break;
            }
            (year, self.behind) = (Some(of), place);
            count += unsigned(size.query_row([place.1], |row| row.get(0))?);
            jobs.push(job);
            if count >= ROWS || jobs.len() >= JOBS {
                break;
            }
        }
        Ok(year.map(|year| (year, jobs)))
    }

    /// Copies jobs into the file of a year, all in one transaction; those of which something is damaged are left out. Returns the others.
    fn write(&self, year: i64, batch: i64, jobs: &[JobId]) -> Result<Vec<JobId>, StoreError> {
        let mut conn = self.writer(year)?;
        let mut tx = conn.transaction()?;
        let mut copied = Vec::new();
        for job in jobs {
            let whole = tx.savepoint()?;
            if copy_rows(&self.state, &whole, "run", *job)? && copy_rows(&self.state, &whole, "event", *job)?
            {
                whole.execute("INSERT INTO part VALUES(?, ?)", params![signed(job.0), batch])?;
                whole.commit()?;
                copied.push(*job);
            }
        }
        tx.commit()?;
        Ok(copied)
    }

    /// The file of a year, to be written; made when it is not there.
    fn writer(&self, year: i64) -> Result<Connection, StoreError> {
        let path = self.years.path(year);
        make(&self.folder, &path).map_err(|e| StoreError::Year { path: path.clone(), why: e.to_string() })?;
        let mut conn = Connection::open(&path)?;
        conn.busy_timeout(Duration::from_secs(10))?;
        schema::acquaint(&conn)?;
        // It is one file, that may be copied and put away; and what is committed is on disk.
        conn.pragma_update(None, "journal_mode", "DELETE")?;
        conn.pragma_update(None, "synchronous", "EXTRA")?;
        let is_new = !conn.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'meta'")?.exists([])?;
        if is_new {
            let tx = conn.transaction()?;
            schema::create_year(&tx, self.years.cluster())?;
            tx.commit()?;
        }
        self.years.check(&conn)?;
        Ok(conn)
    }
}

/// Makes the folder and an empty file, for nobody else's eyes.
fn make(folder: &Path, path: &Path) -> io::Result<()> {
    if !folder.exists() {
        DirBuilder::new().mode(0o700).create(folder)?;
        std::fs::File::open(folder.parent().unwrap_or(folder))?.sync_all()?;
    }
    if !path.exists() {
        let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.sync_all()?;
        std::fs::File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// The years that have a file with something in it.
pub(crate) fn years_in(folder: &Path) -> BTreeSet<i64> {
    let year = |entry: io::Result<std::fs::DirEntry>| -> Option<i64> {
        let entry = entry.ok().filter(|entry| entry.metadata().is_ok_and(|meta| meta.len() > 0))?;
        entry.file_name().to_str()?.strip_suffix(".db")?.parse().ok()
    };
    std::fs::read_dir(folder).into_iter().flatten().filter_map(year).collect()
}

/// Has what a crash left half written in files of years taken back, which only a writer can.
pub(crate) fn settle(database: &Path) {
    let folder = database.with_file_name(FOLDER);
    for path in years_in(&folder).into_iter().map(|year| folder.join(format!("{year}.db"))) {
        let journal = path.with_extension("db-journal");
        let read = || Connection::open(&path)?.query_row("SELECT count(*) FROM meta", [], |_| Ok(()));
        if journal.exists()
            && let Err(error) = read()
        {
            log::warn!("{}: what a crash left half written is not taken back: {error}", path.display());
        }
    }
}

/// Copies the rows of a job; false when one of them is not what was written.
fn copy_rows(
    from: &Connection,
    to: &Connection,
    table: &'static str,
    job: JobId,
) -> Result<bool, StoreError> {
    // Numbers of events are those of their file.
    let columns = if table == "event" { "NULL, job, at, crc, body" } else { "*" };
    let order = if table == "event" { "seq" } else { "task, run" };
    let select = format!("SELECT {columns} FROM {table} WHERE job = ? ORDER BY {order}");
    let mut select = from.prepare_cached(&select)?;
    let marks = vec!["?"; select.column_count()].join(",");
    let mut insert = to.prepare_cached(&format!("INSERT INTO {table} VALUES({marks})"))?;
    let count = select.column_count();
    let mut rows = select.query([signed(job.0)])?;
    while let Some(row) = rows.next()? {
        if !check::is_whole(table, row)? {
            return Ok(false);
        }
        let values: Vec<Value> = (0..count).map(|at| row.get(at)).collect::<Result<_, _>>()?;
        insert.execute(params_from_iter(values))?;
    }
    Ok(true)
}

impl Store {
    /// From now on the rows of these jobs in the file of their year count, and those in the state no more.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub fn part(&mut self, parting: &Parting) -> Result<(), StoreError> {
        let written = step(Step::HistoryPart, || {
            let tx = self.conn.transaction()?;
            let mut ledger = Ledger::read(&tx)?;
            if parting.batch <= ledger.batch {
                return Ok(());
            }
            ledger.batch = parting.batch;
            ledger.years.insert(parting.year);
            ledger.leaving.extend(parting.jobs.iter().map(|job| job.0));
            ledger.write(&tx)?;
            Ok(tx.commit()?)
        });
        written.inspect_err(|error| self.leave_alone(error))
    }

    /// Removes at most about `most` rows of jobs that are in the file of a year. Says whether there are more.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub fn forget_parted(&mut self, most: u32) -> Result<bool, StoreError> {
        if Ledger::read(&self.conn)?.leaving.is_empty() {
            return Ok(false);
        }
        let written = step(Step::HistoryForget, || {
            let tx = self.conn.transaction()?;
            let more = forget(&tx, most)?;
            tx.commit()?;
            Ok(more)
        });
        written.inspect_err(|error| self.leave_alone(error))
    }
}

fn forget(tx: &Transaction<'_>, most: u32) -> Result<bool, StoreError> {
    let mut ledger = Ledger::read(tx)?;
    let mut events = tx.prepare_cached(
        "DELETE FROM event WHERE seq IN (SELECT seq FROM event WHERE job = ? ORDER BY seq DESC LIMIT ?)",
    )?;
    let mut runs = tx.prepare_cached(
        "DELETE FROM run WHERE job = ?1 AND (task, run) IN (SELECT task, run FROM run WHERE job = ?1 LIMIT ?2)",
    )?;
    let mut left = i64::from(most);
    while let Some(job) = ledger.leaving.last().copied().map(signed) {
        for removal in [&mut events, &mut runs] {
            left -= i64::try_from(removal.execute(params![job, left])?).unwrap_or(left);
        }
        if left <= 0 {
            break;
        }
        ledger.leaving.pop();
    }
    drop((events, runs));
    ledger.write(tx)?;
    Ok(!ledger.leaving.is_empty())
}
