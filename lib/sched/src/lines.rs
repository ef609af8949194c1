//! Lines: the groups of waiting jobs, each with its first job, in the order they are looked at. Never decides who starts.

use alloc::collections::{BinaryHeap, btree_set};
use core::cmp::Reverse;
use gq_cluster::{Cluster, Group, Key, Place};
use gq_model::{JobId, Timestamp};

/// The next job of a group.
pub(crate) struct Line<'a> {
    pub(crate) order: Order,
    pub(crate) key: Key,
    pub(crate) group: &'a Group,
    pub(crate) rest: Option<btree_set::Iter<'a, Place>>,
    /// Whether it may fit somewhere now.
    pub(crate) may_fit: bool,
    /// Whether it may fit only where there is more room than in the pass before.
    pub(crate) failed: bool,
}

/// The place of a job among all: priority, then submission, then id.
pub(crate) type Order = (Reverse<i64>, Timestamp, JobId);

impl PartialEq for Line<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}
impl Eq for Line<'_> {}
impl PartialOrd for Line<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Line<'_> {
    /// A heap hands out the greatest: who goes first.
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        other.order.cmp(&self.order)
    }
}

/// Lines by whether they may fit now.
pub(crate) struct Lines<'a> {
    pub(crate) may: BinaryHeap<Line<'a>>,
    /// The first of each group that is known not to fit.
    pub(crate) not: BinaryHeap<Reverse<(Order, Key)>>,
    /// How many of those that may fit do so only where there is more room than in the pass before.
    pub(crate) failed: usize,
}

impl<'a> Lines<'a> {
    /// Takes the line that goes first out.
    pub(crate) fn next(&mut self, cluster: &'a Cluster) -> Option<Line<'a>> {
        let blocked_first = match (self.may.peek(), self.not.peek()) {
            (Some(may), Some(Reverse((order, _)))) => *order < may.order,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        if !blocked_first {
            return self.may.pop();
        }
        let Reverse((order, key)) = self.not.pop()?;
        let group = cluster.queue().group(key)?;
        Some(Line { order, key, group, rest: None, may_fit: false, failed: true })
    }
}

/// With so few seats to look at again, whoever does not fit there is told apart at once after every start.
pub(crate) const FEW_SEATS: usize = 4;
