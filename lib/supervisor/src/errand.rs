//! Errands: what is done as the job's user for the supervisor, each in a process of its own, since root opens no path of a user's. An
//! errand descends from the supervisor as the job does, and is not waited for longer than it is worth.

use gq_host::Account;
use std::{
    io,
    time::{Duration, Instant},
};

/// Exit code of an errand that failed.
const FAILED: u8 = 1;

/// Who errands are done for, and as whom.
#[derive(Clone, Copy, Debug)]
pub struct Master<'a> {
    pub account: &'a Account,
    /// The supervisor's pid.
    pub supervisor: u32,
}

/// An errand that is being done.
#[derive(Debug)]
pub struct Errand {
    pid: u32,
    until: Instant,
}

impl Errand {
    /// Sends somebody to do `work` as the user, who is waited for as long as `patience` says.
    pub fn send(
        master: Master<'_>,
        patience: Duration,
        work: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<Self> {
        let pid = gq_host::fork(|| if become_and(master, work).is_ok() { 0 } else { FAILED })?;
        Ok(Self { pid, until: Instant::now() + patience })
    }

    /// Its process.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Until when it is waited for.
    pub const fn until(&self) -> Instant {
        self.until
    }
}

fn become_and(master: Master<'_>, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    gq_host::own_session()?;
    gq_host::detach_stdio()?;
    gq_host::become_user(master.account)?;
    gq_host::die_with(master.supervisor)?;
    work()
}
