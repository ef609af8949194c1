//! `--rerun-failed`: finds the job file of a job that was submitted, and makes a submission of it for the tasks that failed.

use super::{around, of_spool};
use crate::{
    link::Link,
    trouble::{NOT_PERMITTED, REFUSED, Trouble, UNREACHABLE},
};
use gq_ask::{CommandLine, Failed, Submission};
use gq_conf::Config;
use gq_model::{JobId, Timestamp};
use gq_proto::{Ask, JobFile, Reply, sha256_hex};
use gq_spool::{DropClient, SpoolError};
use std::{ffi::OsString, io::ErrorKind, os::unix::ffi::OsStringExt};

/// Makes the submission, with the environment of the first one.
pub(super) fn again(
    conf: &Config,
    line: CommandLine,
    job: JobId,
) -> Result<(Submission, Vec<Vec<u8>>), Trouble> {
    let link = Link::open_to(conf)?;
    let Reply::JobFile { path, sha256, failed, array } = link.ask(Ask::JobFile { job })? else {
        return Err(link.astray());
    };
    if failed.is_empty() {
        return Err(Trouble::new(REFUSED, format!("nothing of job {job} has failed"))
            .with_hint(format!("gqstat -j {job}")));
    }
    let file = read_file(conf, job, &path, &sha256)?;
    if file.uid.0 != nix::unistd::geteuid().as_raw() {
        return Err(Trouble::new(NOT_PERMITTED, format!("job {job} is somebody else's"))
            .with_hint("its user can run it again: what runs is his script, with his environment"));
    }
    let old = Failed {
        spec: file.spec,
        script: file.script,
        args: file.args.into_iter().map(OsString::from_vec).collect(),
        prep: file.prep,
        items: file.items,
        tasks: failed,
        array,
    };
    let around = around::Around::look()?;
    let submission = line.again(old, around.context(Timestamp(around.now)))?;
    Ok((submission, file.env))
}

/// Reads the accepted job file of a job, if that is still there and the caller may.
pub(crate) fn read_file(conf: &Config, job: JobId, path: &str, sha256: &str) -> Result<JobFile, Trouble> {
    let drop_box = DropClient::open(&conf.cluster.spool_dir).map_err(|e| of_spool(UNREACHABLE, &e))?;
    let bytes = drop_box.read_job(path).map_err(|e| unread(job, &e))?;
    if sha256_hex(&bytes) != sha256 {
        let text = format!("the job file of job {job} is not the one that was accepted");
        return Err(Trouble::new(REFUSED, text).with_hint("submit the script anew"));
    }
    JobFile::from_bytes(&bytes)
        .map_err(|e| Trouble::new(REFUSED, format!("the job file of job {job} cannot be read: {e}")))
}

fn unread(job: JobId, error: &SpoolError) -> Trouble {
    match error {
        SpoolError::Io { source, .. } if source.kind() == ErrorKind::NotFound => Trouble::new(
            REFUSED,
            format!("the job file of job {job} is gone: it is kept for job_file_keep after the end"),
        )
        .with_hint("submit the script anew"),
        SpoolError::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            Trouble::new(NOT_PERMITTED, format!("the job file of job {job}: {source}"))
                .with_hint("its user can run it again")
        }
        other => of_spool(REFUSED, other),
    }
}
