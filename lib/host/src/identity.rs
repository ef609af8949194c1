//! Becoming a user, without a way back.

use crate::user::Account;
use nix::unistd::{Gid, Uid as NixUid, getresgid, getresuid, initgroups, setresgid, setresuid, setuid};
use std::io;

/// The effective uid of this process.
pub fn own_uid() -> gq_model::Uid {
    gq_model::Uid(nix::unistd::geteuid().as_raw())
}

/// Becomes `account` for good: its groups, its group, its uid, in this order; then looks whether it is true and whether
/// the way back is closed. A process that is no root's can only stay who it is.
///
/// # Errors
/// When any step fails, or the result is not what it should be: then exit at once, the process may still be root.
pub fn become_user(account: &Account) -> io::Result<()> {
    let (uid, gid) = (NixUid::from_raw(account.uid.0), Gid::from_raw(account.gid));
    if nix::unistd::geteuid().is_root() {
        initgroups(&account.c_name()?, gid)?;
        setresgid(gid, gid, gid)?;
        setresuid(uid, uid, uid)?;
        // The kernel has set it anew; until the exec no other process of the user may look into this one.
        nix::sys::prctl::set_dumpable(false)?;
        let now = getresgid()?;
        if [now.real, now.effective, now.saved] != [gid; 3] {
            return Err(io::Error::other("the group did not change"));
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
