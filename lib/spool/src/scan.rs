//! Looking through the drop box: what was left there for us, what is malformed, what nobody wants any more. Every look is
//! bounded and goes on where the last one stopped, so that no user's heap of files hides another's.

use crate::folder::{self, is_kind, look};
use crate::intake::check_name;
use crate::{Spool, SpoolError};
use gq_failpoint::{Step, step};
use gq_model::{Seconds, Timestamp};
use nix::dir::{Dir, OwningIter};
use nix::errno::Errno;
use nix::fcntl::renameat;
use nix::sys::stat::FileStat;
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::collections::{BTreeMap, BTreeSet};
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
/// Most files of one name in quarantine.
const MAX_NAMESAKES: u32 = 1000;

/// A place in a listing that is too long for one look.
#[derive(Debug, Default)]
pub(crate) struct Cursor(Option<OwningIter>);

impl Cursor {
    /// Hands names to `see`, which says whether to go on, from where the last look stopped to the end of the listing.
    fn pass(&mut self, folder: &OwnedFd, mut see: impl FnMut(&str) -> bool) -> nix::Result<()> {
        let mut names = match self.0.take() {
            Some(names) => names,
            None => Dir::into_iter(folder::listing(folder)?),
        };
        for _ in 0..MAX_PASSED {
            let Some(entry) = names.next() else { return Ok(()) };
            let entry = entry?;
            // What no client of ours writes is passed over.
            let Some(name) = entry.file_name().to_str().ok().filter(|n| check_name(n).is_ok()) else {
                continue;
            };
            if !see(name) {
                break;
            }
        }
        self.0 = Some(names);
        Ok(())
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
    pub fn ready(&self) -> Result<Vec<String>, SpoolError> {
        self.check_drop()?;
        let mut by_user: BTreeMap<u32, BTreeSet<(i64, i64, String)>> = BTreeMap::new();
        let mut cursor = self.ready_cursor.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = cursor.pass(&self.drop_box, |name| {
            if name.ends_with(".job")
                && let Ok(Some(stat)) = look(&self.drop_box, name)
                && is_kind(&stat, nix::libc::S_IFREG)
            {
                let files = by_user.entry(stat.st_uid).or_default();
                files.insert((stat.st_mtime, stat.st_mtime_nsec, name.to_owned()));
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
                if let Some((_, _, name)) = files.pop_first() {
                    ready.push(name);
                }
                !files.is_empty()
            });
        }
        ready.truncate(MAX_READY);
        Ok(ready)
    }

    /// Removes unfinished files (`.s.*`) older than [`STALE`] and returns their names; each is logged.
    ///
    /// `now` is compared with what the file system says of a file's last change.
    ///
    /// # Errors
    /// When the drop box is no longer safe or cannot be listed.
    pub fn clean(&self, now: Timestamp) -> Result<Vec<String>, SpoolError> {
        self.check_drop()?;
        let mut removed = Vec::new();
        let mut cursor = self.clean_cursor.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = cursor.pass(&self.drop_box, |name| {
            if name.starts_with(".s.")
                && let Ok(Some(stat)) = look(&self.drop_box, name)
                && is_stale(&stat, now)
                && step(Step::DropClean, || unlinkat(&self.drop_box, name, UnlinkatFlags::NoRemoveDir))
                    .is_ok()
            {
                log::info!("drop/{name}: unfinished for more than a day, removed (uid {})", stat.st_uid);
                removed.push(name.to_owned());
            }
            removed.len() < MAX_CLEANED
        });
        passed.map_err(SpoolError::io("list", self.drop_dir()))?;
        Ok(removed)
    }

    /// Moves a malformed file out of the drop box into quarantine, where people can look at it.
    ///
    /// # Errors
    /// When the name is not one of ours or the system refuses.
    pub fn quarantine(&self, name: &str) -> Result<(), SpoolError> {
        let named = |what| SpoolError::Name { name: name.to_owned(), what };
        check_name(name).map_err(|_| named("no name of a file in the drop box"))?;
        let failed = |errno| SpoolError::io("move to quarantine", self.drop_dir().join(name))(errno);
        for count in 0..MAX_NAMESAKES {
            let new = if count == 0 { name.to_owned() } else { format!("{name}.{count}") };
            if look(&self.quarantine, &new).map_err(failed)?.is_some() {
                continue;
            }
            let moved =
                step(Step::DropQuarantine, || renameat(&self.drop_box, name, &self.quarantine, new.as_str()));
            return match moved {
                Ok(()) => Ok(()),
                Err(Errno::ENOENT) if matches!(look(&self.quarantine, &new), Ok(Some(_))) => Ok(()),
                Err(errno) => Err(failed(errno)),
            };
        }
        Err(named("too many files of this name in quarantine; look at them and remove them"))
    }
}

fn is_stale(stat: &FileStat, now: Timestamp) -> bool {
    !is_kind(stat, nix::libc::S_IFDIR) && Timestamp::from_secs(stat.st_mtime).after(STALE) < now
}
