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
        let reach = if self.in_order { 1 } else { self.waiting.len() };
        let at = self.waiting.iter().take(reach).position(|parcel| parcel.due <= now);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::tests::note_of;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_fails_is_tried_so_often_and_holds_nobody_up_where_order_does_not_matter() {
        let (mut lane, start) = (Lane::new(false, 1), Instant::now());
        assert!(lane.put(note_of(1), start) && lane.put(note_of(2), start));
        let (mut now, mut tries) = (start, 1);
        let mut first = lane.take(now).unwrap();
        let second = lane.take(now).unwrap();
        assert_eq!((first.notes[0].number, second.notes[0].number), (1, 2));
        while let Some(pause) = lane.again(first, now) {
            assert_eq!(pause, PAUSES[tries - 1]);
            assert!(lane.take(now).is_none() && lane.next() == Some(now + SECOND * pause as u32));
            now += SECOND * pause as u32;
            first = lane.take(now).unwrap();
            tries += 1;
        }
        assert_eq!(tries, PAUSES.len() + 1);
        lane.done(&second);
        assert_eq!((lane.count, lane.next()), (0, None));
    }

    #[test]
    fn where_order_matters_what_fails_is_waited_for_and_what_is_new_goes_together() {
        let (mut lane, now) = (Lane::new(true, 3), Instant::now());
        (1..=5).for_each(|number| assert!(lane.put(note_of(number), now)));
        let numbers = |parcel: &Parcel| parcel.notes.iter().map(|note| note.number).collect::<Vec<_>>();
        let first = lane.take(now).unwrap();
        assert_eq!(numbers(&first), [1, 2, 3]);
        lane.again(first, now);
        assert!(lane.take(now).is_none());
        let again = lane.take(now + SECOND).unwrap();
        assert_eq!(numbers(&again), [1, 2, 3], "what failed together is tried together");
        lane.done(&again);
        assert_eq!(numbers(&lane.take(now).unwrap()), [4, 5]);
    }

    #[test]
    fn no_more_wait_than_there_is_room_for() {
        let (mut lane, now) = (Lane::new(true, MOST), Instant::now());
        assert_eq!((1..=MOST as u64 + 5).filter(|number| lane.put(note_of(*number), now)).count(), MOST);
        let at_work = lane.take(now).unwrap();
        assert!(!lane.put(note_of(1), now), "what is at the program counts");
        lane.done(&at_work);
        assert!(lane.put(note_of(1), now));
        assert_eq!((lane.clear(), lane.count), (1, 0));
    }
}
