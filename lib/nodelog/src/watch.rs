//! Waiting for somebody to append to the log. A nudge only: what was appended is read by [`crate::Log::tail`].

use crate::log::LogError;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::{os::fd::AsFd, os::fd::BorrowedFd, path::Path};

/// Wakes whoever waits when a segment of the log grows.
#[derive(Debug)]
pub struct Watch {
    inotify: Inotify,
}

impl Watch {
    /// Watches the folder of a log.
    ///
    /// # Errors
    /// When the kernel has no watch left, or the folder is gone.
    pub fn open(dir: &Path) -> Result<Self, LogError> {
        let watch = || {
            let inotify = Inotify::init(InitFlags::IN_CLOEXEC)?;
            inotify.add_watch(dir, AddWatchFlags::IN_MODIFY)?;
            Ok::<_, nix::Error>(Self { inotify })
        };
        watch().map_err(|e| LogError::Watch(dir.to_path_buf(), e.into()))
    }

    /// Blocks until something was appended since the last call (by anybody, the caller's own process too).
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn wait(&self) -> Result<(), LogError> {
        loop {
            match self.inotify.read_events() {
                Ok(_) => return Ok(()),
                Err(nix::Error::EINTR) => {}
                Err(e) => return Err(LogError::Watch("the log's folder".into(), e.into())),
            }
        }
    }
}

impl AsFd for Watch {
    /// Readable when [`Watch::wait`] would not block.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}
