//! Rights: what somebody may do with the jobs of others, and what he may see of them. Says nothing of what is done; who somebody is was
//! proved before.

use crate::{HeldBy, Job, NewJob, Policy, Serves};
use gq_model::Uid;

/// What somebody may do beside what he may with what is his own, from least to most. Only the conf says who is what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Nothing more; but he may coordinate accounts, see [`Policy::coordinates`].
    #[default]
    User,
    /// Steers everybody's jobs as their users may, and drains and resumes nodes.
    Operator,
    /// Everything.
    Admin,
}

/// What of others is kept from users: from those who neither coordinate the account it belongs to nor are operators or admins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Private {
    /// Jobs.
    pub jobs: bool,
    /// What others and accounts of others have used.
    pub usage: bool,
    /// Advance reservations that are for others.
    pub reservations: bool,
}

/// Of whom something is: a user, and the account it is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner<'a> {
    /// The user.
    pub uid: Uid,
    /// The account.
    pub account: Option<&'a str>,
}

impl Job {
    /// Whose it is.
    pub fn owner(&self) -> Owner<'_> {
        Owner { uid: self.uid, account: self.payer.account.as_deref() }
    }
}

impl NewJob {
    /// Whose it is.
    pub fn owner(&self) -> Owner<'_> {
        Owner { uid: self.uid, account: self.payer.account.as_deref() }
    }
}

impl Policy {
    /// What a user may do. Root is an admin, and so are those whom the conf names (the controller's own user is one), and whom alone the
    /// queue serves.
    pub fn role(&self, uid: Uid) -> Role {
        match uid {
            _ if uid == Uid(0) || self.admins.contains(&uid) || self.serves == Serves::Only(uid) => {
                Role::Admin
            }
            _ if self.operators.contains(&uid) => Role::Operator,
            _ => Role::User,
        }
    }

    /// Whether a user may do everything.
    pub fn is_admin(&self, uid: Uid) -> bool {
        self.role(uid) == Role::Admin
    }

    /// Whether a user coordinates an account: it, or one above it.
    pub fn coordinates(&self, uid: Uid, account: Option<&str>) -> bool {
        let above = account.into_iter().flat_map(|name| self.accounts_above(name));
        above.into_iter().any(|account| account.coordinators.contains(&uid))
    }

    /// Whether a user with this role may steer jobs of somebody: they are his own, he coordinates their account, or he is an operator or admin.
    pub fn may_steer(&self, uid: Uid, role: Role, owner: Owner<'_>) -> bool {
        uid == owner.uid || role >= Role::Operator || self.coordinates(uid, owner.account)
    }

    /// Whether a user with this role may see jobs of somebody.
    pub fn may_see(&self, uid: Uid, role: Role, owner: Owner<'_>) -> bool {
        !self.private.jobs || self.may_steer(uid, role, owner)
    }

    /// Who holds a job back when this user does, who may steer it.
    pub fn holder(&self, uid: Uid, role: Role, owner: Owner<'_>) -> HeldBy {
        match role {
            _ if uid == owner.uid => HeldBy::User,
            Role::User => HeldBy::Coordinator,
            Role::Operator | Role::Admin => HeldBy::Admin,
        }
    }

    /// The most that this user, who may steer a job, may release of it.
    pub fn releases(&self, uid: Uid, role: Role, owner: Owner<'_>) -> HeldBy {
        match role {
            Role::Operator | Role::Admin => HeldBy::Admin,
            Role::User if self.coordinates(uid, owner.account) => HeldBy::Coordinator,
            Role::User => HeldBy::User,
        }
    }
}
