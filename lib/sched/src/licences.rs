//! Licences: how many of each are free, now and later. Reservations hold them like cards, so that nobody starves for want of one.

use alloc::{collections::BTreeMap, string::String, vec::Vec};
use gq_cluster::{Cluster, Policy};
use gq_model::{LicenceAsk, Seconds, Timestamp};

/// A hold on licences for a span of time.
#[derive(Clone, Debug)]
struct Hold {
    from: Timestamp,
    until: Timestamp,
    count: u32,
}

/// All licences of the cluster as of a pass.
#[derive(Default)]
pub(crate) struct Licences {
    pools: BTreeMap<String, (u32, Vec<Hold>)>,
}

impl Licences {
    pub(crate) fn of(cluster: &Cluster, policy: &Policy, now: Timestamp) -> Self {
        let mut licences = Self::default();
        if policy.licences.is_empty() {
            return licences;
        }
        licences.pools =
            policy.licences.iter().map(|(name, count)| (name.clone(), (*count, Vec::new()))).collect();
        for (until, job, _) in cluster.ledger().licence_ends() {
            let Some(job) = cluster.job(*job) else { continue };
            licences.hold(&job.shape.licences, Timestamp(i64::MIN), (*until).max(now.after(Seconds(1))));
        }
        licences
    }

    fn hold(&mut self, asks: &[LicenceAsk], from: Timestamp, until: Timestamp) {
        for ask in asks {
            if let Some((_, holds)) = self.pools.get_mut(&ask.name) {
                holds.push(Hold { from, until, count: ask.count });
            }
        }
    }

    /// Takes licences for a start or a reservation.
    pub(crate) fn claim(&mut self, asks: &[LicenceAsk], from: Timestamp, span: Seconds) {
        self.hold(asks, from, from.after(span));
    }

    /// Gives back what a reservation took.
    pub(crate) fn unclaim(&mut self, asks: &[LicenceAsk], from: Timestamp, span: Seconds) {
        let until = from.after(span);
        for ask in asks {
            let Some((_, holds)) = self.pools.get_mut(&ask.name) else { continue };
            let is_it = |hold: &Hold| hold.from == from && hold.until == until && hold.count == ask.count;
            if let Some(at) = holds.iter().position(is_it) {
                holds.swap_remove(at);
            }
        }
    }

    /// Whether all that is asked for is free from `from` for the whole span.
    pub(crate) fn are_free(&self, asks: &[LicenceAsk], from: Timestamp, span: Seconds) -> bool {
        let until = from.after(span);
        asks.iter().all(|ask| {
            let Some((most, holds)) = self.pools.get(&ask.name) else { return false };
            let begins = holds.iter().map(|hold| hold.from).filter(|at| *at > from && *at < until);
            core::iter::once(from).chain(begins).all(|at| {
                let held = holds.iter().filter(|hold| hold.from <= at && hold.until > at);
                held.fold(ask.count, |sum, hold| sum.saturating_add(hold.count)) <= *most
            })
        })
    }

    /// The earliest time from `from` on at which all that is asked for is free for the whole span; none if there never are so many.
    pub(crate) fn earliest(&self, asks: &[LicenceAsk], from: Timestamp, span: Seconds) -> Option<Timestamp> {
        let ends = asks.iter().filter_map(|ask| self.pools.get(&ask.name)).flat_map(|(_, holds)| holds);
        let mut moments: Vec<Timestamp> = ends.map(|hold| hold.until).filter(|at| *at > from).collect();
        moments.sort_unstable();
        core::iter::once(from).chain(moments).find(|at| self.are_free(asks, *at, span))
    }
}

/// Whether the cluster has that many at all.
pub(crate) fn exist(policy: &Policy, asks: &[LicenceAsk]) -> bool {
    asks.iter().all(|ask| policy.licences.get(&ask.name).is_some_and(|count| *count >= ask.count))
}
