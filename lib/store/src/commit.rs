//! One turn, one transaction: events, every row they touched, letters, acknowledgements. Whole or not at all.

use crate::{Store, StoreError, record, schema::RUN_COLUMNS};
use gq_cluster::{Cluster, Event, Job, Next, Purse, Run, Spent, UNLIMITED, Usage};
use gq_failpoint::{Step, step};
use gq_model::{IndexSet, JobId, LicenceAsk, NodeName, Outcome, Reason, RunKey, Seq, Timestamp, Uid, Used};
use rusqlite::{Transaction, params};
use std::collections::{BTreeMap, BTreeSet};

/// What a turn makes durable.
pub struct Batch<'a> {
    /// The time of the turn.
    pub at: Timestamp,
    /// What happened, in order; with the job as it was before, for events that end something of it.
    pub steps: Vec<(&'a Event, Option<&'a Job>)>,
    /// The state after it.
    pub cluster: &'a Cluster,
    /// Orders as they will be sent, byte for byte.
    pub letters: Vec<(&'a NodeName, Seq, Vec<u8>)>,
    /// Orders that nodes have acknowledged: up to these numbers they are forgotten.
    pub acknowledged: &'a [(NodeName, Seq)],
}

impl Store {
    /// Makes a turn durable.
    ///
    /// # Errors
    /// [`StoreError::Full`]: nothing of it was kept. Others: only the next start can tell.
    pub fn commit(&mut self, batch: &Batch<'_>) -> Result<(), StoreError> {
        self.write(batch).inspect_err(|error| self.leave_alone(error))
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), StoreError> {
        let tx = self.conn.transaction()?;
        let mut touched = Touched::default();
        for (event, before) in &batch.steps {
            if let Some(job) = event.job() {
                touched.jobs.insert(job);
                trail(&tx, job, batch.at, event)?;
            }
            if let Some(node) = event.node() {
                touched.nodes.insert(node);
            }
            beside(&tx, event, *before, &mut touched)?;
        }
        touched.write(&tx, batch.cluster)?;
        let mut keep = tx.prepare_cached(&record::put("outbox", 4))?;
        for (node, seq, body) in &batch.letters {
            keep.execute(params![node.as_str(), signed(seq.0), body])?;
        }
        let mut forget = tx.prepare_cached("DELETE FROM outbox WHERE node = ? AND seq <= ?")?;
        for (node, seq) in batch.acknowledged {
            forget.execute(params![node.as_str(), signed(seq.0)])?;
        }
        drop((keep, forget));
        Ok(step(Step::TurnCommit, || tx.commit())?)
    }

    /// Writes nothing of importance and waits until it is on disk: whether there is room again.
    ///
    /// # Errors
    /// While there is not.
    pub fn probe(&mut self) -> Result<(), StoreError> {
        self.probes = self.probes.wrapping_add(1);
        let probe = record::put("meta", 3);
        let written = step(Step::StateProbe, || self.conn.execute(&probe, params!["probe", self.probes]));
        written.map(drop).map_err(StoreError::from).inspect_err(|error| self.leave_alone(error))
    }

    /// After a failure that leaves open what is on disk nothing more is written there, also not when this is closed.
    pub(crate) fn leave_alone(&self, error: &StoreError) {
        if matches!(error, StoreError::Full(_)) {
            return;
        }
        if let Err(error) = crate::schema::fold_in_at_close(&self.conn, false) {
            log::warn!("{error}");
        }
    }
}

/// The audit trail of a job.
fn trail(tx: &Transaction<'_>, job: JobId, at: Timestamp, event: &Event) -> Result<(), StoreError> {
    let body = record::write(event)?;
    let mut insert = tx.prepare_cached("INSERT INTO event(job, at, crc, body) VALUES(?, ?, ?, ?)")?;
    insert.execute(params![signed(job.0), at.0, crc32fast::hash(body.as_bytes()), body])?;
    Ok(())
}

/// Rows to be rewritten once, however many events of the turn touched them.
#[derive(Default)]
struct Touched<'a> {
    jobs: BTreeSet<JobId>,
    nodes: BTreeSet<&'a NodeName>,
    bookings: BTreeSet<&'a str>,
    usage: BTreeMap<(Uid, Option<&'a str>), Usage>,
    spent: BTreeMap<&'a Purse, Spent>,
}

/// Rows that an event writes beside those of its job and node.
fn beside<'a>(
    tx: &Transaction<'_>,
    event: &'a Event,
    before: Option<&'a Job>,
    touched: &mut Touched<'a>,
) -> Result<(), StoreError> {
    match event {
        Event::Submitted(new) => {
            let mut insert =
                tx.prepare_cached("INSERT INTO token VALUES(?1, ?2, ?3, row_crc(?1, ?2, ?3))")?;
            insert.execute(params![new.token.0, signed(new.id.0), new.uid.0])?;
            let mut last = tx.prepare_cached(&record::put("meta", 3))?;
            last.execute(params!["last_job", signed(new.id.0)])?;
        }
        Event::RunEnded { key, outcome, started, at, next } => {
            let Some(job) = before else { return Ok(()) };
            if let (Next::Again { site_fault: true, .. }, Some(run)) = (next, job.runs.get(&key.task)) {
                touched.nodes.insert(&run.node);
            }
            run_row(tx, job, *key, None, (outcome, *started, *at, matches!(next, Next::Again { .. })))?;
        }
        Event::TasksEnded { job: id, tasks, outcome, at } => {
            let Some(job) = before else { return Ok(()) };
            let task = gq_model::TaskIndex(tasks.first().unwrap_or(0));
            let key = RunKey { job: *id, task, run: gq_model::RunNumber(job.next_run(task).0) };
            run_row(tx, job, key, Some(tasks), (outcome, None, *at, false))?;
        }
        Event::Charged { account, uid, usage } => {
            touched.usage.insert((*uid, account.as_deref()), *usage);
        }
        Event::Spent { purse, spent } | Event::BudgetReached { purse, spent, .. } => {
            touched.spent.insert(purse, *spent);
        }
        Event::Booked(booking) => {
            touched.bookings.insert(&booking.name);
        }
        Event::Unbooked { name } => {
            touched.bookings.insert(name);
        }
        Event::Promised { .. }
        | Event::Started { .. }
        | Event::Held { .. }
        | Event::Released { .. }
        | Event::Ripened { .. }
        | Event::TasksHeld { .. }
        | Event::TasksReleased { .. }
        | Event::Heard { .. }
        | Event::Prepared { .. }
        | Event::WaitedTooLong { .. }
        | Event::Amended { .. }
        | Event::Suspended { .. }
        | Event::Adopted { .. }
        | Event::Resumed { .. }
        | Event::IdleFound { .. }
        | Event::IdleDue { .. }
        | Event::IdleOver { .. }
        | Event::Allocated { .. }
        | Event::Exited { .. }
        | Event::Stopped { .. }
        | Event::NodeFound { .. }
        | Event::NodeSeen { .. }
        | Event::NodeDrained { .. }
        | Event::NodeResumed { .. }
        | Event::NodeTroubled { .. }
        | Event::NodeUnbound { .. }
        | Event::Strayed { .. }
        | Event::StrayGone { .. }
        | Event::Ordered { .. }
        | Event::Reported { .. } => {}
    }
    Ok(())
}

/// One narrow row for a run that ended, or for tasks that never started (`tasks`).
fn run_row(
    tx: &Transaction<'_>,
    job: &Job,
    key: RunKey,
    tasks: Option<&IndexSet>,
    (outcome, started, ended, again): (&Outcome, Option<Timestamp>, Timestamp, bool),
) -> Result<(), StoreError> {
    let run = if tasks.is_some() { None } else { job.runs.get(&key.task) };
    let cards =
        run.filter(|run| !run.cards.is_empty()).map(|run| serde_json::to_string(&run.cards)).transpose()?;
    let mut used = outcome.used.as_deref().cloned();
    let released = used.as_mut().and_then(|used| used.released.take());
    let memory = match job.shape.demand.memory {
        gq_cluster::Memory::Amount(m) => m,
        gq_cluster::Memory::WholeNode => gq_model::MiB(0),
    };
    let mut insert = tx.prepare_cached(&record::put("run", RUN_COLUMNS))?;
    insert.execute(params![
        signed(key.job.0),
        key.task.0,
        key.run.0,
        tasks.filter(|_| job.array).map(ToString::to_string),
        job.uid.0,
        job.payer.account.as_ref().or(job.spec.account.as_ref()),
        job.payer.partition,
        gq_model::JobState::Ended(outcome.end).name(),
        outcome.reason.word(),
        Some(&outcome.detail).filter(|d| !d.is_empty()),
        outcome.exit_code,
        outcome.signal,
        again,
        job.submitted.0,
        started.map(|t| t.0),
        ended.0,
        run.map(|run| run.node.as_str()),
        run.map_or(job.shape.demand.cpus, |run| run.cpus),
        signed(run.map_or(memory, |run| run.memory).0),
        cards,
        job.payer.qos,
        licences(&job.shape.licences),
        job.first_promise.map(|t| t.0),
        run.and_then(|run| run.promised).map(|t| t.0),
        run.map(|run| run.allocated.0),
        run.map_or(0, |run| run.rate),
        run.map_or(0, |run| run.worth),
        run.and_then(|run| run.own_limit).or(job.shape.time_limit).map(|limit| signed(limit.0)),
        job.restarts(key.task, key.run.0.saturating_sub(1)),
        run.map(|run| signed(run.stood_still_until(ended))),
        used.as_ref().filter(|used| !used.is_empty()).map(serde_json::to_string).transpose()?,
        released.map(|t| t.0),
        job.spec.name,
        job.array,
        used.as_ref().and_then(|used| used.cpu).map(signed),
        used.as_ref().and_then(Used::busy),
        run.map(|run| run.idle_times),
        run.filter(|_| outcome.reason == Reason::IdleCards).map(|run| given_back(job, run, ended)),
        run.and_then(|run| run.cost(outcome, ended)).map(signed),
    ])?;
    Ok(())
}

/// What was left of the time limit of a run, in seconds times thousandths of a card; nothing of one without a limit.
fn given_back(job: &Job, run: &Run, ended: Timestamp) -> i64 {
    let limit = run.own_limit.or(job.shape.time_limit).filter(|limit| *limit != UNLIMITED);
    let left = limit.map_or(0, |limit| run.counted.after(limit).micros_since(ended) / 1_000_000);
    signed(left.saturating_mul(u64::from(run.worth)))
}

/// `houdini:2,matlab:1`; none when there are none.
fn licences(asks: &[LicenceAsk]) -> Option<String> {
    let words: Vec<String> = asks.iter().map(|ask| format!("{}:{}", ask.name, ask.count)).collect();
    (!words.is_empty()).then(|| words.join(","))
}

impl Touched<'_> {
    /// Rewrites the rows as the state has them now.
    fn write(&self, tx: &Transaction<'_>, cluster: &Cluster) -> Result<(), StoreError> {
        let mut put = tx.prepare_cached(&record::put("job", 3))?;
        let mut gone = tx.prepare_cached("DELETE FROM job WHERE id = ?")?;
        for id in &self.jobs {
            match cluster.job(*id) {
                Some(job) => put.execute(params![signed(id.0), record::write(&**job)?])?,
                None => gone.execute([signed(id.0)])?,
            };
        }
        let mut put = tx.prepare_cached(&record::put("node", 3))?;
        let mut count = tx.prepare_cached(&record::put("inbox", 5))?;
        for name in &self.nodes {
            let Some(node) = cluster.node(name) else { continue };
            put.execute(params![name.as_str(), record::write(&**node)?])?;
            count.execute(params![
                name.as_str(),
                signed(node.epoch.0),
                signed(node.last_report.0),
                signed(node.last_order.0)
            ])?;
        }
        self.write_books(tx, cluster)
    }

    fn write_books(&self, tx: &Transaction<'_>, cluster: &Cluster) -> Result<(), StoreError> {
        let mut put = tx.prepare_cached(&record::put("booking", 3))?;
        let mut gone = tx.prepare_cached("DELETE FROM booking WHERE name = ?")?;
        for name in &self.bookings {
            match cluster.booking(name) {
                Some(booking) => put.execute(params![name, record::write(&**booking)?])?,
                None => gone.execute([name])?,
            };
        }
        let mut put = tx.prepare_cached(&record::put("usage", 5))?;
        let mut gone = tx.prepare_cached("DELETE FROM usage WHERE uid = ? AND account = ?")?;
        for ((uid, account), usage) in &self.usage {
            let account = account.unwrap_or_default();
            match usage.charge {
                0 => gone.execute(params![uid.0, account])?,
                charge => put.execute(params![uid.0, account, signed(charge), usage.at.0])?,
            };
        }
        let mut put = tx.prepare_cached(&record::put("spent", 6))?;
        for (purse, spent) in &self.spent {
            let uid = purse.uid.map_or(NO_USER, |uid| i64::from(uid.0));
            put.execute(params![purse.budget, uid, spent.day, signed(spent.used.0), spent.told])?;
        }
        Ok(())
    }
}

/// What stands for the user of a budget that is not one user's.
pub(crate) const NO_USER: i64 = -1;

/// SQLite's integers are signed; our counters never come near the sign.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
