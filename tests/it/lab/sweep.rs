//! Sweeping up after a lab: every process that bears its mark is killed, and control groups of its nodes are removed. The mark is the lab's
//! folder or its cluster's id in a process's words, environment or working directory.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Longest that a sweep may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The processes that bear the mark of the lab in `dir`; zombies and this process do not count.
pub fn marked(dir: &Path) -> Vec<i32> {
    let mut marks = vec![dir.as_os_str().as_encoded_bytes().to_vec()];
    let id = fs::read_to_string(dir.join("spool/cluster.uuid")).unwrap_or_default();
    if id.trim().len() >= 16 {
        marks.push(id.trim().as_bytes().to_vec());
    }
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let own = std::process::id().cast_signed();
    let pids: Vec<i32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let parents: BTreeMap<i32, i32> =
        pids.iter().filter_map(|pid| Some((*pid, living_parent(*pid)?))).collect();
    let mut found: BTreeSet<i32> = parents
        .keys()
        .copied()
        .filter(|pid| *pid != own && bears(&Path::new("/proc").join(pid.to_string()), dir, &marks))
        .collect();
    // What a marked process started without its mark.
    loop {
        let known = found.len();
        found.extend(
            parents
                .iter()
                .filter(|(_, parent)| found.contains(parent))
                .map(|(pid, _)| *pid)
                .collect::<Vec<_>>(),
        );
        if found.len() == known {
            return found.into_iter().collect();
        }
    }
}

/// The parent of a process that is no zombie.
pub fn living_parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    let state = words.next()?;
    (state != "Z" && state != "X").then(|| words.next()?.parse().ok())?
}

fn bears(process: &Path, dir: &Path, marks: &[Vec<u8>]) -> bool {
    let in_text = |file: &str| {
        let text = fs::read(process.join(file)).unwrap_or_default();
        marks.iter().any(|mark| text.windows(mark.len()).any(|window| window == mark.as_slice()))
    };
    in_text("cmdline")
        || in_text("environ")
        || fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(dir))
}

/// Kills until nothing is left.
pub fn kill_all(dir: &Path) {
    let end = Instant::now() + PATIENCE;
    loop {
        let left = marked(dir);
        if left.is_empty() || Instant::now() > end {
            return;
        }
        for pid in left {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The folders of the control groups that a process is in which read this in `/proc/self/cgroup`.
pub fn group_folders(told: &str) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points =
        mounts.lines().filter(|line| line.contains(" - cgroup")).filter_map(|line| line.split(' ').nth(4));
    let paths: BTreeSet<&str> = told.lines().filter_map(|line| line.splitn(3, ':').nth(2)).collect();
    let all = points.flat_map(|point| paths.iter().map(move |path| PathBuf::from(format!("{point}{path}"))));
    all.filter(|folder| folder.is_dir()).collect()
}

/// Whether a process is in a control group that stands still.
pub fn is_frozen(pid: i32) -> bool {
    let told = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let events = |folder: PathBuf| fs::read_to_string(folder.join("cgroup.events")).unwrap_or_default();
    group_folders(&told).into_iter().any(|folder| events(folder).contains("frozen 1"))
}

/// Removes the control groups that its nodes left when they were killed.
pub fn remove_groups(dir: &Path) {
    let id = fs::read_to_string(dir.join("spool/cluster.uuid")).unwrap_or_default();
    let mark = format!("gq-{}-", id.trim());
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    // They lie below its own group in version 1, and beside it in version 2.
    let around =
        |folder: PathBuf| [Some(folder.clone()), folder.parent().map(Path::to_owned)].into_iter().flatten();
    let folders: BTreeSet<PathBuf> = group_folders(&own).into_iter().flat_map(around).collect();
    for node in folders.into_iter().flat_map(fs::read_dir).flatten().flatten() {
        if node.file_name().to_str().is_some_and(|name| name.starts_with(&mark)) {
            for run in fs::read_dir(node.path()).into_iter().flatten().flatten() {
                let _ = fs::remove_dir(run.path());
            }
            let _ = fs::remove_dir(node.path());
        }
    }
}
