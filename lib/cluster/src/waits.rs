//! Waits: what a job waits for of other jobs, and how far that is. Whether a condition is met is the engine's to find; this room keeps it,
//! and who has to be told when a job goes on.

use crate::Job;
use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};
use gq_model::{IndexSet, JobId, Term, Uid, When};
use serde::{Deserialize, Serialize};

/// What became of a condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    /// It may be met yet.
    #[default]
    Open,
    /// It is met.
    Met,
    /// It can no longer be met.
    Never,
}

/// One condition, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// What it is, as it was asked; what goes task by task only between two arrays.
    pub term: Term,
    /// What became of it. One that is task by task ([`When::AfterCorr`]) is closed when nothing is left of it.
    #[serde(default)]
    pub fate: Fate,
    /// Of one on some tasks: those that have not come so far. Of one task by task: the job's own tasks that wait for it.
    #[serde(default, skip_serializing_if = "IndexSet::is_empty")]
    pub left: IndexSet,
    /// Whether some of those it is about did not complete.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub failed: bool,
    /// Of one task by task: the job's own tasks for which it can no longer be met.
    #[serde(default, skip_serializing_if = "IndexSet::is_empty")]
    pub never: IndexSet,
}

impl Condition {
    /// A condition of which nothing is known yet.
    pub fn new(term: Term) -> Self {
        Self { term, fate: Fate::Open, left: IndexSet::default(), failed: false, never: IndexSet::default() }
    }
    /// Whether it holds back tasks one by one, not the job.
    pub fn is_by_task(&self) -> bool {
        matches!(self.term, Term::Job { when: When::AfterCorr, .. })
    }
}

/// All conditions of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// Whether one of them is enough.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub any: bool,
    /// The conditions, as they were asked.
    pub conditions: Vec<Condition>,
}

impl Waits {
    /// What became of all together, for the job as a whole.
    pub fn fate(&self) -> Fate {
        let mut whole = self.conditions.iter().filter(|condition| !condition.is_by_task()).peekable();
        if whole.peek().is_none() {
            return Fate::Met;
        }
        let (enough, spoils) = if self.any { (Fate::Met, Fate::Never) } else { (Fate::Never, Fate::Met) };
        let fates: Vec<Fate> = whole.map(|condition| condition.fate).collect();
        if fates.contains(&enough) {
            enough
        } else if fates.iter().all(|fate| *fate == spoils) {
            spoils
        } else {
            Fate::Open
        }
    }
    /// Tasks of the job that are held back one by one.
    pub fn barred(&self) -> IndexSet {
        let by_task = self.conditions.iter().filter(|condition| condition.is_by_task());
        by_task.fold(IndexSet::default(), |all, condition| all.or(&condition.left).or(&condition.never))
    }
    /// Tasks of the job for which it can no longer be met.
    pub fn never(&self) -> IndexSet {
        self.conditions.iter().fold(IndexSet::default(), |all, condition| all.or(&condition.never))
    }
    /// The jobs that something may still be heard of.
    fn open_on(&self) -> impl Iterator<Item = JobId> + '_ {
        self.conditions.iter().filter(|condition| condition.fate == Fate::Open).filter_map(|condition| {
            match &condition.term {
                Term::Job { on, .. } => Some(on.job),
                Term::Singleton => None,
            }
        })
    }
}

/// Who waits for whom: an index, not a state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dependents {
    /// Jobs that wait for something of a job.
    of: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Live jobs of a user by name.
    alike: BTreeMap<(Uid, String), BTreeSet<JobId>>,
}

impl Dependents {
    pub(crate) fn enter(&mut self, job: &Job) {
        for other in job.waits.iter().flat_map(Waits::open_on) {
            self.of.entry(other).or_default().insert(job.id);
        }
        match self.alike.get_mut(&(job.uid, job.spec.name.clone())) {
            Some(ids) => drop(ids.insert(job.id)),
            None => drop(self.alike.insert((job.uid, job.spec.name.clone()), BTreeSet::from([job.id]))),
        }
    }

    pub(crate) fn leave(&mut self, job: &Job) {
        for other in job.waits.iter().flat_map(|waits| &waits.conditions) {
            if let Term::Job { on, .. } = &other.term {
                take(&mut self.of, &on.job, job.id);
            }
        }
        take(&mut self.alike, &(job.uid, job.spec.name.clone()), job.id);
    }

    pub(crate) fn of(&self, job: JobId) -> impl Iterator<Item = JobId> + '_ {
        self.of.get(&job).into_iter().flatten().copied()
    }

    pub(crate) fn alike(&self, uid: Uid, name: &str) -> impl Iterator<Item = JobId> + '_ {
        self.alike.get(&(uid, String::from(name))).into_iter().flatten().copied()
    }
}

fn take<K: Ord>(map: &mut BTreeMap<K, BTreeSet<JobId>>, key: &K, id: JobId) {
    if let Some(ids) = map.get_mut(key) {
        ids.remove(&id);
        if ids.is_empty() {
            map.remove(key);
        }
    }
}
