//! Viewers: who looks, and what of others he may see. What is hidden from him is as if it were not there.

use crate::{board::Board, door::Door};
use gq_cluster::{Booking, Owner, Policy, Role};
use gq_model::{JobId, TaskIndex, Uid};
use gq_store::StoreError;

/// What stands where the name of a job would that is hidden.
const HIDDEN: &str = "private";

/// Who looks.
pub(crate) struct Viewer<'a> {
    policy: &'a Policy,
    uid: Uid,
    role: Role,
}

impl<'a> Viewer<'a> {
    pub(crate) fn new(policy: &'a Policy, uid: Uid) -> Self {
        Self { policy, uid, role: policy.role(uid) }
    }

    /// Whether he sees jobs of this owner.
    pub(crate) fn sees(&self, owner: Owner<'_>) -> bool {
        self.policy.may_see(self.uid, self.role, owner)
    }

    /// Whether nobody's jobs are hidden from him.
    pub(crate) fn sees_all(&self) -> bool {
        !self.policy.private.jobs || self.role >= Role::Operator
    }

    /// Whether he sees a job that is on the board.
    pub(crate) fn sees_job(&self, board: &Board, id: JobId) -> bool {
        self.sees_all() || board.job(id).is_some_and(|job| self.sees(job.owner()))
    }

    /// The name of a task that holds something: `17` or `17_3`, or a word that says no more than that somebody does.
    pub(crate) fn name(&self, board: &Board, (id, task): (JobId, TaskIndex)) -> String {
        match board.job(id) {
            _ if !self.sees_job(board, id) => HIDDEN.to_owned(),
            Some(job) => job.task_name(task),
            None => id.to_string(),
        }
    }

    /// Whether he sees what an account, or a user on it, has used.
    pub(crate) fn sees_use(&self, account: Option<&str>, uid: Option<Uid>) -> bool {
        !self.policy.private.usage
            || self.role >= Role::Operator
            || uid == Some(self.uid)
            || self.policy.coordinates(self.uid, account)
            || (uid.is_none() && account.is_some_and(|name| self.is_of(name)))
    }

    /// Whose runs he sees, where not everybody's: his own, and those on these accounts.
    pub(crate) fn seen_jobs(&self) -> Option<(Uid, Vec<String>)> {
        (!self.sees_all()).then(|| self.own())
    }

    /// Whose runs count in sums of use that he sees, where not everybody's; `of_jobs`: whether the sums tell of jobs.
    pub(crate) fn seen_use(&self, of_jobs: bool) -> Option<(Uid, Vec<String>)> {
        let is_private = self.policy.private.usage || (of_jobs && self.policy.private.jobs);
        (is_private && self.role < Role::Operator).then(|| self.own())
    }

    /// He, and the accounts that he coordinates.
    fn own(&self) -> (Uid, Vec<String>) {
        let accounts = self.policy.accounts.iter().map(|account| &account.name);
        (self.uid, accounts.filter(|name| self.policy.coordinates(self.uid, Some(name))).cloned().collect())
    }

    /// Whether it is he.
    pub(crate) fn is(&self, uid: Uid) -> bool {
        self.uid == uid
    }

    /// Whether an account, or one below it, is his, or he answers for it.
    pub(crate) fn pays_for(&self, account: &str) -> bool {
        self.is_of(account) || self.policy.coordinates(self.uid, Some(account))
    }

    /// Whether he is a member of an account, or of one below it.
    fn is_of(&self, name: &str) -> bool {
        let mut mine = self.policy.accounts.iter().filter(|account| account.users.contains(&self.uid));
        mine.any(|account| self.policy.is_within(&account.name, name))
    }

    /// Whether he sees an advance reservation. Maintenance is everybody's concern.
    pub(crate) fn sees_booking(&self, booking: &Booking) -> bool {
        !self.policy.private.reservations
            || self.role >= Role::Operator
            || booking.maintenance
            || booking.admits_below(self.policy, self.uid, None)
            || self
                .policy
                .accounts
                .iter()
                .filter(|account| {
                    account.users.contains(&self.uid)
                        || self.policy.coordinates(self.uid, Some(&account.name))
                })
                .any(|account| booking.admits_below(self.policy, self.uid, Some(&account.name)))
    }
}

impl Door {
    /// Whether there is, or was, a job of this id that is hidden from who looks.
    pub(crate) fn is_hidden(
        &self,
        board: &Board,
        viewer: &Viewer<'_>,
        id: JobId,
    ) -> Result<bool, StoreError> {
        if viewer.sees_all() {
            return Ok(false);
        }
        match board.job(id) {
            Some(job) => Ok(!viewer.sees(job.owner())),
            None => {
                let past = self.with_history(|history| history.accepted(id))?;
                Ok(past.is_some_and(|new| !viewer.sees(new.owner())))
            }
        }
    }
}
