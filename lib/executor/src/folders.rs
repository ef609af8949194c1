//! The node's folders, and whether they are safe to use: on the way to them, nobody but root and this user may put
//! something else in their place. Removes nothing.

use nix::unistd::{self, Uid};
use std::{
    fs::DirBuilder,
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};
use thiserror::Error;

/// Mode of the node's folders: others may pass through, and see nothing.
const MODE: u32 = 0o711;

/// Why a folder is not used.
#[derive(Debug, Error)]
pub enum FolderError {
    /// It cannot be made or looked at.
    #[error("{0}: cannot be made or looked at: {1}")]
    Io(PathBuf, #[source] io::Error),
    /// Somebody else owns it.
    #[error(
        "{path}: belongs to uid {uid}, who could put something else in its place; choose another node_dir"
    )]
    Owner {
        /// The folder.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// Others may write in it.
    #[error(
        "{path}: others than its owner may write there (mode {mode:04o}); chmod go-w it, or choose another node_dir"
    )]
    Writable {
        /// The folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It is no folder.
    #[error("{0}: is not a folder")]
    NotAFolder(PathBuf),
}

/// Makes `path` and what is missing above it, and returns its real name.
///
/// # Errors
/// [`FolderError`] when it cannot be made, or anybody but root and this user could replace it or a folder above it.
pub fn make_safe(path: &Path) -> Result<PathBuf, FolderError> {
    let failed = |e| FolderError::Io(path.to_path_buf(), e);
    DirBuilder::new().recursive(true).mode(MODE).create(path).map_err(failed)?;
    let real = path.canonicalize().map_err(failed)?;
    let me = Uid::effective().as_raw();
    for (above, folder) in real.ancestors().enumerate() {
        let seen = folder.symlink_metadata().map_err(|e| FolderError::Io(folder.to_path_buf(), e))?;
        let (uid, mode) = (seen.uid(), seen.mode() & 0o7777);
        if !seen.is_dir() {
            return Err(FolderError::NotAFolder(folder.to_path_buf()));
        }
        if uid != 0 && uid != me {
            return Err(FolderError::Owner { path: folder.to_path_buf(), uid });
        }
        // A sticky folder of root's, such as /tmp, lets nobody rename what is another's.
        let sticky = above > 0 && uid == 0 && mode & 0o1000 != 0;
        let others = if has_private_group(seen.gid()) { 0o002 } else { 0o022 };
        if mode & others != 0 && !sticky {
            return Err(FolderError::Writable { path: folder.to_path_buf(), mode });
        }
    }
    Ok(real)
}

/// Whether the group is this user's alone, as far as its name tells: many systems give every user a group of the same
/// name, and folders that this group may write. Never for root, whose node serves others.
fn has_private_group(gid: u32) -> bool {
    let me = Uid::effective();
    let is_mine = !me.is_root() && gid == unistd::Gid::effective().as_raw();
    is_mine
        && match (unistd::User::from_uid(me), unistd::Group::from_gid(gid.into())) {
            (Ok(Some(user)), Ok(Some(group))) => user.name == group.name && group.mem.is_empty(),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    #[test]
    fn a_folder_that_others_may_write_is_refused_wherever_it_is_on_the_way() {
        let temp = tempfile::tempdir().unwrap();
        let wanted = temp.path().join("a/b/c");
        assert_eq!(make_safe(&wanted).unwrap(), wanted.canonicalize().unwrap());
        assert_eq!(fs::metadata(&wanted).unwrap().mode() & 0o777, 0o711);
        for place in ["a", "a/b", "a/b/c"] {
            let place = temp.path().join(place);
            fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
            assert!(matches!(make_safe(&wanted), Err(FolderError::Writable { .. })), "{}", place.display());
            fs::set_permissions(&place, fs::Permissions::from_mode(0o711)).unwrap();
        }
        fs::write(temp.path().join("file"), "").unwrap();
        assert!(make_safe(&temp.path().join("file")).is_err());
    }
}
