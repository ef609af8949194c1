//! The files of one run: the job file, read as its owner, and the script made from it in the run's folder.

use crate::{identity::own_uid, user::Account};
use gq_model::Uid;
use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2},
    sys::stat::{FchmodatFlags, Mode, fchmod, fchmodat},
    unistd::{Gid, Uid as NixUid, UnlinkatFlags, fchown, unlinkat},
};
use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};
use thiserror::Error;

/// The script's name in the run's folder.
const SCRIPT: &str = "script";
/// Its mode: its user reads and executes it.
const SCRIPT_MODE: Mode = Mode::S_IRUSR.union(Mode::S_IXUSR);

/// Why a job file was not read.
#[derive(Debug, Error)]
pub enum JobFileTrouble {
    /// It cannot be reached: the spool's fault.
    #[error("{}", crate::machine::words(.0))]
    Away(#[source] io::Error),
    /// It is there, and it is not what was accepted: its owner's fault.
    #[error("{0}")]
    Changed(&'static str),
}

/// Reads a job file below the spool directory, as its owner, once: what is returned is what has been checked. No
/// symbolic link below the spool is followed.
///
/// # Errors
/// [`JobFileTrouble`].
pub fn read_job_file(spool: &Path, name: &Path, owner: Uid, most: usize) -> Result<Vec<u8>, JobFileTrouble> {
    use JobFileTrouble::{Away, Changed};
    let mut file = match open_below(spool, name) {
        Ok(file) => file,
        // It can be seen and not opened: its owner has taken his own right to read it.
        Err(e)
            if e.kind() == io::ErrorKind::PermissionDenied && spool.join(name).symlink_metadata().is_ok() =>
        {
            return Err(Changed("its owner may not read it"));
        }
        // An open that does not wait is refused so while its owner keeps a lease on the file.
        Err(e) if e.raw_os_error() == Some(libc::EAGAIN) => {
            return Err(Changed("its owner keeps it locked (a lease)"));
        }
        Err(e) if e.raw_os_error() == Some(libc::ELOOP) => return Err(Changed("there is a symbolic link")),
        Err(e) if e.raw_os_error() == Some(libc::EXDEV) => return Err(Changed("it is not in the spool")),
        Err(e) => return Err(Away(e)),
    };
    let meta = file.metadata().map_err(Away)?;
    if !meta.is_file() {
        return Err(Changed("it is no regular file"));
    }
    if meta.uid() != owner.0 {
        return Err(Changed("it belongs to another user"));
    }
    if meta.nlink() != 1 {
        return Err(Changed("it has another name elsewhere"));
    }
    if meta.mode() & 0o022 != 0 {
        return Err(Changed("others may write to it"));
    }
    if meta.len() > most as u64 {
        return Err(Changed("it is too large"));
    }
    let mut bytes = Vec::with_capacity(meta.len() as usize + 1);
    file.by_ref().take(most as u64 + 1).read_to_end(&mut bytes).map_err(Away)?;
    if bytes.len() > most {
        return Err(Changed("it is too large"));
    }
    Ok(bytes)
}

fn open_below(spool: &Path, name: &Path) -> io::Result<File> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let folder = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(spool)?;
    let below = ResolveFlag::RESOLVE_BENEATH
        | ResolveFlag::RESOLVE_NO_SYMLINKS
        | ResolveFlag::RESOLVE_NO_MAGICLINKS
        | ResolveFlag::RESOLVE_NO_XDEV;
    match openat2(&folder, name, OpenHow::new().flags(flags).resolve(below)) {
        Ok(fd) => Ok(fd.into()),
        // A kernel before 5.6.
        Err(Errno::ENOSYS) => Ok(openat(&folder, name, flags, Mode::empty())?.into()),
        Err(e) => Err(e.into()),
    }
}

/// The path of an open folder.
///
/// # Errors
/// When it was removed.
pub fn folder_path(folder: BorrowedFd<'_>) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

/// Makes the empty script file in the run's folder, or takes the one that an earlier run of the same user left there: mode 0500,
/// owned by the job's user. Returns its path and the only descriptor that can write it; close that before executing it.
///
/// # Errors
/// When the node's disk is full or the folder is gone.
pub fn make_script(folder: BorrowedFd<'_>, account: &Account) -> io::Result<(PathBuf, File)> {
    let path = folder_path(folder)?.join(SCRIPT);
    if let Some(file) = take_script(folder, account) {
        return Ok((path, file));
    }
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    let make = || openat(folder, SCRIPT, flags, SCRIPT_MODE);
    let file = match make() {
        Err(Errno::EEXIST) => {
            unlinkat(folder, SCRIPT, UnlinkatFlags::NoRemoveDir)?;
            make()
        }
        made => made,
    }?;
    if account.uid != own_uid() {
        fchown(&file, Some(NixUid::from_raw(account.uid.0)), Some(Gid::from_raw(account.gid)))?;
    }
    Ok((path, file.into()))
}

/// The script file that an earlier run left, emptied; none when it is not just what a run of this user leaves.
fn take_script(folder: BorrowedFd<'_>, account: &Account) -> Option<File> {
    // Its owner may not write it as it is; only its owner or root can change that.
    fchmodat(folder, SCRIPT, Mode::S_IRWXU, FchmodatFlags::FollowSymlink).ok()?;
    let flags = OFlag::O_WRONLY | OFlag::O_TRUNC | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file: File = openat(folder, SCRIPT, flags, Mode::empty()).ok()?.into();
    let meta = file.metadata().ok()?;
    let is_ours =
        meta.is_file() && meta.nlink() == 1 && (meta.uid(), meta.gid()) == (account.uid.0, account.gid);
    (is_ours && fchmod(&file, SCRIPT_MODE).is_ok()).then_some(file)
}

/// Empties the script file, which stays for another run of its user; it may be gone.
///
/// # Errors
/// When it can neither be emptied nor removed.
pub fn empty_script(folder: BorrowedFd<'_>) -> io::Result<()> {
    let emptied = fchmodat(folder, SCRIPT, Mode::S_IRWXU, FchmodatFlags::FollowSymlink).and_then(|()| {
        openat(
            folder,
            SCRIPT,
            OFlag::O_WRONLY | OFlag::O_TRUNC | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW,
            Mode::empty(),
        )
    });
    if emptied.is_ok() {
        return Ok(());
    }
    match unlinkat(folder, SCRIPT, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(e) => Err(e.into()),
    }
}
