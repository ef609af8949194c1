//! The private folder of a run on the node's disk (`GQ_TMPDIR`), in the run's own folder: made, opened, and, emptied, left for the next
//! run of the same user. Removing what is in it is `removal`.

use crate::{files::folder_path, identity::own_uid, user::Account};
use nix::{
    errno::Errno,
    fcntl::{OFlag, openat},
    sys::stat::{Mode, fchmod, fstat, mkdirat},
    unistd::{Gid, Uid as NixUid, UnlinkatFlags, fchown, unlinkat},
};
use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

/// Its name in the run's folder.
const SCRATCH: &str = "tmp";

/// Makes the private folder in the run's folder, or takes the one that an earlier run of the same user left there: mode 0700,
/// owned by the job's user. Returns its path, and itself opened; an earlier run may have left something in it.
///
/// # Errors
/// When the node's disk is full or the run's folder is gone.
pub fn make_scratch(folder: BorrowedFd<'_>, account: &Account) -> io::Result<(PathBuf, OwnedFd)> {
    let path = folder_path(folder)?.join(SCRATCH);
    if let Some(scratch) = open_scratch(folder)? {
        let seen = fstat(&scratch)?;
        if (seen.st_uid, seen.st_gid) == (account.uid.0, account.gid) {
            if seen.st_mode & 0o7777 != 0o700 {
                fchmod(&scratch, Mode::S_IRWXU)?;
            }
            return Ok((path, scratch));
        }
        unlinkat(folder, SCRATCH, UnlinkatFlags::RemoveDir)?;
    }
    mkdirat(folder, SCRATCH, Mode::S_IRWXU)?;
    let scratch = open_scratch(folder)?.ok_or(Errno::ENOENT)?;
    if account.uid != own_uid() {
        fchown(&scratch, Some(NixUid::from_raw(account.uid.0)), Some(Gid::from_raw(account.gid)))?;
    }
    Ok((path, scratch))
}

/// Opens the private folder in the run's folder; none when there is none.
///
/// # Errors
/// When it is no folder, or may not be read.
pub fn open_scratch(folder: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    match openat(folder, SCRATCH, flags, Mode::empty()) {
        Ok(scratch) => Ok(Some(scratch)),
        Err(Errno::ENOENT) => Ok(None),
        // In personal mode its user may have taken his own right to read it; it is his, so that he can be given it again.
        Err(Errno::EACCES) => {
            let flags = nix::sys::stat::FchmodatFlags::FollowSymlink;
            nix::sys::stat::fchmodat(folder, SCRATCH, Mode::S_IRWXU, flags)?;
            Ok(Some(openat(
                folder,
                SCRATCH,
                OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC,
                Mode::empty(),
            )?))
        }
        Err(e) => Err(e.into()),
    }
}

/// Whether nothing is left in the private folder of the run that this folder was of.
pub fn is_tidy(of_run: &Path) -> bool {
    match std::fs::read_dir(of_run.join(SCRATCH)) {
        Ok(mut entries) => entries.next().is_none(),
        Err(e) => e.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::is_empty_folder;
    use std::{
        fs,
        os::{
            fd::AsFd,
            unix::fs::{MetadataExt, PermissionsExt},
        },
    };

    #[test]
    fn the_next_run_of_a_user_takes_the_folder_that_the_last_one_left() {
        let home = tempfile::tempdir().unwrap();
        let run = fs::File::open(home.path()).unwrap();
        let account = Account::nameless(own_uid());
        assert!(open_scratch(run.as_fd()).unwrap().is_none());
        let (path, scratch) = make_scratch(run.as_fd(), &account).unwrap();
        let first = fs::metadata(&path).unwrap();
        assert!(first.mode() & 0o7777 == 0o700 && is_empty_folder(scratch.as_fd()).unwrap());
        for mode in [0o000, 0o777] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            make_scratch(run.as_fd(), &account).unwrap();
            let again = fs::metadata(&path).unwrap();
            assert_eq!((again.ino(), again.mode() & 0o7777), (first.ino(), 0o700));
        }
    }
}
