//! What a user asked: the request as the client resolved it from options, environment and directives.
//!
//! This is a document: it is the head of the job file (whose version guards it) and is kept word for word with the job.
//! New fields take a serde default, so that old job files and rows stay readable.

use crate::{ArrayAsk, Card, Dependency, IndexSet, MiB, Seconds, Timestamp};
use alloc::{string::String, vec::Vec};
use serde::{Deserialize, Serialize};

/// Longest job name, in bytes.
pub const MAX_NAME: usize = 1024;
/// Longest comment, in bytes.
pub const MAX_COMMENT: usize = 4096;
/// How often a task that failed may be tried again at the most.
pub const MAX_RETRIES: u32 = 1000;
/// The highest number of a signal on Linux; the lowest is 1.
pub const MAX_SIGNAL: u8 = 64;
/// Longest line of `--each`, in bytes: it has to fit into a variable of the environment.
pub const MAX_ITEM: usize = 64 << 10;
/// The limits of a shell that go with a job, those of Slurm; each name once, in any order.
pub const RESOURCE_LIMITS: [&str; 10] =
    ["as", "core", "cpu", "data", "fsize", "memlock", "nofile", "nproc", "rss", "stack"];
/// Largest script, in bytes.
pub const MAX_SCRIPT: usize = 4 << 20;
/// Largest request, in bytes of JSON: every live job's is held in memory.
pub const MAX_REQUEST: usize = 128 << 10;
/// Largest job file (request, environment, arguments and script), in bytes.
pub const MAX_JOB_FILE: usize = 8 << 20;

/// How long a job may run, where that was said. Its serial form is the seconds, or `"UNLIMITED"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeAsk {
    /// As long as its partition (and its QOS) allows.
    #[serde(rename = "UNLIMITED")]
    Longest,
    /// So long at the most.
    #[serde(untagged)]
    Limit(Seconds),
}

/// How much memory was asked for, and per what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MemoryAsk {
    /// Nothing was said: the cluster's default per cpu.
    #[default]
    Default,
    /// All memory of the node (`--mem=0`).
    WholeNode,
    /// So much on the node.
    PerNode(MiB),
    /// So much for each cpu.
    PerCpu(MiB),
    /// So much for each card.
    PerCard(MiB),
}

/// Which cards or slices were asked for. Empty (count 0) when none were.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CardAsk {
    /// How many whole cards, or slices of `profile`; with `memory` and without `profile`, so many of the smallest slices or cards that
    /// fit.
    pub count: u32,
    /// The profile of the slices, in lower case, when slices were asked for (`--slice`, `--gres=gpu:1g.10gb`); none means whole cards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The model by name (see `Card::is_model`), when one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Least memory of each card, when said (`--gpu-mem`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MiB>,
    /// Memory of one card that other jobs may share, when that was asked for (`--gpu-share`); `count` is 1 then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<MiB>,
}

impl CardAsk {
    /// Whether a card is of the model that is asked for, if one is.
    pub fn names(&self, card: &Card) -> bool {
        self.model.as_ref().is_none_or(|model| card.is_model(model))
    }
}

/// So many of a cluster-wide licence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LicenceAsk {
    /// Its name.
    pub name: String,
    /// How many; at least 1.
    pub count: u32,
}

/// What happens to an output file that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpenMode {
    /// Its old content goes.
    #[default]
    Truncate,
    /// What is written comes behind its old content.
    Append,
}

/// One resource limit of the submitting shell (`RLIMIT_*`), carried to the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimit {
    /// The limit's name in lower case without `RLIMIT_`: one of [`RESOURCE_LIMITS`].
    pub name: String,
    /// The soft limit; none means unlimited. The node never raises it above its own hard limit.
    pub soft: Option<u64>,
}

/// Run a sleeper instead of the script (`--test-run`), so that many jobs can cross every real hop on a small machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestRun {
    /// How long it sleeps, in microseconds.
    pub micros: u64,
    /// The code it exits with.
    pub exit: u8,
}

/// A signal that is sent some time before the time limit (`--signal`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalAsk {
    /// Its number.
    pub signal: u8,
    /// How long before the limit.
    pub before: Seconds,
    /// Whether the batch shell gets it, and nobody else; else every process but the batch shell does.
    #[serde(default)]
    pub batch: bool,
}

/// What happens to a job that has waited too long (`--max-wait`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitEnd {
    /// Its user is told.
    Notify,
    /// It gets all the priority that the longest wait would give it; an admin's goes before all others.
    Boost,
    /// It is cancelled.
    Cancel,
}

/// How long a job may wait, and what happens then (`--max-wait`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaxWait {
    /// How long from its submission.
    pub after: Seconds,
    /// What happens then.
    pub then: WaitEnd,
}

/// How often a task that failed is tried again (`--retry`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryAsk {
    /// How often, besides the first time.
    pub times: u32,
    /// After which exit codes, each once, in order; empty means any but 0, and any signal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exits: Vec<u8>,
}

/// Whether a job runs again by itself after its node failed or it made room (`--requeue`, `--no-requeue`). In its serial form `true`,
/// `false` or `"on-lost"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RequeueForm", into = "RequeueForm")]
pub enum Requeue {
    /// Never.
    Never,
    /// When it is known that its run is dead.
    Dead,
    /// Also when its node was out of sight for so long that its run has ended itself.
    OnLost,
}

impl Requeue {
    /// Whether it runs again at all.
    pub const fn is_wanted(self) -> bool {
        matches!(self, Self::Dead | Self::OnLost)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum RequeueForm {
    Plain(bool),
    Word(RequeueWord),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RequeueWord {
    OnLost,
}

impl From<RequeueForm> for Requeue {
    fn from(form: RequeueForm) -> Self {
        match form {
            RequeueForm::Plain(false) => Self::Never,
            RequeueForm::Plain(true) => Self::Dead,
            RequeueForm::Word(RequeueWord::OnLost) => Self::OnLost,
        }
    }
}

impl From<Requeue> for RequeueForm {
    fn from(requeue: Requeue) -> Self {
        match requeue {
            Requeue::Never => Self::Plain(false),
            Requeue::Dead => Self::Plain(true),
            Requeue::OnLost => Self::Word(RequeueWord::OnLost),
        }
    }
}

/// What a user wants a message about (`--mail-type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MailOn {
    /// It starts.
    Begin,
    /// It ends.
    End,
    /// It ends otherwise than COMPLETED.
    Fail,
    /// It waits again.
    Requeue,
    /// Half of its time limit is over.
    Half,
    /// 80 % of it is over.
    Eighty,
    /// 90 % of it is over.
    Ninety,
    /// Its cards are idle.
    Idle,
    /// One message for each task of an array, not one for all.
    EachTask,
}

/// Messages that a user wants (`--mail-type`, `--mail-user`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailAsk {
    /// About what; each once, in order.
    pub on: Vec<MailOn>,
    /// To whom; none means the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// A job's request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// The job's name: no control characters, at most [`MAX_NAME`] bytes.
    pub name: String,
    /// `-A`: a label for accounting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// `-q`; none means the default QOS, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// `--reservation`: the advance reservation that it runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// `-L`: each name once, in order of name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub licences: Vec<LicenceAsk>,
    /// `--comment`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// `-p`; none means the default partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// `-t`; none means the partition's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<TimeAsk>,
    /// `--begin`: not to be started before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<Timestamp>,
    /// `-H`: held at submission.
    #[serde(default)]
    pub hold: bool,
    /// `--nice`: lowers the priority; below 0 for admins only.
    #[serde(default)]
    pub nice: i32,
    /// `-n`: number of processes the job means to launch; none when not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ntasks: Option<u32>,
    /// `--ntasks-per-node`, when said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ntasks_per_node: Option<u32>,
    /// `-c`, when said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus_per_task: Option<u32>,
    /// `--mem`, `--mem-per-cpu` or `--mem-per-gpu`.
    #[serde(default)]
    pub memory: MemoryAsk,
    /// The cards, summed over all ways to ask for them.
    #[serde(default)]
    pub cards: CardAsk,
    /// `--gpus-per-node`, when said: only to set the variable of that name in the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus_per_node: Option<u32>,
    /// `--gpus-per-task`, when said: only to set the variable of that name in the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus_per_task: Option<u32>,
    /// `-C`: all of these features.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// `-w`: one of these nodes; empty means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodelist: Vec<crate::NodeName>,
    /// `-x`: none of these nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<crate::NodeName>,
    /// `--exclusive`: no other job on the node.
    #[serde(default)]
    pub exclusive: bool,
    /// `-D`, or the directory of the submission; absolute.
    pub work_dir: String,
    /// `-o`: pattern of the output file; none means `gq-%j.out` (`gq-%A_%a.out` in an array).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// `-e`: pattern of the error file; none means the output file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// `-i`: pattern of the input file; none means `/dev/null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// `--open-mode`.
    #[serde(default)]
    pub open_mode: OpenMode,
    /// Umask of the submitting shell.
    pub umask: u32,
    /// Limits of the submitting shell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<ResourceLimit>,
    /// Host the job was submitted from.
    #[serde(default)]
    pub submit_host: String,
    /// Directory the job was submitted from; absolute.
    #[serde(default)]
    pub submit_dir: String,
    /// The script's path as it was given, for listings; none for `--wrap` and standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// `--array`: the tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayAsk>,
    /// `-d`: what it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependency: Option<Dependency>,
    /// `--kill-on-invalid-dep`: whether it is ended when its dependency can no longer be met; none means as the conf says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kill_on_invalid_dep: Option<bool>,
    /// `--prep`: the job file holds a script that runs first, on cpus alone.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub prep: bool,
    /// `--time-min`: the time limit may be lowered so far, to start earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_min: Option<Seconds>,
    /// `--deadline`: it must have ended by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// `--signal`: a signal before the time limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<SignalAsk>,
    /// `--max-wait`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_wait: Option<MaxWait>,
    /// `--requeue`, `--no-requeue`: whether it may run again after its node failed or it made room; none means as the conf says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue: Option<Requeue>,
    /// `--retry`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryAsk>,
    /// `--checkpoint`: pattern of the folder that stays through its runs, below the working directory; empty means the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// `--get-user-env`: the environment is that of a login, for which so long is waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub get_user_env: Option<Seconds>,
    /// `--container`: the image that it runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// `--mail-type`, `--mail-user`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<MailAsk>,
    /// `--idle-ok`: why its cards may be idle; at most [`MAX_NAME`] bytes, not empty, no control characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ok: Option<String>,
    /// `--test-run`, when said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_run: Option<TestRun>,
}

impl JobSpec {
    /// How many processes the job means to launch: `-n`, else `--ntasks-per-node` (on its one node), else 1.
    pub fn process_count(&self) -> u32 {
        self.ntasks.or(self.ntasks_per_node).unwrap_or(1).max(1)
    }
    /// Its tasks: those of its array, else one.
    pub fn tasks(&self) -> IndexSet {
        self.array.as_ref().map_or_else(|| IndexSet::range(0, 0), |array| array.tasks.clone())
    }
    /// How many cpus the job needs on its node; saturates.
    pub fn cpus(&self) -> u32 {
        self.process_count().saturating_mul(self.cpus_per_task.unwrap_or(1).max(1))
    }
}
