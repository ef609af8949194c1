//! Addresses of sockets. A socket's name holds 107 bytes; longer paths are reached through their folder.

use std::{
    fs::File,
    io,
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

/// Longest path that fits into a socket's address, without its closing zero.
const MAX_ADDRESS: usize = 107;

/// A name under which the system takes a path as a socket's address. Valid as long as it lives.
pub(crate) struct Address {
    name: PathBuf,
    _folder: Option<File>,
}

impl Address {
    /// Finds a name for `path` that is short enough.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        if path.as_os_str().as_bytes().len() <= MAX_ADDRESS {
            return Ok(Self { name: path.to_owned(), _folder: None });
        }
        let (Some(folder), Some(file)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let flags = nix::libc::O_PATH | nix::libc::O_DIRECTORY;
        let folder = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(folder)?;
        let name = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(file);
        Ok(Self { name, _folder: Some(folder) })
    }

    pub(crate) fn name(&self) -> &Path {
        &self.name
    }
}
