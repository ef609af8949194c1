//! Reading a file that somebody else made: only what the opened file says counts, and nothing here ever waits.

use crate::folder::{is_kind, mode_of};
use crate::{DropError, Spool};
use gq_model::{MAX_JOB_FILE, Uid};
use nix::NixPath;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{FileStat, Mode, fstat};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};

/// A file whose owner is proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// All of its content.
    pub bytes: Vec<u8>,
    /// Who made it.
    pub uid: Uid,
}

impl Spool {
    /// Reads a file of the drop box and proves whose it is.
    ///
    /// Regular, one link, no writer but its owner, the drop box's group (which a file moved here from elsewhere does
    /// not have), at most [`MAX_JOB_FILE`] bytes, unchanged while it was read. Never waits for anybody.
    ///
    /// # Errors
    /// See [`DropError`].
    pub fn read_drop(&self, name: &str) -> Result<Dropped, DropError> {
        check_name(name)?;
        let shut = |why| DropError::Shut(Box::new(why));
        self.check_drop().map_err(shut)?;
        let drop_box = self.drop_stat().map_err(shut)?;
        read_as_owner(&self.drop_box, name, Some(drop_box.st_gid))
    }
}

/// Refuses a name that no client of ours makes.
pub(crate) fn check_name(name: &str) -> Result<(), DropError> {
    let good = (1..=128).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        && name != "."
        && name != "..";
    if good {
        Ok(())
    } else {
        Err(DropError::NotYours("its name has other characters than A-Z a-z 0-9 . _ -"))
    }
}

/// Reads `name` in `folder`; with `group`, only a file of that group.
pub(crate) fn read_as_owner(folder: &OwnedFd, name: &str, group: Option<u32>) -> Result<Dropped, DropError> {
    let mut file = File::from(open_beneath(folder, name).map_err(why_not_open)?);
    let before = fstat(&file).map_err(std::io::Error::from)?;
    check_proof(&before, group)?;
    let size = usize::try_from(before.st_size).unwrap_or(usize::MAX);
    if size > MAX_JOB_FILE {
        return Err(DropError::TooLarge { size: u64::try_from(before.st_size).unwrap_or(u64::MAX) });
    }
    // One byte more than it says it has, to see it grow.
    let bytes = read_up_to(&mut file, size + 1)?;
    let after = fstat(&file).map_err(std::io::Error::from)?;
    if bytes.len() != size || !is_same(&before, &after) {
        return Err(DropError::Changing);
    }
    Ok(Dropped { bytes, uid: Uid(before.st_uid) })
}

/// Reads to the end of the file, or `most` bytes of it.
pub(crate) fn read_up_to(file: &mut File, most: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; most];
    let mut filled = 0;
    while let Some(room) = bytes.get_mut(filled..).filter(|room| !room.is_empty()) {
        match file.read(room) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(why) if why.kind() == std::io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

fn check_proof(stat: &FileStat, group: Option<u32>) -> Result<(), DropError> {
    if !is_kind(stat, nix::libc::S_IFREG) {
        return Err(DropError::NotYours("it is not a regular file"));
    }
    if stat.st_nlink == 0 {
        return Err(DropError::Changing);
    }
    if stat.st_nlink != 1 {
        return Err(DropError::NotYours("it has another name elsewhere"));
    }
    if mode_of(stat) & 0o022 != 0 {
        return Err(DropError::NotYours("others than its owner may write it"));
    }
    if group.is_some_and(|group| group != stat.st_gid) {
        return Err(DropError::NotYours("it was not made in the drop box, but moved there"));
    }
    Ok(())
}

fn is_same(a: &FileStat, b: &FileStat) -> bool {
    let key = |s: &FileStat| {
        (s.st_dev, s.st_ino, s.st_size, s.st_mtime, s.st_mtime_nsec, s.st_uid, s.st_gid, s.st_mode)
    };
    key(a) == key(b)
}

/// Opens a name in a folder for reading: no link, no other mount, no waiting, no terminal.
pub(crate) fn open_beneath(folder: impl AsFd, name: &str) -> nix::Result<OwnedFd> {
    open_with(folder, name, OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY)
}

/// Looks at a name in a folder; an error when it lies on another file system, which a user may have mounted there and which need not answer.
pub(crate) fn look_beneath<N: NixPath + ?Sized>(folder: impl AsFd, name: &N) -> nix::Result<FileStat> {
    fstat(open_with(folder, name, OFlag::O_PATH)?)
}

fn open_with<N: NixPath + ?Sized>(folder: impl AsFd, name: &N, how: OFlag) -> nix::Result<OwnedFd> {
    let flags = how | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let resolve = ResolveFlag::RESOLVE_BENEATH
        | ResolveFlag::RESOLVE_NO_SYMLINKS
        | ResolveFlag::RESOLVE_NO_MAGICLINKS
        | ResolveFlag::RESOLVE_NO_XDEV;
    match openat2(&folder, name, OpenHow::new().flags(flags).resolve(resolve)) {
        // Kernels before 5.6 do not know it, and some sandboxes forbid what they do not know. A name without `/` can
        // then only lead to another mount, which takes root to make.
        Err(Errno::ENOSYS | Errno::EPERM | Errno::EINVAL) => openat(&folder, name, flags, Mode::empty()),
        opened => opened,
    }
}

fn why_not_open(errno: Errno) -> DropError {
    match errno {
        Errno::ENOENT => DropError::Missing,
        Errno::ELOOP => DropError::NotYours("it is a symbolic link"),
        Errno::EXDEV => DropError::NotYours("it lies on another file system"),
        Errno::ENXIO | Errno::ENODEV => DropError::NotYours("it is not a regular file"),
        Errno::EACCES => DropError::NotYours("its mode keeps gqd from reading it (0640 is right)"),
        other => DropError::Io(other.into()),
    }
}
