//! A lane: what waits for one program, in order, with bounds; and what failed, until it is tried again or given up. Time is handed in.

use super::note::Note;
use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

/// Most notes that wait in one lane.
pub(crate) const MOST: usize = 10_000;
/// How long after each try the next one follows.
pub(crate) const PAUSES: [u64; 7] = [1, 4, 16, 60, 240, 900, 900];

/// Notes that go to the program together.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) notes: Vec<Arc<Note>>,
    /// How many before it were left out.
    pub(crate) left_out: u64,
    tries: usize,
    due: Instant,
}

/// What waits.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Whether what failed keeps what is behind it waiting.
    in_order: bool,
    /// Most notes of a parcel.
    together: usize,
    waiting: VecDeque<Parcel>,
    /// How many notes wait, and are at the program.
    count: usize,
}

impl Lane {
    pub(crate) fn new(in_order: bool, together: usize) -> Self {
        Self { in_order, together, waiting: VecDeque::new(), count: 0 }
    }

    /// Takes a note, unless too many wait.
    pub(crate) fn put(&mut self, note: Arc<Note>, now: Instant) -> bool {
        let room = self.count < MOST;
        if room {
            self.count += 1;
            self.waiting.push_back(Parcel { notes: vec![note], left_out: 0, tries: 0, due: now });
        }
        room
    }

    /// What is to be done now, if something is.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Parcel> {
        let at = match self.in_order {
            true => self.waiting.front().filter(|first| first.due <= now).map(|_| 0),
            false => self.waiting.iter().position(|parcel| parcel.due <= now),
        };
        let mut parcel = self.waiting.remove(at?)?;
        while parcel.tries == 0
            && parcel.notes.len() < self.together
            && let Some(next) = self.waiting.pop_front_if(|next| next.tries == 0)
        {
            parcel.notes.extend(next.notes);
        }
        Some(parcel)
    }

    /// A parcel that was taken is done with.
    pub(crate) fn done(&mut self, parcel: &Parcel) {
        self.count = self.count.saturating_sub(parcel.notes.len());
    }

    /// A parcel came to nothing: in how many seconds it is tried again, or none when it is given up.
    pub(crate) fn again(&mut self, mut parcel: Parcel, now: Instant) -> Option<u64> {
        let Some(pause) = PAUSES.get(parcel.tries).copied() else {
            self.done(&parcel);
            return None;
        };
        parcel.tries += 1;
        parcel.due = now + Duration::from_secs(pause);
        if self.in_order {
            self.waiting.push_front(parcel);
        } else {
            self.waiting.push_back(parcel);
        }
        Some(pause)
    }

    /// When something is to be done.
    pub(crate) fn next(&self) -> Option<Instant> {
        let dues = self.waiting.iter().map(|parcel| parcel.due);
        if self.in_order { dues.take(1).min() } else { dues.min() }
    }

    /// Whether something waits that was not tried yet.
    pub(crate) fn is_fresh(&self) -> bool {
        self.waiting.iter().any(|parcel| parcel.tries == 0)
    }

    /// Empties it: how many notes waited.
    pub(crate) fn clear(&mut self) -> usize {
        let waiting = self.waiting.drain(..).map(|parcel| parcel.notes.len()).sum();
        self.count = self.count.saturating_sub(waiting);
        waiting
    }
}
