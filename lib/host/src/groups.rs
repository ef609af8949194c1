//! Control groups: each run has one of its own in every hierarchy that bounds it. They hold its processes together however they hide, and
//! keep its memory, its cpu time and the number of its processes within bounds. What of this the kernel does not offer here is told, and left out.
//!
//! Version 1 has a hierarchy for each controller; version 2 has one for all, in which a group has either processes or bounded groups below
//! it, so that those of runs are made beside `gqnode`'s own. Beside controllers of version 1 that of version 2 may have none; all processes of a
//! group can be killed, or made to stand still, at once there. See the kernel's `admin-guide/cgroup-v1` and `cgroup-v2`.

mod hierarchy;
mod place;

pub use place::Limits;
pub(crate) use place::unless_gone;

use gq_model::{Bound, MiB, RunKey};
use hierarchy::{Hierarchy, hierarchies, place};
use place::Place;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fs, io};

/// What groups bound.
const OF_GROUPS: [Bound; 5] = [Bound::Memory, Bound::Processes, Bound::Cards, Bound::Cpus, Bound::Suspension];

/// Where a node makes the groups of its runs; nowhere when it cannot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ground(Vec<Place>);

impl Ground {
    /// Makes the folders in which a node makes groups; `name` is no other node's of this machine. Also returns what runs are not bounded in
    /// here, with the reason.
    pub fn make(name: &str) -> (Self, Vec<(Bound, String)>) {
        let hierarchies = match hierarchies() {
            Ok(hierarchies) => hierarchies,
            Err(e) => return (Self::default(), OF_GROUPS.map(|bound| (bound, e.to_string())).into()),
        };
        let (mut places, mut lacks): (Vec<Place>, _) = (Vec::new(), Vec::new());
        for bound in OF_GROUPS {
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

    /// Makes it, with these limits.
    ///
    /// # Errors
    /// When the kernel refuses; nothing of it is left then.
    pub fn make(&self, limits: &Limits<'_>) -> io::Result<()> {
        let made = self.usual().try_for_each(|place| place.make(limits));
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
        self.usual().try_for_each(|place| place.take_in(0))
    }

    /// What each run is in from its first moment. Where it is for suspension alone it goes when it is suspended, found by where else it is.
    fn usual(&self) -> impl Iterator<Item = &Place> + Clone {
        let is_elsewhere = self.0.iter().any(|place| !place.is_for_suspension_alone());
        self.0.iter().filter(move |place| !is_elsewhere || !place.is_for_suspension_alone())
    }

    /// Where it is bounded in this.
    fn bounding(&self, bound: Bound) -> Option<&Place> {
        self.0.iter().find(|place| place.bounds.contains(&bound))
    }

    /// Has all its processes stand still, whatever they are sent but to be killed; says whether that can be here.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn freeze(&self) -> io::Result<bool> {
        let Some(place) = self.bounding(Bound::Suspension) else { return Ok(false) };
        place.freeze_with(self.usual())?;
        Ok(true)
    }

    /// Lets its processes go on, if they stand still.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn thaw(&self) -> io::Result<()> {
        let place = self.bounding(Bound::Suspension);
        place.map_or(Ok(()), |place| unless_gone(place.freeze(false), ()))
    }

    /// Kills all processes in it, and returns which were there.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn kill(&self) -> io::Result<BTreeSet<u32>> {
        let mut found = BTreeSet::new();
        for place in &self.0 {
            let members = place.members()?;
            if !members.is_empty() {
                // All at once passes over a process whose first thread has ended.
                let left = if place.kills_at_once()? { place.members()? } else { members.clone() };
                left.iter().try_for_each(|pid| place.kill(*pid))?;
            }
            found.extend(members);
        }
        Ok(found)
    }

    /// Whether this process is in it, as far as that can be looked at.
    pub fn has(&self, pid: u32) -> bool {
        self.0.iter().any(|place| place.members().is_ok_and(|members| members.contains(&pid)))
    }

    /// Whether most of the processes are there that it may have, where that is bounded; those that ended and were not waited for count.
    pub fn is_crowded(&self) -> bool {
        self.bounding(Bound::Processes).is_some_and(Place::is_crowded)
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

    /// What its processes used so far, as far as it tells: their time on cpus, in microseconds, and the most memory that they had together.
    pub fn spent(&self) -> (Option<u64>, Option<MiB>) {
        let cpu = self.usual().find_map(Place::cpu_time);
        (cpu, self.bounding(Bound::Memory).and_then(Place::most_memory))
    }

    /// Whether a process of it was killed because its memory was not enough.
    pub fn ran_out_of_memory(&self) -> bool {
        self.bounding(Bound::Memory).is_some_and(Place::ran_out_of_memory)
    }

    /// Removes it.
    ///
    /// # Errors
    /// When there is still a process in it.
    pub fn remove(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|place| unless_gone(fs::remove_dir(&place.folder), ()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::Devices;

    #[test]
    fn a_run_is_found_in_the_group_for_its_suspension_where_there_is_no_other() {
        let place = |bounds: &[Bound]| Place {
            folder: "/nowhere".into(),
            version: place::Version::Two,
            bounds: bounds.to_vec(),
        };
        let (alone, both) = ([Bound::Suspension], [Bound::Cards, Bound::Suspension]);
        let usual = |places: &[&[Bound]]| {
            let group = Group(places.iter().map(|bounds| place(bounds)).collect());
            group.usual().cloned().collect::<Vec<_>>()
        };
        assert_eq!(usual(&[&alone]), [place(&alone)]);
        assert_eq!(usual(&[&[Bound::Memory], &alone]), [place(&[Bound::Memory])]);
        assert_eq!(usual(&[&both]), [place(&both)]);
    }

    #[test]
    fn a_machine_without_groups_bounds_nothing() {
        assert!(place(&[], Bound::Memory, "x").is_err() && place(&[], Bound::Cards, "x").is_err());
        let group = Ground::default().group("1.0.1".parse().unwrap());
        assert!(
            group
                .make(&Limits { memory: MiB(1), cpus: 1, processes: 1024, devices: &Devices::default() })
                .is_ok()
                && group.is_empty().unwrap()
                && group.kill().unwrap().is_empty()
        );
        assert!(!group.freeze().unwrap() && group.thaw().is_ok());
        assert!(!group.ran_out_of_memory() && group.remove().is_ok());
    }
}
