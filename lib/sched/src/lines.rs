//! Lines: the groups of waiting jobs, each with its first job, in the order they are looked at. Never decides who starts.

use crate::{
    memo::Known,
    pass::Pass,
    priority::{BEHIND, most, of_age},
};
use alloc::{
    collections::{BinaryHeap, btree_set},
    vec::Vec,
};
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

impl<'a> Pass<'a> {
    /// The place of a group's job among all. Who was promised a start keeps his place before all of his partition, QOS and nice value: what is
    /// smaller or newer does not push him back.
    pub(crate) fn order(&mut self, key: Key, group: &Group, place: Place) -> Order {
        let (policy, now) = (self.ground.policy, self.ground.now);
        let (fixed, rank) = self.memo.fixed_priority(policy, self.ranks, key, group);
        let sum = if self.promised.contains(&place.job) {
            rank.saturating_add(most(&policy.weights))
        } else {
            fixed.saturating_add(of_age(&policy.weights, place.submitted, now))
        };
        let sum = sum.saturating_add(place.priority.0);
        let behind = self.bounds.is_behind(&group.shape, &group.payer);
        (Reverse(if behind { sum.saturating_sub(BEHIND) } else { sum }), place.submitted, place.job)
    }

    /// Whether a task of a shape may fit where there is more room than in the pass before, as far as can be told at a glance.
    pub(crate) fn glance(&self, known: &Known, most: (u32, u32)) -> bool {
        let (cpus, cards) = known.least;
        let fits = |index: &u32| {
            known.may_be_on(*index)
                && self.ground.seats.get(*index).is_some_and(|seat| {
                    seat.open && seat.cpus_free() >= cpus && seat.units_free().count_ones() >= cards
                })
        };
        cpus <= most.0
            && cards <= most.1
            && (self.ground.seats.opened.iter().any(fits) || self.freed.iter().any(fits))
    }

    /// The most cpus and the most units of cards that are free on one seat with more room than in the pass before.
    pub(crate) fn most_room(&self) -> (u32, u32) {
        let seats = self
            .ground
            .seats
            .opened
            .iter()
            .chain(&self.freed)
            .filter_map(|index| self.ground.seats.get(*index));
        let open = seats.filter(|seat| seat.open);
        open.fold((0, 0), |most, seat| {
            (most.0.max(seat.cpus_free()), most.1.max(seat.units_free().count_ones()))
        })
    }

    /// The first job of every group: those that may fit, and those that are known not to.
    pub(crate) fn lines(&mut self) -> Lines<'a> {
        let (cluster, policy) = (self.ground.cluster, self.ground.policy);
        let starts: Vec<bool> = policy.partitions.iter().map(|p| p.state.starts()).collect();
        let most = self.most_room();
        let (mut may, mut not) = (Vec::new(), Vec::new());
        let mut count = 0u32;
        for (key, group) in cluster.queue().groups() {
            count += 1;
            let Some(known) = self.memo.known(self.ground.seats, cluster, policy, group) else { continue };
            if !known.partition.and_then(|at| starts.get(at as usize)).is_some_and(|starts| *starts) {
                continue;
            }
            let Some(known) = self.memo.at(group.shape_key) else { continue };
            let partition = known.partition.unwrap_or_default();
            let failed = self.memo.failed_before(known);
            let may_fit = !failed || self.glance(known, most);
            let order = self.order(key, group, group.head);
            if may_fit {
                may.push(Line { order, key, group, rest: None, may_fit, failed });
            } else {
                self.memo.failed(group.shape_key);
                not.push(Reverse((order, key)));
                self.note_blocked(partition);
            }
        }
        self.plan.outlook.effort.groups = count;
        let failed = may.iter().filter(|line: &&Line<'_>| line.failed).count();
        Lines { may: BinaryHeap::from(may), not: BinaryHeap::from(not), failed }
    }

    /// Something was started: of those that may fit only where there is more room, many may not any more.
    pub(crate) fn thin_out(&mut self, lines: &mut Lines<'a>) {
        let most = self.most_room();
        let may_fit = |line: &Line<'_>| {
            !line.failed || self.memo.at(line.group.shape_key).is_some_and(|known| self.glance(known, most))
        };
        let (may, not): (Vec<Line<'a>>, Vec<Line<'a>>) =
            core::mem::take(&mut lines.may).into_iter().partition(may_fit);
        lines.failed = may.iter().filter(|line| line.failed).count();
        lines.may = BinaryHeap::from(may);
        for line in &not {
            let known = self.memo.at(line.group.shape_key);
            let partition = known.and_then(|known| known.partition).unwrap_or_default();
            self.note_blocked(partition);
        }
        lines.not.extend(not.into_iter().map(|line| Reverse((line.order, line.key))));
    }

    /// No reservations are left to be made: of those known not to fit, only they count that may fit where one was given up.
    pub(crate) fn wake(&mut self, lines: &mut Lines<'a>) {
        let not = core::mem::take(&mut lines.not);
        let most = self.most_room();
        for Reverse((order, key)) in not {
            let Some(group) = self.ground.cluster.queue().group(key) else { continue };
            let known = self.memo.at(group.shape_key);
            if known.is_some_and(|known| self.glance(known, most)) {
                lines.may.push(Line { order, key, group, rest: None, may_fit: true, failed: true });
                lines.failed += 1;
            } else {
                self.memo.failed(group.shape_key);
            }
        }
    }
}
