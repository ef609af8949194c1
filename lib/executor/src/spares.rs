//! Spare run folders: what an ended run leaves, its folder with the emptied script file, is taken for the next run of the same user.
//! Making and removing files costs a file system far more than renaming them. Never given to another user: a user may keep
//! an open descriptor of what was his.

use gq_failpoint::{Step, step};
use gq_host::lock_folder;
use gq_model::Uid;
use std::{
    collections::BTreeMap,
    fs,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

/// Most folders kept, of all users together.
const MAX_SPARES: usize = 256;

/// Folders that wait to be used again.
#[derive(Debug, Default)]
pub struct Spares {
    by_user: BTreeMap<Uid, Vec<PathBuf>>,
    count: usize,
}

impl Spares {
    /// Takes the folder of a run that has ended; false when it is not wanted and must be removed, such as one that could not be emptied in time.
    pub fn keep(&mut self, uid: Uid, folder: PathBuf) -> bool {
        if self.count >= MAX_SPARES || !folder.is_dir() || !gq_host::is_tidy(&folder) {
            return false;
        }
        self.by_user.entry(uid).or_default().push(folder);
        self.count += 1;
        true
    }

    /// Makes a spare folder of `uid` the folder `of_run`, and locks it; none when there is none that can be had.
    pub fn take(&mut self, uid: Uid, of_run: &Path) -> Option<OwnedFd> {
        let folders = self.by_user.get_mut(&uid)?;
        // The one that has waited longest; locked still means the old supervisor's last breath.
        let at = (0..folders.len()).find_map(|at| {
            let lock = lock_folder(folders.get(at)?).ok().flatten()?;
            Some((at, lock))
        });
        let (at, lock) = at?;
        let folder = folders.remove(at);
        self.count -= 1;
        if folders.is_empty() {
            self.by_user.remove(&uid);
        }
        step(Step::RunSpare, || fs::rename(&folder, of_run)).ok()?;
        Some(lock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_to_its_own_user_once_and_never_while_it_is_locked() {
        let home = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let path = home.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let mut spares = Spares::default();
        let (ann, bob) = (Uid(1000), Uid(1001));
        let new = home.path().join("new");
        assert!(spares.keep(ann, folder("old")));
        assert!(!spares.keep(ann, home.path().join("gone")));
        let full = folder("full");
        fs::create_dir_all(full.join("tmp/left")).unwrap();
        assert!(!spares.keep(ann, full));
        assert!(spares.take(bob, &new).is_none() && !new.exists());
        assert!(spares.take(ann, &new).is_some() && new.is_dir());
        assert!(spares.take(ann, &new).is_none());

        let held = folder("held");
        let _lock = lock_folder(&held).unwrap().unwrap();
        assert!(spares.keep(ann, held.clone()));
        let other = home.path().join("other");
        assert!(spares.take(ann, &other).is_none() && held.is_dir());
        assert!(spares.keep(ann, folder("free")));
        assert!(spares.take(ann, &other).is_some() && held.is_dir() && other.is_dir());
    }
}
