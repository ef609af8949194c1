//! The queue: jobs that wait and may start, grouped by shape, each group in order of place. An index, not a state.

use crate::{Job, Shape};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use core::cmp::Reverse;
use gq_model::{JobId, Timestamp};

/// A job's place: priority first, then the time of submission, then the id.
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

/// Jobs that wait and may start, and those that wait for a time to come.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    shapes: BTreeMap<Arc<Shape>, BTreeSet<Place>>,
    later: BTreeSet<(Timestamp, JobId)>,
    count: usize,
}

impl Queue {
    /// Each shape that waits, with its jobs in order of place.
    pub fn shapes(&self) -> impl Iterator<Item = (&Arc<Shape>, &BTreeSet<Place>)> {
        self.shapes.iter()
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
        self.shapes.get_key_value(shape).map(|(shared, _)| Arc::clone(shared))
    }
    /// The last in line of this shape.
    pub fn last(&self, shape: &Shape) -> Option<JobId> {
        self.shapes.get(shape)?.last().map(|place| place.job)
    }
    /// The next time that a job may not start before, and the job.
    pub fn next_ripe(&self) -> Option<(Timestamp, JobId)> {
        self.later.first().copied()
    }
    /// All jobs whose time has come by `now`.
    pub fn ripe(&self, now: Timestamp) -> impl Iterator<Item = JobId> + '_ {
        self.later.iter().take_while(move |(at, _)| *at <= now).map(|(_, job)| *job)
    }

    pub(crate) fn file(&mut self, job: &Job) {
        if job.is_eligible() {
            let group = match self.shapes.get_mut(&job.shape) {
                Some(group) => group,
                None => self.shapes.entry(Arc::clone(&job.shape)).or_default(),
            };
            if group.insert(Place::of(job)) {
                self.count = self.count.saturating_add(1);
            }
        } else if let (None, false, Some(at)) = (job.held, job.waiting.is_empty(), job.not_before) {
            self.later.insert((at, job.id));
        }
    }

    pub(crate) fn unfile(&mut self, job: &Job) {
        if let Some(group) = self.shapes.get_mut(&job.shape) {
            if group.remove(&Place::of(job)) {
                self.count = self.count.saturating_sub(1);
            }
            if group.is_empty() {
                self.shapes.remove(&job.shape);
            }
        }
        if let Some(at) = job.not_before {
            self.later.remove(&(at, job.id));
        }
    }
}
