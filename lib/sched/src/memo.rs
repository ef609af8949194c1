//! Memory of shapes: where jobs of a shape may be at all, and when they were last found to fit nowhere. Never decides anything.

use crate::{
    place::{could_ever_with, eligible_by_name},
    priority,
    seats::Seats,
    share::Ranks,
};
use alloc::vec::Vec;
use gq_cluster::{Cluster, Group, Key, Policy, Shape};

/// What is known of a shape that waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    serial: u64,
    /// The partition's position in the policy; none if there is no such partition.
    pub(crate) partition: Option<u32>,
    /// Whether it asks for licences.
    pub(crate) licensed: bool,
    /// Cpus and cards (or slices) that one task asks for at least.
    pub(crate) least: (u32, u32),
    /// Seats it may be on, by name and size: one bit each.
    pub(crate) eligible: Vec<u64>,
    /// Classes of nodes with cards that it may have, in the order they are to be tried.
    pub(crate) classes: Vec<u32>,
    /// Eligible seats of no class.
    pub(crate) others: Vec<u32>,
    /// The last pass in which it fitted nowhere.
    pub(crate) failed: u64,
    /// The state of health (see [`Seats::health`]) in which no node could run it even when empty.
    pub(crate) unable: u64,
}

impl Known {
    /// Whether a seat is one it may be on.
    pub(crate) fn may_be_on(&self, seat: u32) -> bool {
        self.eligible.get(seat as usize / 64).is_some_and(|word| word >> (seat % 64) & 1 == 1)
    }
    /// Every seat it may be on.
    pub(crate) fn seats(&self) -> impl Iterator<Item = u32> + '_ {
        let bits = |(at, word): (usize, &u64)| {
            let (base, mut rest) = (u32::try_from(at * 64).unwrap_or(u32::MAX), *word);
            core::iter::from_fn(move || {
                let bit = rest.trailing_zeros();
                (rest != 0).then(|| {
                    rest &= rest - 1;
                    base.saturating_add(bit)
                })
            })
        };
        self.eligible.iter().enumerate().flat_map(bits)
    }
}

/// What is the same for all jobs of a group.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standing {
    serial: u64,
    /// Priority by size, partition, QOS and fair share.
    fixed: i64,
    /// The part of it that is the partition's, the QOS's and the tier's.
    rank: i64,
    /// As of which ranking.
    ranking: i64,
}

/// What is remembered of shapes and groups.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memo {
    known: Vec<Known>,
    standings: Vec<Standing>,
    pass: u64,
    /// Whether this pass may build on the one before, and whether the next one may not.
    sure: bool,
    doubted: bool,
}

impl Memo {
    /// A new one that remembers nothing, after another.
    pub(crate) fn after(other: &Self) -> Self {
        Self { pass: other.pass.saturating_add(2), ..Self::default() }
    }
    pub(crate) fn next_pass(&mut self) {
        self.pass = self.pass.saturating_add(1);
        self.sure = !self.doubted;
        self.doubted = false;
    }
    /// What failed before may not fail now: everything is to be asked again, in this pass and the next.
    pub(crate) fn doubt(&mut self) {
        self.pass = self.pass.saturating_add(1);
        (self.sure, self.doubted) = (false, true);
    }
    /// Whether there is room only where a seat was opened since the pass before.
    pub(crate) fn is_sure(&self) -> bool {
        self.sure
    }

    /// Whether a shape fitted nowhere in the pass before this one. Licences come back on whatever node: who asks for some is always asked
    /// again.
    pub(crate) fn failed_before(&self, known: &Known) -> bool {
        known.failed != 0 && !known.licensed && known.failed.saturating_add(1) >= self.pass
    }

    /// What is known of a group's shape; learnt now if it is new.
    pub(crate) fn known(
        &mut self,
        seats: &Seats,
        cluster: &Cluster,
        policy: &Policy,
        group: &Group,
    ) -> Option<&Known> {
        let Key { at, serial } = group.shape_key;
        let at = at as usize;
        if self.known.len() <= at {
            self.known.resize_with(at + 1, Known::default);
        }
        let known = self.known.get_mut(at)?;
        if known.serial != serial {
            *known = learn(seats, cluster, policy, &group.shape);
            known.serial = serial;
        }
        Some(known)
    }
    pub(crate) fn at(&self, key: Key) -> Option<&Known> {
        self.known.get(key.at as usize).filter(|known| known.serial == key.serial)
    }
    fn at_mut(&mut self, key: Key) -> Option<&mut Known> {
        self.known.get_mut(key.at as usize).filter(|known| known.serial == key.serial)
    }
    /// Notes that a shape fits nowhere now.
    pub(crate) fn failed(&mut self, key: Key) {
        let pass = self.pass;
        if let Some(known) = self.at_mut(key) {
            known.failed = pass;
        }
    }
    /// Notes in what state of health no node could run a shape.
    pub(crate) fn unable(&mut self, key: Key, health: u64) {
        if let Some(known) = self.at_mut(key) {
            known.unable = health;
        }
    }

    /// The part of a group's priority that is the same until users are ranked anew, and of that the part by partition, QOS and tier.
    pub(crate) fn fixed_priority(
        &mut self,
        policy: &Policy,
        ranks: &Ranks,
        key: Key,
        group: &Group,
    ) -> (i64, i64) {
        let at = key.at as usize;
        if self.standings.len() <= at {
            self.standings.resize_with(at + 1, Standing::default);
        }
        let Some(standing) = self.standings.get_mut(at) else { return (0, 0) };
        if standing.serial != key.serial || standing.ranking != ranks.number() {
            let factors = priority::of_group(policy, &group.shape, &group.payer);
            let share = priority::of_rank(&policy.weights, ranks.of(&group.payer));
            let lead = crate::preempt::lead(policy, &group.payer);
            let rank = factors.partition.saturating_add(factors.qos).saturating_add(lead);
            let fixed = factors.total.saturating_add(share).saturating_add(lead);
            *standing = Standing { serial: key.serial, fixed, rank, ranking: ranks.number() };
        }
        (standing.fixed, standing.rank)
    }
}

/// Finds out where jobs of a shape may be.
pub(crate) fn learn(seats: &Seats, cluster: &Cluster, policy: &Policy, shape: &Shape) -> Known {
    let partition = policy.partitions.iter().position(|p| p.name == shape.partition);
    let mut known = Known {
        partition: partition.and_then(|at| u32::try_from(at).ok()),
        licensed: !shape.licences.is_empty(),
        least: (shape.demand.cpus, shape.demand.cards.count),
        eligible: alloc::vec![0; seats.len().div_ceil(64)],
        ..Known::default()
    };
    let mut classes: Vec<u32> = Vec::new();
    for (index, seat) in seats.iter() {
        let Some(node) = cluster.node_at(seat.place) else { continue };
        if !eligible_by_name(shape, node, policy)
            || !could_ever_with(shape, (node.cpus, node.memory), (&**node).into(), policy)
        {
            continue;
        }
        if let Some(word) = known.eligible.get_mut(index as usize / 64) {
            *word |= 1 << (index % 64);
        }
        match seat.class {
            Some(class) if !classes.contains(&class) => classes.push(class),
            Some(_) => {}
            None => known.others.push(index),
        }
    }
    let rank = |class: &u32| {
        let class = seats.classes.get(*class as usize);
        let wanted = shape.demand.cards.count > 0;
        class.map(|c| (if wanted { c.memory } else { gq_model::MiB(0) }, c.cards, c.model.clone()))
    };
    classes.sort_by_key(rank);
    known.classes = classes;
    known
}
