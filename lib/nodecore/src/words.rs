//! The words between the node's mind and its household: inputs, effects, records, reports. They do nothing.

use alloc::{boxed::Box, string::String, vec::Vec};
use core::fmt;
use gq_model::{
    Assignment, Beat, BootId, Bound, Card, CardUsed, EndReason, Epoch, Fault, MiB, NodeId, NodeName, Outcome,
    Reason, RunKey, Seconds, Seq, SignalTo, Timestamp, Uid,
};

/// Whose jobs a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// Everybody's but root's and those of the account that `gqd` runs as.
    Users {
        /// That account.
        gqd: Uid,
    },
    /// Those of one user alone (personal mode).
    Only(Uid),
}

/// Who this node is, in this life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its name.
    pub node: NodeName,
    /// Which node it is: made with its log.
    pub id: NodeId,
    /// This boot of its machine.
    pub boot: BootId,
    /// This life of the node: reports are numbered from 1 in it.
    pub epoch: Epoch,
    /// Whose jobs it runs.
    pub serves: Serves,
}

/// What the machine has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Cpus.
    pub cpus: u32,
    /// Memory.
    pub memory: MiB,
    /// Cards.
    pub cards: Vec<Card>,
    /// What runs are not bounded in there.
    pub unbound: Vec<Bound>,
}

/// Why a run is to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopWhy {
    /// Somebody cancelled it.
    Cancel,
    /// It is to run again.
    Requeue,
    /// The controller does not know it.
    Stray,
}

/// How a run is to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Why, as its outcome says.
    pub why: StopWhy,
    /// Why, as its script is told; none when it is told nothing.
    pub reason: Option<EndReason>,
}

/// What the controller wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Start a run.
    Start(Box<Assignment>),
    /// End a run.
    Stop(RunKey, Stop),
    /// Send a signal to processes of a run.
    Signal(RunKey, u8, SignalTo),
    /// Tell a run that it will be ended, and why; it goes on.
    Warn(RunKey, EndReason),
    /// The time limit of a run is this now; none means unlimited.
    Limit(RunKey, Option<Seconds>),
    /// Stop the processes of a run in place.
    Suspend(RunKey),
    /// Let a suspended run go on.
    Resume(RunKey),
}

/// What the node's log says, in the order in which it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// What must be known however old the log is.
    Life {
        /// Highest life of the controller seen by then.
        controller: Epoch,
        /// Every order up to this number has been taken.
        taken: Seq,
    },
    /// An order was taken.
    Taken {
        /// Its number.
        seq: Seq,
        /// Highest life of the controller seen by then.
        controller: Epoch,
        /// What it says.
        order: Order,
    },
    /// The supervisor of a run is up; nothing of the user's has run yet.
    Up {
        /// Which run.
        key: RunKey,
    },
    /// The script of a run was started.
    Started {
        /// Which run.
        key: RunKey,
        /// When.
        at: Timestamp,
    },
    /// A run was suspended.
    Suspended {
        /// Which run.
        key: RunKey,
        /// When.
        at: Timestamp,
    },
    /// A suspended run goes on.
    Resumed {
        /// Which run.
        key: RunKey,
        /// When.
        at: Timestamp,
    },
    /// The script of a run has ended.
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
        /// When its script was started, if it was.
        started: Option<Timestamp>,
        /// When it ended.
        ended: Timestamp,
        /// What went wrong in the site's epilog, if something did.
        epilog: Option<String>,
    },
    /// A run was not started.
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
    /// The cards of a run that has ended are free, and what it used of them was measured.
    Vacated {
        /// Which run.
        key: RunKey,
        /// What it used of them.
        used: Vec<CardUsed>,
        /// When they were free.
        at: Timestamp,
    },
    /// The end of a run was acknowledged; nothing more is owed.
    Acked {
        /// Which run.
        key: RunKey,
    },
}

impl Record {
    /// Whether it is the end of a run: what the controller forgets the run upon.
    pub const fn is_end(&self) -> bool {
        matches!(self, Self::Ended { .. } | Self::Refused { .. })
    }
}

/// What the controller's head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadSeen {
    /// The controller's life.
    pub epoch: Epoch,
    /// Lowest order it still keeps.
    pub lowest: Seq,
    /// Highest order it ever wrote.
    pub highest: Seq,
    /// The life of this node that `ack` speaks of.
    pub ack_epoch: Epoch,
    /// Every report up to this number was taken.
    pub ack: Seq,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Of a run without an end that was restored: whether its supervisor lives.
    Adopted {
        /// Which run.
        key: RunKey,
        /// Whether its supervisor lives.
        alive: bool,
        /// Now.
        at: Timestamp,
    },
    /// All restored runs were looked at: the node may speak.
    Join(Machine),
    /// The controller's head was read.
    Head(HeadSeen),
    /// Letters can be sent, and none of this life need have arrived.
    LinkUp,
    /// Letters cannot be sent.
    LinkDown,
    /// An order arrived.
    Order {
        /// Its number.
        seq: Seq,
        /// What it says.
        order: Order,
        /// Now.
        at: Timestamp,
    },
    /// Reports of one life of this node were taken up to a number.
    Acked {
        /// The life.
        epoch: Epoch,
        /// The number.
        up_to: Seq,
    },
    /// The controller has said that it saw this node as it was at `beat`, when it had written orders up to `up_to`.
    Seen {
        /// The sign of life that it saw.
        beat: Beat,
        /// The last order that it had written when it said so.
        up_to: Seq,
    },
    /// Something was read in the log that a supervisor (or this node) wrote.
    Logged(Record),
    /// A supervisor could not be launched.
    LaunchFailed {
        /// Of which run.
        key: RunKey,
        /// Why, in one word.
        reason: Reason,
        /// Why.
        detail: String,
    },
    /// A supervisor's process is gone, and all it wrote has been handed in.
    SupervisorGone {
        /// Of which run.
        key: RunKey,
    },
    /// The processes of a run were looked for and killed.
    Swept {
        /// Which run.
        key: RunKey,
        /// How many were left.
        left: u32,
        /// Now.
        at: Timestamp,
    },
    /// The cards were looked at.
    Cards(Vec<Card>),
    /// A run uses more memory of a card that it shares than it declared.
    Overused {
        /// Which run.
        key: RunKey,
        /// How much it uses.
        used: MiB,
    },
    /// The cards of a run were found idle since then; none when they are not.
    Idle {
        /// Which run.
        key: RunKey,
        /// Since when.
        since: Option<Timestamp>,
    },
    /// Why nothing can be started at present; none when it can.
    Trouble(Option<String>),
    /// The cards of a run that has ended were looked at: nobody uses them, or [`Input::Cards`] said before that they are failing.
    Vacated {
        /// Which run.
        key: RunKey,
        /// What it used of them, as far as this life of the node has seen it.
        used: Vec<CardUsed>,
        /// Now.
        at: Timestamp,
    },
}

/// What a supervisor is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// End the run.
    Stop(Stop),
    /// Send a signal to processes of it.
    Signal(u8, SignalTo),
    /// Tell the run that it will be ended, and why.
    Warn(EndReason),
    /// The time limit is this now; none means unlimited.
    Limit(Option<Seconds>),
    /// Stop its processes in place.
    Suspend,
    /// Let them go on.
    Resume,
    /// It may go on until then, so many seconds after the boot of the machine.
    Lease(Seconds),
    /// End the run: it uses so much of the memory of a card that it shares, which is more than it declared.
    Overused(MiB),
}

/// Why a controller is not listened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnAway {
    /// It is of an earlier life than one seen before.
    OldLife {
        /// Its life.
        epoch: Epoch,
        /// The highest seen.
        seen: Epoch,
    },
    /// Its orders end before the last one taken: its state was put back to an older copy.
    OldState {
        /// Its highest order.
        highest: Seq,
        /// The highest taken.
        taken: Seq,
    },
    /// An order is missing before this one.
    Gap {
        /// The number expected.
        expected: Seq,
        /// The number that came.
        got: Seq,
    },
}

impl fmt::Display for TurnAway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OldLife { epoch, seen } => write!(
                f,
                "gqd is in its life {epoch}, and this node has obeyed life {seen}: an old copy of gqd's state, or a second gqd"
            ),
            Self::OldState { highest, taken } => write!(
                f,
                "gqd's orders end at {highest}, and this node has taken {taken}: gqd's state was put back to an older copy"
            ),
            Self::Gap { expected, got } => write!(f, "order {got} came where {expected} was expected"),
        }
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Append a record to the log, before anything else of the same decision is done.
    Append(Record),
    /// Launch a supervisor.
    Launch(Box<Assignment>),
    /// Tell a supervisor.
    Control(RunKey, Control),
    /// Kill what is left of a run; `again` when that was tried before.
    Sweep {
        /// Which run.
        key: RunKey,
        /// Whether some were left the last time.
        again: bool,
    },
    /// Look whether the cards of a run that has ended are free; answered by [`Input::Vacated`].
    Vacate(RunKey),
    /// Remove what is kept of a run: its end was acknowledged.
    Forget(RunKey),
    /// Close the connection: this controller is not listened to.
    TurnAway(TurnAway),
    /// Orders are gone that this node once took (it lost its log): say so.
    Skipped {
        /// The first one gone.
        from: Seq,
        /// The last one gone.
        to: Seq,
    },
}

/// A run that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveRun {
    /// Which run.
    pub key: RunKey,
    /// When its script was started, if it was.
    pub started: Option<Timestamp>,
}

/// What the controller is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The first of every life.
    Joined {
        /// This boot.
        boot: BootId,
        /// Which node it is.
        id: NodeId,
        /// What the machine has.
        machine: Machine,
        /// Runs that live.
        runs: Vec<LiveRun>,
        /// Orders taken so far.
        taken: Seq,
    },
    /// The script of a run was started.
    Started {
        /// Which run.
        key: RunKey,
        /// When.
        at: Timestamp,
    },
    /// A run was suspended.
    Suspended {
        /// Which run.
        key: RunKey,
        /// When.
        at: Timestamp,
    },
    /// A suspended run goes on.
    Resumed {
        /// Which run.
        key: RunKey,
        /// When.
        at: Timestamp,
    },
    /// The cards of a run are idle since then; none when they are not any more.
    Idle {
        /// Which run.
        key: RunKey,
        /// Since when.
        since: Option<Timestamp>,
    },
    /// The script of a run has ended.
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
        /// When its script was started, if it was.
        started: Option<Timestamp>,
        /// When it ended.
        ended: Timestamp,
        /// What went wrong in the site's epilog, if something did.
        epilog: Option<String>,
    },
    /// A run was not started.
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
    /// The cards changed.
    Cards(Vec<Card>),
    /// Why nothing can be started at present; none when it can again.
    Trouble(Option<String>),
}

impl Report {
    /// The run whose end this is; none when it is no end.
    pub const fn end_of(&self) -> Option<RunKey> {
        match self {
            Self::Ended { key, .. } | Self::Refused { key, .. } => Some(*key),
            Self::Joined { .. }
            | Self::Started { .. }
            | Self::Suspended { .. }
            | Self::Resumed { .. }
            | Self::Idle { .. }
            | Self::Exited { .. }
            | Self::Cards(_)
            | Self::Trouble(_) => None,
        }
    }
}
