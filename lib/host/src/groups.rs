//! Control groups: each run has one of its own in every hierarchy that bounds it. They hold its processes together however they hide, and
//! keep its memory and the number of its processes within bounds. What of this the kernel does not offer here is told, and left out.
//!
//! Version 1 has a hierarchy for each controller; version 2 has one for all, in which a group has either processes or groups below it, so
//! that `gqnode` moves into a leaf of its own group first. Beside controllers of version 1 that of version 2 may have none; all processes of a
//! group can be killed at once there. See the kernel's `admin-guide/cgroup-v1` and `cgroup-v2`.

use crate::{
    devices::Devices,
    process::{pidfd_open, pidfd_signal},
};
use gq_model::{Bound, MiB, RunKey};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fs, io,
    os::fd::AsFd,
    path::{Path, PathBuf},
};

/// Whoever enters it is a member of a group: a list of processes, one a line.
const MEMBERS: &str = "cgroup.procs";
/// The name of the leaf that `gqnode` moves into.
const LEAF: &str = "gqnode";
/// A run may have one in so many of the machine's processes and threads.
const PART_OF_PROCESSES: u64 = 3;

/// The controller that bounds something by its name; a program bounds cards, in version 2.
const fn controller(bound: Bound) -> Option<&'static str> {
    match bound {
        Bound::Memory => Some("memory"),
        Bound::Processes => Some("pids"),
        Bound::Cards => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Version {
    One,
    Two,
}

/// A folder in a hierarchy in which groups of runs are made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    folder: PathBuf,
    version: Version,
    bounds: Vec<Bound>,
}

/// Where a node makes the groups of its runs; nowhere when it cannot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ground(Vec<Place>);

/// A hierarchy that is mounted, and this process's own group in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    version: Version,
    /// Where it is mounted.
    point: PathBuf,
    /// Of version 1.
    controllers: Vec<String>,
    own: PathBuf,
}

impl Ground {
    /// Makes the folders in which a node makes groups; `name` is no other node's of this machine. Also returns what runs are not bounded in
    /// here, with the reason.
    pub fn make(name: &str) -> (Self, Vec<(Bound, String)>) {
        let hierarchies = match hierarchies() {
            Ok(hierarchies) => hierarchies,
            Err(e) => return (Self::default(), Bound::ALL.map(|bound| (bound, e.to_string())).into()),
        };
        let (mut places, mut lacks): (Vec<Place>, _) = (Vec::new(), Vec::new());
        for bound in Bound::ALL {
            match place(&hierarchies, bound, name) {
                Ok(place) => match places.iter_mut().find(|there| there.folder == place.folder) {
                    Some(there) => there.bounds.push(bound),
                    None => places.push(place),
                },
                Err(e) => lacks.push((bound, e.to_string())),
            }
        }
        (Self(places), lacks)
    }

    /// Where earlier lives of a node made groups, which may have been in other groups themselves: what bounds nothing any more, and may hold
    /// processes.
    ///
    /// # Errors
    /// When it cannot be read what is mounted.
    pub fn find(name: &str) -> io::Result<Self> {
        let mut places = Vec::new();
        for Hierarchy { version, point, .. } in hierarchies()? {
            let mut folders = vec![point];
            while let Some(folder) = folders.pop() {
                // A group that is gone, or is not shown to this process.
                let Ok(below) = fs::read_dir(folder) else { continue };
                for entry in below.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                {
                    match entry.file_name() == name {
                        true => places.push(Place { folder: entry.path(), version, bounds: Vec::new() }),
                        false => folders.push(entry.path()),
                    }
                }
            }
        }
        Ok(Self(places))
    }

    /// What runs are bounded in.
    pub fn bounds(&self) -> BTreeSet<Bound> {
        self.0.iter().flat_map(|place| place.bounds.iter().copied()).collect()
    }

    /// The same for a run that is not bounded in this.
    #[must_use]
    pub fn without(&self, bound: Bound) -> Self {
        let mut places = self.0.clone();
        places.iter_mut().for_each(|place| place.bounds.retain(|one| *one != bound));
        places.retain(|place| !place.bounds.is_empty());
        Self(places)
    }

    /// The group of a run, whether it is there or not.
    pub fn group(&self, key: RunKey) -> Group {
        let own = |place: &Place| Place { folder: place.folder.join(key.to_string()), ..place.clone() };
        Group(self.0.iter().map(own).collect())
    }

    /// Removes the folders, if no run is there any more.
    pub fn leave(&self) {
        for place in &self.0 {
            // Runs go on, and a later life of the node makes theirs here too.
            let _ = fs::remove_dir(&place.folder);
        }
    }
}

/// The group of a run: in each hierarchy one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group(Vec<Place>);

impl Group {
    /// With what there is of the same run elsewhere.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Makes it, with so much memory (0 means no bound) and these devices.
    ///
    /// # Errors
    /// When the kernel refuses; nothing of it is left then.
    pub fn make(&self, memory: MiB, devices: &Devices) -> io::Result<()> {
        let made = self.0.iter().try_for_each(|place| place.make(memory, devices));
        if made.is_err() {
            let _ = self.remove();
        }
        made
    }

    /// Moves this process into it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn enter(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|place| fs::write(place.folder.join(MEMBERS), "0"))
    }

    /// Kills all processes in it, and returns which were there.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn kill(&self) -> io::Result<BTreeSet<u32>> {
        let mut found = BTreeSet::new();
        for place in &self.0 {
            let members = place.members()?;
            if !members.is_empty() && !place.kills_at_once()? {
                members.iter().try_for_each(|pid| place.kill(*pid))?;
            }
            found.extend(members);
        }
        Ok(found)
    }

    /// Whether no process is in it.
    ///
    /// # Errors
    /// When it cannot be looked at.
    pub fn is_empty(&self) -> io::Result<bool> {
        for place in &self.0 {
            if !place.members()?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a process of it was killed because its memory was not enough.
    pub fn ran_out_of_memory(&self) -> bool {
        let bounding = self.0.iter().find(|place| place.bounds.contains(&Bound::Memory));
        bounding.is_some_and(Place::ran_out_of_memory)
    }

    /// Removes it.
    ///
    /// # Errors
    /// When there is still a process in it.
    pub fn remove(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|place| unless_gone(fs::remove_dir(&place.folder), ()))
    }
}

impl Place {
    fn make(&self, memory: MiB, devices: &Devices) -> io::Result<()> {
        let at = self.at();
        make_folder(&self.folder).map_err(&at)?;
        for bound in &self.bounds {
            match bound {
                Bound::Cards => devices.keep(&self.folder).map_err(&at)?,
                Bound::Memory if memory == MiB(0) => {}
                Bound::Memory => self.bound_memory(memory).map_err(&at)?,
                Bound::Processes => {
                    let most = most_processes()? / PART_OF_PROCESSES;
                    self.write("pids.max", &most.to_string()).map_err(&at)?;
                }
            }
        }
        Ok(())
    }

    /// Says of an error where it was.
    fn at(&self) -> impl Fn(io::Error) -> io::Error {
        |e| io::Error::new(e.kind(), format!("{}: {}", self.folder.display(), crate::words(&e)))
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

    fn write(&self, file: &str, words: &str) -> io::Result<()> {
        // Such a file is there or not: none is ever made.
        fs::OpenOptions::new()
            .write(true)
            .open(self.folder.join(file))
            .and_then(|mut file| io::Write::write_all(&mut file, words.as_bytes()))
    }

    fn members(&self) -> io::Result<BTreeSet<u32>> {
        let text = unless_gone(fs::read_to_string(self.folder.join(MEMBERS)), String::new())?;
        Ok(text.lines().filter_map(|line| line.trim().parse().ok()).collect())
    }

    /// Kills all at once, where that can be.
    fn kills_at_once(&self) -> io::Result<bool> {
        match self.write("cgroup.kill", "1") {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn kill(&self, pid: u32) -> io::Result<()> {
        let Some(pidfd) = pidfd_open(pid)? else { return Ok(()) };
        // Looked at again now that the pidfd holds the process: the pid may have been given to another before.
        if self.members()?.contains(&pid) {
            pidfd_signal(pidfd.as_fd(), libc::SIGKILL, None)?;
        }
        Ok(())
    }

    fn ran_out_of_memory(&self) -> bool {
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

fn make_folder(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// So many processes and threads there can be on this machine.
fn most_processes() -> io::Result<u64> {
    let number = |file: &str| {
        let text = fs::read_to_string(Path::new("/proc/sys/kernel").join(file))?;
        text.trim().parse::<u64>().map_err(io::Error::other)
    };
    Ok(number("pid_max")?.min(number("threads-max")?))
}

/// Makes the folder for groups that bound this.
fn place(hierarchies: &[Hierarchy], bound: Bound, name: &str) -> io::Result<Place> {
    let has = |one: &&Hierarchy, name| one.controllers.iter().any(|its| its == name);
    let one = controller(bound).and_then(|name| hierarchies.iter().find(|one| has(one, name)));
    let two = hierarchies.iter().find(|one| one.version == Version::Two);
    let two = || two.ok_or_else(|| io::Error::other("no control groups of version 2 are mounted"));
    let (version, above) = match (one, controller(bound)) {
        (Some(one), _) => (Version::One, one.own.clone()),
        (None, Some(controller)) => (Version::Two, delegated(&two()?.own, controller)?),
        (None, None) => (Version::Two, above(&two()?.own)),
    };
    let place = Place { folder: above.join(name), version, bounds: vec![bound] };
    make_folder(&place.folder).map_err(place.at())?;
    if let (Version::Two, Some(controller)) = (version, controller(bound)) {
        turn_on(&place.folder, controller)?;
    }
    // On a group that goes at once: no run is to fail for what could be known before.
    let trial = Place { folder: place.folder.join("trial"), ..place.clone() };
    let tried = trial.make(MiB(1024), &Devices::default());
    unless_gone(fs::remove_dir(&trial.folder), ())?;
    tried.map(|()| place)
}

/// The group below which groups can have this controller of version 2: that of this process, which then moves into a leaf, unless it is
/// there already.
fn delegated(own: &Path, controller: &str) -> io::Result<PathBuf> {
    let parent = &above(own);
    if turn_on(parent, controller).is_ok() {
        return Ok(parent.clone());
    }
    let members = fs::read_to_string(parent.join(MEMBERS))?;
    let me = std::process::id().to_string();
    if members.lines().any(|pid| pid != me) {
        return Err(io::Error::other(format!(
            "{}: other processes are in this group, so that none below it can have the controller {controller}; have \
             systemd start gqnode with Delegate=yes",
            parent.display()
        )));
    }
    let leaf = parent.join(LEAF);
    make_folder(&leaf)?;
    fs::write(leaf.join(MEMBERS), "0")?;
    turn_on(parent, controller)?;
    Ok(parent.clone())
}

/// The group below which those of runs are: this process's own, or the one that its leaf is in.
fn above(own: &Path) -> PathBuf {
    own.parent().filter(|_| own.ends_with(LEAF)).unwrap_or(own).to_owned()
}

fn turn_on(folder: &Path, controller: &str) -> io::Result<()> {
    let file = folder.join("cgroup.subtree_control");
    fs::write(&file, format!("+{controller}")).map_err(|e| {
        io::Error::new(e.kind(), format!("{}: +{controller}: {}", file.display(), crate::words(&e)))
    })
}

/// What is mounted, with this process's own groups.
fn hierarchies() -> io::Result<Vec<Hierarchy>> {
    Ok(read_hierarchies(
        &fs::read_to_string("/proc/self/mountinfo")?,
        &fs::read_to_string("/proc/self/cgroup")?,
        Path::is_dir,
    ))
}

/// From what `proc(5)` calls `mountinfo` and `cgroup`. In a container the path of a group may be one outside of it; what is mounted is its own
/// group then.
fn read_hierarchies(mounts: &str, groups: &str, is_there: impl Fn(&Path) -> bool) -> Vec<Hierarchy> {
    let mut found = Vec::new();
    for line in mounts.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let (before, after): (Vec<&str>, Vec<&str>) =
            (before.split(' ').collect(), after.split(' ').collect());
        let (Some(root), Some(point), Some(kind)) = (before.get(3), before.get(4), after.first()) else {
            continue;
        };
        let options: Vec<&str> = after.get(2).unwrap_or(&"").split(',').collect();
        let version = match *kind {
            "cgroup" => Version::One,
            "cgroup2" => Version::Two,
            _ => continue,
        };
        let group = groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (number, names, path) = (fields.next()?, fields.next()?, fields.next()?);
            let is_it = match version {
                Version::One => !names.is_empty() && names.split(',').all(|name| options.contains(&name)),
                Version::Two => number == "0" && names.is_empty(),
            };
            is_it.then_some((names, path))
        });
        let Some((names, path)) = group else { continue };
        let below = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
        let own = Path::new(point).join(below);
        let own = if is_there(&own) { own } else { PathBuf::from(point) };
        let controllers = names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        found.push(Hierarchy { version, point: point.into(), controllers, own });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_of_both_versions_are_found_and_own_groups_in_them() {
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
             32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
             35 31 0:32 /box /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let groups = "4:memory:/box/in\n2:cpu,cpuacct:/a\n1:name=systemd:/b\n0::/user.slice\n";
        let found = read_hierarchies(mounts, groups, |path| !path.ends_with("user.slice"));
        let one = |names: &[&str], point: &str, own: &str| Hierarchy {
            version: Version::One,
            point: point.into(),
            controllers: names.iter().map(ToString::to_string).collect(),
            own: own.into(),
        };
        let unified = Hierarchy {
            version: Version::Two,
            point: "/sys/fs/cgroup/unified".into(),
            controllers: Vec::new(),
            own: "/sys/fs/cgroup/unified".into(),
        };
        let cpu = one(&["cpu", "cpuacct"], "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/a");
        let memory = one(&["memory"], "/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/in");
        assert_eq!(found, [cpu, memory, unified]);
    }

    #[test]
    fn a_machine_without_groups_bounds_nothing() {
        assert_eq!(read_hierarchies("", "", Path::is_dir), []);
        assert!(place(&[], Bound::Memory, "x").is_err());
        let group = Ground::default().group("1.0.1".parse().unwrap());
        assert!(
            group.make(MiB(1), &Devices::default()).is_ok()
                && group.is_empty().unwrap()
                && group.kill().unwrap().is_empty()
        );
        assert!(!group.ran_out_of_memory() && group.remove().is_ok());
    }
}
