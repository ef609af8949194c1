//! What can go wrong on a socket, told apart as far as somebody acts on it.

use std::{io, path::PathBuf};
use thiserror::Error;

/// Why a socket did not do what was asked.
#[derive(Debug, Error)]
pub enum IpcError {
    /// There is no socket of that name, or nobody listens on it.
    #[error("nobody listens at {}: {source}", path.display())]
    NotThere {
        /// The socket's path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What has the socket's name is something else; it is left as it is.
    #[error("{} is {what}, not a socket: remove it or choose another place", path.display())]
    Squatted {
        /// The socket's path.
        path: PathBuf,
        /// What is there.
        what: &'static str,
    },
    /// The other side is gone, perhaps in the middle of a frame.
    #[error("the other side closed the connection")]
    Closed,
    /// The time set by [`crate::Conn::set_timeouts`] has passed. Only when it passed before the first byte of a frame
    /// can the connection be used further.
    #[error("the other side did not answer in time")]
    Timeout,
    /// A frame is larger than the reader takes; nothing of it was read, and the connection cannot be used further.
    #[error("a frame of {len} bytes, where {max} are the most")]
    TooLarge {
        /// The frame's length.
        len: usize,
        /// The most that is taken.
        max: usize,
    },
    /// Something else.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

impl IpcError {
    pub(crate) fn io(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Io { what: what.into(), source: source.into() }
    }

    /// Sorts an error of an open connection.
    pub(crate) fn sorted(what: &str, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Timeout,
            io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::NotConnected
            | io::ErrorKind::UnexpectedEof => Self::Closed,
            _ => Self::io(what, source),
        }
    }
}
