//! Snapshots: clones of the whole state, for readers that need more of it than the board shows. The state's own thread makes one only when
//! somebody asks, and never spends more than a small part of its time on it.

use crate::hub::Word;
use crossbeam_channel::{Sender, bounded};
use gq_cluster::{Cluster, Policy};
use gq_model::Timestamp;
use gq_sched::Planner;
use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

/// Making snapshots takes at most one part of so many of the state's own thread's time.
const PARTS: u32 = 20;
/// How long a reader waits for one: the state's own thread may be held up by a slow disk.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest pause between two snapshots, however long one takes.
const LONGEST: Duration = Duration::from_secs(2);

/// The state at one moment, as it is on disk.
pub(crate) struct Snapshot {
    pub(crate) cluster: Cluster,
    pub(crate) policy: Arc<Policy>,
    pub(crate) planner: Planner,
    /// When.
    pub(crate) now: Timestamp,
    /// How long it took the state's own thread.
    pub(crate) cost: Duration,
}

impl Snapshot {
    /// Takes one; for the state's own thread.
    pub(crate) fn of(cluster: &Cluster, policy: &Arc<Policy>, planner: &Planner) -> Self {
        let began = Instant::now();
        let (cluster, policy, planner) = (cluster.clone(), Arc::clone(policy), planner.clone());
        Self { cluster, policy, planner, now: gq_daemon::now(), cost: began.elapsed() }
    }
}

/// Where readers get snapshots. One is shared by those who come while it is in use and still fresh.
pub(crate) struct Snapshots {
    words: Sender<Word>,
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    taken: Option<Instant>,
    pause: Duration,
    shared: Weak<Snapshot>,
}

impl Snapshots {
    pub(crate) fn new(words: Sender<Word>) -> Self {
        Self { words, last: Mutex::default() }
    }

    /// A snapshot that is not much older than it took to make; none when the state's own thread has no time, or `gqd` is going away.
    pub(crate) fn take(&self) -> Option<Arc<Snapshot>> {
        // Whoever waits here gets the snapshot of the one before him.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = last.taken.map_or(Duration::ZERO, |taken| last.pause.saturating_sub(taken.elapsed()));
        if !rest.is_zero() {
            if let Some(shared) = last.shared.upgrade() {
                return Some(shared);
            }
            thread::sleep(rest);
        }
        let (reply, replies) = bounded(1);
        self.words.send_timeout(Word::Snapshot { reply }, PATIENCE).ok()?;
        let snapshot = Arc::new(replies.recv_timeout(PATIENCE).ok()?);
        log::debug!("a snapshot took {} us", snapshot.cost.as_micros());
        let pause = (snapshot.cost * PARTS).min(LONGEST);
        *last = Last { taken: Some(Instant::now()), pause, shared: Arc::downgrade(&snapshot) };
        Some(snapshot)
    }
}
