//! Removing what users made: folders of any depth and width, with any modes. No symbolic link is followed, nothing that is mounted is
//! entered, nothing of another user's than the owner of the folder it lies in is touched by root, and two descriptors are enough, since what lies deep is moved up before it is removed.

use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{AtFlags, OFlag, openat, renameat},
    sys::stat::{FchmodatFlags, Mode, fchmod, fchmodat, fstat, fstatat},
    unistd::{UnlinkatFlags, geteuid, unlinkat},
};
use std::{
    ffi::{CStr, CString},
    fs::OpenOptions,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::OpenOptionsExt,
    },
    path::Path,
    time::Instant,
};

/// Names that are read before they are removed.
const AT_ONCE: usize = 1024;
const FOLDER: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// Whether nothing is in an open folder.
///
/// # Errors
/// When it cannot be read.
pub fn is_empty_folder(folder: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(some_names(folder, 1)?.is_empty())
}

/// Removes a folder and all that is in it; one that is not there is removed.
///
/// # Errors
/// When something cannot be removed, or not before `until`.
pub fn remove_folder(path: &Path, until: Instant) -> io::Result<()> {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path);
    match opened {
        Ok(folder) => empty_folder(folder.as_fd(), until)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
    }
    std::fs::remove_dir(path)
}

/// Removes all that is in an open folder. What belongs to this process's user is made writable for it where it must be.
///
/// # Errors
/// When something cannot be removed, or not before `until`.
pub fn empty_folder(folder: BorrowedFd<'_>, until: Instant) -> io::Result<()> {
    let device = fstat(folder)?.st_dev;
    let mut emptying = Emptying { top: folder, device, is_root: geteuid().is_root(), moved: 0, until };
    emptying.open_up(folder);
    emptying.each(folder, Emptying::remove)
}

/// A folder that is being emptied.
struct Emptying<'a> {
    top: BorrowedFd<'a>,
    /// The file system that is not left.
    device: u64,
    /// Root may do everything as it is, and changes no mode of what others may have put in its way.
    is_root: bool,
    /// How many folders were moved up.
    moved: u64,
    until: Instant,
}

impl Emptying<'_> {
    /// Does `act` to each name in `folder` until none is left, or none goes away any more.
    fn each(
        &mut self,
        folder: BorrowedFd<'_>,
        act: fn(&mut Self, BorrowedFd<'_>, &CStr) -> Result<(), Errno>,
    ) -> io::Result<()> {
        loop {
            let names = some_names(folder, AT_ONCE)?;
            let (mut gone, mut trouble) = (0, None);
            for name in &names {
                if Instant::now() >= self.until {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                match act(self, folder, name) {
                    Ok(()) => gone += 1,
                    Err(e) => trouble = Some(e),
                }
            }
            match trouble {
                Some(e) if gone == 0 => return Err(e.into()),
                _ if names.is_empty() => return Ok(()),
                _ => {}
            }
        }
    }

    /// Whether root may take a name away for the owner of the folder it is in: what a user moved here and could not remove is another's.
    fn is_its_owners(&self, folder: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
        if !self.is_root {
            return Ok(());
        }
        let (owner, what) = (fstat(folder)?.st_uid, fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW));
        match what {
            Ok(what) if owner != 0 && what.st_uid != owner => Err(Errno::EPERM),
            Ok(_) | Err(Errno::ENOENT) => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Removes what has this name in the top folder.
    fn remove(&mut self, folder: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
        self.is_its_owners(folder, name)?;
        if remove_simply(folder, name)? {
            return Ok(());
        }
        let inner = self.enter(folder, name)?;
        self.each(inner.as_fd(), Self::move_up)
            .map_err(|e| Errno::from_raw(e.raw_os_error().unwrap_or(0)))?;
        unlinkat(folder, name, UnlinkatFlags::RemoveDir)
    }

    /// Removes what has this name in a folder below the top, or moves it up.
    fn move_up(&mut self, folder: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
        self.is_its_owners(folder, name)?;
        if remove_simply(folder, name)? {
            return Ok(());
        }
        loop {
            self.moved += 1;
            match self.rename(folder, name, &format!(".gq-{}", self.moved)) {
                Err(Errno::EEXIST | Errno::ENOTEMPTY | Errno::ENOTDIR) => {}
                done => return done,
            }
        }
    }

    fn rename(&self, folder: BorrowedFd<'_>, name: &CStr, new: &str) -> Result<(), Errno> {
        match renameat(folder, name, self.top, new) {
            // A folder is changed by its moving, too.
            Err(Errno::EACCES) if !self.is_root => {
                fchmodat(folder, name, Mode::S_IRWXU, FchmodatFlags::FollowSymlink)?;
                renameat(folder, name, self.top, new)
            }
            done => done,
        }
    }

    /// Opens a folder of the same file system.
    fn enter(&self, folder: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
        let open = || openat(folder, name, FOLDER, Mode::empty());
        let inner = match open() {
            Err(Errno::EACCES) if !self.is_root => {
                fchmodat(folder, name, Mode::S_IRWXU, FchmodatFlags::FollowSymlink)?;
                open()
            }
            opened => opened,
        }?;
        if fstat(&inner)?.st_dev != self.device {
            return Err(Errno::EXDEV);
        }
        self.open_up(inner.as_fd());
        Ok(inner)
    }

    fn open_up(&self, folder: BorrowedFd<'_>) {
        if !self.is_root {
            // If it is another's, the next call says what that means.
            let _ = fchmod(folder, Mode::S_IRWXU);
        }
    }
}

/// Removes a file, or a folder that is empty; false when it is a folder that is not.
fn remove_simply(folder: BorrowedFd<'_>, name: &CStr) -> Result<bool, Errno> {
    match unlinkat(folder, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => return Ok(true),
        Err(Errno::EISDIR | Errno::EPERM) => {}
        Err(e) => return Err(e),
    }
    match unlinkat(folder, name, UnlinkatFlags::RemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(true),
        Err(Errno::ENOTEMPTY | Errno::EEXIST) => Ok(false),
        Err(e) => Err(e),
    }
}

fn some_names(folder: BorrowedFd<'_>, most: usize) -> io::Result<Vec<CString>> {
    let mut dir = Dir::openat(folder, ".", FOLDER, Mode::empty())?;
    let mut names = Vec::new();
    for entry in dir.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
            if names.len() >= most {
                break;
            }
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
        time::Duration,
    };

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    #[test]
    fn root_removes_nothing_for_a_user_that_is_anothers() {
        if !geteuid().is_root() {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let scratch = home.path().join("scratch");
        let own = |path: &Path, uid: u32| std::os::unix::fs::lchown(path, Some(uid), Some(uid)).unwrap();
        for folder in ["mine/deep", "theirs/private"] {
            fs::create_dir_all(scratch.join(folder)).unwrap();
        }
        fs::write(scratch.join("theirs/private/thesis"), "x").unwrap();
        fs::write(scratch.join("mine/deep/file"), "x").unwrap();
        fs::create_dir(scratch.join("mine/deep/theirs")).unwrap();
        fs::write(scratch.join("mine/deep/theirs/note"), "x").unwrap();
        for (path, uid) in [("", 1001), ("mine", 1001), ("mine/deep", 1001), ("mine/deep/file", 1001)] {
            own(&scratch.join(path), uid);
        }
        for path in ["theirs", "theirs/private", "theirs/private/thesis", "mine/deep/theirs"] {
            own(&scratch.join(path), 1002);
        }
        assert!(remove_folder(&scratch, soon()).is_err());
        assert_eq!(fs::read(scratch.join("theirs/private/thesis")).unwrap(), b"x");
        // What it lay in was moved up on its way out.
        let kept = fs::read_dir(&scratch).unwrap().map(|entry| entry.unwrap().path().join("theirs/note"));
        assert!(kept.into_iter().any(|note| fs::read(note).is_ok_and(|text| text == b"x")));
        assert!(!scratch.join("mine/deep/file").exists());
    }

    #[test]
    fn deep_wide_closed_and_odd_things_go_and_what_links_lead_to_stays() {
        let home = tempfile::tempdir().unwrap();
        let (inside, outside) = (home.path().join("in"), home.path().join("out"));
        fs::create_dir_all(inside.join("closed/more")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("mine"), "x").unwrap();
        symlink(&outside, inside.join("link")).unwrap();
        symlink(&outside, inside.join("closed/link")).unwrap();
        fs::write(inside.join("closed/more/file"), "x").unwrap();
        // A name that the moving up uses itself.
        fs::create_dir_all(inside.join(".gq-1/x/y")).unwrap();
        for n in 0..2 * AT_ONCE + 3 {
            fs::write(inside.join(format!("wide \n{n}")), "").unwrap();
        }
        // Deeper than a path can say, and than descriptors could be open.
        let step = "d".repeat(200);
        let mut at: OwnedFd = fs::File::open(&inside).unwrap().into();
        for _ in 0..600 {
            nix::sys::stat::mkdirat(&at, step.as_str(), Mode::S_IRWXU).unwrap();
            at = openat(&at, step.as_str(), FOLDER, Mode::empty()).unwrap();
        }
        drop(at);
        for closed in ["closed/more", "closed"] {
            fs::set_permissions(inside.join(closed), fs::Permissions::from_mode(0o000)).unwrap();
        }
        let folder = fs::File::open(&inside).unwrap();
        assert!(!is_empty_folder(folder.as_fd()).unwrap());
        let late = empty_folder(folder.as_fd(), Instant::now());
        assert_eq!(late.unwrap_err().kind(), io::ErrorKind::TimedOut);
        empty_folder(folder.as_fd(), soon()).unwrap();
        assert!(is_empty_folder(folder.as_fd()).unwrap());
        assert_eq!(fs::read(outside.join("mine")).unwrap(), b"x");
        remove_folder(&inside, soon()).unwrap();
        assert!(!inside.exists());
        remove_folder(&inside, soon()).unwrap();
        // Itself a link: not followed.
        symlink(&outside, &inside).unwrap();
        assert!(remove_folder(&inside, soon()).is_err() && outside.join("mine").exists());
    }
}
