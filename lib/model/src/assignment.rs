//! Assignments: what one run is to be and what it holds; written by the controller, kept by the node, obeyed by the
//! supervisor. A document (see the crate's head): new fields take a serde default.

use crate::{BootId, CardUse, JobId, MiB, NodeId, NodeName, RunKey, Seconds, SignalAsk, TaskIndex, Uid};
use alloc::{string::String, vec::Vec};
use serde::{Deserialize, Serialize};

/// Most bytes an assignment takes in its serial form.
pub const MAX_ASSIGNMENT: usize = 64 << 10;

/// Which of a job's scripts a run runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// The script.
    #[default]
    Main,
    /// The script that runs first, on cpus alone (`--prep`).
    Prep,
}

/// What a task is told of its array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayBounds {
    /// How many tasks it has.
    pub count: u64,
    /// The lowest index.
    pub min: u32,
    /// The highest.
    pub max: u32,
    /// The distance between indices.
    pub step: u32,
}

/// What one run is to be and what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Which run.
    pub key: RunKey,
    /// The boot of the node it is meant for; another boot refuses it.
    pub boot: BootId,
    /// The node.
    pub node: NodeName,
    /// Whose it is: the owner of the job file.
    pub uid: Uid,
    /// The job file, relative to the spool directory: `jobs/<shard>/<id>.job`.
    pub job_file: String,
    /// SHA-256 of the job file in hexadecimal: other bytes are refused.
    pub sha256: String,
    /// The partition.
    pub partition: String,
    /// The cluster's name.
    pub cluster: String,
    /// Cpus held.
    pub cpus: u32,
    /// Memory held.
    pub memory: MiB,
    /// Cards held.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cards: Vec<CardUse>,
    /// Time limit; none means unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<Seconds>,
    /// From the first signal to the last.
    pub kill_wait: Seconds,
    /// The array the task belongs to; none for a plain job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<(JobId, TaskIndex)>,
    /// Whether `--test-run` is allowed by the conf.
    #[serde(default)]
    pub allow_test_run: bool,
    /// Of which array the task is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<ArrayBounds>,
    /// Which of the job's scripts it runs.
    #[serde(default)]
    pub stage: Stage,
    /// How often the job's script was begun before; none means by the run's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<u32>,
    /// What a run gets beyond its time limit before it is ended.
    #[serde(default)]
    pub over_limit: Seconds,
    /// How long it is until the job's deadline, from when the run is taken over; that stands still for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Seconds>,
    /// A signal before the time limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<SignalAsk>,
    /// The account it is charged to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Its QOS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// Its user's name, as it was at submission.
    #[serde(default)]
    pub user: String,
    /// Its name now, when it is not the one in the job file any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether it may run again, so that it gets a folder for checkpoints.
    #[serde(default)]
    pub may_run_again: bool,
    /// The identity of the node it is meant for; another one refuses it. None means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// How long it goes on when its node is cut off from the controller; none means for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Seconds>,
    /// When its cards count as idle; none when nobody asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleRule>,
}

/// When the cards of a run count as idle: all of them were used for less than so much, over so long and of late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct IdleRule {
    /// How long is looked back on.
    pub after: Seconds,
    /// Percent; whoever uses less uses nothing.
    pub below: u8,
    /// Whether memory that its processes have on a card is use.
    #[serde(default)]
    pub memory_is_use: bool,
}

/// Why a run is being ended, as its script and epilog are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndReason {
    /// Its time limit has passed.
    TimeLimit,
    /// Its deadline has come.
    Deadline,
    /// It makes room for a more important job.
    Preemption,
    /// Somebody cancelled it.
    Cancel,
    /// It is to run again.
    Requeue,
    /// Its node is being drained.
    Drain,
    /// Its node is cut off from the controller.
    NodeLost,
    /// It uses more memory of a card that it shares than it declared.
    GpuMemory,
    /// Its cards were idle for too long.
    IdleCards,
}

impl EndReason {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::TimeLimit,
        Self::Deadline,
        Self::Preemption,
        Self::Cancel,
        Self::Requeue,
        Self::Drain,
        Self::NodeLost,
        Self::GpuMemory,
        Self::IdleCards,
    ];
    /// The word in `GQ_END_REASON`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::TimeLimit => "time-limit",
            Self::Deadline => "deadline",
            Self::Preemption => "preemption",
            Self::Cancel => "cancel",
            Self::Requeue => "requeue",
            Self::Drain => "drain",
            Self::NodeLost => "node-lost",
            Self::GpuMemory => "gpu-memory",
            Self::IdleCards => "idle-cards",
        }
    }
}

/// Who of a run gets a signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignalTo {
    /// Every process.
    #[default]
    All,
    /// The batch shell alone.
    Batch,
    /// Every process but the batch shell; the batch shell when there is no other.
    Steps,
}
