//! Records: what stands in the node's log. A type family of its own; the documents of `gq-model` are embedded as they are.

use gq_model::{
    Assignment, BootId, CardUsed, EndReason, Epoch, Fault, NodeId, Outcome, Reason, RunKey, Seconds, Seq,
    SignalTo, Timestamp,
};
use serde::{Deserialize, Serialize};

/// The version of all records. A log of a newer version is refused untouched. Version 2 added orders beside start, stop and signal, and
/// the records of suspension, version 3 what runs used and when their cards were free; what older ones wrote is read as it was meant.
pub const RECORD_VERSION: u32 = 3;

/// Why a run is to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// Somebody cancelled it.
    Cancel,
    /// It is to run again.
    Requeue,
    /// The controller does not know it.
    Stray,
}

/// An order that was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Taken {
    /// Start a run.
    Start(Box<Assignment>),
    /// Stop a run.
    Stop {
        /// Which run.
        key: RunKey,
        /// Why.
        why: Why,
        /// Why, as its script is told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<EndReason>,
    },
    /// Send a signal to a run.
    Signal {
        /// Which run.
        key: RunKey,
        /// The signal's number.
        signal: u8,
        /// To whom of it.
        #[serde(default)]
        to: SignalTo,
    },
    /// Tell a run that it will be ended.
    Warn {
        /// Which run.
        key: RunKey,
        /// Why.
        reason: EndReason,
    },
    /// Change the time limit of a run.
    Limit {
        /// Which run.
        key: RunKey,
        /// The limit; none means unlimited.
        limit: Option<Seconds>,
    },
    /// Suspend a run.
    Suspend {
        /// Which run.
        key: RunKey,
    },
    /// Let a suspended run go on.
    Resume {
        /// Which run.
        key: RunKey,
    },
}

impl Taken {
    /// The run it speaks of.
    pub fn key(&self) -> RunKey {
        match self {
            Self::Start(assignment) => assignment.key,
            Self::Stop { key, .. }
            | Self::Signal { key, .. }
            | Self::Warn { key, .. }
            | Self::Limit { key, .. }
            | Self::Suspend { key }
            | Self::Resume { key } => *key,
        }
    }
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// What must be known however old the log is: written by `gqnode` at its start and at the head of each segment.
    Life {
        /// The node's life: grows with each boot and each new folder.
        epoch: Epoch,
        /// The boot it was written in.
        boot: BootId,
        /// Which node it is: made with the log. None in logs of old.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_id: Option<NodeId>,
        /// The life of the controller that was heard last.
        controller: Epoch,
        /// Every order up to this number has been taken.
        taken: Seq,
    },
    /// `gqnode` took an order.
    Taken {
        /// The order's number.
        seq: Seq,
        /// The life of the controller that wrote it.
        controller: Epoch,
        /// What it says.
        what: Taken,
    },
    /// The supervisor of a run lives: its first act.
    Up {
        /// Which run.
        key: RunKey,
        /// The supervisor's process id.
        pid: u32,
        /// When that process began, in clock ticks after boot (field 22 of `/proc/PID/stat`): tells it from a later
        /// process of the same number.
        pid_start: u64,
    },
    /// The script of a run was executed.
    Started {
        /// Which run.
        key: RunKey,
        /// When.
        at: Timestamp,
        /// The session of its processes, which is its first process's id.
        session: u32,
    },
    /// The processes of a run were stopped in place.
    Suspended {
        /// Which run.
        key: RunKey,
        /// When.
        at: Timestamp,
    },
    /// They go on.
    Resumed {
        /// Which run.
        key: RunKey,
        /// When.
        at: Timestamp,
    },
    /// The script of a run has ended, and others of its processes are still there a moment later.
    Exited {
        /// Which run.
        key: RunKey,
        /// When.
        at: Timestamp,
    },
    /// A run has ended and nothing of it is left.
    Ended {
        /// Which run.
        key: RunKey,
        /// How.
        outcome: Outcome,
        /// When its script was executed, if it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        started: Option<Timestamp>,
        /// When its script ended.
        ended: Timestamp,
        /// What went wrong in the site's epilog, if something did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epilog: Option<String>,
    },
    /// A run was not started, and nothing of it is left.
    Refused {
        /// Which run.
        key: RunKey,
        /// Whose fault it is.
        fault: Fault,
        /// Why.
        reason: Reason,
        /// Details for people.
        detail: String,
    },
    /// `gqnode` found the cards of a run that has ended free.
    Vacated {
        /// Which run.
        key: RunKey,
        /// What it used of them.
        used: Vec<CardUsed>,
        /// When.
        at: Timestamp,
    },
    /// The controller knows the end of a run: it can be forgotten.
    Acked {
        /// Which run.
        key: RunKey,
    },
}

impl Record {
    /// The run it speaks of; none for [`Record::Life`].
    pub fn key(&self) -> Option<RunKey> {
        match self {
            Self::Life { .. } => None,
            Self::Taken { what, .. } => Some(what.key()),
            Self::Up { key, .. }
            | Self::Started { key, .. }
            | Self::Suspended { key, .. }
            | Self::Resumed { key, .. }
            | Self::Exited { key, .. }
            | Self::Ended { key, .. }
            | Self::Refused { key, .. }
            | Self::Vacated { key, .. }
            | Self::Acked { key } => Some(*key),
        }
    }
}
