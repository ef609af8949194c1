//! Becoming a user, without a way back.

use crate::user::Account;
use nix::unistd::{
    Gid, Uid as NixUid, getgroups, getresgid, getresuid, setgroups, setresgid, setresuid, setuid,
};
use std::{collections::BTreeSet, fs, io};

/// How readily the kernel kills this process when memory runs out.
const OOM_SCORE: &str = "/proc/self/oom_score_adj";

/// The effective uid of this process.
pub fn own_uid() -> gq_model::Uid {
    gq_model::Uid(nix::unistd::geteuid().as_raw())
}

/// Becomes `account` for good: its groups, its group, its uid, in this order; then looks whether it is true and whether
/// the way back is closed. A process that is the account's already changes nothing, not even its groups; one that is no
/// root's can do nothing else.
///
/// # Errors
/// When any step fails, or the result is not what it should be: then exit at once, the process may still be root.
pub fn become_user(account: &Account) -> io::Result<()> {
    let (uid, gid) = (NixUid::from_raw(account.uid.0), Gid::from_raw(account.gid));
    if nix::unistd::geteuid() != uid {
        let groups: Vec<Gid> = account.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        setgroups(&groups)?;
        setresgid(gid, gid, gid)?;
        setresuid(uid, uid, uid)?;
        // The kernel has set it anew; until the exec no other process of the user may look into this one.
        nix::sys::prctl::set_dumpable(false)?;
        let now = getresgid()?;
        if [now.real, now.effective, now.saved] != [gid; 3] {
            return Err(io::Error::other("the group did not change"));
        }
        let (wanted, now): (BTreeSet<u32>, BTreeSet<u32>) =
            (account.groups.iter().copied().collect(), getgroups()?.into_iter().map(Gid::as_raw).collect());
        if now != wanted {
            return Err(io::Error::other("the supplementary groups did not change"));
        }
    }
    let now = getresuid()?;
    if [now.real, now.effective, now.saved] != [uid; 3] {
        return Err(io::Error::other(format!("this process is of uid {}, not {uid}", now.effective)));
    }
    if !uid.is_root() && setuid(NixUid::from_raw(0)).is_ok() {
        return Err(io::Error::other("the way back to root is open"));
    }
    Ok(())
}

/// Whether root has protected this process from being killed when memory runs out; then its children are, too.
pub fn is_oom_protected() -> bool {
    let score = fs::read_to_string(OOM_SCORE).ok().and_then(|text| text.trim().parse::<i32>().ok());
    nix::unistd::geteuid().is_root() && score.is_some_and(|score| score < 0)
}

/// Gives that protection up.
///
/// # Errors
/// When `/proc` is not there, or this process is no root's.
pub fn give_up_oom_protection() -> io::Result<()> {
    fs::write(OOM_SCORE, "0")
}

/// Makes this process die with its parent, which must be `parent` still. A change of user undoes it: call it after.
///
/// # Errors
/// When the parent is dead already.
pub fn die_with(parent: u32) -> io::Result<()> {
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
    if std::os::unix::process::parent_id() == parent {
        Ok(())
    } else {
        Err(io::Error::other("the supervisor is gone"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_for_this_process_is_given_up() {
        // Only root may set less than nothing; a sandbox may let nobody set anything.
        if fs::write(OOM_SCORE, "1").is_ok() {
            give_up_oom_protection().unwrap();
            assert_eq!(fs::read_to_string(OOM_SCORE).unwrap().trim(), "0");
        }
        assert!(!is_oom_protected() || nix::unistd::geteuid().is_root());
    }
}
