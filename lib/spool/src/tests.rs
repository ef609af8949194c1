//! Stories of the spool over real folders: honest users, hostile users, and file systems that misbehave.

mod attacks;
mod drop_box;
mod folders;
mod letters;

use crate::{DropClient, Spool};
use gq_model::Token;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A spool in a folder of its own.
struct Site {
    _home: TempDir,
    dir: PathBuf,
    spool: Spool,
}

impl Site {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("spool");
        Spool::init(&dir, None).unwrap();
        let spool = Spool::open(&dir).unwrap();
        Self { _home: home, dir, spool }
    }

    fn client(&self) -> DropClient {
        DropClient::open(&self.dir).unwrap()
    }

    /// The names that are left to be taken up.
    fn ready(&self) -> Vec<String> {
        self.spool.ready().unwrap().into_iter().map(|file| file.name).collect()
    }

    /// A path in the drop box.
    fn drop(&self, name: &str) -> PathBuf {
        self.dir.join("drop").join(name)
    }

    /// Makes a file in the drop box as an honest client would.
    fn put(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.drop(name), bytes).unwrap();
        chmod(&self.drop(name), 0o640);
    }
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn is_root() -> bool {
    nix::unistd::Uid::effective().is_root()
}

const TOKEN: Token = Token([0xab; 16]);
const NAME: &str = ".s.abababababababababababababababab";
