//! Views: jobs, nodes and partitions as they are shown. Times are microseconds since 1970 here; clients print seconds.

use gq_model::{
    Bound, Card, CardTime, JobId, LicenceAsk, MiB, NodeName, Placement, Reason, Seconds, Timestamp, Uid, Used,
};
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
    /// The profile of the slice; none for a card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<String>,
    /// How much memory of the card was declared, when it is shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_mib: Option<MiB>,
}

/// How far an array is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayView {
    /// Which.
    pub id: JobId,
    /// How many tasks it has.
    pub tasks: u64,
    /// How many wait.
    pub waiting: u64,
    /// How many hold resources.
    pub running: u64,
    /// How many ended how, by the state's name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<(String, u64)>,
    /// How many may run at a time; none means as many as fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<u32>,
    /// When its first task was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// Tasks ended in a thousand seconds, since the first one was started; none before one has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// When the last one will have ended if it goes on like that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_end: Option<Timestamp>,
}

/// A job, or one task of an array, or the tasks of an array that wait for one reason or ended alike.
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
    /// The tasks of an array that wait for one reason, or ended alike, when it is those: `0-9%2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array_tasks: Option<String>,
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub uid: Uid,
    /// Whose it is, by name (or the uid in digits).
    pub user: String,
    /// The account it is charged to, or its label for accounting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Its QOS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// The advance reservation it asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// The licences it holds while it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub licences: Vec<LicenceAsk>,
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
    /// Where it is expected to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_node: Option<NodeName>,
    /// The start it was promised first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_promise: Option<Timestamp>,
    /// The start it was promised last before it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_promise: Option<Timestamp>,
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
    /// How many cards, or slices of `gpu_profile`, it asks for.
    #[serde(default)]
    pub gpu_count: u32,
    /// The profile of the slices it asks for; none for cards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_profile: Option<String>,
    /// The model of the cards it asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_model: Option<String>,
    /// The least memory of each card or slice it asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory_mib: Option<MiB>,
    /// The memory of a card it asks for a share of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_share_mib: Option<MiB>,
    /// The cards it holds or held.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuView>,
    /// Its script's exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// The signal that ended its script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<u8>,
    /// What it used, as far as its node measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Box<Used>>,
    /// Attempts so far.
    pub run: u32,
    /// How often it was started again.
    #[serde(default)]
    pub restarts: u32,
    /// Which of its scripts runs or is next, `prep` or `main`; none when it has no script that runs first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// Since when it is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Timestamp>,
    /// How long it was suspended before that, in microseconds.
    #[serde(default)]
    pub suspended_before: u64,
    /// Since when its cards are idle, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_since: Option<Timestamp>,
    /// When it is ended or put back for that, unless it uses them again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_until: Option<Timestamp>,
    /// Why they may be, as its user says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ok: Option<String>,
    /// What it waits for, as `afterok:17`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependency: Option<String>,
    /// By when it must have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// How far its time limit may be lowered to start it earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_min: Option<Seconds>,
    /// How many tasks of its array may run at a time; none means as many as fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array_throttle: Option<u32>,
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

impl JobView {
    /// By how much its start came later than it was promised first, in microseconds (below 0: earlier); none when it was promised
    /// nothing, or has not started.
    pub fn promise_error(&self) -> Option<i64> {
        Some(self.start_time?.0.saturating_sub(self.first_promise?.0))
    }
}

/// A slice of a card, with who holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceView {
    /// The profile.
    pub profile: String,
    /// Its MIG UUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Its memory, when that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<MiB>,
    /// Where it lies on its card, when that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Why it cannot be handed out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Who holds it: `17` or `17_3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

/// Parts of a card that a job holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartView {
    /// Who holds them: `17` or `17_3`.
    pub job: String,
    /// How many.
    pub parts: u32,
    /// The memory that was declared.
    pub memory_mib: MiB,
}

/// A card, with who holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardView {
    /// The card as its node reported it (its own slices included).
    pub card: Card,
    /// Who holds the whole of it: `17` or `17_3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// How busy it is now, in percent; none when nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<u8>,
    /// How much of its memory is taken now, by whomever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_taken: Option<MiB>,
    /// Who holds parts of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartView>,
    /// How many of its parts nobody holds; none when it is not shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_parts: Option<u32>,
    /// Its slices, with who holds each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<SliceView>,
    /// Units of its grid that nobody holds; none when it is not in MIG mode or its grid is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_units: Option<u32>,
    /// What can still be had of it at once: each a set of slices that fit together, the largest first, as `2g.20gb+1g.10gb`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub free: Vec<String>,
}

impl CardView {
    /// Whether somebody holds it, or a slice or part of it.
    pub fn is_held(&self) -> bool {
        self.job.is_some() || !self.parts.is_empty() || self.slices.iter().any(|slice| slice.job.is_some())
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeView {
    /// Its name.
    pub name: NodeName,
    /// `idle`, `mixed`, `allocated`, `draining`, `drained`, `clearing` (it ends runs that nobody waits for any more), `suspect`, `lost` or
    /// `absent` (declared, never seen).
    pub state: String,
    /// Why it is drained, or what is wrong with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What runs are not bounded in there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unbound: Vec<Bound>,
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

/// Why a job waits, and what would help: for `gqstat --why`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplanationView {
    /// The job.
    pub id: JobId,
    /// The reason.
    pub reason: Reason,
    /// When and where it is expected to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<(Timestamp, NodeName)>,
    /// What it waits for, in words: `2 cards`, `1 of licence matlab`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
    /// Who holds it, the one that is due first in front.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<HolderView>,
    /// The first jobs that go before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ahead: Vec<JobId>,
    /// How many jobs go before it.
    #[serde(default)]
    pub ahead_count: u64,
    /// What would start at once instead, in words: `with --time=2:00:00 or less`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instead: Vec<String>,
}

/// A job that holds what another one waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderView {
    /// Which: `17` or `17_3`.
    pub job: String,
    /// Where.
    pub node: NodeName,
    /// What it holds, in words.
    pub holds: String,
    /// When its time limit passes.
    pub due: Timestamp,
}

/// What makes up the priority of a job that waits. Each part is weighted already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriorityView {
    /// The job.
    pub id: JobId,
    /// Whose it is, by name.
    pub user: String,
    /// The account it is charged to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Its partition.
    pub partition_name: String,
    /// Of the time it has waited.
    pub age: i64,
    /// Of having used less than its share.
    pub fair_share: i64,
    /// Of its size.
    pub size: i64,
    /// Of its partition.
    pub partition: i64,
    /// Of its QOS.
    pub qos: i64,
    /// What its user took away with `--nice`, or an admin added.
    pub nice: i64,
    /// What it lacks because a budget is used up.
    #[serde(default)]
    pub budget: i64,
    /// The sum.
    pub total: i64,
}

/// How a budget of card time stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetView {
    /// Its name.
    pub name: String,
    /// The account whose it is, with those below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The user whose it is, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// How long a period is: `month`.
    pub period: String,
    /// When this one began.
    pub from: Timestamp,
    /// When the next one begins.
    pub until: Timestamp,
    /// How much there is.
    pub most: CardTime,
    /// How much is used, by what runs too.
    pub used: CardTime,
    /// Thousandths of cards that are held now.
    pub cards: u64,
    /// What happens when it is used up, as in the conf.
    pub when_used_up: String,
}

/// An account of the fair-share tree, or a user in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareView {
    /// The account; none for users without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The account it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The user, by name; none for an account as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Its shares among those beside it.
    pub shares: u64,
    /// What it used of late, in thousandths of a card times seconds.
    pub usage: u64,
    /// Its fair-share factor, in thousandths.
    pub factor: u32,
}

/// What an advance reservation takes of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservedView {
    /// The node.
    pub node: NodeName,
    /// Indices of cards; none means the whole node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cards: Option<Vec<u32>>,
}

/// An advance reservation or maintenance window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationView {
    /// Its name.
    pub name: String,
    /// When it begins.
    pub start: Timestamp,
    /// When it ends.
    pub end: Timestamp,
    /// What it takes.
    pub takes: Vec<ReservedView>,
    /// Who may use it, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    /// Members of these accounts may use it too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<String>,
    /// Whether nobody runs in it.
    #[serde(default)]
    pub maintenance: bool,
    /// Jobs that name it: `17`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<String>,
}
