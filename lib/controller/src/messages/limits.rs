//! Time limits that users want to hear of when half, 80 % or 90 % of them are over. Goes by the board whenever it looks, so that a limit
//! that was changed counts as it is now.

use super::{
    note::{Happened, Subject, What, wants},
    scribe::PERCENTS,
};
use crate::board::Board;
use gq_cluster::{Job, Phase, Run};
use gq_model::{RunKey, Seconds, Timestamp};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Longest time without a look: a limit may have been changed, or the clock been set.
const NAP: Duration = Duration::from_secs(10);

/// The runs that are watched.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    /// The part of the limit that was told of last, in percent.
    watched: BTreeMap<RunKey, u8>,
    /// When to look again.
    look: Option<Instant>,
}

impl Limits {
    /// Watches a run from now on. What is over of its limit already is told, unless it was begun in an earlier life of `gqd`.
    pub(crate) fn watch(&mut self, key: RunKey, board: &Board, earlier: bool, now: Timestamp) {
        let seen = find(board, &key).filter(|_| earlier);
        let told = seen.and_then(|(job, run)| over(job, run, now)).unwrap_or(0);
        self.watched.insert(key, told);
        self.look = Some(Instant::now());
    }

    /// When to look.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.look
    }

    /// Looks, if it is time to: what is to be told. Of several parts that are over, the largest is.
    pub(crate) fn look(&mut self, board: &Board, now: Timestamp) -> Vec<What> {
        if self.look.is_none_or(|at| at > Instant::now()) {
            return Vec::new();
        }
        let mut told = Vec::new();
        let mut next = NAP;
        self.watched.retain(|key, last| {
            let Some((job, run)) = find(board, key) else { return false };
            if let Some(percent) = over(job, run, now).filter(|percent| percent > last) {
                *last = percent;
                let subject = Box::new(Subject::of_run(job, key.task, run));
                told.push(What::Job(Happened::TimeLimit(percent), subject));
            }
            let rest = PERCENTS.iter().filter(|(on, percent)| wants(&job.spec, *on) && *percent > *last);
            let due = rest.filter_map(|(_, percent)| due(job, run, *percent)).min();
            next = due.map_or(next, |at| next.min(Duration::from_micros(at.micros_since(now))));
            *last < 90
        });
        self.look = (!self.watched.is_empty()).then(|| Instant::now() + next);
        told
    }
}

/// A run that runs still.
fn find<'b>(board: &'b Board, key: &RunKey) -> Option<(&'b Job, &'b Run)> {
    let job = board.job(key.job)?;
    let run = job.runs.get(&key.task).filter(|run| run.number == key.run)?;
    matches!(run.phase, Phase::Running { .. }).then_some((job, run))
}

/// When so many percent of a run's time limit are over.
fn due(job: &Job, run: &Run, percent: u8) -> Option<Timestamp> {
    let Seconds(limit) = run.own_limit.or(job.shape.time_limit).filter(|_| run.suspended.is_none())?;
    let micros = u128::from(limit) * 10_000 * u128::from(percent);
    Some(Timestamp(run.counted.0.saturating_add(i64::try_from(micros).unwrap_or(i64::MAX))))
}

/// The largest part that its user wants to hear of and that is over.
fn over(job: &Job, run: &Run, now: Timestamp) -> Option<u8> {
    let wanted = PERCENTS.iter().filter(|(on, _)| wants(&job.spec, *on));
    wanted
        .map(|(_, percent)| *percent)
        .filter(|percent| due(job, run, *percent).is_some_and(|at| at <= now))
        .max()
}
