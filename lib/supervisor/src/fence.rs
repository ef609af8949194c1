//! The fence around a run: what holds all its processes together. Today it is the process tree: the supervisor is the
//! subreaper, so that whatever the run starts, in whatever session or group, descends from it until it is dead.

use gq_host::Reaped;
use gq_model::RunKey;
use std::time::{Duration, Instant};

/// Shortest and longest time between two rounds of killing.
const ROUNDS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));

/// The fence of one run.
#[derive(Debug)]
pub struct Fence {
    key: RunKey,
    /// While all is being killed: when the next round is, and how long after it the one behind it.
    killing: Option<(Instant, Duration)>,
}

impl Fence {
    pub const fn new(key: RunKey) -> Self {
        Self { key, killing: None }
    }

    /// Sends a signal to all processes of the run.
    pub fn signal(&self, signal: i32) {
        if let Err(e) = gq_host::signal_descendants(signal) {
            eprintln!("gqstep {}: signal {signal} did not reach every process: {e}", self.key);
        }
    }

    /// Asks all processes of the run to end, stopped ones too.
    pub fn terminate(&self) {
        self.signal(libc_numbers::TERM);
        self.signal(libc_numbers::CONT);
    }

    /// Begins to kill all processes of the run; rounds follow until none is left.
    pub fn kill(&mut self, now: Instant) {
        if self.killing.is_none() {
            self.killing = Some((now, ROUNDS.0));
        }
    }

    /// Does the round of killing that is due; returns when the next one is.
    pub fn round(&mut self, now: Instant) -> Option<Instant> {
        let (due, pause) = self.killing?;
        if due > now {
            return Some(due);
        }
        self.signal(libc_numbers::KILL);
        let next = now + pause;
        self.killing = Some((next, (pause * 2).min(ROUNDS.1)));
        Some(next)
    }

    /// Takes the processes that have ended; `left` says whether any process of the run is left.
    pub fn reap(&self) -> Reaped {
        gq_host::reap_children().unwrap_or_else(|e| {
            eprintln!("gqstep {}: its processes cannot be waited for: {e}", self.key);
            Reaped { ended: Vec::new(), left: true }
        })
    }
}

/// Numbers of the signals used here; the same on every Linux.
mod libc_numbers {
    pub const KILL: i32 = 9;
    pub const TERM: i32 = 15;
    pub const CONT: i32 = 18;
}
