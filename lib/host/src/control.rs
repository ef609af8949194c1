//! Speaking to a supervisor that an earlier `gqnode` may have started: one queued real-time signal per word, to a pidfd.
//! A pipe or socket would die with the `gqnode` that made it; a signal needs nothing but the pid and its start time.

use crate::process::{pidfd_open, pidfd_signal, process_start};
use gq_model::{EndReason, MiB, SignalTo};
use nix::sys::signalfd::siginfo;
use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

/// Why a run is to be stopped; its outcome says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopKind {
    /// Somebody cancelled it.
    Cancel,
    /// It is to run again.
    Requeue,
    /// The controller does not know it.
    Stray,
}

/// What `gqnode` tells a supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// End the run: the gentle signal, then the hard one. What the script is told of it, if anything.
    Stop(StopKind, Option<EndReason>),
    /// Send this signal to processes of the run.
    Signal(u8, SignalTo),
    /// Say why the run will be ended; then the gentle signal, and nothing more.
    Warn(EndReason),
    /// The time limit is so many seconds now; none means unlimited.
    Limit(Option<u32>),
    /// Stop all processes of the run in place.
    Suspend,
    /// Let them go on.
    Resume,
    /// The run may go on until so many seconds after the boot of the machine.
    Lease(u32),
    /// End the run: it uses so much of the memory of a card that it shares, which is more than it declared.
    Overused(MiB),
}

/// Stands above the kind in every word, so that a stray `sigqueue` is not taken for one.
const MAGIC: u64 = 0x6771_0000;
/// Above it stands the value, so that the lower half is the whole word of earlier versions, which had no values.
const VALUE: u32 = 32;
/// The time limit that says there is none.
const UNLIMITED: u64 = u32::MAX as u64;

impl Control {
    fn to_word(self) -> u64 {
        let (kind, value) = match self {
            Self::Stop(StopKind::Cancel, reason) => (0x100, number(reason)),
            Self::Stop(StopKind::Requeue, reason) => (0x101, number(reason)),
            Self::Stop(StopKind::Stray, reason) => (0x102, number(reason)),
            Self::Warn(reason) => (0x110, number(Some(reason))),
            Self::Limit(limit) => (0x111, limit.map_or(UNLIMITED, u64::from)),
            Self::Suspend => (0x112, 0),
            Self::Resume => (0x113, 0),
            Self::Lease(until) => (0x114, u64::from(until)),
            Self::Overused(MiB(used)) => (0x115, used.min(u64::from(u32::MAX))),
            Self::Signal(n, to) => (u64::from(n), to as u64),
        };
        MAGIC | kind | value << VALUE
    }

    fn from_word(word: u64) -> Option<Self> {
        let (value, kind) = (word >> VALUE, word & 0xffff);
        if word & 0xffff_0000 != MAGIC {
            return None;
        }
        match kind {
            0x100 => Some(Self::Stop(StopKind::Cancel, reason(value)?)),
            0x101 => Some(Self::Stop(StopKind::Requeue, reason(value)?)),
            0x102 => Some(Self::Stop(StopKind::Stray, reason(value)?)),
            0x110 => Some(Self::Warn(reason(value)??)),
            0x111 if value == UNLIMITED => Some(Self::Limit(None)),
            0x111 => Some(Self::Limit(Some(u32::try_from(value).ok()?))),
            0x112 => (value == 0).then_some(Self::Suspend),
            0x113 => (value == 0).then_some(Self::Resume),
            0x114 => u32::try_from(value).ok().map(Self::Lease),
            0x115 => Some(Self::Overused(MiB(value))),
            n => {
                let all = [SignalTo::All, SignalTo::Batch, SignalTo::Steps];
                let to = all.into_iter().find(|to| *to as u64 == value)?;
                u8::try_from(n).ok().map(|n| Self::Signal(n, to))
            }
        }
    }

    /// Reads what a signalfd gave; none for what root or this user's `gqnode` did not queue.
    pub(crate) fn from_siginfo(info: &siginfo) -> Option<Self> {
        let ours = info.ssi_uid == 0 || info.ssi_uid == nix::unistd::getuid().as_raw();
        (ours && info.ssi_code == libc::SI_QUEUE).then(|| Self::from_word(info.ssi_ptr)).flatten()
    }
}

/// The number of a reason in a word: 0 when there is none, else its place from 1.
fn number(reason: Option<EndReason>) -> u64 {
    let place = |reason| EndReason::ALL.iter().position(|known| *known == reason);
    reason.and_then(place).map_or(0, |at| at as u64 + 1)
}

/// The reason of a number; none when there is no such number.
#[expect(clippy::option_option, reason = "no reason is a reason that can be said")]
fn reason(number: u64) -> Option<Option<EndReason>> {
    let Some(at) = number.checked_sub(1) else { return Some(None) };
    EndReason::ALL.get(usize::try_from(at).ok()?).map(|reason| Some(*reason))
}

/// The number of the signal that carries the words.
pub(crate) fn control_signal() -> i32 {
    libc::SIGRTMIN()
}

/// A living supervisor, or one that died a moment ago.
#[derive(Debug)]
pub struct Supervisor {
    pid: u32,
    pidfd: OwnedFd,
}

impl Supervisor {
    /// Finds the supervisor that was process `pid` and began at `pid_start` (both from its first record in the log);
    /// none when it is gone, whoever has its pid now.
    ///
    /// Valid within one boot only: the caller compares boot ids.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn find(pid: u32, pid_start: u64) -> io::Result<Option<Self>> {
        let Some(pidfd) = pidfd_open(pid)? else { return Ok(None) };
        Ok((process_start(pid) == Some(pid_start)).then_some(Self { pid, pidfd }))
    }

    /// A child of this process that was not waited for yet.
    pub(crate) fn of_child(pid: u32) -> io::Result<Self> {
        let gone = || io::Error::other("the supervisor was gone at once");
        Ok(Self { pid, pidfd: pidfd_open(pid)?.ok_or_else(gone)? })
    }

    /// Its process id.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// A descriptor that becomes readable when the supervisor has died, for polling.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Queues a word for it; says whether it still lives. Send only after its first record (`Up`) is in the log.
    ///
    /// # Errors
    /// `WouldBlock` when too many signals are queued: send again later. `PermissionDenied` when it is not ours.
    pub fn send(&self, control: Control) -> io::Result<bool> {
        pidfd_signal(self.pidfd.as_fd(), control_signal(), Some(&queued(control.to_word())))
    }

    /// Takes the dead supervisor from the table of processes, if it is a child of this one; says whether it is dead.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn reap(&self) -> io::Result<bool> {
        use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
        let pidfd = Id::PIDFd(self.pidfd.as_fd());
        match waitid(pidfd, WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG) {
            Ok(WaitStatus::StillAlive) => Ok(false),
            // `nix` has no name for a real-time signal; a process that one of them ended is dead, too.
            Ok(_) | Err(nix::Error::EINVAL) => Ok(true),
            Err(nix::Error::ECHILD) => {
                // Not a child of ours: the pidfd tells.
                let mut poll = libc::pollfd { fd: self.pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
                // SAFETY: one pollfd, no waiting.
                let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
                if ready < 0 { Err(io::Error::last_os_error()) } else { Ok(ready > 0) }
            }
            Err(e) => Err(e.into()),
        }
    }
}

/// What a queued signal carries: as wide as a pointer, and a word must fit.
#[repr(C)]
struct Value {
    word: u64,
}
const _: () = assert!(size_of::<Value>() == size_of::<libc::sigval>());

/// The part of `siginfo_t` that a queued signal uses, laid out as in `asm-generic/siginfo.h`.
#[repr(C)]
struct Queued {
    signo: libc::c_int,
    errno: libc::c_int,
    code: libc::c_int,
    fields: QueuedFields,
}
#[repr(C)]
struct QueuedFields {
    pid: libc::pid_t,
    uid: libc::uid_t,
    value: Value,
}
const _: () = assert!(size_of::<Queued>() <= size_of::<libc::siginfo_t>());

fn queued(word: u64) -> libc::siginfo_t {
    // SAFETY: siginfo_t is made of integers; all zero is one.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let queued = Queued {
        signo: control_signal(),
        errno: 0,
        code: libc::SI_QUEUE,
        fields: QueuedFields {
            pid: nix::unistd::getpid().as_raw(),
            uid: nix::unistd::getuid().as_raw(),
            value: Value { word },
        },
    };
    // SAFETY: `Queued` is not longer than siginfo_t (checked above), and siginfo_t is aligned for it.
    unsafe { (&raw mut info).cast::<Queued>().write(queued) };
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back_and_others_are_none() {
        let reasons: Vec<_> = EndReason::ALL.into_iter().map(Some).chain([None]).collect();
        let stops = [StopKind::Cancel, StopKind::Requeue, StopKind::Stray];
        let mut all = vec![Control::Suspend, Control::Resume];
        all.extend(stops.iter().flat_map(|kind| reasons.iter().map(|why| Control::Stop(*kind, *why))));
        all.extend(EndReason::ALL.map(Control::Warn));
        all.extend([None, Some(0), Some(1), Some(u32::MAX - 1)].map(Control::Limit));
        all.extend([0, 1, u32::MAX].map(Control::Lease));
        all.extend([0, 1, u32::MAX].map(|used| Control::Overused(MiB(used.into()))));
        for to in [SignalTo::All, SignalTo::Batch, SignalTo::Steps] {
            all.extend((0..=255).map(|n| Control::Signal(n, to)));
        }
        let words: std::collections::BTreeSet<u64> = all.iter().map(|control| control.to_word()).collect();
        assert_eq!(words.len(), all.len(), "two words are one");
        for control in all {
            assert_eq!(Control::from_word(control.to_word()), Some(control));
        }
        // As versions without values queued them, and read them: the lower half alone.
        assert_eq!(Control::from_word(0x6771_0100), Some(Control::Stop(StopKind::Cancel, None)));
        assert_eq!(Control::from_word(0x6771_000a), Some(Control::Signal(10, SignalTo::All)));
        let told = Control::Stop(StopKind::Requeue, Some(EndReason::Drain));
        assert_eq!(told.to_word() & 0xffff_ffff, 0x6771_0101);
        let bad = [MAGIC | 0x103, MAGIC | 0xffff, MAGIC << 1, MAGIC | 0x110, MAGIC | 0x100 | 99 << VALUE];
        for word in [0, 9, 0x100, u64::MAX].into_iter().chain(bad) {
            assert_eq!(Control::from_word(word), None, "{word:x}");
        }
    }

    #[test]
    fn a_pid_with_another_start_is_somebody_else() {
        let me = std::process::id();
        let start = process_start(me).unwrap();
        assert!(Supervisor::find(me, start).unwrap().is_some_and(|s| !s.reap().unwrap()));
        assert!(Supervisor::find(me, start + 1).unwrap().is_none());
    }
}
