//! One thread that looks accounts up, and what it found: a directory service that hangs holds up the runs of users who are
//! not known yet, and nothing else. It decides nothing but how long it is waited for.

use crate::event::Event;
use crossbeam_channel::{Sender, bounded};
use gq_host::Account;
use gq_model::{Assignment, Uid};
use std::{
    collections::BTreeMap,
    io,
    time::{Duration, Instant},
};

/// How long an account that was found is good.
const LIFE: Duration = Duration::from_secs(60);
/// How long a launch waits for its account.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most uids that wait for an answer, and most accounts that are kept.
const MAX_ASKED: usize = 256;
const MAX_KNOWN: usize = 4096;

/// The accounts of those whose runs are launched, and the launches that wait for one.
#[derive(Debug)]
pub struct Accounts {
    ask: Sender<Uid>,
    known: BTreeMap<Uid, (Account, Instant)>,
    /// What waits for each uid that was asked for, and until when; empty when all of it has given up.
    waiting: BTreeMap<Uid, Vec<(Assignment, Instant)>>,
}

/// What is to be done with a launch.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry {
    /// Launch it, as this account.
    Known(Account),
    /// Nothing: it is given back when its account is told, or by [`Accounts::overdue`].
    Waits,
    /// Nobody can be asked now.
    Busy,
}

/// Starts the thread; what it finds is told as [`Event::Account`].
///
/// # Errors
/// When there are no threads left.
pub fn start(events: Sender<Event>) -> io::Result<Accounts> {
    let (ask, asked) = bounded(MAX_ASKED);
    std::thread::Builder::new().name("accounts".to_owned()).spawn(move || {
        for uid in asked {
            if events.send(Event::Account(uid, Account::of(uid))).is_err() {
                return;
            }
        }
    })?;
    Ok(Accounts::asking(ask))
}

impl Accounts {
    const fn asking(ask: Sender<Uid>) -> Self {
        Self { ask, known: BTreeMap::new(), waiting: BTreeMap::new() }
    }

    /// Takes in a run that is to be launched; its account is asked for when it is not known.
    pub fn enter(&mut self, assignment: &Assignment, now: Instant) -> Entry {
        let uid = assignment.uid;
        if let Some((account, until)) = self.known.get(&uid)
            && now < *until
        {
            return Entry::Known(account.clone());
        }
        if !self.waiting.contains_key(&uid) && self.ask.try_send(uid).is_err() {
            return Entry::Busy;
        }
        self.waiting.entry(uid).or_default().push((assignment.clone(), now + PATIENCE));
        Entry::Waits
    }

    /// Takes in an answer and returns what waited for it, in order. An account is kept; that there is none is not.
    pub fn told(&mut self, uid: Uid, account: Option<&Account>, now: Instant) -> Vec<Assignment> {
        if self.known.len() >= MAX_KNOWN {
            self.known.retain(|_, (_, until)| now < *until);
        }
        if let Some(account) = account
            && self.known.len() < MAX_KNOWN
        {
            self.known.insert(uid, (account.clone(), now + LIFE));
        }
        let waited = self.waiting.remove(&uid).unwrap_or_default();
        waited.into_iter().map(|(assignment, _)| assignment).collect()
    }

    /// Gives back the launches that have waited long enough. Their uids need not be asked for again.
    pub fn overdue(&mut self, now: Instant) -> Vec<Assignment> {
        let mut over = Vec::new();
        for launches in self.waiting.values_mut() {
            let late = launches.partition_point(|(_, until)| *until <= now);
            over.extend(launches.drain(..late).map(|(assignment, _)| assignment));
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(job: u64, uid: u32) -> Assignment {
        let json = serde_json::json!({
            "key": {"job": job, "task": 0, "run": 1}, "boot": "00000000000000000000000000000003", "node": "ws1", "uid": uid,
            "job_file": "jobs/00/1.job", "sha256": "", "partition": "main", "cluster": "lab", "cpus": 1,
            "memory": 1, "cards": [], "time_limit": null, "kill_wait": 1, "array": null, "allow_test_run": false
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_user_is_asked_for_once_and_waits_alone() {
        let (ask, asked) = bounded(MAX_ASKED);
        let mut accounts = Accounts::asking(ask);
        let begin = Instant::now();
        let (first, second) = (Account::nameless(Uid(1)), Account::nameless(Uid(2)));
        assert_eq!(accounts.enter(&run(1, 1), begin), Entry::Waits);
        assert_eq!(accounts.enter(&run(2, 2), begin), Entry::Waits);
        assert_eq!(accounts.enter(&run(3, 1), begin), Entry::Waits);
        assert_eq!(asked.try_iter().collect::<Vec<_>>(), [Uid(1), Uid(2)]);
        assert_eq!(accounts.told(Uid(2), Some(&second), begin), [run(2, 2)]);
        let later = begin + Duration::from_secs(10);
        assert_eq!(accounts.enter(&run(4, 2), later), Entry::Known(second));
        assert_eq!(accounts.told(Uid(1), Some(&first), later), [run(1, 1), run(3, 1)]);
        // What is known grows old; that somebody is not known is not kept.
        assert_eq!(accounts.enter(&run(5, 2), begin + LIFE), Entry::Waits);
        assert!(accounts.told(Uid(2), None, begin + LIFE).len() == 1 && asked.try_iter().count() == 1);
        assert_eq!(accounts.enter(&run(6, 2), begin + LIFE), Entry::Waits);
    }

    #[test]
    fn nobody_waits_for_ever_and_a_silent_service_is_not_asked_again() {
        let (ask, asked) = bounded(1);
        let mut accounts = Accounts::asking(ask);
        let begin = Instant::now();
        let later = begin + Duration::from_secs(1);
        assert_eq!(accounts.enter(&run(1, 1), begin), Entry::Waits);
        assert_eq!(accounts.enter(&run(2, 1), later), Entry::Waits);
        assert_eq!(accounts.enter(&run(3, 2), later), Entry::Busy);
        assert_eq!(accounts.overdue(later), []);
        assert_eq!(accounts.overdue(begin + PATIENCE), [run(1, 1)]);
        assert_eq!(accounts.overdue(later + PATIENCE), [run(2, 1)]);
        assert_eq!(accounts.enter(&run(4, 1), later + PATIENCE), Entry::Waits);
        assert_eq!(asked.try_iter().count(), 1);
        assert_eq!(accounts.told(Uid(1), None, later + PATIENCE), [run(4, 1)]);
    }
}
