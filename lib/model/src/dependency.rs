//! Dependencies as they are asked for, in Slurm's words: `afterok:17:18,afterany:19_3`, `after:17+5`, `singleton`; joined by `,` all of them
//! must be met, by `?` one of them.

use crate::JobRef;
use alloc::{string::String, vec::Vec};
use core::{fmt, str::FromStr};
use serde::{Deserialize, Serialize};

/// Most jobs that a dependency names.
pub const MAX_TERMS: usize = 10_000;

/// What must have become of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum When {
    /// It has started (all its tasks have) or was cancelled, so many minutes ago.
    After(u32),
    /// It has ended, in whatever way.
    AfterAny,
    /// It has ended, and every task of it COMPLETED.
    AfterOk,
    /// It has ended, and some task of it did not COMPLETE.
    AfterNotOk,
    /// Task by task: the task of the same index COMPLETED.
    AfterCorr,
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Term {
    /// On a job, or tasks of one.
    Job {
        /// What must have become of it.
        when: When,
        /// Which.
        on: JobRef,
    },
    /// No job of the same user and name that was submitted before lives.
    Singleton,
}

/// All conditions of a job. Its serial form is its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// Whether one of them is enough.
    pub any: bool,
    /// The conditions; at least one.
    pub terms: Vec<Term>,
}

/// Why a text is no dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependencyError {
    /// It cannot be read.
    Syntax,
    /// Both `,` and `?` join its conditions.
    Mixed,
    /// It names too many jobs.
    TooMany,
}

impl fmt::Display for DependencyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax => f.write_str(
                "expected after[:ID+MINUTES], afterany, afterok, afternotok or aftercorr with job ids behind \
                 colons, or singleton: afterok:17:18,afterany:19_3",
            ),
            Self::Mixed => f.write_str(
                "conditions are joined either by , (all of them) or by ? (one of them), not by both",
            ),
            Self::TooMany => write!(f, "more than {MAX_TERMS} jobs"),
        }
    }
}
impl core::error::Error for DependencyError {}

impl Dependency {
    /// The jobs that it names, as often as it does.
    pub fn jobs(&self) -> impl Iterator<Item = crate::JobId> + '_ {
        self.terms.iter().filter_map(|term| match term {
            Term::Job { on, .. } => Some(on.job),
            Term::Singleton => None,
        })
    }
}

impl FromStr for Dependency {
    type Err = DependencyError;
    fn from_str(text: &str) -> Result<Self, DependencyError> {
        let any = outside_brackets(text, '?');
        if any && outside_brackets(text, ',') {
            return Err(DependencyError::Mixed);
        }
        let mut terms = Vec::new();
        for part in split(text, if any { '?' } else { ',' }) {
            if part.eq_ignore_ascii_case("singleton") {
                terms.push(Term::Singleton);
                continue;
            }
            let (word, jobs) = part.split_once(':').ok_or(DependencyError::Syntax)?;
            for job in jobs.split(':') {
                terms.push(term(word, job)?);
                if terms.len() > MAX_TERMS {
                    return Err(DependencyError::TooMany);
                }
            }
        }
        Ok(Self { any, terms })
    }
}

fn term(word: &str, job: &str) -> Result<Term, DependencyError> {
    let lower = word.to_ascii_lowercase();
    let (job, minutes) = match job.split_once('+') {
        Some((job, minutes)) if lower == "after" => {
            (job, minutes.parse().map_err(|_| DependencyError::Syntax)?)
        }
        Some(_) => return Err(DependencyError::Syntax),
        None => (job, 0),
    };
    let when = match lower.as_str() {
        "after" => When::After(minutes),
        "afterany" => When::AfterAny,
        "afterok" => When::AfterOk,
        "afternotok" => When::AfterNotOk,
        "aftercorr" => When::AfterCorr,
        _ => return Err(DependencyError::Syntax),
    };
    let on: JobRef = job.parse().map_err(|_| DependencyError::Syntax)?;
    if when == When::AfterCorr && on.tasks.is_some() {
        return Err(DependencyError::Syntax);
    }
    Ok(Term::Job { when, on })
}

/// Whether `sign` stands outside the brackets of `17_[0-4,9]`.
fn outside_brackets(text: &str, sign: char) -> bool {
    split(text, sign).nth(1).is_some()
}

/// Splits at each `sign` outside brackets.
fn split(text: &str, sign: char) -> impl Iterator<Item = &str> {
    let mut depth = 0u32;
    text.split(move |c| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == sign && depth == 0
    })
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::After(_) => "after",
            Self::AfterAny => "afterany",
            Self::AfterOk => "afterok",
            Self::AfterNotOk => "afternotok",
            Self::AfterCorr => "aftercorr",
        })
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Singleton => f.write_str("singleton"),
            Self::Job { when: when @ When::After(minutes), on } if *minutes > 0 => {
                write!(f, "{when}:{on}+{minutes}")
            }
            Self::Job { when, on } => write!(f, "{when}:{on}"),
        }
    }
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, term) in self.terms.iter().enumerate() {
            let sign = if at == 0 {
                ""
            } else if self.any {
                "?"
            } else {
                ","
            };
            write!(f, "{sign}{term}")?;
        }
        Ok(())
    }
}

impl Serialize for Dependency {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for Dependency {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn dependencies_are_read_as_slurm_reads_them_and_mistakes_are_refused() {
        for (text, shown) in [
            ("afterok:17", "afterok:17"),
            ("afterok:17:18", "afterok:17,afterok:18"),
            ("afterok:17,AfterAny:19_3", "afterok:17,afterany:19_3"),
            ("after:17+5", "after:17+5"),
            ("after:17:18+2", "after:17,after:18+2"),
            ("afterok:1?afternotok:2", "afterok:1?afternotok:2"),
            ("aftercorr:17", "aftercorr:17"),
            ("singleton", "singleton"),
            ("afterok:17_[0-4,9]:18", "afterok:17_[0-4,9],afterok:18"),
            ("singleton,afterok:3", "singleton,afterok:3"),
        ] {
            let read: Dependency = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(read.to_string(), shown);
            assert_eq!(shown.parse::<Dependency>().as_ref(), Ok(&read), "{shown} does not read back");
        }
        for bad in [
            "",
            ",",
            "afterok",
            "afterok:",
            "afterok:,",
            "afterok:1,",
            "expand:1",
            "afterok:x",
            "afterok:1+5",
            "after:1+",
            "after:1+x",
            "singleton:1",
            "afterany:1,afterany:2?afterany:3",
            "17",
            ":17",
            "aftercorr:17_3",
        ] {
            assert!(bad.parse::<Dependency>().is_err(), "{bad}");
        }
    }
}
