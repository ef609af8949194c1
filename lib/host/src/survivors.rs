//! Supervisors that live, found by what they hold: the run's folder as standard input, and the assignment in their environment. For a node whose log
//! no longer knows them.

use crate::{
    process::{all, environment, real_uid, stat, variable},
    spawn::ENV_ASSIGNMENT,
};
use gq_model::Assignment;
use std::{fs, io, path::Path};

/// A supervisor that lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// Its process.
    pub pid: u32,
    /// When that began, in clock ticks after boot.
    pub start: u64,
    /// What it supervises.
    pub assignment: Assignment,
}

/// The supervisors that live of runs whose folders are in `runs`.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn survivors(runs: &Path) -> io::Result<Vec<Survivor>> {
    let own = nix::unistd::geteuid().as_raw();
    let mut found: Vec<(Survivor, u32)> = Vec::new();
    for pid in all()?.into_iter().filter(|pid| real_uid(*pid) == Some(own)) {
        let Ok(folder) = fs::read_link(format!("/proc/{pid}/fd/0")) else { continue };
        let Some(stat) = stat(pid).filter(|stat| !stat.is_dead() && folder.starts_with(runs)) else {
            continue;
        };
        let Some(text) = variable(&environment(pid), ENV_ASSIGNMENT) else { continue };
        let Ok(assignment) = serde_json::from_slice::<Assignment>(&text) else { continue };
        if folder.file_name().is_some_and(|name| name.to_str() == Some(&assignment.key.to_string())) {
            found.push((Survivor { pid, start: stat.start, assignment }, stat.parent));
        }
    }
    // Its child is like it until it executes the script.
    let pids: Vec<u32> = found.iter().map(|(survivor, _)| survivor.pid).collect();
    found.retain(|(_, parent)| !pids.contains(parent));
    Ok(found.into_iter().map(|(survivor, _)| survivor).collect())
}
