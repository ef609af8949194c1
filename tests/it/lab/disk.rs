//! A small file system of its own below a lab's folder, to be filled, emptied and taken away. Only root can mount one: where that cannot be, a test says
//! so and is left out.

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

/// A small file system, while this lives.
pub struct Disk(PathBuf);

impl Disk {
    /// Mounts one at `path`, which is made, with options such as `size=1m` or `nr_inodes=32`; none, with a word why, when that cannot be.
    pub fn at(path: &Path, options: &str) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("left out: only root can mount a small file system");
            return None;
        }
        fs::create_dir_all(path).unwrap();
        let options = format!("{options},mode=0700");
        match mount(Some("tmpfs"), path, Some("tmpfs"), MsFlags::empty(), Some(options.as_str())) {
            Ok(()) => Some(Self(path.to_owned())),
            Err(error) => {
                eprintln!("left out: no file system can be mounted here: {error}");
                None
            }
        }
    }

    /// Writes until there is no room.
    pub fn fill(&self) {
        let mut file = File::options().create(true).append(true).open(self.0.join("filling")).unwrap();
        for size in [1 << 20, 4096, 512] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
    }

    /// Makes files until there can be no more.
    pub fn fill_with_files(&self) {
        let folder = self.0.join("filled");
        let _ = fs::create_dir(&folder);
        for number in 0.. {
            if File::create(folder.join(number.to_string())).is_err() {
                return;
            }
        }
    }

    /// Makes it read-only, or writable again; nobody may have a file there open for writing.
    pub fn be_read_only(&self, is: bool) {
        let read_only = if is { MsFlags::MS_RDONLY } else { MsFlags::empty() };
        mount(None::<&str>, &self.0, None::<&str>, MsFlags::MS_REMOUNT | read_only, None::<&str>).unwrap();
    }

    /// Makes room again.
    pub fn free(&self) {
        let _ = fs::remove_file(self.0.join("filling"));
        let _ = fs::remove_dir_all(self.0.join("filled"));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}
