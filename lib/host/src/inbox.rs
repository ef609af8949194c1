//! What a supervisor waits for: its children, words of `gqnode`, its time limit, and one descriptor. One poll, no threads.

use crate::control::{Control, StopKind, control_signal};
use gq_model::EndReason;
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, SigmaskHow, Signal, sigprocmask},
        signalfd::{SfdFlags, SignalFd},
        time::TimeSpec,
        timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags},
    },
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

/// Something that a supervisor acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The watched descriptor is readable or closed.
    Readable,
    /// Children have changed: reap them.
    Child,
    /// `gqnode` (or, by SIGTERM, an admin) wants something.
    Control(Control),
    /// The deadline has passed.
    Deadline,
}

/// All signals of this process, as descriptors.
#[derive(Debug)]
pub struct Inbox {
    signals: SignalFd,
    timer: Option<TimerFd>,
}

impl Inbox {
    /// Blocks all signals of this process from now on and takes those that matter here.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn open() -> io::Result<Self> {
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None)?;
        // SAFETY: a sigset_t of zeros is made empty before its use; the other calls take pointers to it.
        let mask = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in [libc::SIGCHLD, libc::SIGTERM, control_signal()] {
                libc::sigaddset(&raw mut set, signal);
            }
            SigSet::from_sigset_t_unchecked(set)
        };
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Self { signals, timer: None })
    }

    /// Sets the deadline to so long from now, on the boot clock: neither a change of the wall clock nor a suspension
    /// of the machine moves it.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn set_deadline(&mut self, after: Duration) -> io::Result<()> {
        let timer = match self.timer.take() {
            Some(timer) => timer,
            None => {
                TimerFd::new(ClockId::CLOCK_BOOTTIME, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?
            }
        };
        // A timer of 0 would never go off.
        let after = TimeSpec::from_duration(after.max(Duration::from_nanos(1)));
        timer.set(Expiration::OneShot(after), TimerSetTimeFlags::empty())?;
        self.timer = Some(timer);
        Ok(())
    }

    /// Takes the deadline away.
    pub fn clear_deadline(&mut self) {
        self.timer = None;
    }

    /// Waits until something happens, or `timeout` passes (then there are no events). [`Event::Readable`] comes first,
    /// then [`Event::Child`]: what has happened to a job weighs more than what somebody wants of it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn wait(
        &mut self,
        watched: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) -> io::Result<Vec<Event>> {
        let timeout = timeout.map_or(PollTimeout::NONE, |t| {
            // Rounded up, so that whoever waits for a moment does not wake just before it.
            PollTimeout::try_from(t.as_micros().div_ceil(1000).min(i32::MAX as u128))
                .unwrap_or(PollTimeout::MAX)
        });
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        fds.extend(self.timer.as_ref().map(|t| PollFd::new(t.as_fd(), PollFlags::POLLIN)));
        fds.extend(watched.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        match poll(&mut fds, timeout) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        let mut events = Vec::new();
        if watched.is_some() && ready.last() == Some(&true) {
            events.push(Event::Readable);
        }
        if ready.first() == Some(&true) {
            self.read_signals(&mut events)?;
        }
        if self.timer.is_some() && ready.get(1) == Some(&true) {
            self.timer = None;
            events.push(Event::Deadline);
        }
        Ok(events)
    }

    fn read_signals(&self, events: &mut Vec<Event>) -> io::Result<()> {
        let mut child = false;
        let mut wanted = Vec::new();
        while let Some(info) = self.signals.read_signal()? {
            match i32::try_from(info.ssi_signo) {
                Ok(libc::SIGCHLD) => child = true,
                Ok(libc::SIGTERM) => {
                    wanted.push(Control::Stop(StopKind::Cancel, Some(EndReason::Cancel)));
                }
                Ok(n) if n == control_signal() => wanted.extend(Control::from_siginfo(&info)),
                Ok(_) | Err(_) => {}
            }
        }
        if child {
            events.push(Event::Child);
        }
        events.extend(wanted.into_iter().map(Event::Control));
        Ok(())
    }
}

/// Gives every signal its default effect and blocks none: what a job begins with.
///
/// # Errors
/// When the kernel refuses.
pub fn reset_signals() -> io::Result<()> {
    for signal in Signal::iterator().filter(|s| !matches!(s, Signal::SIGKILL | Signal::SIGSTOP)) {
        // SAFETY: the default effect is no function of ours.
        unsafe { nix::sys::signal::signal(signal, nix::sys::signal::SigHandler::SigDfl) }?;
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
    Ok(())
}
