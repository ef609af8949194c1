//! Reasons: why a job waits, or why it ended as it did. One flat word each; details travel beside the word.

use core::{fmt, str::FromStr};
use serde::{Deserialize, Serialize};

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident => $word:literal,)*) => {
        /// Why a job waits, or why it ended as it did; shown as one flat word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Reason { $($(#[$doc])* #[serde(rename = $word)] $name,)* }
        impl Reason {
            /// Every reason there is.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
            /// The flat word.
            pub const fn word(self) -> &'static str { match self { $(Self::$name => $word,)* } }
        }
    };
}
reasons! {
    /// No reason is needed.
    None => "None",
    // Why a job waits.
    /// Not looked at yet: the next planning pass will.
    Scheduling => "Scheduling",
    /// Jobs of a higher place in the queue wait for the same resources.
    Priority => "Priority",
    /// It is the first in line, and what it needs is in use.
    Resources => "Resources",
    /// Its begin time is in the future.
    BeginTime => "BeginTime",
    /// Held by its user.
    JobHeldUser => "JobHeldUser",
    /// Held by an admin.
    JobHeldAdmin => "JobHeldAdmin",
    /// It waits for another job.
    Dependency => "Dependency",
    /// It waits for another job, and what it waits for can no longer come.
    DependencyNeverSatisfied => "DependencyNeverSatisfied",
    /// As many tasks of its array run as may at a time.
    ArrayTaskLimit => "JobArrayTaskLimit",
    /// It could not end before its deadline.
    Deadline => "DeadLine",
    /// It failed or could not be started, and waits for some time before it is tried again.
    Backoff => "Backoff",
    /// Its partition is down: it starts no jobs at present.
    PartitionDown => "PartitionDown",
    /// Its partition is inactive: it neither takes nor starts jobs at present.
    PartitionInactive => "PartitionInactive",
    /// Nodes that could run it are down or drained.
    NodesUnavailable => "ReqNodeNotAvail",
    /// Its time limit is longer than its partition allows.
    PartitionTimeLimit => "PartitionTimeLimit",
    /// Its user has as many jobs running as his QOS or partition allows.
    UserJobLimit => "QOSMaxJobsPerUserLimit",
    /// Its user has as many cards in use as his QOS or partition allows.
    UserCardLimit => "QOSMaxGRESPerUser",
    /// Its user has as many cpus in use as his QOS or partition allows.
    UserCpuLimit => "QOSMaxCpuPerUserLimit",
    /// Its QOS or partition has as many jobs running as it may.
    GroupJobLimit => "QOSGrpJobsLimit",
    /// Its QOS or partition has as many cards in use as it may.
    GroupCardLimit => "QOSGrpGRES",
    /// Its QOS or partition has as many cpus in use as it may.
    GroupCpuLimit => "QOSGrpCpuLimit",
    /// Its account has as many jobs running as it may.
    AccountJobLimit => "AssocGrpJobsLimit",
    /// Its account has as many cards in use as it may.
    AccountCardLimit => "AssocGrpGRES",
    /// Its account has as many cpus in use as it may.
    AccountCpuLimit => "AssocGrpCpuLimit",
    /// Its account has used up its card-minutes for now.
    CardMinutes => "AssocGrpGRESMinutes",
    /// The budget of its account or user is used up for now.
    Budget => "BudgetUsedUp",
    /// Its licences are in use.
    Licences => "Licenses",
    /// Its advance reservation has not begun, is over or is gone; or one of others keeps it from starting.
    Reservation => "Reservation",
    /// The cards it asks for are failing or used by somebody else, or the slices it asks for are not there at present.
    CardsUnavailable => "ReqGRESNotAvail",
    /// It makes room for a more important job.
    Preempted => "Preempted",
    /// No node that is declared or was ever seen could run it.
    Never => "BadConstraints",
    // Why a job ended as it did.
    /// The script's exit code was not 0.
    NonZeroExitCode => "NonZeroExitCode",
    /// A signal ended the script.
    RaisedSignal => "RaisedSignal",
    /// The time limit passed.
    TimeLimit => "TimeLimit",
    /// A user or admin cancelled it.
    Cancelled => "Cancelled",
    /// A process of it was killed for want of memory.
    OutOfMemory => "OutOfMemory",
    /// It used more memory of a card that it shared than it had declared.
    GpuMemory => "GpuMemory",
    /// Its cards were idle for longer than its partition allows.
    IdleCards => "IdleCards",
    /// Its supervisor was killed.
    SupervisorLost => "SupervisorLost",
    /// The node went away or was booted again under it.
    NodeFailure => "NodeDown",
    /// Its working directory cannot be entered.
    WorkDir => "WorkDir",
    /// Its output file cannot be opened.
    OutputFile => "OutputFile",
    /// Its input file cannot be opened.
    InputFile => "InputFile",
    /// Its user has no account on the node.
    UserGone => "UserGone",
    /// The job file is not the one that was accepted.
    JobFileChanged => "JobFileChanged",
    /// The script cannot be executed.
    ExecFailed => "ExecFailed",
    /// The site kept it from starting.
    LaunchFailure => "JobLaunchFailure",
    /// Its node is short of something at present, such as room on its disk: it can start nothing.
    NodeTrouble => "NodeTrouble",
    /// A card or slice it was given failed or is gone.
    CardGone => "CardGone",
    /// The site's prolog failed.
    Prolog => "Prolog",
    /// It waited longer than its user wanted it to.
    WaitedTooLong => "MaxWait",
    /// The script that was to prepare it failed.
    PrepFailed => "PrepFailed",
    /// Its container could not be started.
    Container => "Container",
    /// A requeue ended this run; the job goes on.
    Requeued => "Requeued",
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}
impl FromStr for Reason {
    type Err = crate::IdError;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Self::ALL.iter().copied().find(|r| r.word() == s).ok_or(crate::IdError("a reason's word"))
    }
}
