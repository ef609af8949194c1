//! One thread for what may take long and nobody waits for: sweeping up the processes of runs whose supervisor died, and
//! removing run folders that are not empty. It never decides that a run is over.

use crate::event::Event;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use gq_failpoint::{Step, step};
use gq_host::{Group, Remains};
use gq_model::RunKey;
use std::{
    io,
    path::PathBuf,
    time::{Duration, Instant},
};

/// Most tasks that wait.
const MAX_TASKS: usize = 1024;
/// From one sweep of a run to the next while processes are left; it doubles up to [`LONGEST`].
const AGAIN: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);
/// How long the removal of a folder may take; the rest is for the next start.
const REMOVAL: Duration = Duration::from_secs(600);
/// Said again after so long that a process cannot be killed.
const SAY: Duration = Duration::from_secs(30);

/// Something to clean.
#[derive(Debug)]
pub enum Task {
    /// Kill what is left of a run, until nothing is.
    Sweep(RunKey, Remains, Group),
    /// Remove a folder with all that is in it.
    Remove(PathBuf),
}

/// Starts the thread; what cannot be taken now must be offered again.
///
/// # Errors
/// When there are no threads left.
pub fn start(events: Sender<Event>) -> io::Result<Sender<Task>> {
    let (give, tasks) = bounded(MAX_TASKS);
    std::thread::Builder::new()
        .name("broom".to_owned())
        .spawn(move || Broom { tasks, events, left: Vec::new() }.work())?;
    Ok(give)
}

struct Broom {
    tasks: Receiver<Task>,
    events: Sender<Event>,
    left: Vec<Left>,
}

/// A run of which processes were left.
struct Left {
    key: RunKey,
    remains: Remains,
    group: Group,
    next: Instant,
    wait: Duration,
    since: Instant,
    said: Instant,
}

impl Broom {
    fn work(mut self) {
        loop {
            let next = self.left.iter().map(|left| left.next).min();
            let task = match next {
                Some(at) => self.tasks.recv_deadline(at),
                None => self.tasks.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let now = Instant::now();
            match task {
                Ok(Task::Remove(folder)) => {
                    let removed = step(Step::RunRemove, || gq_host::remove_folder(&folder, now + REMOVAL));
                    if let Err(e) = removed {
                        log::warn!("{}: cannot be removed: {e}", folder.display());
                    }
                }
                Ok(Task::Sweep(key, remains, group)) => {
                    let left = Left { key, remains, group, next: now, wait: AGAIN, since: now, said: now };
                    self.left.push(left);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let mut clean = Vec::new();
            self.left.retain_mut(|left| {
                let is_clean = left.next <= now && left.sweep(now);
                if is_clean {
                    clean.push(left.key);
                }
                !is_clean
            });
            for key in clean {
                if self.events.send(Event::Swept(key, 0)).is_err() {
                    return;
                }
            }
        }
    }
}

impl Left {
    /// Sweeps once; says whether nothing is left.
    fn sweep(&mut self, now: Instant) -> bool {
        let words = match step(Step::RunSweep, || gq_host::sweep(&self.remains, &self.group)) {
            Ok(0) => return true,
            Ok(n) => {
                format!("{n} processes are still there; they hold its cards and memory until they are gone")
            }
            Err(e) => format!("its processes cannot be looked for: {e}"),
        };
        self.next = now + self.wait;
        self.wait = (self.wait * 2).min(LONGEST);
        if now.duration_since(self.said) >= SAY {
            self.said = now;
            log::warn!(
                "run {} was killed {} s ago: {words}",
                self.key,
                now.duration_since(self.since).as_secs()
            );
        }
        false
    }
}
