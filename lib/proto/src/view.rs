//! Views: jobs, nodes and partitions as they are shown. Times are microseconds since 1970 here; clients print seconds.

use gq_model::{Card, JobId, MiB, NodeName, Reason, Seconds, Timestamp, Uid};
use serde::{Deserialize, Serialize};

/// A card or slice that a job holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuView {
    /// On which node.
    pub node: NodeName,
    /// The card's index there.
    pub index: u32,
    /// UUID of the card, or of the slice when one is held; none for declared cards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// The profile of the slice; none for a whole card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<String>,
}

/// A job, or one task of an array, or the tasks of an array that wait for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobView {
    /// The job.
    pub id: JobId,
    /// The same again, when it is an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array_job_id: Option<JobId>,
    /// The task, when it is one of an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array_task_id: Option<u32>,
    /// The tasks of an array that have not started, when it is those: `0-9%2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array_tasks: Option<String>,
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub uid: Uid,
    /// Whose it is, by name (or the uid in digits).
    pub user: String,
    /// Its accounting label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Its partition.
    pub partition: String,
    /// Its state by name.
    pub state: String,
    /// Why it waits, or why it ended so.
    pub reason: Reason,
    /// Details of the reason for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason_detail: Option<String>,
    /// Its place: higher goes first.
    pub priority: i64,
    /// When it was submitted.
    pub submit_time: Timestamp,
    /// Before when it may not start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin_time: Option<Timestamp>,
    /// When its script was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Timestamp>,
    /// When it is expected to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<Timestamp>,
    /// How long it may run; none means unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<Seconds>,
    /// Where it runs or ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeName>,
    /// Cpus it asks for or holds.
    pub cpus: u32,
    /// Memory it asks for or holds.
    pub memory_mib: MiB,
    /// How many whole cards it asks for.
    #[serde(default)]
    pub gpu_count: u32,
    /// The cards it holds or held.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuView>,
    /// Its script's exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// The signal that ended its script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<u8>,
    /// Attempts so far.
    pub run: u32,
    /// Its output file.
    pub stdout: String,
    /// Its error file.
    pub stderr: String,
    /// Its working directory.
    pub work_dir: String,
    /// Its script, as it was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Features it asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// Whether it wants its node alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
}

/// A slice of a card, with who holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceView {
    /// The profile.
    pub profile: String,
    /// Its MIG UUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Who holds it: `17` or `17_3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

/// A card, with who holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardView {
    /// The card as its node reported it (its own slices included).
    pub card: Card,
    /// Who holds it: `17` or `17_3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Its slices, with who holds each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<SliceView>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeView {
    /// Its name.
    pub name: NodeName,
    /// `idle`, `mixed`, `allocated`, `draining`, `drained`, `suspect`, `lost` or `absent` (declared, never seen).
    pub state: String,
    /// Why it is drained, or what is wrong with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its partitions.
    pub partitions: Vec<String>,
    /// Cpus it has.
    pub cpus: u32,
    /// Cpus in use.
    pub cpus_used: u32,
    /// Memory it has.
    pub memory_mib: MiB,
    /// Memory in use.
    pub memory_used_mib: MiB,
    /// Its features.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// Its cards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cards: Vec<CardView>,
    /// Jobs that run there: `17` or `17_3`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<String>,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionView {
    /// Its name.
    pub name: String,
    /// Whether jobs without `-p` go there.
    pub default: bool,
    /// `up`, `drain`, `down` or `inactive`.
    pub state: String,
    /// Its nodes, as a host list.
    pub nodes: String,
    /// Longest time limit; none means unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_time: Option<Seconds>,
    /// Time limit of jobs that name none; none means unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_time: Option<Seconds>,
}
