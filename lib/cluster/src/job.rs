//! Jobs: one record however many tasks, with the runs that live now. Never decides what happens to them.

use crate::{Fate, Key, Payer, Waits};
use alloc::{borrow::Cow, collections::BTreeMap, string::String, sync::Arc, vec::Vec};
use gq_model::{
    BootId, CardAsk, CardUse, End, IndexSet, JobId, JobSpec, JobState, LicenceAsk, MiB, NodeId, NodeName,
    Outcome, RunKey, RunNumber, Seconds, Stage, TaskIndex, Timestamp, Token, Uid,
};
use serde::{Deserialize, Serialize};

/// Seconds that are waited after the lease of a run and a tenth of it.
const LEASE_MARGIN: u64 = 5;

/// Who holds a job back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum HeldBy {
    /// Its user: whoever may steer it may release it.
    User,
    /// A coordinator of its account: its user may not release it.
    Coordinator,
    /// An operator or admin: only they release it.
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
    /// How far its time limit may be lowered to start earlier, if it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_min: Option<Seconds>,
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

impl Shape {
    /// What the script that runs first (`--prep`) needs of what the job's own does: cpus and memory alone.
    pub fn for_prep(&self) -> Self {
        let demand = Demand { cards: CardAsk::default(), exclusive: false, ..self.demand.clone() };
        Self { demand, licences: Vec::new(), slices_by_memory: false, time_min: None, ..self.clone() }
    }
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
    /// It is to wait again, held.
    RequeueHold(HeldBy),
    /// It makes room for a more important job.
    Preempt {
        /// Whether it is to run again.
        again: bool,
        /// When its grace is over and it is ended.
        due: Timestamp,
        /// Whether the order to end it was given.
        ordered: bool,
    },
    /// Its cards were idle for too long.
    Idle {
        /// Whether it is to run again.
        again: bool,
    },
}

/// That the cards of a run are idle, as its node has told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idleness {
    /// Since when, on the node's clock.
    pub since: Timestamp,
    /// When something is to be done about it, on the controller's clock; none when it is only told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
    /// Whether it is to run again then, as its partition said when this was told.
    #[serde(default)]
    pub again: bool,
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
    /// The node it was given to; another one of its name knows nothing of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// How long it goes on when its node is cut off; none means for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Seconds>,
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
    /// What they cost an hour, in millionths; none when they have no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<u64>,
    /// When it was allocated, on the controller's clock.
    pub allocated: Timestamp,
    /// From when its time limit counts, on the controller's clock: its allocation, and its start once that is told.
    pub counted: Timestamp,
    /// When it was last promised to start, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised: Option<Timestamp>,
    /// Its time limit, when it is another than its shape's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_limit: Option<Seconds>,
    /// Which of the job's scripts it runs.
    #[serde(default)]
    pub stage: Stage,
    /// Since when it is suspended, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Timestamp>,
    /// How long it was suspended before that, in microseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stood_still: u64,
    /// That its cards are idle, when they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Idleness>,
    /// How often they were found so.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub idle_times: u32,
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
    /// How long it was suspended until `at`, in microseconds, a suspension that lasts counted with the rest.
    pub fn stood_still_until(&self, at: Timestamp) -> u64 {
        self.stood_still.saturating_add(self.suspended.map_or(0, |since| at.micros_since(since)))
    }
    /// Whether its supervisor has ended it by now, when nothing was seen of its node for so long: its lease is over, and some time for
    /// the clocks to differ and its processes to die.
    pub fn is_over_after(&self, silence: Seconds) -> bool {
        self.lease.is_some_and(|Seconds(lease)| silence.0 >= lease.saturating_add(lease / 10 + LEASE_MARGIN))
    }
    /// When something is to be done about its idle cards, if it runs still and nobody ends it.
    pub fn reclaim_due(&self) -> Option<Timestamp> {
        let is_running = matches!(self.phase, Phase::Running { .. }) && self.suspended.is_none();
        self.idle.filter(|_| is_running && self.stopping.is_none())?.due
    }
    /// The state it gives its task while its node is in sight.
    pub fn state(&self) -> JobState {
        match self.phase {
            Phase::Starting => JobState::Starting,
            Phase::Running { .. } if self.suspended.is_some() => JobState::Suspended,
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
    /// Whether every task that ended COMPLETED.
    pub fn is_good(&self) -> bool {
        self.ends.iter().all(|(end, _)| *end == End::Completed)
    }
    /// How many have ended.
    pub fn count(&self) -> u64 {
        self.ends.iter().map(|(_, count)| count).sum()
    }
    /// Adds tasks that ended so.
    pub fn add(&mut self, outcome: &Outcome, tasks: u64) {
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
    /// Whether its name is not the one in its job file any more.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub renamed: bool,
    /// How many of its tasks may run at a time; none means as many as fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<u32>,
    /// Tasks of an array that are held by themselves, by whom.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub held_tasks: BTreeMap<HeldBy, IndexSet>,
    /// Tasks that pause between two attempts, and until when.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resting: BTreeMap<TaskIndex, Timestamp>,
    /// What it waits for of other jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Waits>,
    /// What its script needs, while the one that runs first has not ended well: until then `shape` is that one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main: Option<Arc<Shape>>,
    /// Attempts at the script that runs first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prep_runs: u32,
    /// As which task it ran; none means the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prep_task: Option<TaskIndex>,
    /// How often tasks that failed were tried again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub retried: BTreeMap<TaskIndex, u32>,
    /// How often tasks were put back for their idle cards.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reclaimed: BTreeMap<TaskIndex, u32>,
    /// Whether what is to happen when it has waited too long has happened.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub waited: bool,
    /// When the first task was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_start: Option<Timestamp>,
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
    /// How many of its tasks wait or run.
    pub fn live_tasks(&self) -> u64 {
        self.waiting.len().saturating_add(self.runs.len() as u64)
    }
    /// Which of its scripts is next.
    pub fn stage(&self) -> Stage {
        if self.main.is_some() { Stage::Prep } else { Stage::Main }
    }
    /// Tasks that wait and may start as far as each of them goes: not held, not resting, not waiting for a task of another job.
    pub fn ready(&self) -> Cow<'_, IndexSet> {
        let barred = self.waits.as_ref().map(Waits::barred).filter(|barred| !barred.is_empty());
        if self.held_tasks.is_empty() && self.resting.is_empty() && barred.is_none() && self.main.is_none() {
            return Cow::Borrowed(&self.waiting);
        }
        let mut ready = self.held_tasks.values().fold(self.waiting.clone(), |rest, held| rest.without(held));
        for task in self.resting.keys() {
            ready.remove(task.0);
        }
        if let Some(barred) = barred {
            ready = ready.without(&barred);
        }
        if self.main.is_some() {
            // The script that runs first runs once, for all that may start, and as the first task; that one may be held itself.
            let may = self.runs.is_empty() && !ready.is_empty();
            let rests = |first: u32| self.resting.contains_key(&TaskIndex(first));
            let first = self.waiting.first().filter(|first| may && !rests(*first));
            ready = first.into_iter().collect();
        }
        Cow::Owned(ready)
    }
    /// How many more of its tasks may run now.
    pub fn room(&self) -> usize {
        let most = self.at_once.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        most.saturating_sub(self.runs.len())
    }
    /// Whether all that it waits for as a whole has come.
    pub fn is_free(&self) -> bool {
        self.waits.as_ref().is_none_or(|waits| waits.fate() == Fate::Met)
    }
    /// Whether it may be started: something of it waits, nobody holds it, what it waits for has come, fewer of its tasks run than may.
    pub fn is_eligible(&self) -> bool {
        self.held.is_none()
            && self.not_before.is_none()
            && !self.waiting.is_empty()
            && self.room() > 0
            && self.is_free()
            && !self.ready().is_empty()
    }
    /// When something of it may start that may not before, if that is only a matter of time.
    pub(crate) fn ripens(&self) -> Option<Timestamp> {
        if self.held.is_some() || self.waiting.is_empty() {
            return None;
        }
        self.not_before.into_iter().chain(self.resting.values().copied()).min()
    }
    /// When something is to be done about it if it waits still: it could not end before its deadline any more, or has waited too long.
    pub fn alarm(&self) -> Option<Timestamp> {
        if self.waiting.is_empty() {
            return None;
        }
        let wait = self.spec.max_wait.filter(|_| !self.waited).map(|most| self.submitted.after(most.after));
        let late = self.latest_start().map(|at| Timestamp(at.0.saturating_add(1)));
        late.into_iter().chain(wait).min()
    }
    /// By when a task has to start to end before the deadline.
    pub fn latest_start(&self) -> Option<Timestamp> {
        let least = self.shape.time_min.or(self.shape.time_limit).unwrap_or_default();
        let micros = i64::try_from(least.0.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
        self.spec.deadline.map(|deadline| Timestamp(deadline.0.saturating_sub(micros)))
    }
    /// The number that the next attempt at `task` gets.
    pub fn next_run(&self, task: TaskIndex) -> RunNumber {
        RunNumber(self.attempts.get(&task).map_or(0, |n| n.0).saturating_add(1))
    }
    /// How often the script of `task` was begun before, when there were so many runs: those of the script that goes first do not count.
    pub fn restarts(&self, task: TaskIndex, runs_before: u32) -> u32 {
        let first = || self.spec.array.as_ref().map_or(Some(0), |array| array.tasks.first()).map(TaskIndex);
        let is_it = self.prep_task.or_else(first) == Some(task);
        if is_it { runs_before.saturating_sub(self.prep_runs) } else { runs_before }
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

fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}
