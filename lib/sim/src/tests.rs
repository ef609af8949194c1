//! Tests of readers and figures.

mod figures;
mod machine;
mod readers;

use crate::{
    read::{Format, read},
    trace::{Reading, Trace},
};
use std::{fs, path::PathBuf};
use tempfile::TempDir;

/// A log in a folder of its own.
struct Log {
    _folder: TempDir,
    path: PathBuf,
}

impl Log {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        Self { _folder: folder, path }
    }

    fn read(&self, reading: Reading) -> Result<(Format, Trace), String> {
        read(&self.path, None, reading).map_err(|trouble| trouble.to_string())
    }
}

/// The folder of real logs, when the environment names one.
fn traces() -> Option<PathBuf> {
    std::env::var_os("GQ_TRACES").map(PathBuf::from)
}
