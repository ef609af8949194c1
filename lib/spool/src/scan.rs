//! Looking through the drop box: what was left there for us, what is malformed, what nobody wants any more. Every look is
//! bounded and goes on where the last one stopped, so that no user's heap of files hides another's.

use crate::folder::{self, is_kind, look};
use crate::intake::{check_name, look_beneath};
use crate::{Spool, SpoolError};
use gq_failpoint::{Step, step};
use gq_model::{Seconds, Timestamp, Uid};
use nix::dir::{Dir, OwningIter};
use nix::errno::Errno;
use nix::fcntl::renameat;
use nix::sys::stat::FileStat;
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::sync::PoisonError;

/// Most names that one look returns.
pub const MAX_READY: usize = 1024;
/// Most names of one user among them.
pub const MAX_READY_PER_USER: usize = 64;
/// How old an unfinished file is when it is removed: a day.
pub const STALE: Seconds = Seconds(24 * 60 * 60);
/// Most names that one look passes.
const MAX_PASSED: usize = 200_000;
/// Most names that one cleaning removes.
const MAX_CLEANED: usize = 10_000;
/// Longest part of a name that is told of, in bytes.
const MAX_TOLD: usize = 64;
/// Most files of one name in quarantine.
const MAX_NAMESAKES: u32 = 1000;

/// A file that was left to be taken up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ready {
    /// When its content last changed, as its user says: the oldest go first.
    changed: (i64, i64),
    /// Its name.
    pub name: String,
    /// Whose it is said to be; proved only when it is read.
    pub uid: Uid,
    /// Its size in bytes.
    size: i64,
    /// When anything of it last changed, as the system says.
    touched: (i64, i64),
}

impl Ready {
    fn of(name: &str, stat: &FileStat) -> Self {
        let (changed, touched) = ((stat.st_mtime, stat.st_mtime_nsec), (stat.st_ctime, stat.st_ctime_nsec));
        Self { changed, name: name.to_owned(), uid: Uid(stat.st_uid), size: stat.st_size, touched }
    }

    /// Whether nobody has touched it for longer than it may be unfinished.
    pub fn is_stale(&self, now: Timestamp) -> bool {
        is_past(self.touched.0, now)
    }
}

/// What was found of one user that is no job file, and never will be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Litter {
    /// How much of it was removed, since it was too old.
    pub removed: u64,
    /// How much is left, until it is.
    pub left: u64,
    /// One of the names, with what cannot be shown written out, and not all of it if it is long.
    pub name: String,
}

/// What a cleaning brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Of each user.
    pub users: BTreeMap<Uid, Litter>,
    /// Whether it came to the end of the drop box; else the next one goes on there.
    pub whole: bool,
}

/// A place in a listing that is too long for one look.
#[derive(Debug, Default)]
pub(crate) struct Cursor(Option<OwningIter>);

impl Cursor {
    /// Hands names to `see`, which says whether to go on, from where the last look stopped; true at the end of the listing.
    fn pass(&mut self, folder: &OwnedFd, mut see: impl FnMut(&CStr) -> bool) -> nix::Result<bool> {
        let mut names = match self.0.take() {
            Some(names) => names,
            None => Dir::into_iter(folder::listing(folder)?),
        };
        for _ in 0..MAX_PASSED {
            let Some(entry) = names.next() else { return Ok(true) };
            let entry = entry?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") && !see(entry.file_name()) {
                break;
            }
        }
        self.0 = Some(names);
        Ok(false)
    }
}

impl Spool {
    /// Lists files that users left to be taken up (`*.job`): the oldest of each user first, users in turn.
    ///
    /// At most [`MAX_READY`] names and [`MAX_READY_PER_USER`] of each user. Only regular files are listed; whose they are
    /// is proved when they are read.
    ///
    /// # Errors
    /// When the drop box is no longer safe or cannot be listed.
    pub fn ready(&self) -> Result<Vec<Ready>, SpoolError> {
        self.check_drop()?;
        let mut by_user: BTreeMap<Uid, BTreeSet<Ready>> = BTreeMap::new();
        let mut cursor = self.ready_cursor.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = cursor.pass(&self.drop_box, |name| {
            if let Some(name) = left_name(name)
                && let Ok(stat) = look_beneath(&self.drop_box, name)
                && is_kind(&stat, nix::libc::S_IFREG)
            {
                let file = Ready::of(name, &stat);
                let files = by_user.entry(file.uid).or_default();
                files.insert(file);
                if files.len() > MAX_READY_PER_USER {
                    files.pop_last();
                }
            }
            true
        });
        passed.map_err(SpoolError::io("list", self.drop_dir()))?;
        let mut ready = Vec::new();
        while ready.len() < MAX_READY && !by_user.is_empty() {
            by_user.retain(|_, files| {
                ready.extend(files.pop_first());
                !files.is_empty()
            });
        }
        ready.truncate(MAX_READY);
        Ok(ready)
    }

    /// Removes what is older than [`STALE`] and no file that is left to be taken up: unfinished files (`.s.*`), and whatever else users made under
    /// names, or of kinds, that no client of ours makes. A folder that is not empty stays. At most so much at a time that others wait for no longer
    /// than a moment.
    ///
    /// `now` is compared with what the file system says of a file's last change.
    ///
    /// # Errors
    /// When the drop box is no longer safe or cannot be listed.
    pub fn clean(&self, now: Timestamp) -> Result<Cleaned, SpoolError> {
        self.check_drop()?;
        let (mut users, mut removed) = (BTreeMap::<Uid, Litter>::new(), 0);
        let mut cursor = self.clean_cursor.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = cursor.pass(&self.drop_box, |name| {
            let Ok(stat) = look_beneath(&self.drop_box, name) else { return true };
            let is_file = is_kind(&stat, nix::libc::S_IFREG);
            if is_file && left_name(name).is_some() {
                return true;
            }
            let is_gone = is_stale(&stat, now) && self.remove_litter(name, &stat);
            // One that a client may be writing is no litter yet.
            if is_gone || !(is_file && name.to_bytes().starts_with(b".s.") && is_ours(name)) {
                let litter = users
                    .entry(Uid(stat.st_uid))
                    .or_insert_with(|| Litter { name: told(name), ..Litter::default() });
                litter.removed += u64::from(is_gone);
                litter.left += u64::from(!is_gone);
                removed += usize::from(is_gone);
            }
            removed < MAX_CLEANED
        });
        let whole = passed.map_err(SpoolError::io("list", self.drop_dir()))?;
        Ok(Cleaned { users, whole })
    }

    fn remove_litter(&self, name: &CStr, stat: &FileStat) -> bool {
        let how = match is_kind(stat, nix::libc::S_IFDIR) {
            true => UnlinkatFlags::RemoveDir,
            false => UnlinkatFlags::NoRemoveDir,
        };
        step(Step::DropClean, || unlinkat(&self.drop_box, name, how)).is_ok()
    }

    /// Moves a malformed file out of the drop box into quarantine, where people can look at it.
    ///
    /// # Errors
    /// When the name is not one of ours or the system refuses.
    pub fn quarantine(&self, name: &str) -> Result<(), SpoolError> {
        let named = |what| SpoolError::Name { name: name.to_owned(), what };
        check_name(name).map_err(|_| named("no name of a file in the drop box"))?;
        self.set_aside(&self.drop_box, name, name)
    }

    /// Moves what is called `old` in a folder of the spool into quarantine, where it is called `name`, or so with a number.
    pub(crate) fn set_aside(&self, from: &OwnedFd, old: &str, name: &str) -> Result<(), SpoolError> {
        let named = |what| SpoolError::Name { name: name.to_owned(), what };
        let failed = |errno| SpoolError::io("move to quarantine", self.dir.join(name))(errno);
        for count in 0..MAX_NAMESAKES {
            let new = if count == 0 { name.to_owned() } else { format!("{name}.{count}") };
            if look(&self.quarantine, new.as_str()).map_err(failed)?.is_some() {
                continue;
            }
            let moved = step(Step::DropQuarantine, || renameat(from, old, &self.quarantine, new.as_str()));
            return match moved {
                Ok(()) => Ok(()),
                Err(Errno::ENOENT) if matches!(look(&self.quarantine, new.as_str()), Ok(Some(_))) => Ok(()),
                Err(errno) => Err(failed(errno)),
            };
        }
        Err(named("too many files of this name in quarantine; look at them and remove them"))
    }
}

/// A name as clients of ours may give one.
fn is_ours(name: &CStr) -> bool {
    name.to_str().is_ok_and(|name| check_name(name).is_ok())
}

/// The name of a file that is left to be taken up.
fn left_name(name: &CStr) -> Option<&str> {
    name.to_str().ok().filter(|name| name.ends_with(".job") && check_name(name).is_ok())
}

fn told(name: &CStr) -> String {
    let bytes = name.to_bytes();
    let (some, more) = bytes.split_at_checked(MAX_TOLD).unwrap_or((bytes, &[]));
    format!("{}{}", some.escape_ascii(), if more.is_empty() { "" } else { "..." })
}

/// Its user can set the one time to any, and the other one not at all.
fn is_stale(stat: &FileStat, now: Timestamp) -> bool {
    is_past(stat.st_mtime.min(stat.st_ctime), now)
}

fn is_past(seconds: i64, now: Timestamp) -> bool {
    Timestamp::from_secs(seconds).after(STALE) < now
}
