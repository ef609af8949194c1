//! Arrays: how far one is, as people are shown it; and what of a job failed, with the job file to run that again from.

use crate::{
    board::Board,
    door::{Door, refused},
    viewer::Viewer,
};
use gq_cluster::Job;
use gq_model::{End, IndexSet, JobId, JobState, Timestamp, Uid};
use gq_proto::{ArrayView, RefusalKind, Reply, Selection};
use gq_store::{Alike, StoreError};
use std::collections::BTreeSet;

impl Door {
    /// How far the arrays among the named jobs are.
    pub(crate) fn arrays(
        &self,
        board: &Board,
        viewer: &Viewer<'_>,
        select: &Selection,
        now: Timestamp,
    ) -> Result<Vec<ArrayView>, StoreError> {
        let ids: BTreeSet<JobId> = select.jobs.iter().map(|named| named.job).collect();
        let mut arrays = Vec::new();
        for id in ids {
            match board.job(id) {
                Some(job) => {
                    arrays.extend((job.array && viewer.sees(job.owner())).then(|| of_live(job, now)));
                }
                None => arrays.extend(self.ended_array(viewer, id)?),
            }
        }
        Ok(arrays)
    }

    fn ended_array(&self, viewer: &Viewer<'_>, id: JobId) -> Result<Option<ArrayView>, StoreError> {
        self.with_history(|history| {
            let new = history.accepted(id)?.filter(|new| new.array && viewer.sees(new.owner()));
            let Some(new) = new else { return Ok(None) };
            Ok(Some(of_ended(id, new.at_once, &history.ends_alike(id, None)?)))
        })
    }

    /// Where a job's file is, and which of its tasks failed: for its user and for admins.
    pub(crate) fn job_file(&self, board: &Board, uid: Uid, id: JobId) -> Reply {
        let (live, viewer) = (board.job(id), Viewer::new(&board.policy, uid));
        let known = match live {
            Some(job) => {
                let whole = (job.uid, job.job_file.clone(), job.sha256.clone(), job.array);
                Some(whole).filter(|_| viewer.sees(job.owner()))
            }
            None => match self.with_history(|history| history.accepted(id)) {
                Ok(new) => new
                    .filter(|new| viewer.sees(new.owner()))
                    .map(|new| (new.uid, new.job_file, new.sha256, new.array)),
                Err(error) => return refused(RefusalKind::Policy, error.to_string()),
            },
        };
        let Some((owner, path, sha256, array)) = known else {
            return refused(RefusalKind::NoSuchJob, format!("there is no job {id}"));
        };
        if owner != uid && !board.policy.is_admin(uid) {
            let text = format!("job {id} belongs to {}", self.intake.name_of(owner));
            return refused(RefusalKind::NotPermitted, text);
        }
        let failed = match live {
            // The one task of a plain job that lives has not ended.
            Some(job) if !job.array => Ok(IndexSet::default()),
            _ => self.with_history(|history| history.failed(id)),
        };
        match failed {
            Ok(failed) => Reply::JobFile { path, sha256, failed, array },
            Err(error) => refused(RefusalKind::Policy, error.to_string()),
        }
    }
}

/// How far a live array is.
pub(crate) fn of_live(job: &Job, now: Timestamp) -> ArrayView {
    let (waiting, running) = (job.waiting.len(), job.runs.len() as u64);
    let started = job.first_start;
    // Who was cancelled tells nothing of how long the others take.
    let worked = job.tally.ends.iter().filter(|(end, _)| !matches!(end, End::Cancelled | End::Deadline));
    let (rate, expected_end) = pace(started, worked.map(|(_, count)| count).sum(), job.live_tasks(), now);
    ArrayView {
        id: job.id,
        tasks: job.tally.count().saturating_add(job.live_tasks()),
        waiting,
        running,
        ended: job
            .tally
            .ends
            .iter()
            .map(|(end, count)| (JobState::Ended(*end).name().to_owned(), *count))
            .collect(),
        at_once: job.at_once,
        started,
        rate,
        expected_end,
    }
}

/// Tasks ended in a thousand seconds, and when the last one will have ended at that pace.
fn pace(
    started: Option<Timestamp>,
    done: u64,
    left: u64,
    now: Timestamp,
) -> (Option<u64>, Option<Timestamp>) {
    let Some(elapsed) = started.map(|started| now.micros_since(started).max(1)).filter(|_| done > 0) else {
        return (None, None);
    };
    let (elapsed, done, left) = (u128::from(elapsed), u128::from(done), u128::from(left));
    let rate = u64::try_from(done * 1_000_000_000 / elapsed).unwrap_or(u64::MAX);
    let rest = i64::try_from(left * elapsed / done).unwrap_or(i64::MAX);
    (Some(rate), (left > 0).then(|| Timestamp(now.0.saturating_add(rest))))
}

/// How an array ended.
fn of_ended(id: JobId, at_once: Option<u32>, groups: &[Alike]) -> ArrayView {
    let mut ended: Vec<(String, u64)> = Vec::new();
    for group in groups {
        let state = JobState::Ended(group.first.outcome.end).name();
        match ended.iter_mut().find(|(name, _)| name == state) {
            Some((_, count)) => *count += group.tasks.len(),
            None => ended.push((state.to_owned(), group.tasks.len())),
        }
    }
    let started = groups.iter().filter_map(|group| group.started).min();
    let ran = groups.iter().filter(|group| group.started.is_some());
    let last = ran.clone().map(|group| group.ended).max().unwrap_or(Timestamp(0));
    let (rate, _) = pace(started, ran.map(|group| group.tasks.len()).sum(), 0, last);
    let tasks = ended.iter().map(|(_, count)| count).sum();
    ArrayView { id, tasks, waiting: 0, running: 0, ended, at_once, started, rate, expected_end: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_that_since_the_first_start() {
        let at = Timestamp::from_secs;
        assert_eq!(pace(Some(at(100)), 50, 100, at(200)), (Some(500), Some(at(400))));
        assert_eq!(pace(Some(at(100)), 50, 0, at(200)), (Some(500), None), "nothing is left");
        assert_eq!(pace(Some(at(100)), 0, 9, at(200)), (None, None), "nothing has ended yet");
        assert_eq!(pace(None, 5, 9, at(200)), (None, None));
        let (rate, end) = pace(Some(at(200)), u64::MAX, u64::MAX, at(200));
        assert_eq!((rate, end), (Some(u64::MAX), Some(Timestamp(at(200).0 + 1))), "clocks may stand still");
    }
}
