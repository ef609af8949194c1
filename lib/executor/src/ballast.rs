//! The ballast: a file of 64 MiB in the node's folder that is thrown away when the disk is full, so that results can
//! still be written. It decides nothing else about a full disk.

use nix::fcntl::{FallocateFlags, fallocate};
use std::{
    fs::{self, OpenOptions},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
};

const SIZE: i64 = 64 << 20;

/// The ballast of one folder.
#[derive(Debug)]
pub struct Ballast {
    path: PathBuf,
    there: bool,
}

impl Ballast {
    /// Knows of the ballast in `folder`; [`Ballast::make`] makes it.
    pub fn of(folder: &std::path::Path) -> Self {
        Self { path: folder.join("ballast"), there: false }
    }

    /// Makes it, if it is not there and there is room.
    pub fn make(&mut self) {
        if self.there {
            return;
        }
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.path);
        let made = file.and_then(|f| Ok(fallocate(&f, FallocateFlags::empty(), 0, SIZE)?));
        match made {
            Ok(()) => self.there = true,
            Err(e) => {
                log::debug!("{}: no room for it: {e}", self.path.display());
                let _ = fs::remove_file(&self.path);
            }
        }
    }

    /// Throws it away; says whether that made room.
    pub fn drop(&mut self) -> bool {
        std::mem::take(&mut self.there) && fs::remove_file(&self.path).is_ok()
    }
}
