//! The ballast: a file of 64 MiB in the node's folder that is thrown away when the disk is full, so that results can
//! still be written. It decides nothing else about a full disk.

use gq_failpoint::{Step, step};
use nix::{
    fcntl::{FallocateFlags, fallocate},
    sys::statvfs::statvfs,
};
use std::{
    fs::{self, OpenOptions},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

const SIZE: u64 = 64 << 20;
/// With less room than this, supervisors may not be able to write how their runs ended.
const LEAST: u64 = 4 << 20;
/// Room that must be there before the ballast is made (again).
const PLENTY: u64 = 3 * SIZE;

/// The ballast of one folder.
#[derive(Debug)]
pub struct Ballast {
    path: PathBuf,
    there: bool,
    spent: bool,
}

impl Ballast {
    /// Knows of the ballast in `folder`, which may be there from an earlier life.
    pub fn of(folder: &Path) -> Self {
        let path = folder.join("ballast");
        Self { there: path.exists(), spent: false, path }
    }

    /// Looks how much room there is: throws the ballast away when there is hardly any, and makes it when there is plenty.
    pub fn look(&mut self) {
        match self.room() {
            Some(room) if room < LEAST && self.there => {
                log::warn!("the disk of {} is full: the ballast is dropped", self.path.display());
                self.drop();
            }
            Some(room) if room >= PLENTY && !self.there => self.make(),
            Some(_) | None => {}
        }
    }

    /// Throws it away; says whether that made room.
    pub fn drop(&mut self) -> bool {
        self.spent |= self.there;
        std::mem::take(&mut self.there) && step(Step::NodeUnballast, || fs::remove_file(&self.path)).is_ok()
    }

    /// What is wrong with the disk: the ballast was thrown away and there is no plenty of room since, so that what is left is for results.
    pub fn trouble(&self) -> Option<String> {
        let folder = self.path.parent().unwrap_or(&self.path);
        self.spent.then(|| format!("the disk of {} is full; what is left is for results", folder.display()))
    }

    fn room(&self) -> Option<u64> {
        let seen = statvfs(self.path.parent()?).ok()?;
        Some(seen.blocks_available().saturating_mul(seen.fragment_size()))
    }

    fn make(&mut self) {
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.path);
        let size = SIZE.cast_signed();
        let filled = step(Step::NodeBallast, || Ok(fallocate(&file?, FallocateFlags::empty(), 0, size)?));
        match filled {
            Ok(()) => (self.there, self.spent) = (true, false),
            Err::<(), std::io::Error>(e) => {
                log::debug!("{}: cannot be made: {e}", self.path.display());
                let _ = fs::remove_file(&self.path);
            }
        }
    }
}
