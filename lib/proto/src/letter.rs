//! Orders and reports: numbered letters between controller and node, the same over the socket and as files.
//!
//! Each direction is numbered by its sender; the sender keeps a letter until its number is acknowledged and sends the
//! same bytes again; the receiver drops what it has seen. A [`Head`] opens every connection and, as the file `HEAD`,
//! stands in every letter directory: it says who writes, in which life, up to which number, and how far the other side
//! was read.

use gq_model::{
    Assignment, Beat, BootId, Bound, Card, ClusterId, EndReason, Epoch, MiB, NodeId, NodeName, Outcome,
    RunKey, Seconds, Seq, SignalTo, Timestamp,
};
use serde::{Deserialize, Serialize};

/// The version of all letters between controller and node.
pub const LETTER_VERSION: u32 = 1;

/// Longest refusal in a [`Head`], in bytes.
pub const MAX_REFUSAL: usize = 1024;

/// Most cards of one node that are told of.
pub const MAX_CARDS_NOW: usize = 256;

/// What a card does at a moment. What is none is not told by its driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardNow {
    /// Its UUID.
    pub uuid: String,
    /// How busy it is, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<u8>,
    /// How much of its memory is taken, by whomever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MiB>,
}

/// The state of one direction, as its sender sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// [`LETTER_VERSION`].
    pub version: u32,
    /// The cluster both belong to.
    pub cluster: ClusterId,
    /// The node (the sender, or the one written to).
    pub node: NodeName,
    /// The sender's life.
    pub epoch: Epoch,
    /// The node's boot; none from the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<BootId>,
    /// Which node: the sender, or the one that the controller listens to; none when it listens to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// Grows with every writing of `HEAD`: a sign of life. A node's is a [`Beat`].
    pub beat: u64,
    /// From the controller: the last sign of life that it saw in the life `ack_epoch`.
    #[serde(default)]
    pub seen: Beat,
    /// Lowest number still kept; `highest + 1` when none is.
    pub lowest: Seq,
    /// Highest number written; 0 when none was.
    pub highest: Seq,
    /// The life of the other side that `ack` speaks of.
    pub ack_epoch: Epoch,
    /// From the controller, in a file: the last life of the node that it had heard of when it began to listen to the life `ack_epoch`.
    #[serde(default)]
    pub past: Epoch,
    /// Every letter of the other side up to this number has been taken.
    pub ack: Seq,
    /// From the controller: why it does not listen to the node that wrote last; of at most [`MAX_REFUSAL`] bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// From a node, in a file: what its cards do, as it was seen last; none of a node that does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cards: Option<Vec<CardNow>>,
}

/// A numbered letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letter<B> {
    /// Its number in its direction.
    pub seq: Seq,
    /// The life of the sender that wrote it.
    pub epoch: Epoch,
    /// What it says.
    pub body: B,
}

/// What goes through a connection after the heads: an acknowledgement and any number of letters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letters<B> {
    /// Every letter of the other side up to this number has been taken.
    pub ack: Seq,
    /// From a node: a sign of life, when it gives one; from the controller: the last that it saw in the node's present life.
    #[serde(default)]
    pub beat: Beat,
    /// From a node: what its cards do, when that is another than it was; at most [`MAX_CARDS_NOW`]. Nobody keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cards: Option<Vec<CardNow>>,
    /// Letters, in order.
    pub letters: Vec<Letter<B>>,
}

/// A letter from the controller to a node.
pub type Order = Letter<OrderBody>;
/// A letter from a node to the controller.
pub type Report = Letter<ReportBody>;

/// Why a run is to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopWhy {
    /// Somebody cancelled it.
    Cancel,
    /// It is to run again.
    Requeue,
    /// The controller does not know it, or misses it: the node ends it if it lives, and says how it ended.
    Stray,
}

/// What the controller tells a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OrderBody {
    /// Start a run. Of a known run: repeat its last report.
    Start(Box<Assignment>),
    /// End a run: the gentle signal, then the hard one. Of an unknown run: report it ended.
    Stop {
        /// Which run.
        key: RunKey,
        /// Why.
        why: StopWhy,
        /// What the script is told of it; none when it is told nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<EndReason>,
    },
    /// Send a signal to processes of a run.
    Signal {
        /// Which run.
        key: RunKey,
        /// The signal's number.
        signal: u8,
        /// To whom of it.
        #[serde(default)]
        to: SignalTo,
    },
    /// Tell a run that it will be ended, and why; then the gentle signal, and nothing more.
    Warn {
        /// Which run.
        key: RunKey,
        /// Why.
        reason: EndReason,
    },
    /// The time limit of a run is this now, counted as before; none means unlimited.
    Limit {
        /// Which run.
        key: RunKey,
        /// The limit.
        limit: Option<Seconds>,
    },
    /// Stop the processes of a run in place; its time limit does not count meanwhile.
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

/// A run that lives on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveRun {
    /// Which run.
    pub key: RunKey,
    /// When its script was started; none while it is being set up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
}

/// What a node tells the controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReportBody {
    /// The first letter of every life: what the node has and which runs live on it. Ends that were never acknowledged
    /// follow as letters of their own.
    Joined {
        /// This boot of the node.
        boot: BootId,
        /// Which node it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_id: Option<NodeId>,
        /// Cpus found.
        cpus: u32,
        /// Memory found.
        memory: MiB,
        /// Cards found and declared.
        cards: Vec<Card>,
        /// What runs are not bounded in there.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unbound: Vec<Bound>,
        /// Runs that live.
        runs: Vec<LiveRun>,
        /// Orders taken so far: a run whose START is among them and which is not listed has ended.
        orders_taken: Seq,
    },
    /// The script of a run was started.
    Started {
        /// Which run.
        key: RunKey,
        /// When, on the node's clock.
        at: Timestamp,
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
    },
    /// The cards of a run are idle, or not any more. Of runs alone whose assignment says when cards are idle.
    Idle {
        /// Which run.
        key: RunKey,
        /// Since when all of them are, on the node's clock; none when they are not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<Timestamp>,
    },
    /// The script of a run has ended; its other processes are being killed.
    Exited {
        /// Which run.
        key: RunKey,
        /// When, on the node's clock.
        at: Timestamp,
    },
    /// A run has ended and nothing of it is left; its resources are free.
    Ended {
        /// Which run.
        key: RunKey,
        /// How.
        outcome: Outcome,
        /// When its script was started, if it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        started: Option<Timestamp>,
        /// When it ended, on the node's clock.
        ended: Timestamp,
        /// What went wrong in the site's epilog, if something did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epilog: Option<String>,
    },
    /// A run was not started, and its resources are free.
    Refused {
        /// Which run.
        key: RunKey,
        /// Whose fault it is.
        fault: gq_model::Fault,
        /// Why.
        reason: gq_model::Reason,
        /// Details for people.
        detail: String,
    },
    /// The cards of the node changed (one failed, one came back).
    Cards {
        /// All cards.
        cards: Vec<Card>,
    },
    /// The node can start nothing at present, or can again.
    Trouble {
        /// Why not; none when it can.
        why: Option<String>,
    },
}
