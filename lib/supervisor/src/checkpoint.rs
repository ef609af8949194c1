//! The folder that stays through the runs of a job, for its checkpoints and for the word that says why a run was ended. All that is
//! done here is done by a process that is the job's user already.

use crate::trouble::Trouble;
use gq_model::{
    Assignment, EndReason, JobId, JobSpec, PatternFields, Reason, RunKey, TaskIndex, output_path,
};
use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// The file that says why the last run was ended.
const END_REASON: &str = "END_REASON";

/// Where a job's folder is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    path: String,
    /// Whether no other job, and no other task of the array, has the same: then it may go when it is not needed.
    is_own: bool,
}

impl Checkpoint {
    /// Makes the folder of a job that shall have one, if it is not there; its parents are not made. Of a job that asked for none and
    /// may only run again, a folder that cannot be made is no trouble.
    pub fn make(
        assignment: &Assignment,
        spec: &JobSpec,
        fields: &PatternFields<'_>,
    ) -> Result<Option<Self>, Trouble> {
        if !assignment.may_run_again && spec.checkpoint.is_none() {
            return Ok(None);
        }
        let checkpoint = Self::of(spec, fields);
        let made = match DirBuilder::new().mode(0o700).create(&checkpoint.path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && Path::new(&checkpoint.path).is_dir() => {
                Ok(())
            }
            made => made,
        };
        match made {
            Ok(()) => {
                if restarts(assignment) == 0 {
                    // What another job left there is not this one's.
                    let _ = fs::remove_file(checkpoint.reason_file());
                }
                Ok(Some(checkpoint))
            }
            Err(_) if spec.checkpoint.is_none() => Ok(None),
            Err(e) => {
                let words =
                    format!("{}: the folder for checkpoints: {}", checkpoint.path, gq_host::words(&e));
                Err(Trouble::user(Reason::WorkDir, words))
            }
        }
    }

    fn of(spec: &JobSpec, fields: &PatternFields<'_>) -> Self {
        let usual = if fields.array.is_some() { "gq-%A_%a.ckpt" } else { "gq-%j.ckpt" };
        let pattern = spec.checkpoint.as_deref().filter(|pattern| !pattern.is_empty()).unwrap_or(usual);
        let path = |job: JobId, array| {
            let key = RunKey { job, ..fields.key };
            output_path(Some(pattern), &spec.work_dir, &PatternFields { key, array, ..fields.clone() })
        };
        let job = fields.key.job;
        let other = JobId(job.0 ^ 1);
        let own = path(job, fields.array);
        let of_other_job = path(other, fields.array.map(|(_, task)| (other, task)));
        let of_other_task = fields.array.map(|(array, task)| path(job, Some((array, TaskIndex(task.0 ^ 1)))));
        let is_own = own != of_other_job && of_other_task.is_none_or(|other| other != own);
        Self { path: own, is_own }
    }

    /// Whether it may go when it is not needed.
    pub const fn is_own(&self) -> bool {
        self.is_own
    }

    /// Its path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The path of the file that says why the last run was ended.
    pub fn reason_file(&self) -> String {
        format!("{}/{END_REASON}", self.path)
    }

    /// Writes why the run is being ended; whoever reads it finds all of it or the word before.
    pub fn write_reason(&self, reason: EndReason) -> io::Result<()> {
        let fresh = PathBuf::from(format!("{}/.{END_REASON}.{}", self.path, std::process::id()));
        let written = fs::write(&fresh, format!("{}\n", reason.word()))
            .and_then(|()| fs::rename(&fresh, self.reason_file()));
        if written.is_err() {
            let _ = fs::remove_file(&fresh);
        }
        written
    }

    /// Removes the folder if there is nothing in it; of a job that has completed, also if there is nothing but why a run was ended. Another
    /// run makes it anew.
    pub fn remove(&self, is_complete: bool) -> io::Result<()> {
        if !is_complete {
            return match fs::remove_dir(&self.path) {
                Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
                removed => removed,
            };
        }
        for entry in fs::read_dir(&self.path)? {
            if entry?.file_name() != END_REASON {
                return Ok(());
            }
        }
        match fs::remove_file(self.reason_file()) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        fs::remove_dir(&self.path)
    }

    /// As the child tells the supervisor, in one line.
    pub fn to_line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(&(&self.path, self.is_own)).unwrap_or_default();
        line.push(b'\n');
        line
    }

    pub fn from_line(line: &[u8]) -> Option<Self> {
        let (path, is_own) = serde_json::from_slice(line).ok()?;
        Some(Self { path, is_own })
    }
}

/// How often the job's script was begun before.
pub fn restarts(assignment: &Assignment) -> u32 {
    assignment.restarts.unwrap_or(assignment.key.run.0.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gq_model::RunNumber;

    #[test]
    fn a_folder_that_others_may_share_is_nobodys_own() {
        let mut spec: JobSpec =
            serde_json::from_value(serde_json::json!({ "name": "j", "work_dir": "/w", "umask": 0 })).unwrap();
        let fields = |array| PatternFields {
            key: RunKey { job: JobId(17), task: TaskIndex(3), run: RunNumber(1) },
            array,
            name: "j",
            user: "ann",
            node: None,
        };
        let (alone, array) = (fields(None), fields(Some((JobId(17), TaskIndex(3)))));
        for (pattern, of_job, own_job, of_task, own_task) in [
            (None, "/w/gq-17.ckpt", true, "/w/gq-17_3.ckpt", true),
            (Some(""), "/w/gq-17.ckpt", true, "/w/gq-17_3.ckpt", true),
            (Some("c"), "/w/c", false, "/w/c", false),
            (Some("/x/%j"), "/x/17", true, "/x/17", false),
            (Some("c-%a"), "/w/c-0", false, "/w/c-3", false),
        ] {
            spec.checkpoint = pattern.map(Into::into);
            let (job, task) = (Checkpoint::of(&spec, &alone), Checkpoint::of(&spec, &array));
            assert_eq!(
                (job.path(), job.is_own, task.path(), task.is_own),
                (of_job, own_job, of_task, own_task)
            );
            let line = job.to_line();
            assert_eq!(Checkpoint::from_line(&line[..line.len() - 1]), Some(job));
        }
    }
}
