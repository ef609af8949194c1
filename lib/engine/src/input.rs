//! Inputs, decisions and effects: what the engine is told and what it answers. Own words of the engine; letters convert at the border.

use crate::{NodeVerb, Past, Selection, Verb};
use alloc::{boxed::Box, string::String, sync::Arc, vec::Vec};
use gq_cluster::{Booking, Event, Job, Owner, Role};
use gq_model::{
    Assignment, BootId, Bound, Card, EndReason, Epoch, Fault, JobId, JobSpec, MiB, NodeId, NodeName, Outcome,
    Reason, RunKey, Seconds, Seq, SignalTo, Timestamp, Token, Uid,
};
use gq_sched::Outlook;

/// A client that waits for an answer: the household's name for its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(
    /// A number that is never used twice in one life.
    pub u64,
);

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actor {
    /// By the socket's or file's credentials.
    pub uid: Uid,
    /// What the conf says that he is.
    pub role: Role,
}

impl Actor {
    /// Whether he may do everything.
    pub fn is_admin(self) -> bool {
        self.role == Role::Admin
    }
    /// Whether he steers what is everybody's.
    pub fn is_operator(self) -> bool {
        self.role >= Role::Operator
    }
}

/// A job that has ended, and whose it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gone {
    /// The job.
    pub job: JobId,
    /// Its user.
    pub uid: Uid,
    /// The account that it was charged to.
    pub account: Option<String>,
}

impl Gone {
    /// What is gone of a job.
    pub(crate) fn of(job: &Job) -> Self {
        Self { job: job.id, uid: job.uid, account: job.payer.account.clone() }
    }
    pub(crate) fn owner(&self) -> Owner<'_> {
        Owner { uid: self.uid, account: self.account.as_deref() }
    }
}

/// What holds for all inputs of a turn.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The time.
    pub now: Timestamp,
    /// The folder of `jobs/` that this turn's job files go to.
    pub shard: u8,
}

/// A job file that was found good in the drop box.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Who made it.
    pub by: Actor,
    /// His name, or the uid in digits.
    pub user: String,
    /// Its token.
    pub token: Token,
    /// Its name in the drop box.
    pub drop_name: String,
    /// What is asked.
    pub spec: Arc<JobSpec>,
    /// SHA-256 of the file in hexadecimal.
    pub sha256: String,
}

/// What a node says, beside its numbers.
#[derive(Clone, Debug)]
pub enum NodeReport {
    /// What it has and which runs live there.
    Joined {
        /// Its boot.
        boot: BootId,
        /// Which node it is.
        id: Option<NodeId>,
        /// Cpus found.
        cpus: u32,
        /// Memory found.
        memory: MiB,
        /// Cards found and declared.
        cards: Vec<Card>,
        /// What runs are not bounded in there.
        unbound: Vec<Bound>,
        /// Runs that live, with the start of their script.
        runs: Vec<(RunKey, Option<Timestamp>)>,
    },
    /// A script was started.
    Started(RunKey, Timestamp),
    /// A run was suspended.
    Suspended(RunKey, Timestamp),
    /// A suspended run goes on.
    Resumed(RunKey, Timestamp),
    /// All cards of a run are idle since then; none when they are not any more.
    Idle(RunKey, Option<Timestamp>),
    /// A script has ended, its processes not all.
    Exited(RunKey, Timestamp),
    /// A run has ended and is gone.
    Ended {
        /// Which.
        key: RunKey,
        /// How.
        outcome: Outcome,
        /// When its script was started, if it was.
        started: Option<Timestamp>,
        /// When it ended.
        ended: Timestamp,
        /// What went wrong in the site's epilog, if something did.
        epilog: Option<String>,
    },
    /// A run was not started.
    Refused {
        /// Which.
        key: RunKey,
        /// Whose fault.
        fault: Fault,
        /// Why.
        reason: Reason,
        /// Details.
        detail: String,
    },
    /// Its cards changed.
    Cards(Vec<Card>),
    /// Why it can start nothing at present; none when it can again.
    Trouble(Option<String>),
}

/// What the engine is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// A user hands over a job.
    Submit {
        /// Who waits for the id; none for a file found by the scan.
        client: Option<ClientId>,
        /// The job.
        submission: Box<Submission>,
        /// The job that this token already is, with its user.
        known: Option<(JobId, Uid)>,
        /// What became of the jobs that it names and that were accepted before.
        past: Vec<Past>,
    },
    /// A user asks whether a job would be taken.
    TestOnly {
        /// Who waits.
        client: ClientId,
        /// Who asks.
        by: Actor,
        /// What is asked.
        spec: Box<JobSpec>,
    },
    /// Something is to be done to jobs.
    Command {
        /// Who waits.
        client: ClientId,
        /// Who asks.
        by: Actor,
        /// What.
        verb: Verb,
        /// To which.
        select: Selection,
        /// Of the ids named, those of jobs that have ended.
        ended: Vec<Gone>,
        /// What became of the jobs that a new dependency names and that were accepted before.
        past: Vec<Past>,
    },
    /// Something is to be done to nodes.
    Nodes {
        /// Who waits.
        client: ClientId,
        /// Who asks.
        by: Actor,
        /// What.
        verb: NodeVerb,
        /// To which.
        nodes: Vec<NodeName>,
    },
    /// An advance reservation is to be made.
    Book {
        /// Who waits.
        client: ClientId,
        /// Who asks.
        by: Actor,
        /// The reservation.
        booking: Box<Booking>,
        /// Whether it takes the place of the one of its name.
        replace: bool,
        /// Whether jobs that could still run when it begins are let run on; else they are a reason to refuse it.
        ignore_jobs: bool,
    },
    /// An advance reservation is to be taken back.
    Unbook {
        /// Who waits.
        client: ClientId,
        /// Who asks.
        by: Actor,
        /// Its name.
        name: String,
    },
    /// What a forecast found: jobs that were never promised a start are promised this one.
    Promise {
        /// Jobs, and when they would start.
        starts: Vec<(JobId, Timestamp)>,
    },
    /// A node reports.
    Report {
        /// Which.
        node: NodeName,
        /// Its life.
        epoch: Epoch,
        /// The report's number.
        seq: Seq,
        /// What it says.
        body: Box<NodeReport>,
    },
    /// A node's connection is up again, or its beats go on, in a life whose first report may have been taken before.
    NodeHeard {
        /// Which.
        node: NodeName,
        /// Its life.
        epoch: Epoch,
    },
    /// A node's connection broke, or its beats stopped.
    NodeSilent {
        /// Which.
        node: NodeName,
    },
    /// A node has been silent for too long.
    NodeLost {
        /// Which.
        node: NodeName,
    },
    /// A node is out of sight for so long that a run there has ended itself: see [`gq_cluster::Run::is_over_after`].
    LeaseOver {
        /// Which.
        node: NodeName,
        /// How long nothing was seen of it, by a clock that never jumps; never more than it was.
        silence: Seconds,
    },
    /// The conf was read: nodes it declares are to be known.
    Declared,
    /// The controller starts: nobody is in sight yet.
    Restarted,
    /// Nothing has happened, but time has passed: a turn has its planning pass in any case.
    Schedule,
}

impl Input {
    /// Whether it is about nodes, and so has nobody who could ask again: it must not be lost when a turn cannot be kept.
    pub const fn is_of_nodes(&self) -> bool {
        match self {
            Self::Report { .. }
            | Self::NodeHeard { .. }
            | Self::NodeSilent { .. }
            | Self::NodeLost { .. }
            | Self::Declared
            | Self::Restarted => true,
            Self::Submit { .. }
            | Self::TestOnly { .. }
            | Self::Command { .. }
            | Self::Nodes { .. }
            | Self::LeaseOver { .. }
            | Self::Book { .. }
            | Self::Unbook { .. }
            | Self::Promise { .. }
            | Self::Schedule => false,
        }
    }
}

/// What kind of refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// By policy, or as the job stands.
    Policy,
    /// The words are wrong.
    Usage,
    /// There is no such job.
    NoSuchJob,
    /// The asker may not.
    NotPermitted,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What kind.
    pub kind: RefusalKind,
    /// What is wrong.
    pub text: String,
    /// What to do.
    pub hint: Option<String>,
}

impl Refusal {
    /// A refusal without a hint.
    pub fn new(kind: RefusalKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), hint: None }
    }
    /// The same with a hint.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// One thing of many that was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which job or node.
    pub what: String,
    /// Why not.
    pub refusal: Refusal,
}

/// An answer to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The job is on disk.
    Submitted(JobId),
    /// The request would be taken.
    Tested {
        /// Where and when it would start, if that is known.
        start: Option<(NodeName, Timestamp)>,
        /// Its partition.
        partition: String,
        /// Cpus it would hold.
        cpus: u32,
    },
    /// It is done as far as it could be.
    Done {
        /// To how many.
        count: u64,
        /// To which it was not.
        failures: Vec<Failure>,
    },
    /// It is refused as a whole.
    Refused(Refusal),
}

/// What a node is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Start a run.
    Start(Box<Assignment>),
    /// End a run to cancel it, and what its script is told of it.
    Cancel(RunKey, EndReason),
    /// End a run to run it again, and what its script is told of it.
    Requeue(RunKey, EndReason),
    /// End a run that nobody here knows, or that the node should know and does not speak of: it says how that ended.
    Stray(RunKey),
    /// Send a signal to a run.
    Signal(RunKey, u8, SignalTo),
    /// Tell a run that it will be ended, with the gentle signal.
    Warn(RunKey, EndReason),
    /// Change the time limit of a run.
    Limit(RunKey, Option<Seconds>),
    /// Stop the processes of a run in place.
    Suspend(RunKey),
    /// Let them go on.
    Resume(RunKey),
}

/// What is to be done once the turn is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Answer a client.
    Reply(ClientId, Answer),
    /// Send an order to a node; it is kept until the node has acknowledged its number.
    Order {
        /// To whom.
        node: NodeName,
        /// Its number.
        seq: Seq,
        /// What.
        order: Order,
    },
    /// Move a job file out of the drop box: before everything else.
    File {
        /// Its name there.
        drop_name: String,
        /// Where it goes, relative to the spool directory.
        job_file: String,
    },
    /// A job file in the drop box is not wanted: its job exists, or it was refused.
    Discard {
        /// Its name there.
        drop_name: String,
        /// Whose it is.
        uid: Uid,
        /// Why, for the log: whoever left it offline is told in no other way.
        why: String,
    },
    /// The outlook changed.
    Outlook(Outlook),
}

/// What an input means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// What happens.
    pub events: Vec<Event>,
    /// What is to be done.
    pub effects: Vec<Effect>,
}

impl NodeReport {
    /// The run that it speaks of; none when it is about the node.
    pub(crate) const fn key(&self) -> Option<RunKey> {
        match self {
            Self::Started(key, _)
            | Self::Suspended(key, _)
            | Self::Resumed(key, _)
            | Self::Idle(key, _)
            | Self::Exited(key, _) => Some(*key),
            Self::Ended { key, .. } | Self::Refused { key, .. } => Some(*key),
            Self::Joined { .. } | Self::Cards(_) | Self::Trouble(_) => None,
        }
    }
    /// Whether nothing of that run is left.
    pub(crate) const fn is_end(&self) -> bool {
        matches!(self, Self::Ended { .. } | Self::Refused { .. })
    }
}

impl Decision {
    pub(crate) fn reply(client: impl Into<Option<ClientId>>, answer: Answer) -> Self {
        let effects = client.into().map(|client| Effect::Reply(client, answer)).into_iter().collect();
        Self { events: Vec::new(), effects }
    }
}
