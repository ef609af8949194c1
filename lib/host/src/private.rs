//! Folders of which a run sees its own, empty at first, whatever else stands there: in a mount namespace of its own, which goes with its last
//! process. So do shared memory and queues of System V, which lie in no folder.

use crate::machine::at;
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    sys::statfs::{TMPFS_MAGIC, statfs},
};
use std::{
    io,
    path::{Path, PathBuf},
};

/// Gives this process a view of its own, in which each of these folders is the run's private one; or empty memory, where it is memory for all.
/// `scratch`: where that lies, on a path that nobody but root can change.
///
/// Only for a process with a single thread, as a supervisor's child is, that is root.
///
/// # Errors
/// When a folder is not there, or the kernel refuses.
pub fn make_private(folders: &[PathBuf], scratch: &Path) -> io::Result<()> {
    if folders.is_empty() {
        return Ok(());
    }
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC)?;
    // What is mounted later on the machine is seen here too, and nothing of this there.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>)?;
    folders.iter().try_for_each(|folder| cover(folder, scratch).map_err(at(folder)))
}

fn cover(folder: &Path, scratch: &Path) -> io::Result<()> {
    if statfs(folder)?.filesystem_type() == TMPFS_MAGIC {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("tmpfs"), folder, Some("tmpfs"), flags, Some("mode=1777"))?;
    } else {
        mount(Some(scratch), folder, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
    }
    Ok(())
}

/// Whether runs can have these folders here; `any` is some folder. Tried in a thread that nobody shares anything with.
///
/// # Errors
/// When they cannot, with the reason.
pub fn can_be_private(folders: &[PathBuf], any: &Path) -> io::Result<()> {
    std::thread::scope(|scope| {
        let tried = scope.spawn(|| make_private(folders, any)).join();
        tried.unwrap_or_else(|_| Err(io::Error::other("the trial broke off")))
    })
}
