//! Guests: who is connected, how many of whom, and who must leave so that somebody can enter who has fewer. Says nothing to anybody.

use gq_ipc::Conn;
use gq_model::Uid;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Most connections at a time (root's and our own are not counted), if there are files enough.
const MAX_CONNECTIONS: usize = 4096;
/// Fewest.
const MIN_CONNECTIONS: usize = 8;
/// One user has at most this part of them.
const USERS_PART: usize = 4;
/// Open files that a connection may need: itself, and a reader of the past.
const FILES_EACH: usize = 4;
/// Open files for all else.
const FILES_KEPT: usize = 64;
/// Fewest open files.
pub(crate) const LEAST_FILES: usize = FILES_KEPT + MIN_CONNECTIONS * FILES_EACH;

/// How many connections there is room for, with so many open files at most.
fn room(open_files: usize) -> usize {
    (open_files.saturating_sub(FILES_KEPT) / FILES_EACH).clamp(MIN_CONNECTIONS, MAX_CONNECTIONS)
}

/// All who are connected.
pub(crate) struct Guests {
    /// Most connections at a time.
    pub(crate) room: usize,
    own: Uid,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    next: u64,
    total: usize,
    /// The connections of each user, the oldest first.
    users: BTreeMap<Uid, BTreeMap<u64, Seat>>,
}

struct Seat {
    conn: Arc<Conn>,
    waits: Arc<AtomicBool>,
}

/// A connection that is counted while it lives.
pub(crate) struct Guest<'a> {
    guests: &'a Guests,
    pub(crate) uid: Uid,
    number: u64,
    waits: Arc<AtomicBool>,
}

impl Guests {
    /// Nobody yet, where a process of the user `own` may have so many files open.
    pub(crate) fn new(own: Uid, open_files: usize) -> Self {
        Self { room: room(open_files), own, inside: Mutex::default() }
    }

    /// Most connections of one user.
    pub(crate) fn most_of_one(&self) -> usize {
        self.room / USERS_PART
    }

    /// Lets somebody in; none when there is no room. When all places are taken, he who has most gives one up to a user who has fewer: the
    /// oldest that only waits.
    pub(crate) fn enter(&self, conn: &Arc<Conn>, uid: Uid) -> Option<Guest<'_>> {
        let mut inside = self.lock();
        let (number, waits) = (inside.next, Arc::new(AtomicBool::new(true)));
        inside.next += 1;
        if uid != Uid(0) && uid != self.own {
            let own = inside.users.get(&uid).map_or(0, BTreeMap::len);
            if own >= self.most_of_one() || (inside.total >= self.room && !inside.make_room(own + 1)) {
                return None;
            }
            inside.total += 1;
            let seat = Seat { conn: Arc::clone(conn), waits: Arc::clone(&waits) };
            inside.users.entry(uid).or_default().insert(number, seat);
        }
        Some(Guest { guests: self, uid, number, waits })
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    /// Ends a connection of whoever has most of them, if these are more than `fewer`.
    fn make_room(&mut self, fewer: usize) -> bool {
        let most = self.users.iter().max_by_key(|(_, seats)| seats.len());
        let Some((uid, seats)) = most.filter(|(_, seats)| seats.len() > fewer) else { return false };
        let oldest = seats.iter().find(|(_, seat)| seat.waits.load(Ordering::Acquire));
        let Some((number, seat)) = oldest else { return false };
        seat.conn.shutdown();
        let (uid, number) = (*uid, *number);
        self.leave(uid, number);
        true
    }

    fn leave(&mut self, uid: Uid, number: u64) {
        let Some(seats) = self.users.get_mut(&uid) else { return };
        if seats.remove(&number).is_some() {
            self.total -= 1;
        }
        if seats.is_empty() {
            self.users.remove(&uid);
        }
    }
}

impl Guest<'_> {
    /// Notes whether this guest only waits, or is waited for; he can be sent away then.
    pub(crate) fn waits(&self, waits: bool) {
        self.waits.store(waits, Ordering::Release);
    }
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        self.guests.lock().leave(self.uid, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_most_gives_a_place_up_to_one_who_has_fewer() {
        let guests = Guests::new(Uid(999), 0);
        assert_eq!((guests.room, guests.most_of_one()), (8, 2));
        let pairs: Vec<(Arc<Conn>, Conn)> = (0..12)
            .map(|_| {
                let (ours, theirs) = Conn::pair().unwrap();
                (Arc::new(ours), theirs)
            })
            .collect();
        let enter = |at: usize, uid| guests.enter(&pairs[at].0, Uid(uid));
        let inside: Vec<_> = (0..8).map(|at| enter(at, 1 + at as u32 / 2).unwrap()).collect();
        assert!(enter(8, 1).is_none(), "two are the most of one user");
        // Of all who have two, one alone has one that only waits.
        inside.iter().take(6).for_each(|guest| guest.waits(false));
        assert!(enter(8, 4).is_none(), "nor more at others' cost");
        let fifth = enter(9, 5);
        assert!(fifth.is_some());
        assert_eq!(pairs[6].1.recv(1).unwrap(), None, "the oldest that only waited was ended");
        assert!(
            enter(10, 5).is_none(),
            "he who has one already gets no other at the cost of one who has two"
        );
        drop(fifth);
        drop(inside);
        assert!(guests.lock().users.is_empty() && guests.lock().total == 0);
        let own: Vec<_> = (0..10).map(|at| enter(at, [0, 999][at % 2]).unwrap()).collect();
        assert_eq!(own.len(), 10, "root and we ourselves are always let in");
    }
}
