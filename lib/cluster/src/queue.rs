//! The queue: jobs that wait and may start, grouped by shape and payer, each group in order of place. An index, not a state.

use crate::{Job, Payer, Shape};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};
use core::cmp::Reverse;
use gq_model::{JobId, Timestamp};

/// A job's place in its group: its own part of the priority first, then the time of submission, then the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Higher goes first.
    pub priority: Reverse<i64>,
    /// Earlier goes first.
    pub submitted: Timestamp,
    /// Lower goes first.
    pub job: JobId,
}

impl Place {
    /// The place of `job`.
    pub fn of(job: &Job) -> Self {
        Self { priority: Reverse(job.priority), submitted: job.submitted, job: job.id }
    }
}

/// Names a group or shape while it lives: a place in a list, and a number that is never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The place in the list; used again when the group is gone.
    pub at: u32,
    /// The number; 0 names nothing.
    pub serial: u64,
}

/// Waiting jobs that are one question: one shape, one payer.
#[derive(Clone, Debug)]
pub struct Group {
    /// What matters for placement.
    pub shape: Arc<Shape>,
    /// Names the shape: groups of several payers share one.
    pub shape_key: Key,
    /// On whose account.
    pub payer: Arc<Payer>,
    /// The first job in line.
    pub head: Place,
    /// The jobs, in order.
    pub jobs: BTreeSet<Place>,
}

/// A list whose places are used again.
#[derive(Clone, Debug)]
struct Shelf<T> {
    places: Vec<Option<(u64, T)>>,
    free: Vec<u32>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Shelf<T> {
    fn put(&mut self, serial: u64, value: T) -> Key {
        let at = self.free.pop().unwrap_or(u32::try_from(self.places.len()).unwrap_or(u32::MAX));
        match self.places.get_mut(at as usize) {
            Some(place) => *place = Some((serial, value)),
            None => self.places.push(Some((serial, value))),
        }
        Key { at, serial }
    }
    fn get(&self, key: Key) -> Option<&T> {
        self.places
            .get(key.at as usize)?
            .as_ref()
            .filter(|(serial, _)| *serial == key.serial)
            .map(|(_, it)| it)
    }
    fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let place = self.places.get_mut(key.at as usize)?.as_mut();
        place.filter(|(serial, _)| *serial == key.serial).map(|(_, it)| it)
    }
    fn take(&mut self, key: Key) -> Option<T> {
        self.get(key)?;
        self.free.push(key.at);
        self.places.get_mut(key.at as usize)?.take().map(|(_, it)| it)
    }
    fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        let key = |(at, place): (usize, &'_ Option<(u64, T)>)| {
            place
                .as_ref()
                .map(|(serial, _)| Key { at: u32::try_from(at).unwrap_or(u32::MAX), serial: *serial })
        };
        self.places.iter().enumerate().filter_map(move |place| Some((key(place)?, &place.1.as_ref()?.1)))
    }
}

/// A shape's name, and the groups of the payers who wait with it.
type Payers = (Key, BTreeMap<Arc<Payer>, Key>);

/// Jobs that wait and may start, and those that wait for a time to come.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    groups: Shelf<Group>,
    by_content: BTreeMap<Arc<Shape>, Payers>,
    shape_places: Shelf<()>,
    later: BTreeSet<(Timestamp, JobId)>,
    serial: u64,
    count: usize,
}

impl Queue {
    /// Each group that waits.
    pub fn groups(&self) -> impl Iterator<Item = (Key, &Group)> {
        self.groups.iter()
    }
    /// A group.
    pub fn group(&self, key: Key) -> Option<&Group> {
        self.groups.get(key)
    }
    /// How many jobs wait and may start.
    pub fn len(&self) -> usize {
        self.count
    }
    /// Whether no job waits that may start.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
    /// The shape that waiting jobs share, when some wait with this one.
    pub fn shared(&self, shape: &Shape) -> Option<Arc<Shape>> {
        self.by_content.get_key_value(shape).map(|(shared, _)| Arc::clone(shared))
    }
    /// The payer that waiting jobs of this shape share, when some wait with this one.
    pub fn shared_payer(&self, shape: &Shape, payer: &Payer) -> Option<Arc<Payer>> {
        let (_, payers) = self.by_content.get(shape)?;
        payers.get_key_value(payer).map(|(shared, _)| Arc::clone(shared))
    }
    /// The last in line of this shape and payer.
    pub fn last(&self, shape: &Shape, payer: &Payer) -> Option<JobId> {
        let (_, payers) = self.by_content.get(shape)?;
        self.groups.get(*payers.get(payer)?)?.jobs.last().map(|place| place.job)
    }
    /// The next time that a job may not start before, and the job.
    pub fn next_ripe(&self) -> Option<(Timestamp, JobId)> {
        self.later.first().copied()
    }
    /// All jobs whose time has come by `now`.
    pub fn ripe(&self, now: Timestamp) -> impl Iterator<Item = JobId> + '_ {
        self.later.iter().take_while(move |(at, _)| *at <= now).map(|(_, job)| *job)
    }

    pub(crate) fn file(&mut self, job: &mut Job) {
        if job.is_eligible() {
            let key = self.group_of(job);
            job.group = key;
            let place = Place::of(job);
            if let Some(group) = self.groups.get_mut(key)
                && group.jobs.insert(place)
            {
                group.head = group.head.min(place);
                self.count = self.count.saturating_add(1);
            }
        }
        if let Some(at) = job.ripens() {
            self.later.insert((at, job.id));
        }
    }

    /// The group of this job's shape and payer; a new one if nobody waits like it.
    fn group_of(&mut self, job: &Job) -> Key {
        if let Some(group) = self.groups.get(job.group)
            && (Arc::ptr_eq(&group.shape, &job.shape) || group.shape == job.shape)
            && (Arc::ptr_eq(&group.payer, &job.payer) || group.payer == job.payer)
        {
            return job.group;
        }
        let entry = match self.by_content.get_mut(&job.shape) {
            Some(entry) => entry,
            None => {
                self.serial += 1;
                let key = self.shape_places.put(self.serial, ());
                self.by_content.entry(Arc::clone(&job.shape)).or_insert((key, BTreeMap::new()))
            }
        };
        if let Some(key) = entry.1.get(&job.payer) {
            return *key;
        }
        self.serial += 1;
        let group = Group {
            shape: Arc::clone(&job.shape),
            shape_key: entry.0,
            payer: Arc::clone(&job.payer),
            head: Place::of(job),
            jobs: BTreeSet::new(),
        };
        let key = self.groups.put(self.serial, group);
        entry.1.insert(Arc::clone(&job.payer), key);
        key
    }

    pub(crate) fn unfile(&mut self, job: &Job) {
        if let Some(group) = self.groups.get_mut(job.group) {
            if group.jobs.remove(&Place::of(job)) {
                self.count = self.count.saturating_sub(1);
            }
            match group.jobs.first() {
                Some(first) => group.head = *first,
                None => self.forget(job.group),
            }
        }
        if let Some(at) = job.ripens() {
            self.later.remove(&(at, job.id));
        }
    }

    fn forget(&mut self, key: Key) {
        let Some(group) = self.groups.take(key) else { return };
        let Some((shape_key, payers)) = self.by_content.get_mut(&group.shape) else { return };
        payers.remove(&group.payer);
        if payers.is_empty() {
            self.shape_places.take(*shape_key);
            self.by_content.remove(&group.shape);
        }
    }
}
