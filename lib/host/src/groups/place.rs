//! One folder in a hierarchy: a group that is made, bounded, entered, frozen and killed by writing words into its files.

use crate::{
    devices::Devices,
    machine::at,
    process::{pidfd_open, pidfd_signal},
};
use gq_model::{Bound, MiB};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fs, io,
    os::fd::AsFd,
    path::{Path, PathBuf},
};

/// Whoever enters it is a member of a group: a list of processes, one a line.
const MEMBERS: &str = "cgroup.procs";
/// In how much time a run may use its cpus for as long as it is, each; microseconds.
const PERIOD: u64 = 100_000;

/// So often it is looked for processes that are to stand still and do not yet.
const MOST_ROUNDS: usize = 1000;

/// Of what a run may have how much.
#[derive(Clone, Debug)]
pub struct Limits<'a> {
    /// 0 means no bound.
    pub memory: MiB,
    /// So many cpus' time.
    pub cpus: u32,
    /// So many processes and threads at once.
    pub processes: u32,
    /// The devices that are kept from it, and its own.
    pub devices: &'a Devices,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Version {
    One,
    Two,
}

/// A folder in a hierarchy: a group, or one in which groups of runs are made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) folder: PathBuf,
    pub(super) version: Version,
    pub(super) bounds: Vec<Bound>,
}

impl Place {
    /// Whether a run that is never suspended has no use for it.
    pub(super) fn is_for_suspension_alone(&self) -> bool {
        self.bounds == [Bound::Suspension]
    }

    pub(super) fn make(&self, limits: &Limits<'_>) -> io::Result<()> {
        let at = self.at();
        make_folder(&self.folder).map_err(&at)?;
        self.bounds.iter().try_for_each(|bound| self.bound(*bound, limits)).map_err(&at)
    }

    fn bound(&self, bound: Bound, limits: &Limits<'_>) -> io::Result<()> {
        match bound {
            Bound::Cards if self.version == Version::One => limits.devices.list(&self.folder),
            Bound::Cards => limits.devices.keep(&self.folder),
            Bound::Memory if limits.memory == MiB(0) => Ok(()),
            Bound::Memory => self.bound_memory(limits.memory),
            Bound::Processes => self.write("pids.max", &limits.processes.to_string()),
            Bound::Cpus => self.bound_cpus(limits.cpus),
            Bound::Suspension => self.freeze(false),
            Bound::Folders => Ok(()),
        }
    }

    pub(super) fn at(&self) -> impl Fn(io::Error) -> io::Error {
        at(&self.folder)
    }

    /// Swap is no more memory than was asked for.
    fn bound_memory(&self, memory: MiB) -> io::Result<()> {
        let bytes = memory.0.saturating_mul(1 << 20).to_string();
        match self.version {
            Version::One => {
                self.write("memory.limit_in_bytes", &bytes)?;
                unless_gone(self.write("memory.memsw.limit_in_bytes", &bytes), ())
            }
            Version::Two => {
                self.write("memory.max", &bytes)?;
                unless_gone(self.write("memory.swap.max", "0"), ())?;
                unless_gone(self.write("memory.oom.group", "1"), ())
            }
        }
    }

    fn bound_cpus(&self, cpus: u32) -> io::Result<()> {
        let quota = u64::from(cpus.max(1)) * PERIOD;
        self.write("cpu.max", &format!("{quota} {PERIOD}"))
    }

    /// Has the processes of a group stand still that are members of these places: made when it is not there yet, entered by all, however fast
    /// they fork; whoever enters stands still.
    pub(super) fn freeze_with<'a>(&self, places: impl Iterator<Item = &'a Self> + Clone) -> io::Result<()> {
        make_folder(&self.folder).map_err(self.at())?;
        self.freeze(true).map_err(self.at())?;
        for _ in 0..MOST_ROUNDS {
            let inside = self.members()?;
            let mut outside = BTreeSet::new();
            for place in places.clone() {
                outside.extend(place.members()?.difference(&inside));
            }
            if outside.is_empty() {
                return Ok(());
            }
            outside.into_iter().try_for_each(|pid| self.take_in(pid)).map_err(self.at())?;
        }
        Err(io::Error::other("new processes come faster than they can be stopped"))
    }

    /// Has all its processes stand still, or go on. They are killed all the same.
    pub(super) fn freeze(&self, still: bool) -> io::Result<()> {
        self.write("cgroup.freeze", if still { "1" } else { "0" })
    }

    fn write(&self, file: &str, words: &str) -> io::Result<()> {
        // Such a file is there or not: none is ever made.
        fs::OpenOptions::new()
            .write(true)
            .open(self.folder.join(file))
            .and_then(|mut file| io::Write::write_all(&mut file, words.as_bytes()))
    }

    /// Moves a process into it; one that is gone is none of anybody's.
    pub(super) fn take_in(&self, pid: u32) -> io::Result<()> {
        match self.write(MEMBERS, &pid.to_string()) {
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            done => done,
        }
    }

    pub(super) fn members(&self) -> io::Result<BTreeSet<u32>> {
        let text = unless_gone(fs::read_to_string(self.folder.join(MEMBERS)), String::new())?;
        Ok(text.lines().filter_map(|line| line.trim().parse().ok()).collect())
    }

    /// Kills all at once, where that can be.
    pub(super) fn kills_at_once(&self) -> io::Result<bool> {
        match self.write("cgroup.kill", "1") {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    pub(super) fn kill(&self, pid: u32) -> io::Result<()> {
        let Some(pidfd) = pidfd_open(pid)? else { return Ok(()) };
        // Looked at again now that the pidfd holds the process: the pid may have been given to another before.
        if self.members()?.contains(&pid) {
            pidfd_signal(pidfd.as_fd(), libc::SIGKILL, None)?;
        }
        Ok(())
    }

    /// Whether three quarters of the processes are there that it may have.
    pub(super) fn is_crowded(&self) -> bool {
        let number = |file: &str| fs::read_to_string(self.folder.join(file)).ok()?.trim().parse::<u64>().ok();
        let (now, most) = (number("pids.current"), number("pids.max"));
        now.zip(most).is_some_and(|(now, most)| now.saturating_mul(4) >= most.saturating_mul(3))
    }

    /// The time that its processes had on cpus, in microseconds: each group of version 2 counts it.
    pub(super) fn cpu_time(&self) -> Option<u64> {
        let text = fs::read_to_string(self.folder.join("cpu.stat")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("usage_usec ")?.trim().parse().ok())
    }

    /// The most memory that it had at a time; kernels before 5.19 do not tell it in version 2.
    pub(super) fn most_memory(&self) -> Option<MiB> {
        let file = match self.version {
            Version::One => "memory.max_usage_in_bytes",
            Version::Two => "memory.peak",
        };
        let bytes: u64 = fs::read_to_string(self.folder.join(file)).ok()?.trim().parse().ok()?;
        Some(MiB(bytes.div_ceil(1 << 20)))
    }

    pub(super) fn ran_out_of_memory(&self) -> bool {
        let file = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let text = fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        let kills = text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse::<u64>().ok());
        kills.is_some_and(|kills| kills > 0)
    }
}

/// What is gone is as good as done.
pub(crate) fn unless_gone<T>(done: io::Result<T>, gone: T) -> io::Result<T> {
    match done {
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)) => Ok(gone),
        done => done,
    }
}

pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}
