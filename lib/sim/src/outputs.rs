//! Files that are to be written: whether they can be is found out before the work is done. Writes nothing into them.

use crate::trouble::Trouble;
use std::{
    fs::{self, OpenOptions},
    io,
    path::Path,
};

/// Makes sure that a file can be written, and leaves everything as it was.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn check(path: &Path) -> Result<(), Trouble> {
    let written = match fs::metadata(path) {
        // Only a look: whoever reads a pipe would take the end of this for the end of all.
        Ok(there) if !there.is_file() && !there.is_dir() => Ok(()),
        Ok(_) => OpenOptions::new().write(true).open(path).map(drop),
        Err(error) if error.kind() == io::ErrorKind::NotFound => made_and_taken_away(path),
        Err(error) => Err(error),
    };
    written.map_err(|error| Trouble::unwritten(path, &error))
}

fn made_and_taken_away(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(_) => fs::remove_file(path),
        // A link to nothing yet, or somebody was faster: the writing itself shows.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_written_is_left_as_it_was_and_what_cannot_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("new");
        check(&new).unwrap();
        assert!(!new.exists());
        let old = folder.path().join("old");
        fs::write(&old, "kept").unwrap();
        check(&old).unwrap();
        assert_eq!(fs::read_to_string(&old).unwrap(), "kept");
        for bad in [folder.path().to_owned(), folder.path().join("none/x"), old.join("x")] {
            let told = check(&bad).unwrap_err();
            assert_eq!(told.code, crate::trouble::UNWRITTEN);
            assert!(told.to_string().contains("cannot be written"), "{told}");
        }
    }
}
