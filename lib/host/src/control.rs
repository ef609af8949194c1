//! Speaking to a supervisor that an earlier `gqnode` may have started: one queued real-time signal per word, to a pidfd.
//! A pipe or socket would die with the `gqnode` that made it; a signal needs nothing but the pid and its start time.

use crate::process::{pidfd_open, pidfd_signal, process_start};
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
    /// End the run: the gentle signal, then the hard one.
    Stop(StopKind),
    /// Send this signal to all processes of the run.
    Signal(u8),
}

/// Stands in the upper half of every word, so that a stray `sigqueue` is not taken for one.
const MAGIC: i32 = 0x6771_0000;

impl Control {
    const fn to_word(self) -> i32 {
        MAGIC
            | match self {
                Self::Stop(StopKind::Cancel) => 0x100,
                Self::Stop(StopKind::Requeue) => 0x101,
                Self::Stop(StopKind::Stray) => 0x102,
                Self::Signal(n) => n as i32,
            }
    }

    fn from_word(word: i32) -> Option<Self> {
        if word & !0xffff != MAGIC {
            return None;
        }
        match word & 0xffff {
            0x100 => Some(Self::Stop(StopKind::Cancel)),
            0x101 => Some(Self::Stop(StopKind::Requeue)),
            0x102 => Some(Self::Stop(StopKind::Stray)),
            n => u8::try_from(n).ok().map(Self::Signal),
        }
    }

    /// Reads what a signalfd gave; none for what root or this user's `gqnode` did not queue.
    pub(crate) fn from_siginfo(info: &siginfo) -> Option<Self> {
        let ours = info.ssi_uid == 0 || info.ssi_uid == nix::unistd::getuid().as_raw();
        (ours && info.ssi_code == libc::SI_QUEUE).then(|| Self::from_word(info.ssi_int)).flatten()
    }
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

#[repr(C)]
union Value {
    int: libc::c_int,
    pointer: *mut libc::c_void,
}

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

fn queued(word: i32) -> libc::siginfo_t {
    // SAFETY: siginfo_t is made of integers; all zero is one.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let mut value = Value { pointer: std::ptr::null_mut() };
    value.int = word;
    let queued = Queued {
        signo: control_signal(),
        errno: 0,
        code: libc::SI_QUEUE,
        fields: QueuedFields {
            pid: nix::unistd::getpid().as_raw(),
            uid: nix::unistd::getuid().as_raw(),
            value,
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
        let stops = [StopKind::Cancel, StopKind::Requeue, StopKind::Stray].map(Control::Stop);
        for control in stops.into_iter().chain((0..=255).map(Control::Signal)) {
            assert_eq!(Control::from_word(control.to_word()), Some(control));
        }
        for word in [0, 9, 0x100, -1, MAGIC | 0x103, MAGIC | 0xffff, MAGIC << 1] {
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
