//! What can be wrong with a spool or with a file in it, in words for people.

use nix::errno::Errno;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why something in the spool was not done.
#[derive(Debug, Error)]
pub enum SpoolError {
    /// A folder or file is not as safe as it must be; nothing was done with it.
    #[error("{}: {what}\n  try: {remedy}", path.display())]
    Unsafe {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// The system refused something.
    #[error("{}: cannot {doing}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A name is not of the form that it must have, or is taken.
    #[error("{name:?}: {what}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// What was read is more than is ever written there.
    #[error("{}: {size} bytes; {most} at most", path.display())]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// How large it is.
        size: u64,
        /// How large it may be.
        most: u64,
    },
}

impl SpoolError {
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::Io { doing, path: path.into(), source: errno.into() }
    }
    pub(crate) fn not_safe(path: &Path, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Unsafe { path: path.to_owned(), what: what.into(), remedy: remedy.into() }
    }
}

/// Why a file in the drop box was not taken.
#[derive(Debug, Error)]
pub enum DropError {
    /// There is no such file.
    #[error("no such file in the drop box")]
    Missing,
    /// It breaks a rule, so that it proves nothing about who made it.
    #[error("not taken as its owner's: {0}")]
    NotYours(&'static str),
    /// It is larger than a job file may be.
    #[error("{size} bytes; a job file has {} at most", gq_model::MAX_JOB_FILE)]
    TooLarge {
        /// How large it is.
        size: u64,
    },
    /// It was being written while it was read; try again.
    #[error("it changed while it was read")]
    Changing,
    /// The drop box itself is no longer safe: nothing is taken from it.
    #[error("the drop box is shut: {0}")]
    Shut(#[source] Box<SpoolError>),
    /// The system refused something.
    #[error("cannot read it: {0}")]
    Io(#[from] io::Error),
}
