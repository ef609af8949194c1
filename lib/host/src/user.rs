//! Accounts, looked up by uid. Never by a name that somebody sent.

use gq_model::Uid;
use std::{ffi::CString, io, path::PathBuf};

/// An account of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its uid.
    pub uid: Uid,
    /// Its first group.
    pub gid: u32,
    /// Its login name.
    pub name: String,
    /// Its home folder.
    pub home: PathBuf,
    /// Its login shell; `/bin/sh` when none is set.
    pub shell: PathBuf,
}

impl Account {
    /// Looks an account up; none when there is no such uid.
    ///
    /// # Errors
    /// When the account database cannot be asked (a directory service that does not answer).
    pub fn of(uid: Uid) -> io::Result<Option<Self>> {
        let user = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid.0))?;
        Ok(user.map(|user| Self {
            uid,
            gid: user.gid.as_raw(),
            name: user.name,
            home: user.dir,
            shell: if user.shell.as_os_str().is_empty() { PathBuf::from("/bin/sh") } else { user.shell },
        }))
    }

    /// The account of a uid that has none, in personal mode: named by its digits, with the groups of this process.
    pub fn nameless(uid: Uid) -> Self {
        Self {
            uid,
            gid: nix::unistd::getgid().as_raw(),
            name: uid.to_string(),
            home: PathBuf::from("/"),
            shell: PathBuf::from("/bin/sh"),
        }
    }

    pub(crate) fn c_name(&self) -> io::Result<CString> {
        CString::new(self.name.as_bytes()).map_err(io::Error::other)
    }
}
