//! Reads the past of a queue of ours: the runs in a `gq.db`. Looks only; the database may be in use.
//!
//! A run that was started becomes a job that asks what the user asked, word for word. Attempts that a later one replaced, and tasks
//! that never started, are left out. What was held or had a begin time is taken to be submitted when it was free to start. Advance
//! reservations of then are not there any more: requests do without them.

use crate::{
    trace::{Gather, MOST_SECONDS, Reading, Trace, TraceJob, UNLIMITED, WHOLE},
    trouble::Trouble,
};
use gq_model::{End, JobSpec, JobState, Timestamp};
use gq_store::{EndedJob, EndedRun, History};
use std::{path::Path, sync::Arc};

/// Most jobs that are read: the newest.
const MAX_JOBS: usize = 5_000_000;
/// What to do about a database that is not all there.
pub(crate) const WHOLE_COPY: &str = "copy gq.db-wal and the folder history together with gq.db, into a folder of yours: what is newest stands there; or read the live gq.db";

/// Reads all jobs of which something has ended.
///
/// # Errors
/// When the database cannot be read; when a job's rows are damaged and the reading is strict.
pub(crate) fn read(path: &Path, reading: Reading) -> Result<Trace, Trouble> {
    let unread = |e| Trouble::unread(path, &e).hint(WHOLE_COPY);
    let history = History::open(path).map_err(unread)?;
    let states: Vec<&str> = End::ALL.iter().map(|end| JobState::Ended(*end).name()).collect();
    let mut ids = history.ended_in(&states, MAX_JOBS).map_err(unread)?;
    ids.sort_unstable();
    let mut gather = Gather::new(path, reading);
    let mut reserved = 0;
    for id in ids {
        if gather.is_full() {
            break;
        }
        match history.job(id) {
            Ok(Some(job)) => {
                let before = gather.trace.jobs.len();
                take(&job, &mut gather)?;
                if job.new.spec.reservation.is_some() {
                    reserved += gather.trace.jobs.len().saturating_sub(before);
                }
            }
            Ok(None) => {}
            Err(error) => gather.malformed(id.0, format!("job {id}: {error}"))?,
        }
    }
    let mut trace = gather.trace;
    if reserved > 0 {
        trace
            .notes
            .taken_as
            .push(format!("{reserved} jobs ran in an advance reservation: here they do without it"));
    }
    Ok(trace)
}

fn take(job: &EndedJob, gather: &mut Gather<'_>) -> Result<(), Trouble> {
    let new = &job.new;
    let spec = JobSpec { hold: false, begin: None, test_run: None, reservation: None, ..(*new.spec).clone() };
    let spec = Arc::new(spec);
    let names = &mut gather.trace.names;
    let user = names.of(&new.user);
    let account = names.of(new.spec.account.as_deref().unwrap_or_default());
    let partition = names.of(&new.shape.partition);
    let cards = new.spec.cards.count;
    let estimate = new
        .shape
        .time_limit
        .map_or(UNLIMITED, |limit| i64::try_from(limit.0).unwrap_or(UNLIMITED).min(MOST_SECONDS));
    for run in job.runs.iter().filter(|run| !run.again) {
        if gather.is_full() {
            break;
        }
        gather.take(TraceJob {
            id: new.id.0,
            submit: submitted(new.at, new.not_before),
            run: ran(run),
            estimate,
            cpus: run.cpus,
            memory: run.memory,
            cards,
            card_milli: run.worth.checked_div(cards).unwrap_or(0).min(WHOLE),
            user,
            account,
            partition,
            spec: Some(Arc::clone(&spec)),
            ..TraceJob::default()
        })?;
    }
    Ok(())
}

/// The second in which a job could have been started at the earliest.
fn submitted(at: Timestamp, not_before: Option<Timestamp>) -> i64 {
    not_before.map_or(at, |begin| begin.max(at)).secs_up()
}

/// How long it ran, in seconds, a begun one counted as a whole; 0 when it was never started.
fn ran(run: &EndedRun) -> i64 {
    let micros = run.started.map_or(0, |started| run.ended.micros_since(started));
    i64::try_from(micros.div_ceil(1_000_000)).unwrap_or(UNLIMITED)
}
