//! Events: what happened, as it is kept in the audit trail. A disk record of its own; new fields take a serde default,
//! old variants stay readable for ever.

use crate::{Booking, Fate, HeldBy, Link, Payer, Purse, Shape, Spent, Stopping, Usage, Waits};
use alloc::{boxed::Box, string::String, sync::Arc, vec::Vec};
use gq_model::{
    BootId, Bound, Card, CardTime, CardUse, Epoch, IndexSet, JobId, JobSpec, MiB, NodeId, NodeName, Outcome,
    RunKey, Seconds, Seq, Timestamp, Token, Uid,
};
use serde::{Deserialize, Serialize};

/// A job as it was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewJob {
    /// Its id.
    pub id: JobId,
    /// Whose it is.
    pub uid: Uid,
    /// Whose it is, by name.
    pub user: String,
    /// Its submission's token.
    pub token: Token,
    /// What was asked.
    pub spec: Arc<JobSpec>,
    /// The accepted job file, relative to the spool directory.
    pub job_file: String,
    /// SHA-256 of that file.
    pub sha256: String,
    /// When.
    pub at: Timestamp,
    /// What matters for placement.
    pub shape: Arc<Shape>,
    /// On whose account.
    pub payer: Arc<Payer>,
    /// Its own part of the priority.
    pub priority: i64,
    /// Held from the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldBy>,
    /// Not to be started before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Whether it is an array.
    #[serde(default)]
    pub array: bool,
    /// How many of its tasks may run at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<u32>,
    /// What it waits for of other jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Waits>,
    /// What its script needs, when another one runs first, whose need `shape` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main: Option<Arc<Shape>>,
    /// Its tasks.
    pub tasks: IndexSet,
}

/// What was said anew of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Amendment {
    /// Its request is this now; its name, its comment, its deadline and the like.
    Spec(Arc<JobSpec>),
    /// What matters for placement, and on whose account it runs.
    Shape(Arc<Shape>, Arc<Payer>),
    /// Its own part of the priority.
    Priority(i64),
    /// How many of its tasks may run at a time.
    AtOnce(Option<u32>),
    /// What it waits for of other jobs.
    Waits(Option<Waits>),
    /// Not to be started before.
    NotBefore(Option<Timestamp>),
    /// The time limit of a run.
    RunLimit(RunKey, Seconds),
}

/// What comes after the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Next {
    /// Nothing: the task has ended.
    Over,
    /// The task waits again.
    Again {
        /// Not to be started before.
        not_before: Option<Timestamp>,
        /// Whether the start failed by the site's fault.
        site_fault: bool,
        /// Whether it failed and is tried again for that.
        #[serde(default)]
        retry: bool,
        /// Who holds it, when a requeue is to hold it.
        held: Option<HeldBy>,
    },
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A job was accepted.
    Submitted(Box<NewJob>),
    /// A job is held back.
    Held {
        /// Which.
        job: JobId,
        /// By whom.
        by: HeldBy,
    },
    /// A job is held back no more.
    Released {
        /// Which.
        job: JobId,
    },
    /// The time before which a job, or tasks of it, were not to be started has come.
    Ripened {
        /// Which.
        job: JobId,
        /// When: all that was to wait until then waits no more.
        #[serde(default)]
        at: Timestamp,
    },
    /// Tasks of an array are held back.
    TasksHeld {
        /// Whose.
        job: JobId,
        /// By whom.
        by: HeldBy,
        /// Which.
        tasks: IndexSet,
    },
    /// Tasks of an array are held back no more.
    TasksReleased {
        /// Whose.
        job: JobId,
        /// Which.
        tasks: IndexSet,
    },
    /// Something was heard of what a job waits for.
    Heard {
        /// Which job waits.
        job: JobId,
        /// Which of its conditions, by place.
        condition: u32,
        /// What became of it.
        fate: Fate,
        /// What of its `left` has come.
        #[serde(default, skip_serializing_if = "IndexSet::is_empty")]
        done: IndexSet,
        /// For which of the job's own tasks it can no longer be met.
        #[serde(default, skip_serializing_if = "IndexSet::is_empty")]
        never: IndexSet,
        /// Whether some of those it is about did not complete.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        failed: bool,
        /// The job is not to be started before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_before: Option<Timestamp>,
    },
    /// The script that runs first has ended well: the job waits for what its own script needs.
    Prepared {
        /// Which.
        job: JobId,
    },
    /// A job has waited longer than its user wanted it to.
    WaitedTooLong {
        /// Which.
        job: JobId,
        /// Its own part of the priority from now on.
        priority: i64,
    },
    /// Something was said anew of a job.
    Amended {
        /// Which.
        job: JobId,
        /// What.
        what: Amendment,
        /// Who said so.
        by: Uid,
    },
    /// A run was suspended.
    Suspended {
        /// Which run.
        key: RunKey,
        /// When, on the node's clock.
        at: Timestamp,
    },
    /// A suspended run goes on.
    Resumed {
        /// Which run.
        key: RunKey,
        /// When, on the node's clock.
        at: Timestamp,
        /// From when its time limit counts now, on the controller's clock.
        counted: Timestamp,
    },
    /// All cards of a run are idle.
    IdleFound {
        /// Which run.
        key: RunKey,
        /// Since when, on the node's clock.
        since: Timestamp,
        /// When something is to be done about it; none when it is only told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        due: Option<Timestamp>,
        /// Whether it is to run again then.
        #[serde(default)]
        again: bool,
    },
    /// Something is to be done about the idle cards of a run at another time.
    IdleDue {
        /// Which run.
        key: RunKey,
        /// When; none when nothing is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        due: Option<Timestamp>,
    },
    /// They are in use again, or nobody knows any more.
    IdleOver {
        /// Which run.
        key: RunKey,
    },
    /// Another node of the same name, which has lost the log of the one that a run was given to, has the run's living supervisor.
    Adopted {
        /// Which run.
        key: RunKey,
        /// Which node answers for it now.
        node_id: NodeId,
    },
    /// A task was given resources; its node is told to start it.
    Allocated {
        /// Which run.
        key: RunKey,
        /// Where.
        node: NodeName,
        /// The node's boot.
        boot: BootId,
        /// Which node it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_id: Option<NodeId>,
        /// How long it goes on when its node is cut off.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lease: Option<Seconds>,
        /// Cpus given.
        cpus: u32,
        /// Memory given.
        memory: MiB,
        /// Cards given.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cards: Vec<CardUse>,
        /// Whether the node is given alone.
        #[serde(default)]
        exclusive: bool,
        /// What it is charged for each second, in thousandths of a card.
        #[serde(default)]
        rate: u32,
        /// What its cards cost an hour, in millionths; none when they have no price.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        price: Option<u64>,
        /// When it was last promised to start, if it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        promised: Option<Timestamp>,
        /// Its time limit, when it is another than its shape's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        own_limit: Option<Seconds>,
        /// When.
        at: Timestamp,
    },
    /// The script of a run was started.
    Started {
        /// Which run.
        key: RunKey,
        /// When, on the node's clock.
        at: Timestamp,
        /// From when its time limit counts, on the controller's clock.
        counted: Timestamp,
    },
    /// The script of a run has ended; the rest of it is being taken back.
    Exited {
        /// Which run.
        key: RunKey,
        /// When, on the node's clock.
        at: Timestamp,
    },
    /// A run is being stopped.
    Stopped {
        /// Which run.
        key: RunKey,
        /// Why.
        why: Stopping,
        /// Who said so; none for the plan.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Uid>,
    },
    /// A run has ended and its resources are free.
    RunEnded {
        /// Which run.
        key: RunKey,
        /// How.
        outcome: Outcome,
        /// When its script was started, if it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        started: Option<Timestamp>,
        /// When.
        at: Timestamp,
        /// What comes after.
        next: Next,
    },
    /// Tasks that never started have ended.
    TasksEnded {
        /// Whose.
        job: JobId,
        /// Which.
        tasks: IndexSet,
        /// How.
        outcome: Outcome,
        /// When.
        at: Timestamp,
    },
    /// A job was told for the first time when it would start.
    Promised {
        /// Which.
        job: JobId,
        /// When it would start.
        start: Timestamp,
    },
    /// A user's use of cards on an account is so much now.
    Charged {
        /// The account; none for jobs without one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        account: Option<String>,
        /// The user.
        uid: Uid,
        /// The use.
        usage: Usage,
    },
    /// So much of a budget was taken by now in this period.
    Spent {
        /// Of which.
        purse: Purse,
        /// How much.
        spent: Spent,
    },
    /// So much of a budget is used that it is to be told.
    BudgetReached {
        /// Of which.
        purse: Purse,
        /// How many hundredths.
        percent: u8,
        /// What was taken, with what was told.
        spent: Spent,
        /// What is used, by what runs too.
        used: CardTime,
        /// When the budget begins anew.
        until: Timestamp,
    },
    /// An admin made an advance reservation, or changed it.
    Booked(Box<Booking>),
    /// An advance reservation is over or was taken back.
    Unbooked {
        /// Which.
        name: String,
    },
    /// A node is known, with what it has.
    NodeFound {
        /// Which.
        node: NodeName,
        /// Its boot; none when only the conf speaks of it.
        boot: Option<BootId>,
        /// Which node it is; none when only the conf speaks of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<NodeId>,
        /// Cpus.
        cpus: u32,
        /// Memory.
        memory: MiB,
        /// Features.
        features: Vec<String>,
        /// Cards.
        cards: Vec<Card>,
    },
    /// A node came in sight, fell silent or is lost.
    NodeSeen {
        /// Which.
        node: NodeName,
        /// How it stands.
        link: Link,
    },
    /// Nothing new is started on a node.
    NodeDrained {
        /// Which.
        node: NodeName,
        /// Why.
        reason: String,
    },
    /// A node is used again.
    NodeResumed {
        /// Which.
        node: NodeName,
    },
    /// A node says why it can start nothing at present, or that it can again.
    NodeTroubled {
        /// Which.
        node: NodeName,
        /// Why not; none when it can.
        why: Option<String>,
    },
    /// A node says what runs are not bounded in there.
    NodeUnbound {
        /// Which.
        node: NodeName,
        /// In what not.
        what: Vec<Bound>,
    },
    /// A run may live on a node, and nobody here waits for it any more.
    Strayed {
        /// On which node.
        node: NodeName,
        /// Which run.
        key: RunKey,
    },
    /// The node has said that such a run is gone.
    StrayGone {
        /// Which node.
        node: NodeName,
        /// Which run.
        key: RunKey,
    },
    /// An order was written to a node.
    Ordered {
        /// Which node.
        node: NodeName,
        /// The order's number.
        seq: Seq,
    },
    /// A report of a node was taken.
    Reported {
        /// Which node.
        node: NodeName,
        /// In which life of it.
        epoch: Epoch,
        /// The report's number.
        seq: Seq,
    },
}

impl Event {
    /// The job it belongs to, for the audit trail; none when it is about a node.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Self::Submitted(new) => Some(new.id),
            Self::Held { job, .. }
            | Self::Released { job }
            | Self::Ripened { job, .. }
            | Self::TasksHeld { job, .. }
            | Self::TasksReleased { job, .. }
            | Self::Heard { job, .. }
            | Self::Prepared { job }
            | Self::WaitedTooLong { job, .. }
            | Self::Amended { job, .. }
            | Self::Promised { job, .. }
            | Self::TasksEnded { job, .. } => Some(*job),
            Self::Allocated { key, .. }
            | Self::Started { key, .. }
            | Self::Exited { key, .. }
            | Self::Stopped { key, .. }
            | Self::Suspended { key, .. }
            | Self::Resumed { key, .. }
            | Self::IdleFound { key, .. }
            | Self::IdleDue { key, .. }
            | Self::IdleOver { key }
            | Self::Adopted { key, .. }
            | Self::RunEnded { key, .. } => Some(key.job),
            Self::Charged { .. }
            | Self::Spent { .. }
            | Self::BudgetReached { .. }
            | Self::Booked(_)
            | Self::Unbooked { .. }
            | Self::NodeFound { .. }
            | Self::NodeSeen { .. }
            | Self::NodeDrained { .. }
            | Self::NodeResumed { .. }
            | Self::NodeTroubled { .. }
            | Self::NodeUnbound { .. }
            | Self::Strayed { .. }
            | Self::StrayGone { .. }
            | Self::Ordered { .. }
            | Self::Reported { .. } => None,
        }
    }

    /// The node whose row it changes, when it changes one by itself.
    pub fn node(&self) -> Option<&NodeName> {
        match self {
            Self::NodeFound { node, .. }
            | Self::NodeSeen { node, .. }
            | Self::NodeDrained { node, .. }
            | Self::NodeResumed { node }
            | Self::NodeTroubled { node, .. }
            | Self::NodeUnbound { node, .. }
            | Self::Strayed { node, .. }
            | Self::StrayGone { node, .. }
            | Self::Ordered { node, .. }
            | Self::Reported { node, .. } => Some(node),
            Self::Submitted(_)
            | Self::Held { .. }
            | Self::Released { .. }
            | Self::Ripened { .. }
            | Self::TasksHeld { .. }
            | Self::TasksReleased { .. }
            | Self::Heard { .. }
            | Self::Prepared { .. }
            | Self::WaitedTooLong { .. }
            | Self::Amended { .. }
            | Self::Suspended { .. }
            | Self::Resumed { .. }
            | Self::IdleFound { .. }
            | Self::IdleDue { .. }
            | Self::IdleOver { .. }
            | Self::Adopted { .. }
            | Self::Allocated { .. }
            | Self::Started { .. }
            | Self::Exited { .. }
            | Self::Stopped { .. }
            | Self::RunEnded { .. }
            | Self::TasksEnded { .. }
            | Self::Promised { .. }
            | Self::Charged { .. }
            | Self::Spent { .. }
            | Self::BudgetReached { .. }
            | Self::Booked(_)
            | Self::Unbooked { .. } => None,
        }
    }
}
