//! The spool itself: making it, opening it, and seeing that its folders are still what they must be.

use crate::folder::{self, mode_of};
use crate::{SpoolError, scan::Cursor};
use gq_failpoint::{Step, step};
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{FileStat, Mode, fstat, lstat};
use nix::unistd::{Gid, Uid};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, OnceLock};

/// Sticky: only the owner of a file or of the box moves it out. Set-group-id: files made here, and only they, have the
/// box's group. Others may write and enter, and not list.
pub(crate) const DROP_MODE: u32 = 0o3733;
pub(crate) const DROP: &str = "drop";
const JOBS: &str = "jobs";
const JOBS_MODE: u32 = 0o711;
pub(crate) const NODES: &str = "nodes";
const NODES_MODE: u32 = 0o755;
const QUARANTINE: &str = "quarantine";
const QUARANTINE_MODE: u32 = 0o700;
const ROOT_MODE: u32 = 0o755;

/// The spool of a cluster, as its owner (the controller) sees it.
///
/// It can be shared by threads.
#[derive(Debug)]
pub struct Spool {
    pub(crate) dir: PathBuf,
    pub(crate) owner: u32,
    pub(crate) root: OwnedFd,
    pub(crate) drop_box: OwnedFd,
    pub(crate) jobs: OwnedFd,
    pub(crate) quarantine: OwnedFd,
    pub(crate) shards: Vec<Shard>,
    pub(crate) ready_cursor: Mutex<Cursor>,
    pub(crate) clean_cursor: Mutex<Cursor>,
}

/// One of the 256 folders of job files; opened when it is first needed.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    pub(crate) folder: OnceLock<OwnedFd>,
    /// To be synced into its parent: made, or first used, in this life. Whoever made it may have been killed before it did that.
    pub(crate) fresh: AtomicBool,
}

impl Spool {
    /// Makes a spool at `dir`, or completes one; all of it is given to `ids` (user and group), else to the caller.
    ///
    /// # Errors
    /// When others could write in a folder above, a folder of the spool belongs to somebody else or is a symbolic
    /// link, or the system refuses.
    pub fn init(dir: &Path, ids: Option<(u32, u32)>) -> Result<(), SpoolError> {
        let ids = ids.unwrap_or((Uid::effective().as_raw(), Gid::effective().as_raw()));
        folder::make_all(dir)?;
        folder::check_above(dir, ids.0)?;
        let root = folder::open_real(dir)?;
        folder::give(&root, dir, ids, ROOT_MODE)?;
        for (name, mode) in
            [(DROP, DROP_MODE), (JOBS, JOBS_MODE), (NODES, NODES_MODE), (QUARANTINE, QUARANTINE_MODE)]
        {
            step(Step::SpoolMake, || folder::make(&root, dir, name, ids, mode))?;
        }
        step(Step::SpoolSync, || nix::unistd::fsync(&root)).map_err(SpoolError::io("sync", dir))
    }

    /// Opens the spool at `dir`, which must belong to the caller.
    ///
    /// # Errors
    /// When it is not there, or anybody else could exchange or write what only its owner may; each with what to do.
    pub fn open(dir: &Path) -> Result<Self, SpoolError> {
        let owner = Uid::effective().as_raw();
        folder::check_above(dir, owner)?;
        let root = folder::open_own(dir, owner)?;
        folder::open_own(&dir.join(NODES), owner)?;
        let drop_path = dir.join(DROP);
        let drop_box = folder::open_real(&drop_path)?;
        let spool = Self {
            jobs: folder::open_own(&dir.join(JOBS), owner)?,
            quarantine: folder::open_own(&dir.join(QUARANTINE), owner)?,
            dir: dir.to_owned(),
            owner,
            root,
            drop_box,
            shards: (0..=u8::MAX).map(|_| Shard::default()).collect(),
            ready_cursor: Mutex::default(),
            clean_cursor: Mutex::default(),
        };
        spool.check_drop()?;
        Ok(spool)
    }

    /// Where the spool is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The folder that users write job files to.
    pub fn drop_dir(&self) -> PathBuf {
        self.dir.join(DROP)
    }

    /// Looks whether the drop box is still the opened folder, ours, and of the right mode, and whether nobody else can exchange it or a folder above
    /// it.
    ///
    /// # Errors
    /// When it is not: then nothing is to be taken from it.
    pub fn check_drop(&self) -> Result<(), SpoolError> {
        folder::check_above(&self.drop_dir(), self.owner)?;
        let path = self.drop_dir();
        let opened = self.drop_stat()?;
        let named = lstat(&path).map_err(SpoolError::io("look at", &path))?;
        if (opened.st_dev, opened.st_ino) != (named.st_dev, named.st_ino) {
            return Err(SpoolError::not_safe(
                &path,
                "another folder has taken the place of the drop box",
                "see who did it, then restart gqd",
            ));
        }
        Ok(())
    }

    /// The opened drop box's owner and mode, when they are what they must be.
    pub(crate) fn drop_stat(&self) -> Result<FileStat, SpoolError> {
        let stat = fstat(&self.drop_box).map_err(SpoolError::io("look at", self.drop_dir()))?;
        if stat.st_uid != self.owner || mode_of(&stat) != DROP_MODE {
            let path = self.drop_dir();
            let what = format!(
                "owner {} and mode {:04o}, and it must be owner {} and mode {DROP_MODE:04o}",
                stat.st_uid,
                mode_of(&stat),
                self.owner,
            );
            let remedy = format!("chown {} {1}; chmod {DROP_MODE:04o} {1}", self.owner, path.display());
            return Err(SpoolError::not_safe(&path, what, remedy));
        }
        Ok(stat)
    }

    /// Opens a shard's folder; none when it is missing and is not to be made.
    pub(crate) fn shard(&self, number: u8, make: bool) -> Result<Option<&OwnedFd>, SpoolError> {
        let Some(shard) = self.shards.get(usize::from(number)) else { return Ok(None) };
        if let Some(folder) = shard.folder.get() {
            return Ok(Some(folder));
        }
        let name = format!("{number:02x}");
        let path = self.dir.join(JOBS).join(&name);
        let there = folder::look(&self.jobs, name.as_str()).map_err(SpoolError::io("look at", &path))?;
        let opened = match there {
            None if !make => return Ok(None),
            None => {
                let jobs = self.dir.join(JOBS);
                let make = || folder::make(&self.jobs, &jobs, &name, self.own_ids(), JOBS_MODE);
                step(Step::JobShard, make)?
            }
            Some(_) => {
                let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
                openat(&self.jobs, name.as_str(), flags, Mode::empty())
                    .map_err(SpoolError::io("open", &path))?
            }
        };
        shard.fresh.store(true, std::sync::atomic::Ordering::Release);
        Ok(Some(shard.folder.get_or_init(|| opened)))
    }

    fn own_ids(&self) -> (u32, u32) {
        (self.owner, Gid::effective().as_raw())
    }
}
