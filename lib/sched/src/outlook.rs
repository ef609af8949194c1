//! The outlook: why each waiting job waits, and when it is expected to start, as of one plan.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use gq_cluster::{Fate, HeldBy, Job, Key, PartitionState, Policy, Spending, Waits};
use gq_model::{JobId, NodeName, Reason, Stage, Timestamp};

/// What a pass had to do, for those who watch its cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Groups of jobs that wait: one shape, one payer each.
    pub groups: u32,
    /// Groups of them that were looked at closely.
    pub looked_at: u32,
    /// Times a node was asked whether something fits.
    pub fits: u32,
}

/// Why waiting jobs wait. Jobs that nothing is said of wait behind others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// Jobs that a reservation was made for, with when and where.
    pub reserved: BTreeMap<JobId, (Timestamp, NodeName)>,
    /// The first job in line of each partition that cannot start: it waits for nothing but resources.
    pub first: BTreeSet<JobId>,
    /// Groups that cannot start for another reason than other jobs.
    pub groups: BTreeMap<Key, Reason>,
    /// When a pass could find something new although nothing happened.
    pub look_again: Option<Timestamp>,
    /// When there is something to tell of a budget although nothing happened.
    pub tell_again: Option<Timestamp>,
    /// Budgets of which enough is used to be told, in the order of the policy.
    pub budgets: Vec<Spending>,
    /// What it took.
    pub effort: Effort,
}

impl Outlook {
    /// Why `job` waits, and when it is expected to start if that is known.
    pub fn of(&self, job: &Job, policy: &Policy) -> (Reason, Option<Timestamp>) {
        match job.held {
            Some(HeldBy::User) => return (Reason::JobHeldUser, None),
            Some(HeldBy::Coordinator | HeldBy::Admin) => return (Reason::JobHeldAdmin, None),
            None => {}
        }
        match job.waits.as_ref().map(Waits::fate) {
            Some(Fate::Never) => return (Reason::DependencyNeverSatisfied, None),
            Some(Fate::Open) => return (Reason::Dependency, None),
            Some(Fate::Met) | None => {}
        }
        if let Some(at) = job.not_before {
            return (Reason::BeginTime, Some(at));
        }
        if job.room() == 0 {
            return (Reason::ArrayTaskLimit, None);
        }
        if !job.is_eligible() {
            return tasks_apart(job);
        }
        match policy.partition(&job.shape.partition).map(|p| p.state) {
            Some(PartitionState::Down) | None => return (Reason::PartitionDown, None),
            Some(PartitionState::Inactive) => return (Reason::PartitionInactive, None),
            Some(PartitionState::Up | PartitionState::Drain) => {}
        }
        let expected = self.reserved.get(&job.id).map(|(at, _)| *at);
        if let Some(reason) = self.groups.get(&job.group()) {
            return (*reason, expected);
        }
        let reason = if self.first.contains(&job.id) { Reason::Resources } else { Reason::Priority };
        (reason, expected)
    }
}

/// Why the tasks of an array wait when each is kept from starting by itself: what will pass first is said.
fn tasks_apart(job: &Job) -> (Reason, Option<Timestamp>) {
    if job.stage() == Stage::Prep && !job.runs.is_empty() {
        return (Reason::Dependency, None);
    }
    if let Some(at) = job.resting.values().min() {
        return (Reason::Backoff, Some(*at));
    }
    match &job.waits {
        Some(waits) if !waits.barred().without(&waits.never()).is_empty() => (Reason::Dependency, None),
        Some(waits) if !waits.never().is_empty() => (Reason::DependencyNeverSatisfied, None),
        _ if job.held_tasks.contains_key(&HeldBy::User) => (Reason::JobHeldUser, None),
        _ => (Reason::JobHeldAdmin, None),
    }
}
