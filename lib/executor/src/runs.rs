//! What is known of each run outside the node's mind: its supervisor's process, how its processes are found when
//! that supervisor is dead, and the cards it was given. It never says what state a run is in.

use crate::{
    meter::{Held, Ruled},
    sharing::Sharer,
    watcher::Watcher,
};
use gq_host::{Control, Group, Remains, Supervisor, run_marker};
use gq_model::{Assignment, CardUse, IdleRule, RunKey, Uid};
use gq_nodelog::{Record, Taken};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

/// What is known of the processes of one run.
#[derive(Debug)]
struct Facts {
    remains: Remains,
    /// The supervisor's process and its beginning.
    up: Option<(u32, u64)>,
    /// The number under which its supervisor is watched.
    watched: Option<u64>,
    /// Whether its folder may hold more than an empty script: nobody of this life saw its supervisor end well.
    is_untidy: bool,
}

/// All runs.
#[derive(Debug, Default)]
pub struct Runs {
    facts: BTreeMap<RunKey, Facts>,
    watched: BTreeMap<u64, (RunKey, Supervisor)>,
    /// The cards that each run was given.
    held: BTreeMap<RunKey, Vec<CardUse>>,
    /// When the cards of runs count as idle, where somebody asks.
    rules: BTreeMap<RunKey, IdleRule>,
    /// Runs whose supervisor lives (its folder is locked) and cannot be watched: its process is not known yet.
    unseen: BTreeSet<RunKey>,
}

impl Runs {
    /// Learns from a record of the log.
    pub fn note(&mut self, record: &Record) {
        match record {
            Record::Taken { what: Taken::Start(assignment), .. } => {
                self.enter(assignment);
                self.leave_untidy(assignment.key);
                self.hold(assignment.key, &assignment.cards);
                self.judge(assignment.key, assignment.idle);
            }
            Record::Up { key, pid, pid_start } => {
                if let Some(facts) = self.facts.get_mut(key) {
                    facts.up = Some((*pid, *pid_start));
                }
            }
            Record::Started { key, session, .. } => {
                if let Some(facts) = self.facts.get_mut(key) {
                    facts.remains.session = Some(*session);
                }
            }
            Record::Acked { key } => self.forget(*key),
            Record::Life { .. }
            | Record::Taken { .. }
            | Record::Suspended { .. }
            | Record::Resumed { .. }
            | Record::Exited { .. }
            | Record::Ended { .. }
            | Record::Refused { .. }
            | Record::Vacated { .. } => {}
        }
    }

    /// Learns of a run that is to be launched.
    pub fn enter(&mut self, assignment: &Assignment) {
        self.facts.entry(assignment.key).or_insert_with(|| Facts {
            remains: Remains { marker: run_marker(assignment), uid: assignment.uid, session: None },
            up: None,
            watched: None,
            is_untidy: false,
        });
    }

    /// The folder of a run may hold more than an empty script.
    pub fn leave_untidy(&mut self, key: RunKey) {
        if let Some(facts) = self.facts.get_mut(&key) {
            facts.is_untidy = true;
        }
    }

    /// Whose the folder of a run is, if another run of his may have it.
    pub fn heir(&self, key: RunKey) -> Option<Uid> {
        self.facts.get(&key).filter(|facts| !facts.is_untidy).map(|facts| facts.remains.uid)
    }

    /// Forgets a run; its supervisor is watched on until it is gone.
    pub fn forget(&mut self, key: RunKey) {
        self.facts.remove(&key);
        self.unseen.remove(&key);
        self.held.remove(&key);
        self.rules.remove(&key);
    }

    /// A run was given these cards.
    pub fn hold(&mut self, key: RunKey, cards: &[CardUse]) {
        if !cards.is_empty() {
            self.held.insert(key, cards.to_vec());
        }
    }

    /// When the cards of a run count as idle.
    pub fn judge(&mut self, key: RunKey, rule: Option<IdleRule>) {
        if let Some(rule) = rule {
            self.rules.insert(key, rule);
        }
    }

    /// The runs of which is judged whether their cards are idle, as far as they are at work.
    pub fn ruled(&self, is_at_work: impl Fn(RunKey) -> bool) -> Vec<Ruled> {
        let ruled = self.rules.iter().filter(|(key, _)| is_at_work(**key));
        ruled.map(|(key, rule)| Ruled { key: *key, rule: *rule, cards: self.held_by(*key).len() }).collect()
    }

    /// A run holds its cards no more; returns what it held.
    pub fn release(&mut self, key: RunKey) -> Vec<CardUse> {
        self.held.remove(&key).unwrap_or_default()
    }

    /// The cards of a run.
    pub fn held_by(&self, key: RunKey) -> &[CardUse] {
        self.held.get(&key).map(Vec::as_slice).unwrap_or_default()
    }

    /// The cards of all runs but `key` that live, as `lives` says.
    pub fn held_beside(&self, key: Option<RunKey>, lives: impl Fn(RunKey) -> bool) -> Vec<CardUse> {
        let others = self.held.iter().filter(|(other, _)| Some(**other) != key && lives(**other));
        others.flat_map(|(_, cards)| cards.iter().cloned()).collect()
    }

    /// What the runs hold that live, as `lives` says, by its UUID; `slice_at` tells that of a slice that is known by its place, as after a new
    /// start.
    pub fn held_by_name(
        &self,
        lives: impl Fn(RunKey) -> bool,
        slice_at: impl Fn(&CardUse) -> Option<String>,
    ) -> Vec<Held> {
        let live = self.held.iter().filter(|(key, _)| lives(**key));
        let held = live.flat_map(|(key, cards)| cards.iter().map(|card| (*key, card)));
        let named = |(key, card): (RunKey, &CardUse)| {
            // Before its supervisor is up, another slice may lie there.
            let is_cut = self.facts.get(&key).is_some_and(|facts| facts.up.is_some());
            let found = if card.uuid.is_none() && is_cut { slice_at(card) } else { None };
            let card = CardUse { uuid: card.uuid.clone().or(found), ..card.clone() };
            Held::of(key, &card)
        };
        held.filter_map(named).collect()
    }

    /// The runs that share cards which the driver knows and that live, as `lives` says; `group` tells their control groups.
    pub fn sharers(&self, lives: impl Fn(RunKey) -> bool, group: impl Fn(RunKey) -> Group) -> Vec<Sharer> {
        let held = self.held.iter().flat_map(|(key, cards)| cards.iter().map(|card| (*key, card)));
        let sharer = |(key, card): (RunKey, &CardUse)| {
            let (share, uuid) = card.share.zip(card.uuid.clone())?;
            let facts = self.facts.get(&key).filter(|_| lives(key))?;
            let (remains, supervisor) = (facts.remains.clone(), facts.up.map(|(pid, _)| pid));
            Some(Sharer { key, uuid, declared: share.memory, remains, group: group(key), supervisor })
        };
        held.filter_map(sharer).collect()
    }

    /// How the processes of a run are found.
    pub fn remains(&self, key: RunKey) -> Option<Remains> {
        self.facts.get(&key).map(|facts| facts.remains.clone())
    }

    /// Watches the supervisor of a run. If that cannot be, its death is found by its folder's lock.
    pub fn watch(&mut self, key: RunKey, supervisor: Supervisor, watcher: &mut Watcher) {
        match watcher.watch(&supervisor) {
            Ok(number) => {
                self.watched.insert(number, (key, supervisor));
                if let Some(facts) = self.facts.get_mut(&key) {
                    facts.watched = Some(number);
                }
                self.unseen.remove(&key);
            }
            Err(e) => {
                log::error!("the supervisor of run {key} cannot be watched: {e}");
                self.unseen.insert(key);
            }
        }
    }

    /// Finds and watches the supervisor of a run by what it wrote of itself, if it is not watched yet. A supervisor
    /// whose process is not known is kept in mind as one that lives.
    pub fn find(&mut self, key: RunKey, watcher: &mut Watcher) {
        let Some(facts) = self.facts.get(&key) else { return };
        if facts.watched.is_some() {
            return;
        }
        match facts.up.map(|(pid, start)| Supervisor::find(pid, start)) {
            Some(Ok(Some(supervisor))) => self.watch(key, supervisor, watcher),
            Some(Err(e)) => {
                log::error!("the supervisor of run {key} cannot be found: {e}");
                self.unseen.insert(key);
            }
            Some(Ok(None)) | None => {
                self.unseen.insert(key);
            }
        }
    }

    /// Whether the supervisor of a run lives and is not watched.
    pub fn is_unseen(&self, key: RunKey) -> bool {
        self.unseen.contains(&key)
    }

    /// The runs whose supervisors live and are not watched.
    pub fn unseen(&self) -> Vec<RunKey> {
        self.unseen.iter().copied().collect()
    }

    /// The supervisor of a run is dead, by its folder's lock.
    pub fn lost(&mut self, key: RunKey) {
        self.unseen.remove(&key);
    }

    /// The supervisor watched under `number` has died: takes it from the table of processes and says whose it was.
    pub fn gone(&mut self, number: u64) -> Option<RunKey> {
        let (key, supervisor) = self.watched.remove(&number)?;
        if let Err(e) = supervisor.reap() {
            log::warn!("the dead supervisor of run {key} stays in the table of processes: {e}");
        }
        if let Some(facts) = self.facts.get_mut(&key).filter(|facts| facts.watched == Some(number)) {
            facts.watched = None;
        }
        Some(key)
    }

    /// Tells the supervisor of a run; false when that must be tried again.
    pub fn control(&self, key: RunKey, control: Control) -> bool {
        let Some(facts) = self.facts.get(&key) else { return true };
        let Some((_, supervisor)) = facts.watched.and_then(|number| self.watched.get(&number)) else {
            return !self.unseen.contains(&key);
        };
        match supervisor.send(control) {
            // A dead one: the watcher tells.
            Ok(_) => true,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => false,
            Err(e) => {
                log::error!("the supervisor of run {key} cannot be told {control:?}: {e}");
                true
            }
        }
    }
}
