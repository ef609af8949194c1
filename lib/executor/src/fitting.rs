//! Runs that wait for their cards to be looked at, before they have them and after, and how slices come to be: those that are ordered by place
//! are cut, those that are ordered by UUID must be there. The deciding thread keeps the waiting; the thread that looks at cards does the rest.

use crate::cards::{Watch, Wish};
use crossbeam_channel::Sender;
use gq_gpu::Nvml;
use gq_model::{Assignment, Card, CardUse, Reason, RunKey};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// How long a launch waits for its cards.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why a run does not get its cards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// In one word.
    pub reason: Reason,
    /// For people.
    pub detail: String,
}

impl Misfit {
    pub const fn gone(detail: String) -> Self {
        Self { reason: Reason::CardGone, detail }
    }
}

/// The deciding thread's side: who waits.
#[derive(Debug)]
pub struct Fitting {
    ask: Sender<Wish>,
    waiting: BTreeMap<RunKey, (Box<Assignment>, Instant)>,
    /// Runs that have ended and whose cards are looked at.
    leaving: BTreeSet<RunKey>,
    /// What is to be watched, as was told last.
    watched: Watch,
}

impl Fitting {
    /// Asks the thread that looks at cards.
    pub const fn asking(ask: Sender<Wish>) -> Self {
        Self { ask, waiting: BTreeMap::new(), leaving: BTreeSet::new(), watched: Watch::NOTHING }
    }

    /// Has the cards of a run looked at, and its slices cut or looked for; false when that must be tried again. `held`: what other runs hold.
    pub fn enter(&mut self, assignment: &Assignment, held: Vec<CardUse>, now: Instant) -> bool {
        let key = assignment.key;
        let is_asked = self.ask.try_send(Wish::Fit { key, cards: assignment.cards.clone(), held }).is_ok();
        if is_asked {
            self.waiting.insert(key, (Box::new(assignment.clone()), now + PATIENCE));
        }
        is_asked
    }

    /// Takes in an answer: the run to be launched, with its cards; none if nobody waits for it any more.
    pub fn told(&mut self, key: RunKey, cards: Vec<CardUse>) -> Option<Box<Assignment>> {
        let (mut assignment, _) = self.waiting.remove(&key)?;
        assignment.cards = cards;
        Some(assignment)
    }

    /// Whether a run waits for its cards; it does not any more.
    pub fn give_up(&mut self, key: RunKey) -> bool {
        self.waiting.remove(&key).is_some()
    }

    /// Has the cards of a run looked at that has ended; false when that must be tried again.
    pub fn leave(&mut self, key: RunKey, cards: Vec<CardUse>) -> bool {
        let is_asked = self.ask.try_send(Wish::Vacate { key, cards }).is_ok();
        if is_asked {
            self.leaving.insert(key);
        }
        is_asked
    }

    /// The cards of a run were looked at: whether that was waited for.
    pub fn left(&mut self, key: RunKey) -> bool {
        self.leaving.remove(&key)
    }

    /// All who wait for cards, before a run and after; they do not wait any more.
    pub fn give_all_up(&mut self) -> (Vec<RunKey>, Vec<RunKey>) {
        let waiting = std::mem::take(&mut self.waiting).into_keys();
        (waiting.collect(), std::mem::take(&mut self.leaving).into_iter().collect())
    }

    /// The runs that have waited long enough; they do not wait any more.
    pub fn overdue(&mut self, now: Instant) -> Vec<RunKey> {
        let late = self.waiting.iter().filter(|(_, (_, until))| *until <= now);
        let late: Vec<RunKey> = late.map(|(key, _)| *key).collect();
        late.iter().for_each(|key| drop(self.waiting.remove(key)));
        late
    }

    /// Tells the thread that looks at cards what to watch, when it is something else than before; again later when it is busy.
    pub fn watch(&mut self, watch: Watch) {
        if watch != self.watched && self.ask.try_send(Wish::Watch(watch.clone())).is_ok() {
            self.watched = watch;
        }
    }

    /// Tells the thread that looks at cards what the conf says now; false when it is busy.
    pub fn declare(&self, declared: crate::cards::Declared) -> bool {
        self.ask.try_send(Wish::Look(declared)).is_ok()
    }
}

/// Sees to the slices among `cards`: those with a place and no UUID are cut, those with a UUID are looked for. Returns the cards with
/// all UUIDs, and whether anything was cut, or may have been destroyed for it. Cards that only the conf knows stay as they are.
///
/// `found`: the cards as the driver lists them; `merged`: with what the conf declares; `held`: what other runs hold.
pub fn fit(
    nvml: Option<&Nvml>,
    found: &[Card],
    merged: &[Card],
    mut cards: Vec<CardUse>,
    mut held: Vec<CardUse>,
) -> (Result<Vec<CardUse>, Misfit>, bool) {
    let mut touched = false;
    for at in 0..cards.len() {
        let Some(one) = cards.get(at).filter(|card| card.slice.is_some()).cloned() else { continue };
        match slice_of(nvml, found, merged, &one, &held, &mut touched) {
            Ok(uuid) => {
                if let Some(card) = cards.get_mut(at) {
                    card.uuid = uuid;
                    held.push(card.clone());
                }
            }
            Err(misfit) => return (Err(misfit), touched),
        }
    }
    (Ok(cards), touched)
}

/// The UUID of one slice; none for a declared one.
fn slice_of(
    nvml: Option<&Nvml>,
    found: &[Card],
    merged: &[Card],
    wanted: &CardUse,
    held: &[CardUse],
    touched: &mut bool,
) -> Result<Option<String>, Misfit> {
    let index = wanted.index;
    let profile = wanted.slice.as_deref().unwrap_or_default();
    let Some(card) = merged.iter().find(|card| card.index == index) else {
        return Err(Misfit::gone(format!("card {index} is gone, and so is its slice {profile}")));
    };
    let real = found.iter().find(|real| real.index == index && card.uuid.is_some() && real.uuid == card.uuid);
    if let Some(words) = real.and_then(|real| real.health.trouble()) {
        return Err(Misfit::gone(format!(
            "card {index} is failing, and its slice {profile} with it: {words}"
        )));
    }
    match (&wanted.uuid, wanted.placement, real) {
        (Some(uuid), _, Some(real)) if real.slices.iter().any(|slice| slice.uuid.as_ref() == Some(uuid)) => {
            Ok(Some(uuid.clone()))
        }
        (Some(uuid), ..) => Err(Misfit::gone(format!(
            "slice {profile} ({uuid}) of card {index} is gone: it was destroyed or cut anew"
        ))),
        (None, Some(place), Some(_)) => {
            let Some(nvml) = nvml else {
                return Err(Misfit {
                    reason: Reason::LaunchFailure,
                    detail: format!("card {index} cannot be cut: the NVIDIA driver does not answer"),
                });
            };
            *touched = true;
            let cut = nvml.cut(index, profile, place, held);
            cut.map(|slice| slice.uuid)
                .map_err(|e| Misfit { reason: e.reason(), detail: format!("{profile} cannot be cut: {e}") })
        }
        // Declared alone: nothing is cut, and the job is told the card's index.
        (None, _, None) | (None, None, Some(_)) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::bounded;
    use gq_model::{JobId, RunNumber, TaskIndex};

    fn run(job: u64) -> Assignment {
        let json = serde_json::json!({
            "key": {"job": job, "task": 0, "run": 1}, "boot": "00000000000000000000000000000003", "node": "ws1", "uid": 1,
            "job_file": "jobs/00/1.job", "sha256": "", "partition": "main", "cluster": "lab", "cpus": 1, "memory": 1,
            "cards": [{"index": 0, "slice": "1g.10gb", "placement": {"start": 6, "size": 1}}], "kill_wait": 1
        });
        serde_json::from_value(json).unwrap()
    }

    fn key(job: u64) -> RunKey {
        RunKey { job: JobId(job), task: TaskIndex(0), run: RunNumber(1) }
    }

    #[test]
    fn a_run_waits_for_its_slices_and_not_for_ever() {
        let (ask, asked) = bounded(2);
        let mut fitting = Fitting::asking(ask);
        let begin = Instant::now();
        let later = begin + Duration::from_secs(1);
        assert!(fitting.enter(&run(1), Vec::new(), begin) && fitting.enter(&run(2), Vec::new(), later));
        assert!(!fitting.enter(&run(3), Vec::new(), later), "the thread is busy");
        assert_eq!(asked.try_iter().count(), 2);

        let fitted = vec![CardUse { uuid: Some("MIG-1".to_owned()), ..run(1).cards.remove(0) }];
        assert_eq!(fitting.told(key(1), fitted.clone()).unwrap().cards, fitted);
        assert!(fitting.told(key(1), fitted.clone()).is_none(), "once");
        assert_eq!(fitting.overdue(begin + PATIENCE), []);
        assert_eq!(fitting.overdue(later + PATIENCE), [key(2)]);
        // What was given up is not launched when its slice comes after all, nor refused twice.
        assert!(fitting.told(key(2), fitted).is_none() && !fitting.give_up(key(2)));
    }
}
