//! What clients ask over the socket, and what they are answered. One frame each; listings come in several.

use crate::{Head, JobView, NodeView, PartitionView};
use gq_model::{ClusterId, End, JobId, JobRef, JobSpec, JobState, NodeName, Outcome, Timestamp, Token, Uid};
use serde::{Deserialize, Serialize};

/// The version of all asks and replies.
pub const ASK_VERSION: u32 = 1;
/// Largest frame that `gqd` takes from a client, in bytes.
pub const MAX_FRAME: usize = 1 << 20;
/// Largest frame that a client takes from `gqd`, in bytes.
pub const MAX_LIST_FRAME: usize = 8 << 20;

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
    },
    /// End jobs, or send them a signal. Answer: [`Reply::Done`].
    Cancel {
        /// Which.
        select: Selection,
        /// The signal to send instead of ending them.
        #[serde(default)]
        signal: Option<u8>,
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
    },
    /// Start nothing more on these nodes (admins). Answer: [`Reply::Done`].
    Drain {
        /// Which nodes.
        nodes: Vec<NodeName>,
        /// Why.
        reason: String,
    },
    /// Use these nodes again (admins). Answer: [`Reply::Done`].
    Resume {
        /// Which nodes.
        nodes: Vec<NodeName>,
    },
    /// Read the conf file again (admins). Answer: [`Reply::Done`].
    Reload,
    /// Stop `gqd`; jobs go on (admins). Answer: [`Reply::Done`].
    Shutdown,
    /// A node opens its connection. Answer: [`Reply::Node`]; then both sides send `Letters`.
    Node(Head),
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
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// Here I am.
    Pong(ClusterView),
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
        /// Whether another frame follows.
        more: bool,
    },
    /// Nodes.
    Nodes(Vec<NodeView>),
    /// Partitions.
    Partitions(Vec<PartitionView>),
    /// The job has ended.
    Waited(WaitedEnd),
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

mod state_names {
    use gq_model::JobState;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub fn serialize<S: Serializer>(states: &[JobState], s: S) -> Result<S::Ok, S::Error> {
        states.iter().map(|st| st.name()).collect::<Vec<_>>().serialize(s)
    }
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<JobState>, D::Error> {
        Vec::<String>::deserialize(d)?.iter().map(|n| n.parse().map_err(D::Error::custom)).collect()
    }
}
