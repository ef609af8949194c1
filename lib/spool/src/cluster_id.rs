//! `cluster.uuid`: which cluster a spool belongs to. Written once, never changed.

use crate::{Spool, SpoolError};
use gq_failpoint::{Step, step};
use gq_model::ClusterId;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat, renameat};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::{fdatasync, fsync};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;

const NAME: &str = "cluster.uuid";
const UNFINISHED: &str = ".t.cluster.uuid";

/// Reads which cluster the spool at `spool_dir` belongs to; none when nobody has said it yet.
///
/// # Errors
/// When the file cannot be read or is not what `gqd --init` writes.
pub fn read_cluster_id(spool_dir: &Path) -> Result<Option<ClusterId>, SpoolError> {
    let path = spool_dir.join(NAME);
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = match open(&path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::ENOENT) => return Ok(None),
        Err(errno) => return Err(SpoolError::io("open", path)(errno)),
    };
    let mut text = String::new();
    file.take(64).read_to_string(&mut text).map_err(|source| SpoolError::Io {
        doing: "read",
        path: path.clone(),
        source,
    })?;
    text.strip_suffix('\n').and_then(|id| id.parse().ok()).map(Some).ok_or_else(|| {
        SpoolError::not_safe(
            &path,
            "does not hold a cluster's id",
            "put back the one from gqd's log or a backup; a new id makes all job files in the spool worthless",
        )
    })
}

impl Spool {
    /// Reads which cluster this spool belongs to; none when nobody has said it yet.
    ///
    /// # Errors
    /// As [`read_cluster_id`].
    pub fn cluster_id(&self) -> Result<Option<ClusterId>, SpoolError> {
        read_cluster_id(&self.dir)
    }

    /// Says which cluster this spool belongs to, durably; saying the same again changes nothing.
    ///
    /// # Errors
    /// When the spool belongs to another cluster, or the file cannot be written.
    pub fn write_cluster_id(&self, id: ClusterId) -> Result<(), SpoolError> {
        match self.cluster_id()? {
            Some(there) if there == id => return Ok(()),
            Some(there) => {
                return Err(SpoolError::not_safe(
                    &self.dir,
                    format!("this spool belongs to cluster {there}, and the state directory to {id}"),
                    "name the spool_dir and state_dir that belong together, or a new spool_dir",
                ));
            }
            None => {}
        }
        let path = self.dir.join(NAME);
        let written = self.write_new(&format!("{id}\n"));
        written.map_err(|source| SpoolError::Io { doing: "write", path, source })
    }

    fn write_new(&self, text: &str) -> std::io::Result<()> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_TRUNC | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut file = File::from(openat(&self.root, UNFINISHED, flags, Mode::S_IRUSR | Mode::S_IWUSR)?);
        fchmod(&file, Mode::from_bits_truncate(0o644))?;
        step(Step::ClusterWrite, || file.write_all(text.as_bytes()))?;
        fdatasync(&file)?;
        nix::unistd::close(file)?;
        // A name that a crash took away is made again by the next start.
        step(Step::ClusterName, || renameat(&self.root, UNFINISHED, &self.root, NAME))?;
        Ok(fsync(&self.root)?)
    }
}
