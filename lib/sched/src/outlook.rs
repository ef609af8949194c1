//! The outlook: why each waiting job waits, and when it is expected to start, as of one plan.

use alloc::{collections::BTreeMap, sync::Arc};
use gq_cluster::{HeldBy, Job, PartitionState, Policy, Shape};
use gq_model::{JobId, NodeName, Reason, Timestamp};

/// Why waiting jobs wait. Jobs that nothing is said of wait behind others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// Jobs that a reservation was made for, with when and where.
    pub reserved: BTreeMap<JobId, (Timestamp, NodeName)>,
    /// The first job in line that cannot start: it waits for nothing but resources.
    pub first: Option<JobId>,
    /// Shapes that cannot start for another reason than other jobs.
    pub shapes: BTreeMap<Arc<Shape>, Reason>,
}

impl Outlook {
    /// Why `job` waits, and when it is expected to start if that is known.
    pub fn of(&self, job: &Job, policy: &Policy) -> (Reason, Option<Timestamp>) {
        match job.held {
            Some(HeldBy::User) => return (Reason::JobHeldUser, None),
            Some(HeldBy::Admin) => return (Reason::JobHeldAdmin, None),
            None => {}
        }
        if let Some(at) = job.not_before {
            return (Reason::BeginTime, Some(at));
        }
        match policy.partition(&job.shape.partition).map(|p| p.state) {
            Some(PartitionState::Down) | None => return (Reason::PartitionDown, None),
            Some(PartitionState::Inactive) => return (Reason::PartitionInactive, None),
            Some(PartitionState::Up | PartitionState::Drain) => {}
        }
        if let Some(reason) = self.shapes.get(&job.shape) {
            return (*reason, None);
        }
        let expected = self.reserved.get(&job.id).map(|(at, _)| *at);
        let reason = if self.first == Some(job.id) { Reason::Resources } else { Reason::Priority };
        (reason, expected)
    }
}
