//! Room: how large the files of the state are, and how much the disk has left for them. Looks, and never makes room.

use crate::place::BALLAST;
use std::{ffi::OsString, fs, path::Path};

/// What the state takes of its disk, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// The database.
    pub database: u64,
    /// Its write-ahead log.
    pub journal: u64,
    /// The files of years.
    pub history: u64,
    /// What is kept to record results on a full disk.
    pub reserve: u64,
    /// What is free there for whoever `gqd` runs as.
    pub free: u64,
}

impl Room {
    /// Looks at the files beside this database. What cannot be looked at is 0.
    pub fn around(database: &Path) -> Self {
        let size = |path: &Path| fs::metadata(path).map_or(0, |meta| meta.len());
        let mut journal = OsString::from(database);
        journal.push("-wal");
        let history = database.with_file_name(crate::years::FOLDER);
        let years = fs::read_dir(history).into_iter().flatten().flatten();
        Self {
            history: years.map(|file| size(&file.path())).sum(),
            database: size(database),
            journal: size(Path::new(&journal)),
            reserve: size(&database.with_file_name(BALLAST)),
            free: database.parent().and_then(|dir| fs2::available_space(dir).ok()).unwrap_or(0),
        }
    }
}
