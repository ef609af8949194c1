//! Sweeping up after a supervisor that was killed: what is left of its run is found in its control group, by the marker in its environment
//! or by its session, and killed. While a supervisor lives, it does this better itself.

use crate::{
    groups::Group,
    process::{all, environment, pidfd_open, pidfd_signal, real_uid, stat, variable},
    tree::descends,
};
use gq_model::{Assignment, Uid};
use std::{collections::BTreeSet, io, os::fd::AsFd, time::Duration};

/// Time enough for a process to get its environment during its exec.
const EXEC_TIME: Duration = Duration::from_millis(2);

/// The environment variable that marks the processes of a run.
pub const ENV_MARKER: &str = "GQ_RUN_KEY";

/// What marks the processes of a run: its key, and a part of its job file's hash that tells two clusters of one
/// machine apart.
pub fn run_marker(assignment: &Assignment) -> String {
    format!("{}-{}", assignment.key, assignment.sha256.get(..16).unwrap_or(&assignment.sha256))
}

/// What is known of a run whose supervisor is dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remains {
    /// From [`run_marker`].
    pub marker: String,
    /// Whose processes they are; no other user's process is ever touched.
    pub uid: Uid,
    /// The session of the script, when it was started (and in this boot).
    pub session: Option<u32>,
}

/// Kills what is left of a run, and returns how many processes were still there. Call again until it is 0: a process
/// may have forked meanwhile. Its group is gone then.
///
/// Never touches process 1, this process, or one that it descends from.
///
/// # Errors
/// When `/proc` or the group cannot be read.
pub fn sweep(remains: &Remains, group: &Group) -> io::Result<usize> {
    let grouped = group.kill()?;
    let mut spared = BTreeSet::from([1]);
    let mut pid = std::process::id();
    while pid > 1 && spared.insert(pid) {
        pid = stat(pid).map_or(0, |s| s.parent);
    }
    let mut left = grouped.len();
    let mut unclear = Vec::new();
    for pid in all()?.into_iter().filter(|pid| !spared.contains(pid) && !grouped.contains(pid)) {
        match belongs(remains, pid) {
            Belongs::Yes => left += usize::from(kill(remains, pid)?),
            Belongs::No => {}
            Belongs::Unclear => unclear.push(pid),
        }
    }
    if !unclear.is_empty() {
        std::thread::sleep(EXEC_TIME);
    }
    for pid in unclear {
        if belongs(remains, pid) == Belongs::Yes {
            left += usize::from(kill(remains, pid)?);
        }
    }
    if left == 0 {
        group.remove()?;
    }
    Ok(left)
}

/// Whether a living process is one of a run's: below its supervisor, in its group, or with its marker.
pub fn is_of_run(pid: u32, remains: &Remains, group: &Group, supervisor: Option<u32>) -> bool {
    supervisor.is_some_and(|above| descends(pid, above).is_some())
        || group.has(pid)
        || belongs(remains, pid) == Belongs::Yes
}

/// Kills a process of the run; says whether there was one.
fn kill(remains: &Remains, pid: u32) -> io::Result<bool> {
    let Some(pidfd) = pidfd_open(pid)? else { return Ok(false) };
    // Looked at again now that the pidfd holds the process: the pid may have been given to another before.
    if belongs(remains, pid) != Belongs::Yes {
        return Ok(false);
    }
    pidfd_signal(pidfd.as_fd(), libc::SIGKILL, None).or_else(|e| {
        log::warn!("process {pid} of run {} cannot be killed: {e}", remains.marker);
        Ok(true)
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Belongs {
    Yes,
    No,
    /// Its environment is empty: cleared, or it is being executed at this moment.
    Unclear,
}

fn belongs(remains: &Remains, pid: u32) -> Belongs {
    let Some(stat) = stat(pid).filter(|s| !s.is_dead()) else { return Belongs::No };
    if real_uid(pid) != Some(remains.uid.0) {
        return Belongs::No;
    }
    let environment = environment(pid);
    match variable(&environment, ENV_MARKER) {
        Some(marker) if marker == remains.marker.as_bytes() => Belongs::Yes,
        // A marker of another run in this run's session would mean that the session's number was given again.
        Some(_) => Belongs::No,
        None if remains.session == Some(stat.session) => Belongs::Yes,
        None if environment.is_empty() => Belongs::Unclear,
        None => Belongs::No,
    }
}
