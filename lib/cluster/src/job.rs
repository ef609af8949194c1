//! Jobs: one record however many tasks, with the runs that live now. Never decides what happens to them.

use crate::{Key, Payer};
use alloc::{collections::BTreeMap, string::String, sync::Arc, vec::Vec};
use gq_model::{
    BootId, CardAsk, CardUse, End, IndexSet, JobId, JobSpec, JobState, LicenceAsk, MiB, NodeName, Outcome,
    RunKey, RunNumber, Seconds, TaskIndex, Timestamp, Token, Uid,
};
use serde::{Deserialize, Serialize};

/// Who holds a job back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HeldBy {
    /// Its user: he may release it.
    User,
    /// An admin: only admins release it.
    Admin,
}

/// Memory a task needs on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Memory {
    /// So much.
    Amount(MiB),
    /// All the node has.
    WholeNode,
}

/// What one task needs, fixed at admission.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Demand {
    /// Cpus on one node.
    pub cpus: u32,
    /// Memory on that node.
    pub memory: Memory,
    /// Cards on that node.
    pub cards: CardAsk,
    /// No other job beside it.
    #[serde(default)]
    pub exclusive: bool,
}

/// Everything about a waiting job that matters for its placement: jobs of one shape are one question.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Shape {
    /// The partition.
    pub partition: String,
    /// What one task needs.
    pub demand: Demand,
    /// How long it may run; none means unlimited.
    pub time_limit: Option<Seconds>,
    /// Features its node must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// Nodes it must be on one of; empty means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodelist: Vec<NodeName>,
    /// Nodes it must not be on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<NodeName>,
    /// Licences it holds while it runs, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub licences: Vec<LicenceAsk>,
    /// The advance reservation it runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// Whether cards asked for by memory alone may be slices: one process can use only one, so several go one to each task.
    #[serde(default)]
    pub slices_by_memory: bool,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Its node has been told.
    Starting,
    /// Its script runs.
    Running {
        /// Since when, on the node's clock.
        since: Timestamp,
    },
    /// Its script has ended; what is left of it is being taken back.
    Completing {
        /// When its script was started, if it was.
        since: Timestamp,
        /// When the script ended.
        exited: Timestamp,
    },
}

/// Why a run is being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stopping {
    /// Somebody cancelled it.
    Cancel,
    /// It is to run again.
    Requeue,
    /// It makes room for a more important job.
    Preempt {
        /// Whether it is to run again.
        again: bool,
        /// When its grace is over and it is ended.
        due: Timestamp,
        /// Whether the order to end it was given.
        ordered: bool,
    },
}

/// One attempt at a task, from allocation to release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Which attempt, from 1.
    pub number: RunNumber,
    /// Where.
    pub node: NodeName,
    /// The boot of the node it was given to.
    pub boot: BootId,
    /// Cpus held.
    pub cpus: u32,
    /// Memory held.
    pub memory: MiB,
    /// Cards held.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cards: Vec<CardUse>,
    /// Whether it holds the node alone.
    #[serde(default)]
    pub exclusive: bool,
    /// What it is charged for each second, in thousandths of a card.
    #[serde(default)]
    pub rate: u32,
    /// What its cards are worth, in thousandths of a card.
    #[serde(default)]
    pub worth: u32,
    /// When it was allocated, on the controller's clock.
    pub allocated: Timestamp,
    /// From when its time limit counts, on the controller's clock: its allocation, and its start once that is told.
    pub counted: Timestamp,
    /// When it was last promised to start, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised: Option<Timestamp>,
    /// Where it stands.
    pub phase: Phase,
    /// Why it is being stopped, when it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopping: Option<Stopping>,
}

impl Run {
    /// When its script was started, if it was.
    pub fn started(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Starting => None,
            Phase::Running { since } | Phase::Completing { since, .. } => Some(since),
        }
    }
    /// The state it gives its task while its node is in sight.
    pub fn state(&self) -> JobState {
        match self.phase {
            Phase::Starting => JobState::Starting,
            Phase::Running { .. } => JobState::Running,
            Phase::Completing { .. } => JobState::Completing,
        }
    }
}

/// How the ended tasks of a job ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// How many ended so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<(End, u64)>,
    /// The outcome that a waiting client gets: that of the highest code, the first of equals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<Outcome>,
}

impl Tally {
    pub(crate) fn add(&mut self, outcome: &Outcome, tasks: u64) {
        match self.ends.iter_mut().find(|(end, _)| *end == outcome.end) {
            Some((_, count)) => *count = count.saturating_add(tasks),
            None => self.ends.push((outcome.end, tasks)),
        }
        if self.worst.as_ref().is_none_or(|w| outcome.client_code() > w.client_code()) {
            self.worst = Some(outcome.clone());
        }
    }
}

/// A job that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// Whose it is.
    pub uid: Uid,
    /// Whose it is, by name at submission (or the uid in digits).
    pub user: String,
    /// Its submission's token.
    pub token: Token,
    /// What was asked, word for word.
    pub spec: Arc<JobSpec>,
    /// The accepted job file, relative to the spool directory.
    pub job_file: String,
    /// SHA-256 of that file in hexadecimal.
    pub sha256: String,
    /// When it was accepted.
    pub submitted: Timestamp,
    /// What matters for placement.
    pub shape: Arc<Shape>,
    /// On whose account it runs.
    pub payer: Arc<Payer>,
    /// Its own part of the priority (the rest is its group's): higher goes first.
    pub priority: i64,
    /// Who holds it back, when somebody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldBy>,
    /// Not to be started before: its begin time, or the end of a pause between attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// When it was first told to start, if it was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_promise: Option<Timestamp>,
    /// Whether it is an array (its tasks are shown by index).
    #[serde(default)]
    pub array: bool,
    /// Tasks that wait.
    pub waiting: IndexSet,
    /// Tasks that hold resources.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub runs: BTreeMap<TaskIndex, Run>,
    /// Attempts made so far, of tasks that were tried and wait again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attempts: BTreeMap<TaskIndex, RunNumber>,
    /// Starts in a row that failed by the site's fault.
    #[serde(default)]
    pub launch_failures: u32,
    /// Its ended tasks.
    #[serde(default)]
    pub tally: Tally,
    /// The group it waits in, or waited in last.
    #[serde(skip)]
    pub(crate) group: Key,
}

impl Job {
    /// The group it waits in, or waited in last.
    pub fn group(&self) -> Key {
        self.group
    }
    /// Whether nothing of it waits or runs any more.
    pub fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.runs.is_empty()
    }
    /// Whether it may be started: something of it waits, nobody holds it, its time has come.
    pub fn is_eligible(&self) -> bool {
        !self.waiting.is_empty() && self.held.is_none() && self.not_before.is_none()
    }
    /// The number that the next attempt at `task` gets.
    pub fn next_run(&self, task: TaskIndex) -> RunNumber {
        RunNumber(self.attempts.get(&task).map_or(0, |n| n.0).saturating_add(1))
    }
    /// The key of the live run of `task`.
    pub fn run_key(&self, task: TaskIndex) -> Option<RunKey> {
        self.runs.get(&task).map(|run| RunKey { job: self.id, task, run: run.number })
    }
    /// `17`, or `17_3` for a task of an array.
    pub fn task_name(&self, task: TaskIndex) -> String {
        if self.array { alloc::format!("{}_{task}", self.id) } else { alloc::format!("{}", self.id) }
    }
}
