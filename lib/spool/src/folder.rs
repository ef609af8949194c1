//! Folders that can be trusted: who owns them, who may write in them, and in all above them. Makes them, too.

use crate::SpoolError;
use nix::NixPath;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{FileStat, Mode, fchmod, fstat, fstatat, lstat, mkdirat};
use nix::unistd::{Gid, Group, Uid, User, fchown};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// Most symbolic links on the way to a folder, as in the kernel.
const MAX_LINKS: usize = 40;

/// The permission bits, with set-id and sticky.
pub(crate) fn mode_of(stat: &FileStat) -> u32 {
    stat.st_mode & 0o7777
}

pub(crate) fn is_kind(stat: &FileStat, kind: nix::libc::mode_t) -> bool {
    stat.st_mode & nix::libc::S_IFMT == kind
}

/// Refuses `folder` when somebody besides root and `owner` could exchange a folder on the way to it.
pub(crate) fn check_above(folder: &Path, owner: u32) -> Result<(), SpoolError> {
    let whole = std::path::absolute(folder).map_err(|source| SpoolError::Io {
        doing: "find",
        path: folder.to_owned(),
        source,
    })?;
    let mut todo: VecDeque<OsString> = parts(whole.parent().unwrap_or(Path::new("/")));
    let mut done = PathBuf::from("/");
    let mut links = 0;
    check_one(&done, owner)?;
    while let Some(part) = todo.pop_front() {
        if part == ".." {
            done.pop();
            continue;
        }
        let next = done.join(&part);
        let stat = lstat(&next).map_err(SpoolError::io("look at", &next))?;
        if !is_kind(&stat, nix::libc::S_IFLNK) {
            check_one(&next, owner)?;
            done = next;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(SpoolError::not_safe(&next, "too many symbolic links", "name the folder itself"));
        }
        if stat.st_uid != 0 && stat.st_uid != owner {
            let what = format!("a symbolic link made by uid {}", stat.st_uid);
            return Err(SpoolError::not_safe(&next, what, "name the folder itself"));
        }
        let target = nix::fcntl::readlink(&next).map_err(SpoolError::io("read the link", &next))?;
        let target = PathBuf::from(target);
        if target.is_absolute() {
            done = PathBuf::from("/");
        }
        let mut front = parts(&target);
        front.append(&mut todo);
        todo = front;
    }
    Ok(())
}

/// Refuses `folder` when somebody besides root and `owner` could put another in its place or write in it. Links on the way are followed when only
/// these two can have made them. Of a folder that is not there yet, what is above it counts.
///
/// # Errors
/// [`SpoolError::Unsafe`], which says what to do; or what the system says.
pub fn check_way(folder: &Path, owner: gq_model::Uid) -> Result<(), SpoolError> {
    let there = folder.ancestors().find(|path| path.symlink_metadata().is_ok()).unwrap_or(Path::new("/"));
    check_above(&there.join("in it"), owner.0)
}

/// Refuses a file that somebody besides root and `owner` could write or put another in the place of. Of one that is not there, the way to it counts.
///
/// # Errors
/// [`SpoolError::Unsafe`], which says what to do; or what the system says.
pub fn check_file_way(file: &Path, owner: gq_model::Uid) -> Result<(), SpoolError> {
    let mut file = file.to_owned();
    for _ in 0..=MAX_LINKS {
        let Ok(stat) = lstat(&file) else { return check_way(&file, owner) };
        check_above(&file, owner.0)?;
        if stat.st_uid != 0 && stat.st_uid != owner.0 {
            let what = format!("belongs to uid {}, who could write anything there", stat.st_uid);
            return Err(SpoolError::not_safe(&file, what, format!("chown root {}", file.display())));
        }
        if !is_kind(&stat, nix::libc::S_IFLNK) {
            return refuse_other_writers(&file, &stat);
        }
        let target = nix::fcntl::readlink(&file).map_err(SpoolError::io("read the link", &file))?;
        file = file.parent().unwrap_or(Path::new("/")).join(target);
    }
    Err(SpoolError::not_safe(&file, "too many symbolic links", "name the file itself"))
}

fn parts(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
        })
        .collect()
}

fn check_one(path: &Path, owner: u32) -> Result<(), SpoolError> {
    let stat = lstat(path).map_err(SpoolError::io("look at", path))?;
    if !is_kind(&stat, nix::libc::S_IFDIR) {
        return Err(SpoolError::not_safe(path, "not a folder", "name another folder in the conf"));
    }
    if stat.st_uid != 0 && stat.st_uid != owner {
        let what = format!("belongs to uid {}, who could exchange what is in it", stat.st_uid);
        let remedy = format!("chown root {0}, or name another folder in the conf", path.display());
        return Err(SpoolError::not_safe(path, what, remedy));
    }
    // In a sticky folder of root nobody can exchange what is another's.
    if stat.st_uid == 0 && mode_of(&stat) & 0o1000 != 0 {
        return Ok(());
    }
    refuse_other_writers(path, &stat)
}

/// Refuses a folder that others than its owner may write.
fn refuse_other_writers(path: &Path, stat: &FileStat) -> Result<(), SpoolError> {
    let mode = mode_of(stat);
    if mode & 0o002 != 0 || (mode & 0o020 != 0 && !is_own_group(stat)) {
        let what = format!("others than its owner may write in it (mode {mode:04o})");
        return Err(SpoolError::not_safe(path, what, format!("chmod go-w {}", path.display())));
    }
    Ok(())
}

/// Whether the group of a folder holds nobody but its owner: root's group, or a user's group of the user's own name.
fn is_own_group(stat: &FileStat) -> bool {
    if stat.st_uid == 0 && stat.st_gid == 0 {
        return true;
    }
    let (Ok(Some(user)), Ok(Some(group))) =
        (User::from_uid(Uid::from_raw(stat.st_uid)), Group::from_gid(Gid::from_raw(stat.st_gid)))
    else {
        return false;
    };
    user.gid == group.gid && user.name == group.name && group.mem.iter().all(|member| *member == user.name)
}

/// Opens a folder that belongs to `owner` and that nobody else may write; never through a symbolic link at its end.
pub(crate) fn open_own(path: &Path, owner: u32) -> Result<OwnedFd, SpoolError> {
    owned(open_real(path)?, path, owner)
}

/// An opened folder that belongs to `owner` and that nobody else may write.
pub(crate) fn owned(folder: OwnedFd, path: &Path, owner: u32) -> Result<OwnedFd, SpoolError> {
    let stat = fstat(&folder).map_err(SpoolError::io("look at", path))?;
    if stat.st_uid != owner {
        let what = format!("belongs to uid {}, and should to uid {owner}", stat.st_uid);
        return Err(SpoolError::not_safe(path, what, format!("chown {owner} {}", path.display())));
    }
    refuse_other_writers(path, &stat)?;
    Ok(folder)
}

/// Opens a folder whoever owns it; never through a symbolic link at its end.
pub(crate) fn open_real(path: &Path) -> Result<OwnedFd, SpoolError> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    open(path, flags, Mode::empty()).map_err(|errno| no_folder(path, errno))
}

/// Opens the folder `name` in an opened one; never through a symbolic link.
pub(crate) fn open_next(above: &OwnedFd, name: &str, path: &Path) -> Result<OwnedFd, SpoolError> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(above, name, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::ENOENT => SpoolError::io("open", path)(errno),
        other => no_folder(path, other),
    })
}

fn no_folder(path: &Path, errno: Errno) -> SpoolError {
    match errno {
        Errno::ELOOP | Errno::ENOTDIR => SpoolError::not_safe(
            path,
            "a symbolic link, or not a folder",
            "name the folder itself in the conf, or make it with gqd --init",
        ),
        Errno::ENOENT => SpoolError::not_safe(path, "no such folder", "gqd --init"),
        other => SpoolError::io("open", path)(other),
    }
}

/// Makes `name` in `parent` if it is missing, and gives it this owner and mode.
///
/// A folder that is there and belongs to somebody else is refused.
pub(crate) fn make(
    parent: &OwnedFd,
    parent_path: &Path,
    name: &str,
    ids: (u32, u32),
    mode: u32,
) -> Result<OwnedFd, SpoolError> {
    let path = parent_path.join(name);
    // With its mode from the first: whoever is killed here leaves none that its users cannot enter.
    match mkdirat(parent, name, Mode::from_bits_truncate(mode)) {
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(errno) => return Err(SpoolError::io("make the folder", path)(errno)),
    }
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let folder = openat(parent, name, flags, Mode::empty()).map_err(|errno| no_folder(&path, errno))?;
    give(&folder, &path, ids, mode)?;
    Ok(folder)
}

/// Gives an opened folder, of ours or already theirs, to `ids` with this mode.
pub(crate) fn give(folder: &OwnedFd, path: &Path, ids: (u32, u32), mode: u32) -> Result<(), SpoolError> {
    let (uid, gid) = ids;
    let stat = fstat(folder).map_err(SpoolError::io("look at", path))?;
    if stat.st_uid != uid && stat.st_uid != Uid::effective().as_raw() {
        let what = format!("is there and belongs to uid {}", stat.st_uid);
        return Err(SpoolError::not_safe(path, what, "remove it, or name another folder in the conf"));
    }
    if (stat.st_uid, stat.st_gid) != ids {
        fchown(folder, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))
            .map_err(SpoolError::io("give to its owner the folder", path))?;
    }
    fchmod(folder, Mode::from_bits_truncate(mode)).map_err(SpoolError::io("set the mode of", path))
}

/// Makes a folder and those above it that are missing, each for all to enter and its maker to write.
pub(crate) fn make_all(path: &Path) -> Result<(), SpoolError> {
    if let Some(above) = path.parent()
        && !above.as_os_str().is_empty()
        && !above.exists()
    {
        make_all(above)?;
    }
    match nix::unistd::mkdir(path, Mode::from_bits_truncate(0o755)) {
        Ok(()) => {
            let folder = open_real(path)?;
            fchmod(&folder, Mode::from_bits_truncate(0o755)).map_err(SpoolError::io("set the mode of", path))
        }
        Err(Errno::EEXIST) => Ok(()),
        Err(errno) => Err(SpoolError::io("make the folder", path)(errno)),
    }
}

/// Opens a folder for listing its names from the start.
pub(crate) fn listing(folder: impl AsFd) -> nix::Result<Dir> {
    Dir::openat(folder, ".", OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
}

/// Looks whether a name is there; never follows a link.
pub(crate) fn look<N: NixPath + ?Sized>(folder: impl AsFd, name: &N) -> nix::Result<Option<FileStat>> {
    match fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}
