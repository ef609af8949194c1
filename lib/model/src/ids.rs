//! Ids: what names a job, a task, a run, a node, a life of a sender.

use alloc::string::{String, ToString};
use core::{fmt, str::FromStr};
use serde::{Deserialize, Serialize};

/// Why a text is not the id it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdError(
    /// What was expected.
    pub &'static str,
);
impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}", self.0)
    }
}
impl core::error::Error for IdError {}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}
number!(/// A job's number; the same for all tasks of an array. Never given twice.
    JobId(u64));
number!(/// A task's index within its array; a plain job has the one task 0.
    TaskIndex(u32));
number!(/// The number of an attempt at a task, counted from 1.
    RunNumber(u32));
number!(/// A Unix user id.
    Uid(u32));
number!(/// The number of a letter in one direction.
    Seq(u64));
number!(/// The count of a sender's lives.
    Epoch(u64));
number!(/// A node's sign of life: its boot clock when it gave it, in milliseconds; 0 is none.
    Beat(u64));

/// What names one run: the job, the task and the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunKey {
    /// The job.
    pub job: JobId,
    /// The task of the job.
    pub task: TaskIndex,
    /// The attempt, from 1.
    pub run: RunNumber,
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.job, self.task, self.run)
    }
}

impl FromStr for RunKey {
    type Err = IdError;
    fn from_str(s: &str) -> Result<Self, IdError> {
        const WHAT: IdError = IdError("JOB.TASK.RUN");
        let mut parts = s.split('.');
        let mut next =
            || parts.next().filter(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit())).ok_or(WHAT);
        let key = Self {
            job: JobId(next()?.parse().map_err(|_| WHAT)?),
            task: TaskIndex(next()?.parse().map_err(|_| WHAT)?),
            run: RunNumber(next()?.parse().map_err(|_| WHAT)?),
        };
        if parts.next().is_some() { Err(WHAT) } else { Ok(key) }
    }
}

macro_rules! hex128 {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(pub [u8; 16]);
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
            }
        }
        impl FromStr for $name {
            type Err = IdError;
            fn from_str(s: &str) -> Result<Self, IdError> {
                const WHAT: IdError = IdError("32 hexadecimal digits");
                let mut bytes = [0u8; 16];
                if s.len() != 32 || !s.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
                    return Err(WHAT);
                }
                for (i, byte) in bytes.iter_mut().enumerate() {
                    *byte = s.get(2 * i..2 * i + 2).and_then(|h| u8::from_str_radix(h, 16).ok()).ok_or(WHAT)?;
                }
                Ok(Self(bytes))
            }
        }
        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(s: String) -> Result<Self, IdError> {
                s.parse()
            }
        }
        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.to_string()
            }
        }
    };
}
hex128!(/// The random 128-bit word that makes a submission one submission, however often it is said.
    Token);
hex128!(/// The identity of one cluster (one state directory).
    ClusterId);
hex128!(/// The identity of one boot of a machine (`/proc/sys/kernel/random/boot_id` without its dashes).
    BootId);
hex128!(/// The identity of a node: made with its log, and made anew when that is lost, since nothing is known then of what ran before.
    NodeId);

/// A node's name: 1 to 63 letters, digits, `-`, `_` or `.`, beginning with a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeName(String);

impl NodeName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl FromStr for NodeName {
    type Err = IdError;
    fn from_str(s: &str) -> Result<Self, IdError> {
        let good = s.len() <= 63
            && s.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
            && s.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        if good {
            Ok(Self(s.to_string()))
        } else {
            Err(IdError("a node name: at most 63 letters, digits, - _ ."))
        }
    }
}
impl TryFrom<String> for NodeName {
    type Error = IdError;
    fn try_from(s: String) -> Result<Self, IdError> {
        s.parse()
    }
}
impl From<NodeName> for String {
    fn from(n: NodeName) -> String {
        n.0
    }
}

/// A job, or some tasks of it, as people name them: `17`, `17_3`, `17_[0-4,9]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRef {
    /// The job.
    pub job: JobId,
    /// The tasks meant; none means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<crate::IndexSet>,
}

impl fmt::Display for JobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tasks {
            None => write!(f, "{}", self.job),
            Some(set) if set.len() == 1 => write!(f, "{}_{set}", self.job),
            Some(set) => write!(f, "{}_[{set}]", self.job),
        }
    }
}

fn digits(text: &str) -> Result<&str, IdError> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) { Err(JOB_REF) } else { Ok(text) }
}

const JOB_REF: IdError = IdError("a job id such as 17, 17_3 or 17_[0-4]");

impl FromStr for JobRef {
    type Err = IdError;
    fn from_str(s: &str) -> Result<Self, IdError> {
        let (job, tasks) = s.split_once('_').map_or((s, None), |(j, t)| (j, Some(t)));
        let job = JobId(digits(job)?.parse().map_err(|_| JOB_REF)?);
        let Some(tasks) = tasks else { return Ok(Self { job, tasks: None }) };
        if tasks.contains(':') {
            return Err(JOB_REF);
        }
        let (set, _) = crate::IndexSet::read(tasks).map_err(|_| JOB_REF)?;
        Ok(Self { job, tasks: Some(set) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_and_tasks_read_back_as_written() {
        for text in ["17", "17_3", "17_[0-4,9]"] {
            assert_eq!(text.parse::<JobRef>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "x",
            "17_",
            "17_[",
            "17_[]",
            "-1",
            "+1",
            "1.5",
            "17_3-1",
            "99999999999999999999",
            "17_[0-4294967295]",
        ] {
            assert!(bad.parse::<JobRef>().is_err(), "{bad}");
        }
        let key: RunKey = "17.0.2".parse().unwrap();
        assert_eq!(key.to_string(), "17.0.2");
        assert!("17.0".parse::<RunKey>().is_err() && "17.0.2.1".parse::<RunKey>().is_err());
    }
}
