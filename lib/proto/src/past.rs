//! What is asked of the past as a whole, and what is answered: runs that have ended, and sums of what they held and used.

use crate::{GpuView, ask::state_names};
use gq_model::{JobId, JobState, MiB, NodeName, Reason, Seconds, Timestamp, Uid, Used};
use serde::{Deserialize, Serialize};

/// Most words of one question about the past, lists and begins of periods together.
pub const MAX_PAST_WORDS: usize = 4096;

/// Which runs are meant: those that fit every list that is not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastAsk {
    /// Ended at that time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// And before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Of these jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobId>,
    /// Of these users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<Uid>,
    /// Charged to these accounts, or labelled so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<String>,
    /// In these partitions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<String>,
    /// On these nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeName>,
    /// Ended in these states.
    #[serde(default, with = "state_names")]
    pub states: Vec<JobState>,
    /// Of these names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Also those after which their task went on; sums have them always.
    #[serde(default)]
    pub again: bool,
}

impl PastAsk {
    /// How many words it has.
    pub fn words(&self) -> usize {
        self.jobs.len()
            + self.users.len()
            + self.accounts.len()
            + self.partitions.len()
            + self.nodes.len()
            + self.states.len()
            + self.names.len()
    }
}

/// What sums are made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageBy {
    /// The user.
    User,
    /// The account.
    Account,
    /// The partition.
    Partition,
    /// The node.
    Node,
    /// The state.
    State,
    /// The name.
    Name,
    /// The span of time in which it ended.
    Period,
}

/// Sums of what runs held and used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageAsk {
    /// Which runs.
    pub select: PastAsk,
    /// By what; by nothing, all together.
    #[serde(default)]
    pub by: Vec<UsageBy>,
    /// Begins of spans of time, in order, for [`UsageBy::Period`].
    #[serde(default)]
    pub periods: Vec<Timestamp>,
}

/// A run that has ended, or tasks that never started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunView {
    /// The job.
    pub id: JobId,
    /// Its name; none when nobody knows it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whose it is.
    pub uid: Uid,
    /// Whose it is, by name (or the uid in digits).
    pub user: String,
    /// The account it was charged to, or its label for accounting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Its partition.
    pub partition: String,
    /// Its QOS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// The task, when it is one of an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array_task_id: Option<u32>,
    /// The tasks, when it is those of an array that never started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array_tasks: Option<String>,
    /// Which attempt it was.
    pub run: u32,
    /// Whether its task went on afterwards.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// The state in which it ended, by name.
    pub state: String,
    /// Why.
    pub reason: Reason,
    /// Details for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason_detail: Option<String>,
    /// Its script's exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// The signal that ended its script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<u8>,
    /// When its job was submitted.
    pub submit_time: Timestamp,
    /// When it was given what it held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated: Option<Timestamp>,
    /// When its script was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    /// When it ended.
    pub end_time: Timestamp,
    /// The start that its job was promised first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_promise: Option<Timestamp>,
    /// The start that it was promised last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_promise: Option<Timestamp>,
    /// How long it might run; none means unlimited, or not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<Seconds>,
    /// Where it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// Cpus it held, or asked for.
    pub cpus: u32,
    /// Memory it held, or asked for.
    pub memory_mib: MiB,
    /// The cards it held.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuView>,
    /// What its cards were worth, in thousandths of a card: a slice is its part of one.
    pub worth: u32,
    /// How often its script was begun before.
    #[serde(default)]
    pub restarts: u32,
    /// How long it was suspended, in microseconds.
    #[serde(default)]
    pub suspended: u64,
    /// How often its cards were found idle.
    #[serde(default)]
    pub idle_times: u32,
    /// What was left of its time limit when it was ended for that, in seconds times thousandths of a card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_back: Option<u64>,
    /// What it used, as far as its node measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Box<Used>>,
}

impl RunView {
    /// How long it held what it held, in microseconds; while it was suspended it held it, too.
    pub fn held(&self) -> u64 {
        self.allocated.or(self.start_time).map_or(0, |since| self.end_time.micros_since(since))
    }

    /// How long its script ran, in microseconds; the time it was suspended does not count.
    pub fn ran(&self) -> u64 {
        self.start_time.map_or(0, |start| self.end_time.micros_since(start).saturating_sub(self.suspended))
    }
}

/// What runs that have something in common held and used. Seconds are whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageView {
    /// What they have in common, in the order that was asked for; none where they have nothing there. Of a period it is the number of its begin
    /// among those that were given.
    pub keys: Vec<Option<String>>,
    /// How many runs.
    pub runs: u64,
    /// How many of them were not the last of their task.
    pub again: u64,
    /// Thousandths of a card times seconds.
    pub cards: u64,
    /// Cpus times seconds.
    pub cpus: u64,
    /// MiB times seconds.
    pub memory: u64,
    /// Of the cards what was measured, and of that what was in use.
    pub cards_measured: u64,
    /// See `cards_measured`.
    pub cards_used: u64,
    /// Of the cpus what was measured, and of that what was in use.
    pub cpus_measured: u64,
    /// See `cpus_measured`.
    pub cpus_used: u64,
    /// Of the runs, those whose cards were found idle.
    #[serde(default)]
    pub idle: u64,
    /// Of these, those that were ended or put back for it.
    #[serde(default)]
    pub reclaimed: u64,
    /// What was left of the time limits of those, in thousandths of a card times seconds.
    #[serde(default)]
    pub given_back: u64,
    /// What the cards cost, in millionths; none when none had a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
    /// In what that is paid, when it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
}

/// Bounds of the counts of a distribution, in seconds.
pub const WAIT_BOUNDS: [u64; 8] = [1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400];

/// A distribution of spans of time, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpreadView {
    /// How many.
    pub count: u64,
    /// On average.
    pub mean: u64,
    /// What half of them do not exceed.
    pub p50: u64,
    /// What nine in ten do not exceed.
    pub p90: u64,
    /// What 99 in 100 do not exceed.
    pub p99: u64,
    /// The longest.
    pub max: u64,
    /// How many lie below each of [`WAIT_BOUNDS`] and not below the one before; the last, above all of them.
    #[serde(default)]
    pub counts: Vec<u64>,
}

/// How runs that have something in common waited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitsView {
    /// As in [`UsageView`].
    pub keys: Vec<Option<String>>,
    /// From submission to the first time that a task was given its resources.
    pub wait: SpreadView,
    /// By how much later that was than promised first; in time is 0.
    pub late: SpreadView,
    /// From the end of a run to all that it held being free.
    pub release: SpreadView,
}
