//! The gate before what costs memory or much time: so few threads of one user pass it at a time that his asks are bounded whatever they say. The others
//! of his wait for each other, and nobody else for any of them.

use gq_model::Uid;
use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

/// Most threads of one user inside at a time.
const MOST: usize = 8;

/// A gate.
#[derive(Default)]
pub(crate) struct Gate {
    users: Mutex<BTreeMap<Uid, Queue>>,
}

/// The threads of one user.
#[derive(Default)]
struct Queue {
    inside: usize,
    waiting: usize,
    free: Arc<Condvar>,
}

/// A place inside, as long as it lives.
pub(crate) struct Place<'a> {
    gate: &'a Gate,
    uid: Uid,
}

impl Gate {
    /// Waits until there is a place for this user. Whoever has one must not ask for another.
    pub(crate) fn enter(&self, uid: Uid) -> Place<'_> {
        let mut users = self.lock();
        loop {
            let queue = users.entry(uid).or_default();
            if queue.inside < MOST {
                queue.inside += 1;
                return Place { gate: self, uid };
            }
            queue.waiting += 1;
            let free = Arc::clone(&queue.free);
            users = free.wait(users).unwrap_or_else(PoisonError::into_inner);
            users.entry(uid).or_default().waiting -= 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Uid, Queue>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut users = self.gate.lock();
        let Some(queue) = users.get_mut(&self.uid) else { return };
        queue.inside -= 1;
        queue.free.notify_one();
        if queue.inside == 0 && queue.waiting == 0 {
            users.remove(&self.uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn only_so_many_of_one_user_are_inside_and_nobody_else_waits_for_them() {
        let (gate, inside, most) = (Gate::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let full: Vec<Place<'_>> = (0..MOST).map(|_| gate.enter(Uid(1))).collect();
        std::thread::scope(|threads| {
            for _ in 0..100 {
                threads.spawn(|| {
                    let _place = gate.enter(Uid(1));
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
            }
            drop(gate.enter(Uid(2)));
            assert_eq!(inside.load(Ordering::SeqCst), 0, "all places are taken");
            drop(full);
        });
        assert!((1..=MOST).contains(&most.into_inner()));
        assert!(gate.lock().is_empty(), "nobody is remembered who has left");
    }
}
