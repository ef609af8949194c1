//! First promises: a job that cannot start yet is told once when it would, and that is kept with it. Never decides when.

use crate::Decision;
use alloc::{collections::BTreeSet, vec::Vec};
use gq_cluster::{Cluster, Event};
use gq_model::{JobId, Timestamp};
use gq_sched::Plan;

/// Most first promises of one decision; the rest is promised in later ones.
const MOST: usize = 1000;

/// Promises what a plan reserved for jobs of which it starts nothing.
pub(crate) fn reserved(cluster: &Cluster, plan: &Plan) -> Vec<Event> {
    let started: BTreeSet<JobId> = plan.starts.iter().map(|start| start.job).collect();
    let reserved = plan.outlook.reserved.iter().map(|(job, (at, _))| (*job, *at));
    promised(cluster, reserved.filter(|(job, _)| !started.contains(job)))
}

/// Promises what a forecast found.
pub(crate) fn forecast(cluster: &Cluster, starts: &[(JobId, Timestamp)]) -> Decision {
    Decision { events: promised(cluster, starts.iter().copied()), ..Decision::default() }
}

fn promised(cluster: &Cluster, starts: impl Iterator<Item = (JobId, Timestamp)>) -> Vec<Event> {
    let is_first = |job: &JobId| {
        cluster.job(*job).is_some_and(|job| job.first_promise.is_none() && !job.waiting.is_empty())
    };
    let first = starts.filter(|(job, _)| is_first(job)).take(MOST);
    first.map(|(job, start)| Event::Promised { job, start }).collect()
}
