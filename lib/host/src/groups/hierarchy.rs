//! What hierarchies are mounted, this process's own group in each, and where in them groups of runs can be made.

use super::place::{Limits, Place, Version, make_folder, unless_gone};
use crate::{devices::Devices, machine::at};
use gq_model::{Bound, MiB};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A hierarchy that is mounted, and this process's own group in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hierarchy {
    pub(super) version: Version,
    /// Where it is mounted.
    pub(super) point: PathBuf,
    /// Of version 1.
    controllers: Vec<String>,
    own: PathBuf,
}

/// The controller that bounds something by its name. None where the groups of version 2 themselves do it.
const fn controller(bound: Bound) -> Option<&'static str> {
    match bound {
        Bound::Memory => Some("memory"),
        Bound::Processes => Some("pids"),
        Bound::Cpus => Some("cpu"),
        Bound::Cards | Bound::Suspension | Bound::Folders => None,
    }
}

/// Makes the folder for groups that bound this.
pub(super) fn place(hierarchies: &[Hierarchy], bound: Bound, name: &str) -> io::Result<Place> {
    let of_version_one = |name| {
        let has = |one: &&Hierarchy| one.controllers.iter().any(|its| its == name);
        hierarchies.iter().find(has).map(|one| (Version::One, one.own.clone()))
    };
    let two = hierarchies.iter().find(|one| one.version == Version::Two);
    let two = || two.ok_or_else(|| io::Error::other("no control groups of version 2 are mounted"));
    let Some(controller) = controller(bound) else {
        let done = two().and_then(|two| tried((Version::Two, beside(two).to_owned()), bound, name));
        // A kernel without programs for devices has a controller for them in version 1.
        let old = of_version_one("devices").filter(|_| bound == Bound::Cards);
        return done.or_else(|e| old.map_or(Err(e), |old| tried(old, bound, name)));
    };
    match of_version_one(controller) {
        Some(_) if bound == Bound::Cpus => Err(io::Error::other(
            "a group for cpu time in version 1 would cost a short run more than all else; version 2 bounds it",
        )),
        Some(old) => tried(old, bound, name),
        None => {
            let above = beside(two()?);
            turn_on(above, controller)?;
            let folder = above.join(name);
            make_folder(&folder).map_err(at(&folder))?;
            turn_on(&folder, controller)?;
            tried((Version::Two, above.to_owned()), bound, name)
        }
    }
}

/// Makes the folder there, and tries the bound on a group that goes at once: no run is to fail for what could be known before.
fn tried((version, above): (Version, PathBuf), bound: Bound, name: &str) -> io::Result<Place> {
    let place = Place { folder: above.join(name), version, bounds: vec![bound] };
    make_folder(&place.folder).map_err(place.at())?;
    let trial = Place { folder: place.folder.join("trial"), ..place.clone() };
    let tried =
        trial.make(&Limits { memory: MiB(1024), cpus: 1, processes: 1024, devices: &Devices::default() });
    unless_gone(fs::remove_dir(&trial.folder), ())?;
    tried.map(|()| place)
}

/// The group in which those of runs are made: beside that of this process, not in it, since no process enters a group below which others
/// are bounded, and the next life of this one must. In the group of all, for one that is in no other.
fn beside(one: &Hierarchy) -> &Path {
    one.own.parent().filter(|parent| parent.starts_with(&one.point)).unwrap_or(&one.own)
}

fn turn_on(folder: &Path, controller: &str) -> io::Result<()> {
    let file = folder.join("cgroup.subtree_control");
    fs::write(&file, format!("+{controller}")).map_err(at(&file))
}

/// What is mounted, with this process's own groups.
pub(super) fn hierarchies() -> io::Result<Vec<Hierarchy>> {
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
}
