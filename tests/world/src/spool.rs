//! Job files: the drop box and the folders of accepted ones, on a disk that forgets what was not synced. A rename is whole or absent; renames
//! of different files are lost apart.

use crate::dice::Dice;
use gq_model::{Token, Uid};
use std::collections::{BTreeMap, BTreeSet};

/// A job file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobFile {
    pub(crate) uid: Uid,
    pub(crate) token: Token,
    /// The request, as JSON.
    pub(crate) spec: String,
}

#[derive(Clone, Debug)]
enum Change {
    Moved(String, String),
    Removed(String),
}

impl Change {
    fn names(&self) -> Vec<String> {
        match self {
            Self::Removed(name) => vec![name.clone()],
            Self::Moved(from, to) => vec![from.clone(), to.clone()],
        }
    }

    fn touches(&self, folder: &str) -> bool {
        self.names().iter().any(|name| name.rsplit_once('/').is_some_and(|(at, _)| at == folder))
    }

    fn apply(self, names: &mut BTreeMap<String, JobFile>) {
        match self {
            Self::Removed(name) => drop(names.remove(&name)),
            Self::Moved(from, to) => {
                if let Some(file) = names.remove(&from) {
                    names.insert(to, file);
                }
            }
        }
    }
}

/// The spool's disk.
#[derive(Debug, Default)]
pub(crate) struct Spool {
    /// What programs see.
    names: BTreeMap<String, JobFile>,
    /// What is on the disk for certain.
    durable: BTreeMap<String, JobFile>,
    /// What was changed since.
    loose: Vec<Change>,
}

impl Spool {
    pub(crate) fn file(&self, name: &str) -> Option<&JobFile> {
        self.names.get(name)
    }

    /// Names of accepted job files.
    pub(crate) fn accepted(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str).filter(|name| name.starts_with("jobs/"))
    }

    fn change(&mut self, change: Change) {
        change.clone().apply(&mut self.names);
        self.loose.push(change);
    }

    /// Makes a file and syncs it: its name and what is in it are on the disk.
    pub(crate) fn make_synced(&mut self, name: &str, file: JobFile) {
        self.names.insert(name.to_owned(), file.clone());
        self.durable.insert(name.to_owned(), file);
    }

    /// Moves a file; false when it is not there.
    pub(crate) fn rename(&mut self, from: &str, to: &str) -> bool {
        let is_there = self.names.contains_key(from);
        if is_there {
            self.change(Change::Moved(from.to_owned(), to.to_owned()));
        }
        is_there
    }

    pub(crate) fn remove(&mut self, name: &str) {
        if self.names.contains_key(name) {
            self.change(Change::Removed(name.to_owned()));
        }
    }

    /// Syncs a folder: every change of its names is on the disk.
    pub(crate) fn sync(&mut self, folder: &str) {
        for change in std::mem::take(&mut self.loose) {
            if change.touches(folder) { change.apply(&mut self.durable) } else { self.loose.push(change) }
        }
    }

    /// The power fails: of the changes that were not synced, some are lost, and with each what was done later to the same names.
    pub(crate) fn lose_power(&mut self, dice: &mut Dice) {
        let mut lost = BTreeSet::new();
        for change in std::mem::take(&mut self.loose) {
            let names = change.names();
            if dice.one_in(2) || names.iter().any(|name| lost.contains(name)) {
                lost.extend(names);
            } else {
                change.apply(&mut self.durable);
            }
        }
        self.names = self.durable.clone();
    }
}
