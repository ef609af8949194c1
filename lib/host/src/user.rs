//! Accounts, looked up by uid. Never by a name that somebody sent.

use gq_model::Uid;
use nix::unistd::{Gid, User, getgrouplist};
use serde::{Deserialize, Serialize};
use std::{ffi::CString, io, path::PathBuf};

/// An account of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Its uid.
    pub uid: Uid,
    /// Its first group.
    pub gid: u32,
    /// All its groups, the first among them.
    pub groups: Vec<u32>,
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
    /// It may take as long as a directory service takes, and loads what asks that service into this process.
    ///
    /// # Errors
    /// When the account database cannot be asked (a directory service that does not answer).
    pub fn of(uid: Uid) -> io::Result<Option<Self>> {
        let Some(user) = User::from_uid(nix::unistd::Uid::from_raw(uid.0))? else { return Ok(None) };
        let c_name = CString::new(user.name.as_bytes()).map_err(io::Error::other)?;
        let groups = getgrouplist(&c_name, user.gid)?;
        Ok(Some(Self {
            uid,
            gid: user.gid.as_raw(),
            groups: groups.into_iter().map(Gid::as_raw).collect(),
            name: user.name,
            home: user.dir,
            shell: if user.shell.as_os_str().is_empty() { PathBuf::from("/bin/sh") } else { user.shell },
        }))
    }

    /// The account of a uid that has none, in personal mode: named by its digits, with the groups of this process.
    pub fn nameless(uid: Uid) -> Self {
        let gid = nix::unistd::getgid().as_raw();
        Self {
            uid,
            gid,
            groups: vec![gid],
            name: uid.to_string(),
            home: PathBuf::from("/"),
            shell: PathBuf::from("/bin/sh"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, process::Command};

    #[test]
    fn an_account_has_the_groups_that_id_tells() {
        for uid in [0, nix::unistd::getuid().as_raw(), 65_534] {
            let Some(account) = Account::of(Uid(uid)).unwrap() else { continue };
            let told = Command::new("id").args(["-G", &account.name]).output().unwrap();
            let told = String::from_utf8(told.stdout).unwrap();
            let told: BTreeSet<u32> = told.split_whitespace().map(|group| group.parse().unwrap()).collect();
            assert_eq!(account.groups.iter().copied().collect::<BTreeSet<_>>(), told);
            assert!(told.contains(&account.gid));
            let json = serde_json::to_string(&account).unwrap();
            assert_eq!(serde_json::from_str::<Account>(&json).unwrap(), account);
        }
        assert_eq!(Account::of(Uid(4_000_000_000)).unwrap(), None);
    }
}
