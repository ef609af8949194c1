//! The user's side of the spool: making a job file in the drop box, as himself, and reading it again when it was accepted. Decides
//! nothing about what is in it.

use crate::folder::{is_kind, mode_of};
use crate::root::{DROP, DROP_MODE};
use crate::{SpoolError, read_cluster_id};
use gq_failpoint::{Step, step};
use gq_model::{ClusterId, MAX_JOB_FILE, Token};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat, renameat};
use nix::sys::stat::{Mode, fchmod, fstat};
use nix::unistd::{UnlinkatFlags, fdatasync, fsync, unlinkat};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The name, in the drop box, of the job file of `token`: one that a client has named, or will name, to the controller; or one that is left for it
/// to find.
pub fn drop_name(token: Token, left: bool) -> String {
    if left { format!("{token}.job") } else { format!(".s.{token}") }
}

/// The drop box as a user sees it, and his accepted job files.
#[derive(Debug)]
pub struct DropClient {
    spool_dir: PathBuf,
    drop_box: OwnedFd,
}

impl DropClient {
    /// Opens the drop box of the spool at `spool_dir`.
    ///
    /// # Errors
    /// When there is none, or it is not of the form that keeps users' files apart.
    pub fn open(spool_dir: &Path) -> Result<Self, SpoolError> {
        let path = spool_dir.join(DROP);
        // Users may enter the drop box and write in it, but not list it: O_PATH asks for no more.
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let drop_box = open(&path, flags, Mode::empty()).map_err(|errno| match errno {
            Errno::ENOENT => SpoolError::not_safe(
                &path,
                "no such folder",
                "see that spool_dir in the conf is right, and that gqd --init was run",
            ),
            Errno::ELOOP | Errno::ENOTDIR => {
                SpoolError::not_safe(&path, "a symbolic link, or not a folder", "tell the admin")
            }
            other => SpoolError::io("open", &path)(other),
        })?;
        let stat = fstat(&drop_box).map_err(SpoolError::io("look at", &path))?;
        if !is_kind(&stat, nix::libc::S_IFDIR) || mode_of(&stat) != DROP_MODE {
            let what = format!("mode {:04o}, and a drop box has {DROP_MODE:04o}", mode_of(&stat));
            return Err(SpoolError::not_safe(&path, what, "tell the admin: gqd's log says what to do"));
        }
        Ok(Self { spool_dir: spool_dir.to_owned(), drop_box })
    }

    /// Reads which cluster the spool belongs to; none before the first `gqd --init`.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub fn cluster_id(&self) -> Result<Option<ClusterId>, SpoolError> {
        read_cluster_id(&self.spool_dir)
    }

    /// The name, in the drop box, of what [`DropClient::write`] makes: what the controller is told.
    pub fn name(&self, token: Token) -> String {
        drop_name(token, false)
    }

    /// Makes the job file of `token`, durably: one sync. The file is readable by gqd and by nobody else.
    ///
    /// # Errors
    /// When the system refuses; then nothing is left behind.
    pub fn write(&self, token: Token, bytes: &[u8]) -> Result<(), SpoolError> {
        let name = drop_name(token, false);
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let private = Mode::S_IRUSR | Mode::S_IWUSR;
        let file = step(Step::DropMake, || openat(&self.drop_box, name.as_str(), flags, private))
            .map_err(SpoolError::io("make", self.path(&name)))?;
        fill(File::from(file), bytes).map_err(|source| {
            let _ = self.remove(token);
            SpoolError::Io { doing: "write", path: self.path(&name), source }
        })
    }

    /// Reads the accepted job file `job_file` (`jobs/<shard>/<id>.job`), as far as its user may: at most one byte more than one may have.
    ///
    /// # Errors
    /// When it is not there, not readable or not named so.
    pub fn read_job(&self, job_file: &str) -> Result<Vec<u8>, SpoolError> {
        let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.');
        if !job_file.starts_with("jobs/") || !job_file.split('/').all(is_plain) {
            return Err(SpoolError::Name {
                name: job_file.to_owned(),
                what: "not of the form jobs/<shard>/<id>.job",
            });
        }
        let path = self.spool_dir.join(job_file);
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = open(&path, flags, Mode::empty()).map_err(SpoolError::io("open", &path))?;
        let mut bytes = Vec::new();
        let read = File::from(file).take(MAX_JOB_FILE as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|source| SpoolError::Io { doing: "read", path, source })?;
        Ok(bytes)
    }

    /// Leaves the job file of `token` for the next look of the controller (`--offline`), durably.
    ///
    /// # Errors
    /// When the system refuses; the file may then be there under either name.
    pub fn offline(&self, token: Token) -> Result<(), SpoolError> {
        let (old, new) = (drop_name(token, false), drop_name(token, true));
        let path = self.path(&new);
        let named = || renameat(&self.drop_box, old.as_str(), &self.drop_box, new.as_str());
        if let Err(errno) = step(Step::DropLeave, named)
            && !self.is_there(&new)
        {
            return Err(SpoolError::io("name", path)(errno));
        }
        // The folder cannot be opened to sync it; the file can, and takes its new name with it.
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        match openat(&self.drop_box, new.as_str(), flags, Mode::empty()) {
            Ok(file) => step(Step::DropLeaveSync, || fsync(&file)).map_err(SpoolError::io("sync", path)),
            // Taken up already.
            Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(SpoolError::io("open", path)(errno)),
        }
    }

    /// Removes the job file of `token`, if it is there and has not been left for the controller.
    ///
    /// # Errors
    /// When the system refuses and it is still there.
    pub fn remove(&self, token: Token) -> Result<(), SpoolError> {
        let name = drop_name(token, false);
        match step(Step::DropRemove, || unlinkat(&self.drop_box, name.as_str(), UnlinkatFlags::NoRemoveDir)) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(_) if !self.is_there(&name) => Ok(()),
            Err(errno) => Err(SpoolError::io("remove", self.path(&name))(errno)),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.spool_dir.join(DROP).join(name)
    }

    fn is_there(&self, name: &str) -> bool {
        !matches!(crate::folder::look(&self.drop_box, name), Ok(None))
    }
}

fn fill(mut file: File, bytes: &[u8]) -> std::io::Result<()> {
    fchmod(&file, Mode::from_bits_truncate(0o640))?;
    step(Step::DropWrite, || file.write_all(bytes))?;
    step(Step::DropSync, || fdatasync(&file))?;
    // A file server may keep an error until the file is closed.
    Ok(nix::unistd::close(file)?)
}
