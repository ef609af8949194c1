//! Errors of requests: where, which option, what is wrong, what to do. They end a client with exit code 2.

use gq_model::{ArrayError, DependencyError, DurationError, HostListError, RecipientError, SizeError};
use std::{fmt, sync::Arc};
use thiserror::Error;

/// Where something was said; a later variant wins over an earlier one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A `#GQ` or `#SBATCH` line.
    Script {
        /// The script as it was named.
        name: Arc<str>,
        /// The line, from 1.
        line: usize,
    },
    /// A `GQSUB_*` variable.
    Environment,
    /// The command line.
    CommandLine,
}

impl Place {
    /// The rank: what is said at a higher one wins.
    pub(crate) const fn rank(&self) -> u8 {
        match self {
            Self::Script { .. } => 0,
            Self::Environment => 1,
            Self::CommandLine => 2,
        }
    }
}

impl fmt::Display for Place {
    /// Writes `train.sh:4`, `environment` or `command line`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Script { name, line } => write!(f, "{name}:{line}"),
            Self::Environment => f.write_str("environment"),
            Self::CommandLine => f.write_str("command line"),
        }
    }
}

/// What is wrong.
#[derive(Debug, Error)]
pub enum Problem {
    /// An option of Slurm's, or one that gq promises, which this version does not have.
    #[error("{0} is not built yet in this version of gq")]
    NotBuilt(String),
    /// An option that nobody knows.
    #[error("no such option")]
    Unknown,
    /// A duration that is none.
    #[error(transparent)]
    Duration(#[from] DurationError),
    /// A size that is none.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// A host list that is none.
    #[error(transparent)]
    Hosts(#[from] HostListError),
    /// An array that is none.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// A dependency that is none.
    #[error(transparent)]
    Dependency(#[from] DependencyError),
    /// Recipients that are none.
    #[error(transparent)]
    Recipients(#[from] RecipientError),
    /// A file that an option names and that cannot be read.
    #[error("cannot read it: {0}")]
    Unreadable(#[from] std::io::Error),
    /// Another value that is not as it should be.
    #[error("expected {0}")]
    Expected(&'static str),
    /// Bytes where text is needed.
    #[error("not UTF-8 text")]
    NotText,
    /// Said where it cannot be.
    #[error("only possible on the command line")]
    CommandLineOnly,
    /// Two words that cannot both be obeyed.
    #[error("contradicts {0}")]
    Contradicts(String),
    /// Something else.
    #[error("{0}")]
    Other(&'static str),
    /// Something longer than it may be.
    #[error("{0} bytes: {1} at most")]
    TooLong(usize, usize),
}

/// Why a request was not made.
#[derive(Debug)]
pub struct AskError {
    /// Where: the script and the line; none when `what` says it all.
    pub place: Option<Place>,
    /// What: `--time=abc`, `GQSUB_TIME=abc`, or empty. Safe to be shown.
    pub what: String,
    /// What is wrong with it.
    pub problem: Problem,
    /// What to do; none when `problem` says it.
    pub hint: Option<String>,
}

impl AskError {
    /// The exit code of a client that ends with this error.
    pub const EXIT_CODE: u8 = 2;

    pub(crate) fn new(place: &Place, what: impl Into<String>, problem: Problem) -> Self {
        Self { place: Some(place.clone()), what: what.into(), problem, hint: None }
    }
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for AskError {
    /// Writes where, what and why; the hint is apart.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place @ Place::Script { .. }) = &self.place {
            write!(f, "{place}: ")?;
        }
        // "--array is not built yet" names the option itself.
        if !self.what.is_empty() && !matches!(self.problem, Problem::NotBuilt(_)) {
            write!(f, "{}: ", self.what)?;
        }
        self.problem.fmt(f)
    }
}

impl std::error::Error for AskError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.problem)
    }
}
