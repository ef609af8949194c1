//! Listings: jobs, priorities and shares as clients see them, from the board, from history and from snapshots. Each is answered in the
//! connection's own thread; only who asks for starts waits for the forecaster.

use crate::{
    board::Board,
    door::{Door, refused, send},
    standing::Standing,
    view::{self, Sight},
};
use gq_cluster::Job;
use gq_ipc::{Conn, IpcError};
use gq_model::{JobId, JobRef, JobState, Timestamp, Uid};
use gq_proto::{
    ExplanationView, HolderView, JobView, ListAsk, MAX_EXPLAINED, PriorityView, RefusalKind, Reply,
    Selection, ShareView,
};
use gq_sched::Explanation;
use gq_store::StoreError;
use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};

/// Jobs of one frame of a listing.
const LIST_CHUNK: usize = 256;
/// Most ids that one listing names: each is looked up on disk.
const MAX_NAMED: usize = 4096;
/// Most ended jobs of a listing by state.
const MAX_ENDED: u32 = 10_000;

impl Door {
    pub(crate) fn list(&self, conn: &Conn, list: &ListAsk) -> Result<(), IpcError> {
        let board = self.wall.look();
        let select = &list.select;
        if select.jobs.len() > MAX_NAMED {
            return send(conn, &too_many(select.jobs.len()));
        }
        let mut live: Vec<&Arc<Job>> = match select.jobs.is_empty() {
            true => board.jobs().filter(|job| fits_job(select, job)).collect(),
            false => select.jobs.iter().filter_map(|named| board.job(named.job)).collect(),
        };
        let told =
            if list.starts { newest(&board, &live).and_then(|id| self.forecaster.starts(id)) } else { None };
        let standing = self.standings.by(&board.policy, &self.snapshots);
        let sight =
            Sight { board: &board, standing: &standing, told: told.as_deref(), now: gq_daemon::now() };
        if !select.jobs.is_empty() {
            return match self.named(&sight, select) {
                Ok((mut jobs, unknown)) => {
                    if list.by_start {
                        jobs.sort_by_key(|view| view.expected_start.unwrap_or(Timestamp(i64::MAX)));
                    }
                    let explained = if list.explain { self.explained(&board, &jobs) } else { Vec::new() };
                    send_jobs(conn, jobs.into_iter(), unknown, explained, &board)
                }
                Err(error) => send(conn, &refused(RefusalKind::Policy, error.to_string())),
            };
        }
        let ended: Vec<&str> = select.states.iter().filter(|s| s.has_ended()).map(|s| s.name()).collect();
        let past = if ended.is_empty() { Ok(Vec::new()) } else { self.past(select, &ended) };
        let mut past = match past {
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
        let live = live.into_iter().flat_map(|job| view::live(&sight, job));
        let live = live.filter(|view| fits_state(select, view));
        past.sort_by_key(|view| view.id);
        send_jobs(conn, past.into_iter().chain(live), Vec::new(), Vec::new(), &board)
    }

    /// Jobs by id: of each, what lives of it and what has ended.
    fn named(
        &self,
        sight: &Sight<'_>,
        select: &Selection,
    ) -> Result<(Vec<JobView>, Vec<JobRef>), StoreError> {
        let (mut jobs, mut unknown) = (Vec::new(), Vec::new());
        let mut seen = BTreeSet::new();
        let mut asked = BTreeSet::new();
        for reference in select.jobs.iter().filter(|reference| asked.insert(reference.to_string())) {
            let live = sight.board.job(reference.job);
            // A plain live job has nothing in history that its view does not tell.
            let has_past = live.is_none_or(|job| job.array);
            let past = if has_past { self.with_history(|history| history.job(reference.job))? } else { None };
            if live.is_none() && past.is_none() {
                unknown.push(reference.clone());
                continue;
            }
            let views = live.into_iter().flat_map(|job| view::live(sight, job));
            let views = past.iter().flat_map(view::ended).chain(views);
            for view in views.filter(|v| {
                view::means(reference.tasks.as_ref(), v) && fits_state(select, v) && fits_words(select, v)
            }) {
                if seen.insert((view.id, view.array_task_id, view.array_tasks.clone())) {
                    jobs.push(view);
                }
            }
        }
        Ok((jobs, unknown))
    }

    fn past(&self, select: &Selection, states: &[&str]) -> Result<Vec<JobView>, StoreError> {
        self.with_history(|history| {
            let mut views = Vec::new();
            for id in history.ended_in(states, MAX_ENDED)? {
                let job = history.job(id)?;
                let ended = job.iter().flat_map(view::ended);
                views.extend(ended.filter(|view| fits_state(select, view) && fits_words(select, view)));
            }
            Ok(views)
        })
    }

    /// Explanations of those of these jobs that wait.
    fn explained(&self, board: &Board, jobs: &[JobView]) -> Vec<ExplanationView> {
        let mut waiting: Vec<JobId> =
            jobs.iter().filter(|job| job.state == JobState::Pending.name()).map(|job| job.id).collect();
        waiting.dedup();
        waiting.truncate(MAX_EXPLAINED);
        if waiting.is_empty() {
            return Vec::new();
        }
        self.forecaster
            .explain(waiting)
            .into_iter()
            .map(|(id, found)| explanation(board, id, found))
            .collect()
    }

    /// What makes up the priority of jobs that wait, the highest first.
    pub(crate) fn priorities(&self, conn: &Conn, select: &Selection) -> Result<(), IpcError> {
        if select.jobs.len() > MAX_NAMED {
            return send(conn, &too_many(select.jobs.len()));
        }
        let Some(snapshot) = self.snapshots.take() else { return send(conn, &no_time()) };
        let cluster = &snapshot.cluster;
        let standing = Standing::of_snapshot(&snapshot);
        let waits = |job: &Arc<Job>| !job.waiting.is_empty() && fits_job(select, job);
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
        send_chunks(conn, &views, |jobs, more| Reply::Priorities {
            jobs,
            unknown: std::mem::take(&mut unknown),
            more,
        })
    }

    /// The tree of fair share.
    pub(crate) fn shares(&self, conn: &Conn) -> Result<(), IpcError> {
        let Some(snapshot) = self.snapshots.take() else { return send(conn, &no_time()) };
        let policy = &snapshot.policy;
        let shares = gq_sched::shares(&snapshot.cluster, policy, snapshot.now);
        let view = |share: gq_sched::Share| ShareView {
            parent: share.account.as_deref().and_then(|name| policy.account(name)?.parent.clone()),
            account: share.account,
            user: share.uid.map(|uid| self.intake.name_of(uid)),
            shares: share.shares,
            usage: share.usage,
            factor: share.factor,
        };
        let views: Vec<ShareView> = shares.into_iter().map(view).collect();
        send_chunks(conn, &views, |shares, more| Reply::Shares { shares, more })
    }
}

fn no_time() -> Reply {
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

fn explanation(board: &Board, id: JobId, found: Explanation) -> ExplanationView {
    let holder = |holder: gq_sched::Holder| HolderView {
        job: board.job(holder.job).map_or_else(|| holder.job.to_string(), |job| job.task_name(holder.task)),
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
        ahead: found.ahead,
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
        total: factors.total,
    }
}

fn send_chunks<T: Clone>(
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

fn send_jobs(
    conn: &Conn,
    jobs: impl Iterator<Item = JobView>,
    mut unknown: Vec<JobRef>,
    explained: Vec<ExplanationView>,
    board: &Board,
) -> Result<(), IpcError> {
    let mut jobs = jobs.peekable();
    let mut degraded = board.degraded.clone();
    loop {
        let chunk: Vec<JobView> = jobs.by_ref().take(LIST_CHUNK).collect();
        let more = jobs.peek().is_some();
        // Each beside its job: a frame is shown before the next one comes.
        let here = explained.iter().filter(|e| chunk.iter().any(|job| job.id == e.id)).cloned().collect();
        let (unknown, degraded) = (std::mem::take(&mut unknown), degraded.take());
        send(
            conn,
            &Reply::Jobs { jobs: chunk, unknown, degraded, explained: here, arrays: Vec::new(), more },
        )?;
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
