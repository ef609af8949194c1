//! Accepted job files: `jobs/<shard>/<id>.job`. Their content, their owner and their mode stay as their user made them.

use crate::folder::{self, is_kind, look};
use crate::intake::{check_name, read_as_owner};
use crate::{DropError, Dropped, Spool, SpoolError};
use gq_failpoint::{Step, step};
use gq_model::JobId;
use nix::errno::Errno;
use nix::fcntl::renameat;
use nix::unistd::{UnlinkatFlags, fsync, unlinkat};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

const SUFFIX: &str = ".job";

impl Spool {
    /// Names the job file of `id` in `shard`, relative to the spool: `jobs/0f/17.job`.
    pub fn job_path(&self, shard: u8, id: JobId) -> String {
        format!("jobs/{shard:02x}/{id}{SUFFIX}")
    }

    /// Moves `name` out of the drop box to `job_file` (see [`Spool::job_path`]); durable after [`Spool::sync_shard`].
    ///
    /// Said again after it was done, it changes nothing. Returns the shard that is to be synced.
    ///
    /// # Errors
    /// When there is no such file, the id has a file already, or the system refuses. Then nothing was moved.
    pub fn accept(&self, name: &str, job_file: &str) -> Result<u8, SpoolError> {
        check_name(name).map_err(|_| bad_name(name, "no name of a file in the drop box"))?;
        let (shard, file) = self.split(job_file)?;
        let folder = self.shard_made(shard)?;
        let path = self.dir.join(job_file);
        // Only this process writes in jobs/, so that what was looked at stays so until the rename.
        if look(folder, file.as_str()).map_err(SpoolError::io("look at", &path))?.is_some() {
            let waiting = look(&self.drop_box, name).map_err(SpoolError::io("look at", self.drop_dir()))?;
            return if waiting.is_none() {
                Ok(shard)
            } else {
                Err(bad_name(job_file, "this id has a job file"))
            };
        }
        match step(Step::JobMove, || renameat(&self.drop_box, name, folder, file.as_str())) {
            Ok(()) => self.arrived(folder, &file, name).map(|()| shard),
            // A file server that repeats itself says "missing" of what it has just done.
            Err(_) if self.moved(&self.drop_box, name, folder, &file) => {
                self.arrived(folder, &file, name).map(|()| shard)
            }
            Err(errno) => Err(SpoolError::io("accept", self.drop_dir().join(name))(errno)),
        }
    }

    /// Syncs one shard's folder, so that every file moved there or away stays so after a power cut.
    ///
    /// # Errors
    /// When the sync fails. It is not to be tried again: the system may have forgotten what it could not write.
    pub fn sync_shard(&self, shard: u8) -> Result<(), SpoolError> {
        let path = || self.dir.join(format!("jobs/{shard:02x}"));
        let Some(folder) = self.shard(shard, false)? else { return Ok(()) };
        step(Step::JobSync, || fsync(folder)).map_err(SpoolError::io("sync", path()))?;
        let fresh = self.shards.get(usize::from(shard)).map(|s| &s.fresh);
        if let Some(fresh) = fresh.filter(|fresh| fresh.load(Ordering::Acquire)) {
            step(Step::JobShardSync, || fsync(&self.jobs))
                .map_err(SpoolError::io("sync", self.dir.join("jobs")))?;
            fresh.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// Moves an accepted file that got no record back to the drop box, where it is called `name` again.
    ///
    /// # Errors
    /// When there is no such file, the name is none of the drop box, or the system refuses.
    pub fn give_back(&self, job_file: &str, name: &str) -> Result<(), SpoolError> {
        check_name(name).map_err(|_| bad_name(name, "no name of a file in the drop box"))?;
        let (shard, file) = self.split(job_file)?;
        let missing = || SpoolError::io("give back", self.dir.join(job_file))(Errno::ENOENT);
        let folder = self.shard(shard, false)?.ok_or_else(missing)?;
        match step(Step::JobGiveBack, || renameat(folder, file.as_str(), &self.drop_box, name)) {
            Ok(()) => Ok(()),
            Err(_) if self.moved(folder, &file, &self.drop_box, name) => Ok(()),
            Err(errno) => Err(SpoolError::io("give back", self.dir.join(job_file))(errno)),
        }
    }

    /// Reads an accepted job file, with the checks of [`Spool::read_drop`].
    ///
    /// # Errors
    /// See [`DropError`].
    pub fn read_job(&self, job_file: &str) -> Result<Dropped, DropError> {
        let shut = |why| DropError::Shut(Box::new(why));
        let (shard, file) = self.split(job_file).map_err(shut)?;
        let folder = self.shard(shard, false).map_err(shut)?.ok_or(DropError::Missing)?;
        let group = self.drop_stat().map_err(shut)?.st_gid;
        read_as_owner(folder, &file, Some(group))
    }

    /// Lists every accepted job file, by shard and then in no order.
    ///
    /// # Errors
    /// When a folder cannot be read. Names of another form are logged and passed over.
    pub fn list_jobs(&self) -> Result<Vec<(u8, JobId)>, SpoolError> {
        let mut found = Vec::new();
        for shard in 0..=u8::MAX {
            let Some(folder) = self.shard(shard, false)? else { continue };
            let failed = |errno| SpoolError::io("list", self.dir.join(format!("jobs/{shard:02x}")))(errno);
            for entry in folder::listing(folder).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let name = entry.file_name().to_string_lossy();
                if name == "." || name == ".." {
                    continue;
                }
                match name.strip_suffix(SUFFIX).and_then(number) {
                    Some(id) => found.push((shard, id)),
                    None => log::warn!("jobs/{shard:02x}/{name}: not a job file of gqd's, passed over"),
                }
            }
        }
        Ok(found)
    }

    /// Removes an accepted job file; one that is not there is removed already.
    ///
    /// # Errors
    /// When the system refuses and it is still there.
    pub fn remove_job(&self, job_file: &str) -> Result<(), SpoolError> {
        let (shard, file) = self.split(job_file)?;
        let Some(folder) = self.shard(shard, false)? else { return Ok(()) };
        match step(Step::JobRemove, || unlinkat(folder, file.as_str(), UnlinkatFlags::NoRemoveDir)) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(_) if matches!(look(folder, file.as_str()), Ok(None)) => Ok(()),
            Err(errno) => Err(SpoolError::io("remove", self.dir.join(job_file))(errno)),
        }
    }

    fn shard_made(&self, shard: u8) -> Result<&OwnedFd, SpoolError> {
        self.shard(shard, true)?.ok_or_else(|| bad_name("jobs", "no such shard"))
    }

    fn split(&self, job_file: &str) -> Result<(u8, String), SpoolError> {
        let parsed = job_file.strip_prefix("jobs/").and_then(|rest| {
            let (shard, file) = rest.split_once('/')?;
            let shard = u8::from_str_radix(shard, 16).ok()?;
            let id = file.strip_suffix(SUFFIX).and_then(number)?;
            (self.job_path(shard, id) == job_file).then(|| (shard, file.to_owned()))
        });
        parsed.ok_or_else(|| bad_name(job_file, "not of the form jobs/<shard>/<id>.job"))
    }

    /// Whether a file has come from the drop box, where its user may exchange it until it is moved; what else has come goes into quarantine. Which
    /// of his files it is, its hash tells.
    fn arrived(&self, folder: &OwnedFd, file: &str, name: &str) -> Result<(), SpoolError> {
        let path = || self.dir.join("jobs").join(file);
        let stat = look(folder, file).map_err(|errno| SpoolError::io("look at", path())(errno))?;
        if stat.is_some_and(|stat| is_kind(&stat, nix::libc::S_IFREG) && stat.st_nlink == 1) {
            return Ok(());
        }
        self.set_aside(folder, file, name)?;
        Err(bad_name(name, "it was exchanged for what is no job file while it was taken"))
    }

    /// Whether a rename that reported an error has happened all the same.
    fn moved(&self, from: &OwnedFd, old: &str, to: &OwnedFd, new: &str) -> bool {
        matches!((look(from, old), look(to, new)), (Ok(None), Ok(Some(_))))
    }
}

/// Reads a job's number as it is written: digits, no sign, no leading zero.
fn number(text: &str) -> Option<JobId> {
    let id = JobId(text.parse().ok()?);
    (id.to_string() == text).then_some(id)
}

fn bad_name(name: &str, what: &'static str) -> SpoolError {
    SpoolError::Name { name: name.to_owned(), what }
}
