//! One thread that waits for the log to grow and for supervisors to die, however many there are. It reads no log and
//! reaps nobody.

use crate::event::Event;
use crossbeam_channel::Sender;
use gq_host::Supervisor;
use gq_nodelog::{LogError, Watch};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Events fetched in one call.
const AT_ONCE: usize = 64;
/// The number that stands for the log; supervisors are numbered from 1.
const LOG: u64 = 0;

/// The deciding thread's end of the watching.
#[derive(Debug)]
pub struct Watcher {
    epoll: Arc<Epoll>,
    log: Watch,
    /// Whether it was seen that the log grew, and the deciding thread has not begun to read.
    told: Arc<AtomicBool>,
    next: u64,
}

impl Watcher {
    /// Starts the thread.
    ///
    /// # Errors
    /// When there are no descriptors or threads left.
    pub fn start(log: Watch, events: Sender<Event>) -> io::Result<Self> {
        let epoll = Arc::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        epoll.add(&log, once(LOG))?;
        let told = Arc::new(AtomicBool::new(false));
        let thread = Waiter { epoll: Arc::clone(&epoll), told: Arc::clone(&told), events };
        std::thread::Builder::new().name("watch".to_owned()).spawn(move || thread.wait_for_ever())?;
        Ok(Self { epoll, log, told, next: LOG + 1 })
    }

    /// Watches a supervisor; its death is told as [`Event::Gone`] with the number returned. It is no longer watched
    /// when it is dropped.
    ///
    /// # Errors
    /// When the kernel has no room left.
    pub fn watch(&mut self, supervisor: &Supervisor) -> io::Result<u64> {
        let number = self.next;
        self.epoll.add(supervisor.pidfd(), once(number))?;
        self.next += 1;
        Ok(number)
    }

    /// To be called before the log is read: what is appended from here on is told again. While it is not called, the
    /// log may grow as it likes and wakes nobody.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn reading(&self) -> Result<(), LogError> {
        if self.told.swap(false, Ordering::SeqCst) {
            self.log.wait()?;
            self.epoll
                .modify(&self.log, &mut once(LOG))
                .map_err(|e| LogError::Watch("the log".into(), e.into()))?;
        }
        Ok(())
    }
}

fn once(number: u64) -> EpollEvent {
    EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLONESHOT, number)
}

struct Waiter {
    epoll: Arc<Epoll>,
    told: Arc<AtomicBool>,
    events: Sender<Event>,
}

impl Waiter {
    fn wait_for_ever(self) {
        let mut ready = [EpollEvent::empty(); AT_ONCE];
        loop {
            let count = match self.epoll.wait(&mut ready, EpollTimeout::NONE) {
                Ok(count) => count,
                Err(nix::Error::EINTR) => continue,
                Err(e) => return log::error!("supervisors are no longer watched: {e}"),
            };
            for event in ready.iter().take(count) {
                if !self.tell(event.data()) {
                    return;
                }
            }
        }
    }

    /// Tells one event; false when nobody listens any more.
    fn tell(&self, number: u64) -> bool {
        if number != LOG {
            return self.events.send(Event::Gone(number)).is_ok();
        }
        self.told.store(true, Ordering::SeqCst);
        self.events.send(Event::Log).is_ok()
    }
}
