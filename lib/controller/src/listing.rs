//! Listings: jobs, priorities and shares as clients see them, from the board, from history and from snapshots. Each is answered in the
//! connection's own thread; only who asks for starts waits for the forecaster.

use crate::{
    board::Board,
    door::{Door, refused, send},
    standing::Standing,
    tasks::{Shown, Split},
    view::Sight,
    viewer::Viewer,
};
use gq_cluster::{Job, NewJob};
use gq_ipc::{Conn, IpcError};
use gq_model::{JobId, JobRef, JobState, Timestamp, Uid};
use gq_proto::{
    ArrayView, BudgetView, ExplanationView, HolderView, JobView, ListAsk, MAX_EXPLAINED, PriorityView,
    RefusalKind, Reply, Selection, ShareView,
};
use gq_sched::Explanation;
use gq_store::StoreError;
use std::{cmp::Reverse, collections::BTreeSet, mem::take, sync::Arc};

/// Jobs of one frame of a listing.
const LIST_CHUNK: usize = 256;
/// Most bytes of lists of tasks in one frame: an array may have many ranges of them.
const LIST_TASKS: usize = 2 << 20;
/// Most ids that one listing names: each is looked up on disk.
const MAX_NAMED: usize = 4096;
/// Most ended jobs of a listing by state.
const MAX_ENDED: usize = 10_000;

impl Door {
    pub(crate) fn list(&self, conn: &Conn, uid: Uid, list: &ListAsk) -> Result<(), IpcError> {
        let board = self.wall.look();
        let (select, viewer) = (&list.select, Viewer::new(&board.policy, uid));
        if select.jobs.len() > MAX_NAMED {
            return send(conn, &too_many(select.jobs.len()));
        }
        let mut live: Vec<&Arc<Job>> = match select.jobs.is_empty() {
            true => board.jobs().filter(|job| fits_job(select, job)).collect(),
            false => select.jobs.iter().filter_map(|named| board.job(named.job)).collect(),
        };
        live.retain(|job| viewer.sees(job.owner()));
        let told =
            if list.starts { newest(&board, &live).and_then(|id| self.forecaster.starts(id)) } else { None };
        let standing = self.standings.by(&board.policy, &self.snapshots, &board.outlook);
        let sight =
            Sight { board: &board, standing: &standing, told: told.as_deref(), now: gq_daemon::now() };
        if !select.jobs.is_empty() {
            return self.list_named(conn, &viewer, &sight, list);
        }
        let ended: Vec<&str> = select.states.iter().filter(|s| s.has_ended()).map(|s| s.name()).collect();
        let past = if ended.is_empty() { Ok(Vec::new()) } else { self.past(&viewer, select, &ended) };
        let past = match past {
            Ok(past) => past,
            Err(error) => return send(conn, &refused(RefusalKind::Policy, error.to_string())),
        };
        if list.by_start {
            live.sort_by_cached_key(|job| {
                let expected = if job.waiting.is_empty() { None } else { sight.outlook(job).1 };
                (expected.is_none(), expected, in_queue(&standing, job))
            });
        } else {
            live.sort_by_cached_key(|job| in_queue(&standing, job));
        }
        let split = Split::of(list);
        let shown = past.into_iter().map(Shown::ended).chain(live.into_iter().map(Shown::living));
        let views = shown.flat_map(|shown| shown.views(self, &sight, split));
        let views = views.filter(|view| view.as_ref().map_or(true, |view| fits_state(select, view)));
        send_jobs(conn, views, Frame::first(&board, self.told_budgets(&board, &viewer, sight.now)))
    }

    /// Jobs by id: of each, what lives of it and what has ended.
    fn list_named(
        &self,
        conn: &Conn,
        viewer: &Viewer<'_>,
        sight: &Sight<'_>,
        list: &ListAsk,
    ) -> Result<(), IpcError> {
        let (select, split) = (&list.select, Split::of(list));
        let (mut shown, mut first) =
            (Vec::new(), Frame::first(sight.board, self.told_budgets(sight.board, viewer, sight.now)));
        let mut asked = BTreeSet::new();
        for named in select.jobs.iter().filter(|named| asked.insert(named.to_string())) {
            let found = Shown::named(self, sight, named.job, named.tasks.clone());
            let is_seen = |job: &Shown<'_>| job.owner().is_some_and(|owner| viewer.sees(owner));
            match found.map(|found| found.filter(is_seen)) {
                Ok(Some(job)) => {
                    let strange = job.strange().map(|tasks| JobRef { job: named.job, tasks: Some(tasks) });
                    first.unknown.extend(strange);
                    shown.push(job);
                }
                Ok(None) => first.unknown.push(named.clone()),
                Err(error) => return send(conn, &refused(RefusalKind::Policy, error.to_string())),
            }
        }
        if list.explain {
            first.explained = self.explained(sight.board, viewer, select);
        }
        match self.arrays(sight.board, viewer, select, sight.now) {
            Ok(arrays) => first.arrays = arrays,
            Err(error) => return send(conn, &refused(RefusalKind::Policy, error.to_string())),
        }
        let mut seen = BTreeSet::new();
        let views = shown.into_iter().flat_map(|shown| shown.views(self, sight, split));
        let mut is_meant = |view: &JobView| {
            fits_state(select, view)
                && fits_words(select, view)
                // A job that is named once is named as a whole, or its tasks once each.
                && (asked.len() == 1 || seen.insert((view.id, view.array_task_id, view.array_tasks.clone())))
        };
        let views = views.filter(|view| view.as_ref().map_or(true, &mut is_meant));
        if !list.by_start {
            return send_jobs(conn, views, first);
        }
        match views.collect::<Result<Vec<_>, _>>() {
            Ok(mut jobs) => {
                jobs.sort_by_key(|view| view.expected_start.unwrap_or(Timestamp(i64::MAX)));
                send_jobs(conn, jobs.into_iter().map(Ok), first)
            }
            Err(error) => send(conn, &refused(RefusalKind::Policy, error.to_string())),
        }
    }

    /// Jobs of which something ended in one of these states, by id.
    fn past(
        &self,
        viewer: &Viewer<'_>,
        select: &Selection,
        states: &[&str],
    ) -> Result<Vec<NewJob>, StoreError> {
        self.with_history(|history| {
            let mut ids = history.ended_in(states, MAX_ENDED)?;
            ids.sort_unstable();
            let mut jobs = Vec::new();
            for id in ids {
                let job = history.accepted(id)?;
                jobs.extend(job.filter(|job| {
                    viewer.sees(job.owner()) && fits(select, job.uid, &job.spec.name, &job.shape.partition)
                }));
            }
            Ok(jobs)
        })
    }

    /// Explanations of those of the named jobs that wait.
    fn explained(&self, board: &Board, viewer: &Viewer<'_>, select: &Selection) -> Vec<ExplanationView> {
        let waits =
            |job: &&Arc<Job>| !job.waiting.is_empty() && fits_job(select, job) && viewer.sees(job.owner());
        let jobs = select.jobs.iter().filter_map(|named| board.job(named.job)).filter(waits);
        let mut waiting: Vec<JobId> = jobs.map(|job| job.id).collect();
        waiting.dedup();
        waiting.truncate(MAX_EXPLAINED);
        if waiting.is_empty() {
            return Vec::new();
        }
        self.forecaster
            .explain(waiting)
            .into_iter()
            .map(|(id, found)| explanation(board, viewer, id, found))
            .collect()
    }

    /// What makes up the priority of jobs that wait, the highest first.
    pub(crate) fn priorities(&self, conn: &Conn, uid: Uid, select: &Selection) -> Result<(), IpcError> {
        if select.jobs.len() > MAX_NAMED {
            return send(conn, &too_many(select.jobs.len()));
        }
        let Some(snapshot) = self.snapshots.take() else { return send(conn, &no_time()) };
        let (cluster, viewer) = (&snapshot.cluster, Viewer::new(&snapshot.policy, uid));
        let standing = Standing::of_snapshot(&snapshot);
        let waits =
            |job: &Arc<Job>| !job.waiting.is_empty() && fits_job(select, job) && viewer.sees(job.owner());
        let (mut jobs, mut unknown): (Vec<&Arc<Job>>, Vec<JobRef>) = (Vec::new(), Vec::new());
        if select.jobs.is_empty() {
            jobs.extend(cluster.jobs().filter(|job| waits(job)));
        }
        let mut seen = BTreeSet::new();
        for named in select.jobs.iter().filter(|named| seen.insert(named.job)) {
            match cluster.job(named.job).filter(|job| waits(job)) {
                Some(job) => jobs.push(job),
                None => unknown.push(named.clone()),
            }
        }
        let mut views: Vec<PriorityView> = jobs.into_iter().map(|job| priority(&standing, job)).collect();
        views.sort_by_key(|view| (Reverse(view.total), view.id));
        send_chunks(conn, &views, |jobs, more| Reply::Priorities { jobs, unknown: take(&mut unknown), more })
    }

    /// The tree of fair share.
    pub(crate) fn shares(&self, conn: &Conn, uid: Uid) -> Result<(), IpcError> {
        let Some(snapshot) = self.snapshots.take() else { return send(conn, &no_time()) };
        let (policy, viewer) = (&snapshot.policy, Viewer::new(&snapshot.policy, uid));
        let shares = gq_sched::shares(&snapshot.cluster, policy, snapshot.now);
        let view = |share: gq_sched::Share| ShareView {
            parent: share.account.as_deref().and_then(|name| policy.account(name)?.parent.clone()),
            account: share.account,
            user: share.uid.map(|uid| self.intake.name_of(uid)),
            shares: share.shares,
            usage: share.usage,
            factor: share.factor,
        };
        let views: Vec<ShareView> = shares
            .into_iter()
            .filter(|share| viewer.sees_use(share.account.as_deref(), share.uid))
            .map(view)
            .collect();
        send_chunks(conn, &views, |shares, more| Reply::Shares { shares, more })
    }
}

pub(crate) fn no_time() -> Reply {
    refused(
        RefusalKind::Unreachable,
        "gqd has no time for that just now; its log says whether its disk is slow",
    )
}

fn too_many(named: usize) -> Reply {
    refused(RefusalKind::Usage, format!("{named} ids at once: {MAX_NAMED} at most"))
}

/// The newest of these jobs that waits without the plan telling its start; none when there is nothing to foretell.
fn newest(board: &Board, jobs: &[&Arc<Job>]) -> Option<JobId> {
    let waits = |job: &&&Arc<Job>| {
        !job.waiting.is_empty() && job.held.is_none() && !board.outlook.reserved.contains_key(&job.id)
    };
    jobs.iter().filter(waits).map(|job| job.id).max()
}

/// The order of the queue: what runs, then what waits by its place.
fn in_queue(standing: &Standing, job: &Job) -> (bool, Reverse<i64>, Timestamp, JobId) {
    match job.runs.is_empty() {
        true => (true, Reverse(standing.priority(job)), job.submitted, job.id),
        false => (false, Reverse(0), Timestamp(0), job.id),
    }
}

fn explanation(board: &Board, viewer: &Viewer<'_>, id: JobId, found: Explanation) -> ExplanationView {
    let holder = |holder: gq_sched::Holder| HolderView {
        job: viewer.name(board, (holder.job, holder.task)),
        node: holder.node,
        holds: holder.holds,
        due: holder.due,
    };
    ExplanationView {
        id,
        reason: found.reason,
        expected: found.expected,
        lacks: found.lacks,
        holders: found.holders.into_iter().map(holder).collect(),
        ahead: found.ahead.into_iter().filter(|job| viewer.sees_job(board, *job)).collect(),
        ahead_count: found.ahead_count,
        instead: found.instead,
    }
}

fn priority(standing: &Standing, job: &Job) -> PriorityView {
    let factors = standing.factors(job);
    PriorityView {
        id: job.id,
        user: job.user.clone(),
        account: job.payer.account.clone(),
        partition_name: job.shape.partition.clone(),
        age: factors.age,
        fair_share: factors.fair_share,
        size: factors.size,
        partition: factors.partition,
        qos: factors.qos,
        nice: factors.own,
        budget: factors.budget,
        total: factors.total,
    }
}

pub(crate) fn send_chunks<T: Clone>(
    conn: &Conn,
    all: &[T],
    mut reply: impl FnMut(Vec<T>, bool) -> Reply,
) -> Result<(), IpcError> {
    let mut chunks = all.chunks(LIST_CHUNK).peekable();
    loop {
        let chunk = chunks.next().unwrap_or_default().to_vec();
        let more = chunks.peek().is_some();
        send(conn, &reply(chunk, more))?;
        if !more {
            return Ok(());
        }
    }
}

/// What goes with the first frame of a listing.
struct Frame {
    unknown: Vec<JobRef>,
    explained: Vec<ExplanationView>,
    arrays: Vec<ArrayView>,
    degraded: Option<String>,
    budgets: Vec<BudgetView>,
}

impl Frame {
    fn first(board: &Board, budgets: Vec<BudgetView>) -> Self {
        let degraded = board.takes_none().cloned();
        Self { unknown: Vec::new(), explained: Vec::new(), arrays: Vec::new(), degraded, budgets }
    }
}

/// About how long a view's words are that a user chose, in bytes: a frame is bounded by them.
fn weight(job: &JobView) -> usize {
    let words = [&job.name, &job.stdout, &job.stderr, &job.work_dir];
    let more =
        [&job.array_tasks, &job.comment, &job.command, &job.dependency, &job.reason_detail, &job.idle_ok];
    let words = words.into_iter().chain(more.into_iter().flatten()).chain(&job.features);
    words.map(String::len).sum()
}

fn send_jobs(
    conn: &Conn,
    jobs: impl Iterator<Item = Result<JobView, StoreError>>,
    mut first: Frame,
) -> Result<(), IpcError> {
    let mut jobs = jobs.peekable();
    loop {
        let (mut chunk, mut tasks) = (Vec::new(), 0);
        while chunk.len() < LIST_CHUNK && tasks < LIST_TASKS {
            match jobs.next() {
                Some(Ok(job)) => {
                    tasks += weight(&job);
                    chunk.push(job);
                }
                Some(Err(error)) => return send(conn, &refused(RefusalKind::Policy, error.to_string())),
                None => break,
            }
        }
        let more = jobs.peek().is_some();
        // Each beside its job: a frame is shown before the next one comes.
        let beside = |e: &&ExplanationView| chunk.iter().any(|job: &JobView| job.id == e.id);
        let reply = Reply::Jobs {
            explained: first.explained.iter().filter(beside).cloned().collect(),
            unknown: take(&mut first.unknown),
            degraded: first.degraded.take(),
            budgets: take(&mut first.budgets),
            arrays: take(&mut first.arrays),
            jobs: chunk,
            more,
        };
        send(conn, &reply)?;
        if !more {
            return Ok(());
        }
    }
}

fn fits_job(select: &Selection, job: &Job) -> bool {
    fits(select, job.uid, &job.spec.name, &job.shape.partition)
}

/// Whether a job of this user, name and partition fits every word of a selection but its ids and states.
fn fits(select: &Selection, uid: Uid, name: &String, partition: &String) -> bool {
    (select.users.is_empty() || select.users.contains(&uid))
        && (select.names.is_empty() || select.names.contains(name))
        && (select.partitions.is_empty() || select.partitions.contains(partition))
}

fn fits_words(select: &Selection, view: &JobView) -> bool {
    fits(select, view.uid, &view.name, &view.partition)
}

fn fits_state(select: &Selection, view: &JobView) -> bool {
    select.states.is_empty()
        || view.state.parse::<JobState>().is_ok_and(|state| select.states.contains(&state))
}
