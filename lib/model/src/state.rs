//! States of a job, with Slurm's names and two-letter codes.

use core::{fmt, str::FromStr};
use serde::{Deserialize, Serialize};

/// How a run or a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum End {
    /// The script exited 0.
    Completed,
    /// The script exited otherwise, or a mistake of the user kept it from running.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
    /// The time limit passed.
    Timeout,
    /// The kernel killed a process of the job for want of memory.
    OutOfMemory,
    /// The node went away under it.
    NodeFail,
    /// It was ended for a more important job.
    Preempted,
    /// It could not end before its deadline.
    Deadline,
    /// The site kept it from starting, after all retries.
    LaunchFailed,
}

/// What state a job (or one of its tasks) is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobState {
    /// Waiting.
    Pending,
    /// Its node has been told to start it.
    Starting,
    /// Its script runs.
    Running,
    /// Stopped in place.
    Suspended,
    /// Its script has ended; processes or cards are still being taken back.
    Completing,
    /// Its node is lost; it may be alive.
    Unknown,
    /// It has ended.
    Ended(End),
}

impl End {
    /// All ends.
    pub const ALL: [Self; 9] = [
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Timeout,
        Self::OutOfMemory,
        Self::NodeFail,
        Self::Preempted,
        Self::Deadline,
        Self::LaunchFailed,
    ];
}

impl JobState {
    /// The states that are not ends.
    pub const LIVE: [Self; 6] =
        [Self::Pending, Self::Starting, Self::Running, Self::Suspended, Self::Completing, Self::Unknown];

    /// The state's name in full, as shown in listings and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Starting => "STARTING",
            Self::Running => "RUNNING",
            Self::Suspended => "SUSPENDED",
            Self::Completing => "COMPLETING",
            Self::Unknown => "UNKNOWN",
            Self::Ended(End::Completed) => "COMPLETED",
            Self::Ended(End::Failed) => "FAILED",
            Self::Ended(End::Cancelled) => "CANCELLED",
            Self::Ended(End::Timeout) => "TIMEOUT",
            Self::Ended(End::OutOfMemory) => "OUT_OF_MEMORY",
            Self::Ended(End::NodeFail) => "NODE_FAIL",
            Self::Ended(End::Preempted) => "PREEMPTED",
            Self::Ended(End::Deadline) => "DEADLINE",
            Self::Ended(End::LaunchFailed) => "LAUNCH_FAILED",
        }
    }

    /// The two-letter code. Slurm's, where Slurm has the state (`STARTING` is its `CF`, a failed launch its `BF`).
    pub const fn code(self) -> &'static str {
        match self {
            Self::Pending => "PD",
            Self::Starting => "CF",
            Self::Running => "R",
            Self::Suspended => "S",
            Self::Completing => "CG",
            Self::Unknown => "UN",
            Self::Ended(End::Completed) => "CD",
            Self::Ended(End::Failed) => "F",
            Self::Ended(End::Cancelled) => "CA",
            Self::Ended(End::Timeout) => "TO",
            Self::Ended(End::OutOfMemory) => "OOM",
            Self::Ended(End::NodeFail) => "NF",
            Self::Ended(End::Preempted) => "PR",
            Self::Ended(End::Deadline) => "DL",
            Self::Ended(End::LaunchFailed) => "BF",
        }
    }

    /// Whether this is an end.
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Ended(_))
    }

    /// Every state there is.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::LIVE.into_iter().chain(End::ALL.into_iter().map(Self::Ended))
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for JobState {
    type Err = crate::IdError;
    /// Reads a state by its name or code, in any case.
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Self::all()
            .find(|st| s.eq_ignore_ascii_case(st.name()) || s.eq_ignore_ascii_case(st.code()))
            .ok_or(crate::IdError("a job state such as PENDING, RUNNING, COMPLETED or PD, R, CD"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn every_state_has_a_name_and_a_code_of_its_own_and_reads_back() {
        let names: BTreeSet<_> = JobState::all().map(JobState::name).collect();
        let codes: BTreeSet<_> = JobState::all().map(JobState::code).collect();
        assert_eq!((names.len(), codes.len()), (15, 15));
        for state in JobState::all() {
            assert_eq!(state.name().parse(), Ok(state));
            assert_eq!(state.code().to_ascii_lowercase().parse(), Ok(state));
        }
    }
}
