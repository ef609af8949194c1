//! Starting supervisors, and telling whether one lives: it holds the lock of its run's folder from its first moment to
//! its last, since the lock belongs to the open folder that it inherits.

use crate::{
    around::{Around, ENV_AROUND},
    control::{Supervisor, control_signal},
    user::Account,
};
use gq_model::{ClusterId, RunKey, Seconds};
use serde::{Deserialize, Serialize};
use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::{
        fd::OwnedFd,
        unix::{fs::OpenOptionsExt, process::CommandExt},
    },
    path::Path,
    process::{Command, Stdio},
};

/// Variable of a supervisor's environment: its assignment as JSON.
pub const ENV_ASSIGNMENT: &str = "GQSTEP_ASSIGNMENT";
/// Variable of a supervisor's environment: what the script's process is to become, as JSON; see [`Becoming`].
pub const ENV_BECOMING: &str = "GQSTEP_BECOMING";
/// Variable of a supervisor's environment: the spool directory.
pub const ENV_SPOOL: &str = "GQSTEP_SPOOL";
/// Variable of a supervisor's environment: `1` when it may run jobs of root.
pub const ENV_ROOT: &str = "GQSTEP_ROOT";

/// Variable of a supervisor's environment: until when its run may go on if it hears nothing more, in seconds after the boot of the
/// machine; not set when the run has no lease.
pub const ENV_LEASE: &str = "GQSTEP_LEASE";

/// What `gqnode` knows of the process that becomes the script, so that no supervisor has to find it out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Becoming {
    /// The account of the assignment's uid; none when it has none.
    pub account: Option<Account>,
    /// Whether `gqnode` is protected from being killed when memory runs out. The supervisor stays so; a job is not.
    pub oom_protected: bool,
    /// The node's cluster, for which its job file must have been made; none when that is not known.
    #[serde(default)]
    pub cluster: Option<ClusterId>,
}

/// What a supervisor is started with.
#[derive(Debug)]
pub struct SpawnRequest<'a> {
    /// The program `gqstep`.
    pub exe: &'a Path,
    /// Which run.
    pub key: RunKey,
    /// The run's assignment as JSON.
    pub assignment_json: &'a str,
    /// What its script's process is to become.
    pub becoming: &'a Becoming,
    /// The spool directory.
    pub spool_dir: &'a Path,
    /// The run's folder, locked: see [`lock_folder`].
    pub run_folder: OwnedFd,
    /// The node's log, open for appending.
    pub log: OwnedFd,
    /// Whether jobs of root are served: only under `user = "root"`.
    pub serves_root: bool,
    /// Until when the run may go on if it hears nothing more, in seconds after the boot of the machine; none when it has no lease.
    pub lease: Option<Seconds>,
    /// What the site does around the run.
    pub around: &'a Around,
}

/// Opens a run's folder and locks it; none when a living supervisor holds the lock.
///
/// # Errors
/// When the folder is not there, is no folder, or there are no descriptors left.
pub fn lock_folder(path: &Path) -> io::Result<Option<OwnedFd>> {
    let folder: File =
        OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path)?;
    match folder.try_lock() {
        Ok(()) => Ok(Some(folder.into())),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

/// Starts a supervisor; it outlives this process. Its end is told by [`Supervisor::pidfd`]; then call
/// [`Supervisor::reap`]. None when it runs and there is no descriptor left to watch it by.
///
/// A plain spawn without `pre_exec`, `uid` or `gid`: these would fork the whole of `gqnode`, ten times as slow.
///
/// # Errors
/// When there is no such program, or no process, memory or descriptor left: the site's fault.
pub fn spawn_supervisor(request: SpawnRequest<'_>) -> io::Result<Option<Supervisor>> {
    let mut command = Command::new(request.exe);
    command
        .arg(request.key.to_string())
        .env_clear()
        .env(ENV_ASSIGNMENT, request.assignment_json)
        .env(ENV_BECOMING, serde_json::to_string(request.becoming)?)
        .env(ENV_SPOOL, request.spool_dir)
        .stdin(Stdio::from(request.run_folder))
        .stdout(Stdio::from(request.log))
        .stderr(Stdio::inherit())
        .process_group(0)
        .envs(gq_failpoint::handed_on());
    if request.serves_root {
        command.env(ENV_ROOT, "1");
    }
    if let Some(until) = request.lease {
        command.env(ENV_LEASE, until.0.to_string());
    }
    if *request.around != Around::default() {
        command.env(ENV_AROUND, serde_json::to_string(request.around)?);
    }
    let child = command.spawn()?;
    // Its descriptors are its own now: with none left, one of ours is what it is watched by.
    drop(command);
    Ok(Supervisor::of_child(child.id())
        .inspect_err(|e| log::error!("the supervisor of run {} cannot be watched: {e}", request.key))
        .ok())
}

/// Blocks the control signal in the calling thread and, by inheritance, in all threads and supervisors that it starts
/// later. Call once at the start of `gqnode`: a word that comes before a supervisor is ready then waits for it instead
/// of killing it.
///
/// # Errors
/// When the kernel refuses.
pub fn block_control_signal() -> io::Result<()> {
    // SAFETY: a sigset_t of zeros is made empty before its use; the other calls take pointers to it.
    let rc = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, control_signal());
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut())
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(rc)) }
}
