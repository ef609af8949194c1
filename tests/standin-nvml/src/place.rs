//! How a test finds the library and puts a machine where the library looks. Nothing here runs inside the library.

use crate::machine::Machine;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// The built library, found beside the running test program (`target/<profile>/deps` or the folder above).
///
/// # Errors
/// It is not there: the test's package does not depend on `standin-nvml`.
pub fn library() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    // A test program is in deps/ itself, a binary one above, an example beside deps/.
    let folders = program.ancestors().skip(1).take(3).flat_map(|dir| [dir.join("deps"), dir.to_path_buf()]);
    folders.map(|dir| dir.join("libstandin_nvml.so")).find(|file| file.is_file()).ok_or_else(|| {
        let text = format!(
            "libstandin_nvml.so is not beside {}: let the package depend on standin-nvml",
            program.display()
        );
        Error::new(ErrorKind::NotFound, text)
    })
}

/// Puts a copy of the library and `machine` into `folder`, which must exist, and returns the path of the library there.
///
/// The copy is named `libnvidia-ml.so.1`: a daemon with `folder` in `LD_LIBRARY_PATH` takes it for the driver's. A copy of its
/// own, and no link, because the loader takes two names of one file for one library.
///
/// # Errors
/// A file cannot be read or written.
pub fn place(folder: &Path, machine: &Machine) -> Result<PathBuf> {
    rewrite(folder, machine)?;
    let (new, to) = (folder.join(".libnvidia-ml.so.new"), folder.join("libnvidia-ml.so.1"));
    // Not written in place: a program may have the old one mapped.
    std::fs::copy(library()?, &new)?;
    std::fs::rename(&new, &to)?;
    Ok(to)
}

/// Changes the machine in `folder` while the library is in use: the next call sees the new one, whole.
///
/// # Errors
/// The file cannot be written.
pub fn rewrite(folder: &Path, machine: &Machine) -> Result<()> {
    machine.write(&folder.join(Machine::FILE))
}

/// Changes the machine in `folder` as it is now, with what was cut and destroyed since it was placed there.
///
/// # Errors
/// The file cannot be read or written.
pub fn edit<T>(folder: &Path, how: impl FnOnce(&mut Machine) -> T) -> Result<T> {
    Machine::change(&folder.join(Machine::FILE), how)
}

/// A machine described in `machines/`, by the name of its file.
///
/// # Errors
/// There is none of that name, or it is malformed.
pub fn shipped(name: &str) -> Result<Machine> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("machines");
    Machine::read(&folder.join(name).with_extension("json"))
}
