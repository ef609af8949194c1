//! Assignments: what one run is to be and what it holds; written by the controller, kept by the node, obeyed by the
//! supervisor. A document (see the crate's head): new fields take a serde default.

use crate::{BootId, CardUse, JobId, MiB, NodeName, RunKey, Seconds, TaskIndex, Uid};
use alloc::{string::String, vec::Vec};
use serde::{Deserialize, Serialize};

/// Most bytes an assignment takes in its serial form.
pub const MAX_ASSIGNMENT: usize = 64 << 10;

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
}
