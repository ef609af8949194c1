//! What clients ask over the socket, and what they are answered. One frame each; listings come in several.

use crate::{
    ArrayView, BudgetView, ExplanationView, Head, JobView, NodeView, PartitionView, PastAsk, PriorityView,
    ReservationView, RunView, ShareView, UsageAsk, UsageView, WaitsView,
};
use gq_model::{
    Change, ClusterId, End, IndexSet, JobId, JobRef, JobSpec, JobState, NodeName, Outcome, SignalTo,
    Timestamp, Token, Uid,
};
use serde::{Deserialize, Serialize};

/// The version of all asks and replies.
pub const ASK_VERSION: u32 = 1;
/// Largest frame that `gqd` takes from a client, in bytes.
pub const MAX_FRAME: usize = 1 << 20;
/// Largest frame that a client takes from `gqd`, in bytes.
pub const MAX_LIST_FRAME: usize = 8 << 20;
/// Most jobs of one listing that are explained.
pub const MAX_EXPLAINED: usize = 16;
/// Longest name of an advance reservation, in bytes.
pub const MAX_RESERVATION_NAME: usize = 64;
/// Most nodes, users, accounts, or cards of a node, that an advance reservation may name.
pub const MAX_RESERVED: usize = 16_384;

/// A client's frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// [`ASK_VERSION`].
    pub v: u32,
    /// What is asked.
    pub ask: Ask,
}

/// Which jobs are meant. Without `jobs`, every live job that fits all the other words; several words of one kind mean "any".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// By id.
    #[serde(default)]
    pub jobs: Vec<JobRef>,
    /// By user.
    #[serde(default)]
    pub users: Vec<Uid>,
    /// By name.
    #[serde(default)]
    pub names: Vec<String>,
    /// By partition.
    #[serde(default)]
    pub partitions: Vec<String>,
    /// By state's name.
    #[serde(default, with = "state_names")]
    pub states: Vec<JobState>,
}

/// A listing of jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListAsk {
    /// Which jobs. Jobs that have ended are listed only when `jobs` or `states` name them.
    pub select: Selection,
    /// Tell of every job that waits when it is expected to start, which may take a moment; else only where that is known already.
    #[serde(default)]
    pub starts: bool,
    /// In the order of expected starts (jobs without one last) instead of the queue's.
    #[serde(default)]
    pub by_start: bool,
    /// Each ended task of an array by itself; else those that ended alike are one.
    #[serde(default)]
    pub split: bool,
    /// Each waiting task of an array by itself, too, as far as there are not too many; else those that wait for one reason are one.
    #[serde(default)]
    pub split_waiting: bool,
    /// Explain why the jobs wait that are named by id; the first [`MAX_EXPLAINED`] that do.
    #[serde(default)]
    pub explain: bool,
}

/// An advance reservation as it is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReserveAsk {
    /// Its name: letters, digits, `-`, `_` and `.`; at most [`MAX_RESERVATION_NAME`] bytes.
    pub name: String,
    /// When it begins.
    pub start: Timestamp,
    /// When it ends.
    pub end: Timestamp,
    /// Its nodes.
    pub nodes: Vec<NodeName>,
    /// Indices of the cards it takes of each node; empty means the nodes as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cards: Vec<u32>,
    /// Who may use it, besides admins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<Uid>,
    /// Members of these accounts may use it too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<String>,
    /// A maintenance window: nobody runs in it.
    #[serde(default)]
    pub maintenance: bool,
    /// Whether jobs that run now and could still run when it begins are let run on; else they are a reason to refuse it.
    #[serde(default)]
    pub ignore_jobs: bool,
    /// Whether it takes the place of the one of its name.
    #[serde(default)]
    pub replace: bool,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Ask {
    /// Are you there? Answer: [`Reply::Pong`].
    Ping,
    /// Take the job file `.s.<token>` out of the drop box. Answer: [`Reply::Submitted`].
    Submit {
        /// The submission's token.
        token: Token,
    },
    /// Would this be taken, and when would it start? Nothing is kept. Answer: [`Reply::Tested`].
    TestOnly {
        /// The request.
        spec: Box<JobSpec>,
    },
    /// List jobs. Answer: any number of [`Reply::Jobs`], the last one with `more` false.
    List(ListAsk),
    /// List nodes. Answer: [`Reply::Nodes`].
    Nodes,
    /// List partitions. Answer: [`Reply::Partitions`].
    Partitions,
    /// Answer when this job has ended: [`Reply::Waited`].
    Wait {
        /// The job.
        job: JobId,
        /// Whether to tell of an array's progress meanwhile: [`Reply::Progress`] whenever it has changed, once a second at most.
        #[serde(default)]
        progress: bool,
        /// Whether to tell when what it waits for can no longer come: [`Reply::Hopeless`], once for the same conditions.
        #[serde(default)]
        hopeless: bool,
    },
    /// Where is the job file of this job, and which of its tasks did not complete? Answer: [`Reply::JobFile`].
    JobFile {
        /// The job.
        job: JobId,
    },
    /// End jobs, or send them a signal. Answer: [`Reply::Done`].
    Cancel {
        /// Which.
        select: Selection,
        /// The signal to send instead of ending them.
        #[serde(default)]
        signal: Option<u8>,
        /// To whom of a run.
        #[serde(default)]
        to: SignalTo,
    },
    /// Keep pending jobs from starting. Answer: [`Reply::Done`].
    Hold {
        /// Which.
        select: Selection,
    },
    /// Let held jobs start. Answer: [`Reply::Done`].
    Release {
        /// Which.
        select: Selection,
    },
    /// End running jobs and put them back into the queue. Answer: [`Reply::Done`].
    Requeue {
        /// Which.
        select: Selection,
        /// Whether they are held then.
        #[serde(default)]
        hold: bool,
    },
    /// Stop running jobs in place; they keep what they hold. Answer: [`Reply::Done`].
    Suspend {
        /// Which.
        select: Selection,
    },
    /// Let suspended jobs go on. Answer: [`Reply::Done`].
    Continue {
        /// Which.
        select: Selection,
    },
    /// Say something anew of jobs. Answer: [`Reply::Done`].
    Update {
        /// Which.
        select: Selection,
        /// What.
        changes: Vec<Change>,
    },
    /// Start nothing more on these nodes (operators and admins). Answer: [`Reply::Done`].
    Drain {
        /// Which nodes.
        nodes: Vec<NodeName>,
        /// Why.
        reason: String,
    },
    /// Use these nodes again (operators and admins). Answer: [`Reply::Done`].
    Resume {
        /// Which nodes.
        nodes: Vec<NodeName>,
    },
    /// Nodes are vouched to be dead: their runs are over (admins). Answer: [`Reply::Done`].
    Fence {
        /// Which nodes.
        nodes: Vec<NodeName>,
    },
    /// Nodes are to be listed no more until they come again (admins). Answer: [`Reply::Done`].
    Forget {
        /// Which nodes.
        nodes: Vec<NodeName>,
    },
    /// Make an advance reservation (admins). Answer: [`Reply::Done`].
    Reserve(ReserveAsk),
    /// Take an advance reservation back (admins). Answer: [`Reply::Done`].
    Unreserve {
        /// Which.
        name: String,
    },
    /// List advance reservations. Answer: [`Reply::Reservations`].
    Reservations,
    /// What makes up the priority of jobs that wait, the highest first. Answer: any number of [`Reply::Priorities`], the last one
    /// with `more` false.
    Priorities {
        /// Which jobs; their states do not count.
        select: Selection,
    },
    /// How budgets stand. Answer: any number of [`Reply::Budgets`], the last one with `more` false.
    Budgets,
    /// The tree of fair share. Answer: any number of [`Reply::Shares`], the last one with `more` false.
    Shares,
    /// The figures of the queue for Prometheus. Answer: [`Reply::Metrics`].
    Metrics,
    /// List runs that have ended, in that order. Answer: any number of [`Reply::Runs`], the last one with `more` false.
    Past(PastAsk),
    /// Sum up what runs that have ended held and used. Answer: any number of [`Reply::Usage`], the last one with `more` false.
    Usage(UsageAsk),
    /// How long did runs wait that have ended, how far were promises off, and how soon was all free? Answer: any number of [`Reply::Waits`], the
    /// last one with `more` false.
    Waits(UsageAsk),
    /// Read the conf file again (admins). Answer: [`Reply::Done`].
    Reload,
    /// Stop `gqd`; jobs go on (admins). Answer: [`Reply::Done`].
    Shutdown,
    /// A node opens its connection. Answer: [`Reply::Node`]; then both sides send `Letters`.
    Node(Head),
}

macro_rules! verbs {
    ($($ask:pat => $word:literal,)*) => {
        impl Ask {
            /// All words of [`Ask::verb`], each once.
            pub const VERBS: &[&'static str] = &[$($word),*];

            /// What is asked, in a word.
            pub const fn verb(&self) -> &'static str {
                match self { $($ask => $word,)* }
            }
        }
    };
}

verbs! {
    Self::Ping => "ping",
    Self::Submit { .. } => "submit",
    Self::TestOnly { .. } => "test a request",
    Self::List(_) => "list jobs",
    Self::Nodes => "list nodes",
    Self::Partitions => "list partitions",
    Self::Wait { .. } => "wait for a job",
    Self::JobFile { .. } => "find a job file",
    Self::Cancel { .. } => "cancel",
    Self::Hold { .. } => "hold",
    Self::Release { .. } => "release",
    Self::Requeue { .. } => "requeue",
    Self::Suspend { .. } => "suspend",
    Self::Continue { .. } => "continue",
    Self::Update { .. } => "update",
    Self::Drain { .. } => "drain",
    Self::Resume { .. } => "resume a node",
    Self::Fence { .. } => "fence",
    Self::Forget { .. } => "forget",
    Self::Reserve(_) => "reserve",
    Self::Unreserve { .. } => "unreserve",
    Self::Reservations => "list reservations",
    Self::Priorities { .. } => "list priorities",
    Self::Budgets => "list budgets",
    Self::Shares => "list shares",
    Self::Metrics => "read metrics",
    Self::Past(_) => "list runs",
    Self::Usage(_) => "sum up use",
    Self::Waits(_) => "sum up waits",
    Self::Reload => "reload",
    Self::Shutdown => "shut down",
    Self::Node(_) => "be a node",
}

/// What kind of refusal it is; the client's exit code follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusalKind {
    /// By policy, or as the job stands (exit code 1).
    Policy,
    /// The words are wrong (2).
    Usage,
    /// `gqd` is going away or cannot be reached (3).
    Unreachable,
    /// There is no such job (4).
    NoSuchJob,
    /// The asker may not (5).
    NotPermitted,
}

impl RefusalKind {
    /// The client's exit code.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Policy => 1,
            Self::Usage => 2,
            Self::Unreachable => 3,
            Self::NoSuchJob => 4,
            Self::NotPermitted => 5,
        }
    }
}

/// A refusal: what is wrong and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What kind.
    pub kind: RefusalKind,
    /// What is wrong.
    pub text: String,
    /// What to do about it; none when nothing can be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// One thing of many that was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Which job or node.
    pub what: String,
    /// Why not.
    pub refusal: Refusal,
}

/// How a job ended that was waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitedEnd {
    /// The job.
    pub job: JobId,
    /// The end; the worst of its tasks.
    pub end: End,
    /// The outcome it speaks of; none when no task ever ran.
    pub outcome: Option<Outcome>,
}

/// What `gqd` is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterView {
    /// The cluster's name.
    pub name: String,
    /// The cluster's identity.
    pub id: ClusterId,
    /// Version of the program.
    pub version: String,
    /// Process id of `gqd`.
    pub pid: u32,
    /// Why no new jobs are taken at present; none when they are.
    pub degraded: Option<String>,
    /// How many messages and notices came to nothing since its start.
    #[serde(default)]
    pub dropped: u64,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// Here I am.
    Pong(ClusterView),
    /// The figures.
    Metrics {
        /// In the text form of Prometheus, version 0.0.4.
        text: String,
    },
    /// The job is on disk.
    Submitted {
        /// Its id.
        job: JobId,
    },
    /// The request would be taken.
    Tested {
        /// Where it would start; none when that is not known.
        node: Option<NodeName>,
        /// The partition.
        partition: String,
        /// When it would start; none when that is not known.
        start: Option<Timestamp>,
        /// Cpus it would hold.
        cpus: u32,
    },
    /// Jobs.
    Jobs {
        /// Some of them.
        jobs: Vec<JobView>,
        /// Ids asked for that no job ever had.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unknown: Vec<JobRef>,
        /// Why no new jobs are taken at present; none when they are.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        degraded: Option<String>,
        /// Explanations of some of them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        explained: Vec<ExplanationView>,
        /// Budgets of the asker of which so much is used that he is told.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        budgets: Vec<BudgetView>,
        /// How far the arrays among jobs named by id are.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        arrays: Vec<ArrayView>,
        /// Whether another frame follows.
        more: bool,
    },
    /// Nodes.
    Nodes(Vec<NodeView>),
    /// Partitions.
    Partitions(Vec<PartitionView>),
    /// Advance reservations.
    Reservations(Vec<ReservationView>),
    /// What makes up priorities.
    Priorities {
        /// Of some jobs.
        jobs: Vec<PriorityView>,
        /// Ids asked for that do not wait.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unknown: Vec<JobRef>,
        /// Whether another frame follows.
        more: bool,
    },
    /// Budgets, in the order of the conf.
    Budgets {
        /// Some of them.
        budgets: Vec<BudgetView>,
        /// Whether another frame follows.
        more: bool,
    },
    /// Accounts and users of the tree of fair share, each account before what is below it.
    Shares {
        /// Some of them.
        shares: Vec<ShareView>,
        /// Whether another frame follows.
        more: bool,
    },
    /// Runs that have ended.
    Runs {
        /// Some of them.
        runs: Vec<RunView>,
        /// Whether another frame follows.
        more: bool,
    },
    /// Sums of what runs held and used.
    Usage {
        /// Some of them.
        sums: Vec<UsageView>,
        /// Whether another frame follows.
        more: bool,
    },
    /// How runs waited.
    Waits {
        /// Some of them.
        waits: Vec<WaitsView>,
        /// Whether another frame follows.
        more: bool,
    },
    /// The job has ended.
    Waited(WaitedEnd),
    /// How far an array is that is waited for.
    Progress(ArrayView),
    /// The job that is waited for, or tasks of it, wait for what can no longer come.
    Hopeless {
        /// The conditions, such as `afterok:17`.
        conditions: Vec<String>,
    },
    /// A job file.
    JobFile {
        /// Where it lies, relative to the spool directory.
        path: String,
        /// SHA-256 of its bytes in hexadecimal.
        sha256: String,
        /// The tasks that have ended otherwise than COMPLETED.
        failed: IndexSet,
        /// Whether the job is an array.
        array: bool,
    },
    /// It is done, as far as it could be.
    Done {
        /// How many jobs or nodes it was done to.
        count: u64,
        /// What it was not done to.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        failures: Vec<Failure>,
    },
    /// The controller's side of a node's connection.
    Node(Head),
    /// It is refused as a whole.
    Refused(Refusal),
}

pub(crate) mod state_names {
    use gq_model::JobState;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub fn serialize<S: Serializer>(states: &[JobState], s: S) -> Result<S::Ok, S::Error> {
        states.iter().map(|st| st.name()).collect::<Vec<_>>().serialize(s)
    }
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<JobState>, D::Error> {
        Vec::<String>::deserialize(d)?.iter().map(|n| n.parse().map_err(D::Error::custom)).collect()
    }
}
