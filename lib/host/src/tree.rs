//! The process tree below a subreaper: every process that a job starts descends from its supervisor, whatever sessions
//! and groups it makes for itself. Nothing here can reach a process that does not.

use crate::process::{Stat, all, pidfd_open, pidfd_signal, stat};
use gq_model::MiB;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::fd::{AsFd, BorrowedFd},
};

/// How deep a line of descent is followed.
const MAX_DEPTH: usize = 4096;
/// Most rounds of stopping.
const MAX_ROUNDS: usize = 1000;

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitedFor {
    /// It exited with this code.
    Code(u8),
    /// This signal ended it.
    Signal {
        /// The signal's number.
        number: u8,
        /// Whether it left a core file.
        core: bool,
    },
}

/// What processes used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Their time on cpus together, in microseconds.
    pub cpu: u64,
    /// The most memory that one of them had.
    pub memory: MiB,
}

impl Spent {
    /// Adds what others used.
    pub fn add(&mut self, other: Self) {
        self.cpu = self.cpu.saturating_add(other.cpu);
        self.memory = self.memory.max(other.memory);
    }

    /// From what the kernel says of a child that was waited for; those that it waited for itself are in it.
    fn of(usage: &libc::rusage) -> Self {
        let unsigned = |number: i64| u64::try_from(number).unwrap_or(0);
        let time = |of: libc::timeval| {
            unsigned(of.tv_sec).saturating_mul(1_000_000).saturating_add(unsigned(of.tv_usec))
        };
        let cpu = time(usage.ru_utime).saturating_add(time(usage.ru_stime));
        Self { cpu, memory: MiB(unsigned(usage.ru_maxrss).div_ceil(1024)) }
    }
}

/// What a reaping gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// The children that had ended, and how.
    pub ended: Vec<(u32, WaitedFor)>,
    /// What they used.
    pub spent: Spent,
    /// Whether any child is left. Below a subreaper: whether any descendant is.
    pub left: bool,
}

/// Takes children that have ended, so many at most; does not wait for any.
///
/// # Errors
/// When the kernel refuses.
pub fn reap_children(most: usize) -> io::Result<Reaped> {
    let mut reaped = Reaped::default();
    for _ in 0..most {
        let mut status = 0;
        // SAFETY: numbers alone, of which zero is one.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // The raw call: the wrapper of `nix` knows no real-time signal, and would lose a child that one of them ended.
        // SAFETY: `status` and `usage` outlive the call.
        let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG | libc::__WALL, &raw mut usage) };
        match u32::try_from(pid) {
            Ok(0) => {
                reaped.left = true;
                return Ok(reaped);
            }
            Ok(pid) => {
                if let Some(how) = waited_for(status) {
                    reaped.ended.push((pid, how));
                    reaped.spent.add(Spent::of(&usage));
                }
            }
            Err(_) => match io::Error::last_os_error() {
                e if e.raw_os_error() == Some(libc::ECHILD) => return Ok(reaped),
                e if e.kind() == io::ErrorKind::Interrupted => {}
                e => return Err(e),
            },
        }
    }
    reaped.left = true;
    Ok(reaped)
}

fn waited_for(status: i32) -> Option<WaitedFor> {
    if libc::WIFEXITED(status) {
        return u8::try_from(libc::WEXITSTATUS(status)).ok().map(WaitedFor::Code);
    }
    let number = u8::try_from(libc::WTERMSIG(status)).ok()?;
    libc::WIFSIGNALED(status).then(|| WaitedFor::Signal { number, core: libc::WCOREDUMP(status) })
}

/// Says whether child `pid` has ended, and leaves it to be reaped: until then nobody else can be given its pid, nor a
/// group of that number.
///
/// # Errors
/// When it is no child of this process.
pub fn has_ended(pid: u32) -> io::Result<bool> {
    use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    // The raw error of a signal that `nix` does not know is an end, too.
    match waitid(
        Id::Pid(nix::unistd::Pid::from_raw(pid)),
        WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT,
    ) {
        Ok(WaitStatus::StillAlive) => Ok(false),
        Ok(_) | Err(nix::Error::EINVAL) => Ok(true),
        Err(e) => Err(e.into()),
    }
}

/// Sends a signal to every process that descends from this one; returns how many there were.
///
/// A process that is being forked at this moment may be missed.
///
/// # Errors
/// When `/proc` cannot be read, or there are no descriptors left.
pub fn signal_descendants(signal: i32) -> io::Result<usize> {
    each_descendant(&mut |_, pidfd, _| tell(pidfd, signal))
}

/// Sends a signal to every process that descends from this one but `spared`; returns how many there were beside it.
///
/// # Errors
/// As [`signal_descendants`].
pub fn signal_descendants_but(spared: u32, signal: i32) -> io::Result<usize> {
    let mut told = 0;
    each_descendant(&mut |pid, pidfd, _| {
        if pid == spared {
            return Ok(());
        }
        told += 1;
        tell(pidfd, signal)
    })?;
    Ok(told)
}

/// Sends a signal to one process, if it descends from this one.
///
/// # Errors
/// When there are no descriptors left.
pub fn signal_descendant(pid: u32, signal: i32) -> io::Result<()> {
    let Some(pidfd) = pidfd_open(pid)? else { return Ok(()) };
    match descends(pid, std::process::id()) {
        Some(_) => tell(pidfd.as_fd(), signal),
        None => Ok(()),
    }
}

/// Stops every process that descends from this one, in rounds until one finds no process that is new: whoever forks is stopped, and then
/// what it forked.
///
/// # Errors
/// As [`signal_descendants`], and when new processes come faster than they can be stopped.
pub fn stop_descendants() -> io::Result<()> {
    let mut stopped = BTreeSet::new();
    for _ in 0..MAX_ROUNDS {
        let mut is_new = false;
        each_descendant(&mut |pid, pidfd, stat| {
            is_new |= stopped.insert((pid, stat.start));
            tell(pidfd, libc::SIGSTOP)
        })?;
        if !is_new {
            return Ok(());
        }
    }
    Err(io::Error::other("new processes come faster than they can be stopped"))
}

/// Kills every process that descends from this one, and their process groups whole: no fork slips out of a group that
/// is being killed. Returns the pids that were found; to end all, call again until [`reap_children`] leaves none.
///
/// # Errors
/// As [`signal_descendants`].
pub fn kill_descendants() -> io::Result<BTreeSet<u32>> {
    let own = stat(std::process::id()).map_or(0, |s| s.session);
    let mut found = BTreeSet::new();
    let mut groups = BTreeSet::new();
    each_descendant(&mut |pid, pidfd, stat| {
        found.insert(pid);
        // In a session that a descendant made there are descendants only; so it is with the groups of that session.
        if stat.session != own && groups.insert(stat.group) {
            kill_group(stat.group)?;
        }
        tell(pidfd, libc::SIGKILL)
    })?;
    Ok(found)
}

/// Kills a process group whole. `leader` must be known to hold its number: a child not reaped yet, or a living member.
///
/// # Errors
/// When the kernel refuses.
pub fn kill_group(leader: u32) -> io::Result<()> {
    let group = i32::try_from(leader).ok().filter(|g| *g > 1);
    let group = nix::unistd::Pid::from_raw(group.ok_or_else(|| io::Error::other("no group of a job"))?);
    match nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL) {
        Ok(()) | Err(nix::Error::ESRCH | nix::Error::EPERM) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

fn tell(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    match pidfd_signal(pidfd, signal, None) {
        Ok(_) => Ok(()),
        // A program of another user, such as sudo, in a tree that an ordinary user supervises.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        Err(e) => Err(e),
    }
}

fn each_descendant(act: &mut dyn FnMut(u32, BorrowedFd<'_>, Stat) -> io::Result<()>) -> io::Result<usize> {
    let me = std::process::id();
    let mut count = 0;
    for pid in descendants(me)? {
        let Some(pidfd) = pidfd_open(pid)? else { continue };
        // Looked at now that the pidfd holds the process: its pid may have been given to a stranger before.
        if let Some(stat) = descends(pid, me) {
            act(pid, pidfd.as_fd(), stat)?;
            count += 1;
        }
    }
    Ok(count)
}

/// A living process that descends from `ancestor`; none when it is dead or a stranger.
pub(crate) fn descends(pid: u32, ancestor: u32) -> Option<Stat> {
    let found = stat(pid).filter(|s| !s.is_dead())?;
    let mut parent = found.parent;
    for _ in 0..MAX_DEPTH {
        if parent == ancestor {
            return Some(found);
        }
        if parent <= 1 {
            return None;
        }
        parent = stat(parent)?.parent;
    }
    None
}

/// Every living process below `root`, parents before their children.
fn descendants(root: u32) -> io::Result<Vec<u32>> {
    let Some(first) = children(root)? else { return descendants_by_scan(root) };
    let mut found = first;
    let mut at = 0;
    while let Some(pid) = found.get(at).copied() {
        found.extend(children(pid)?.unwrap_or_default());
        at += 1;
    }
    Ok(found)
}

/// The children of a process, of all its threads; none when this kernel does not list them.
fn children(pid: u32) -> io::Result<Option<Vec<u32>>> {
    let tasks = match fs::read_dir(format!("/proc/{pid}/task")) {
        Ok(tasks) => tasks,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Some(Vec::new())),
        Err(e) => return Err(e),
    };
    let mut found = Vec::new();
    for task in tasks {
        let Ok(task) = task else { continue };
        match fs::read_to_string(task.path().join("children")) {
            Ok(list) => found.extend(list.split_ascii_whitespace().filter_map(|p| p.parse::<u32>().ok())),
            // The thread is gone, or this kernel was built without the list.
            Err(_) if task.path().join("stat").exists() => return Ok(None),
            Err(_) => {}
        }
    }
    Ok(Some(found))
}

fn descendants_by_scan(root: u32) -> io::Result<Vec<u32>> {
    let mut by_parent: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in all()? {
        if let Some(stat) = stat(pid) {
            by_parent.entry(stat.parent).or_default().push(pid);
        }
    }
    let mut found = by_parent.remove(&root).unwrap_or_default();
    let mut at = 0;
    while let Some(pid) = found.get(at).copied() {
        found.extend(by_parent.remove(&pid).unwrap_or_default());
        at += 1;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn both_ways_find_the_same_descendants() {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", "sleep 60 & echo; read line; kill $!"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut byte = [0];
        io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut byte).unwrap();
        let walked = descendants(shell.id()).unwrap();
        assert_eq!(walked, descendants_by_scan(shell.id()).unwrap());
        assert_eq!(walked.len(), 1);
        let me = std::process::id();
        assert!(descends(walked[0], me).is_some() && descends(walked[0], shell.id()).is_some());
        assert!(descends(me, walked[0]).is_none());
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }
}
