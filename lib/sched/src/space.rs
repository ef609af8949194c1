//! Space: what is free on one node, now and later: its claims (running jobs, starts of this plan, reservations), each with its
//! span of time. Times are microseconds; a claim's end is when its time limit passes.

use alloc::{collections::BTreeSet, vec::Vec};
use gq_cluster::{Cluster, Memory, Node, Run, Shape};
use gq_model::{Card, MiB, Seconds, Timestamp};

/// How long a job without time limit is taken to run, for planning only.
const UNLIMITED: Seconds = Seconds(365 * 86_400);

/// What a run may take at the longest.
pub(crate) fn span(limit: Option<Seconds>) -> Seconds {
    limit.unwrap_or(UNLIMITED)
}

/// A hold on part of a node for a span of time.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
    pub(crate) cpus: u32,
    pub(crate) memory: MiB,
    pub(crate) cards: Vec<u32>,
    pub(crate) alone: bool,
}

/// One node and its claims.
pub(crate) struct Space<'a> {
    pub(crate) node: &'a Node,
    claims: Vec<Claim>,
    /// Whether some claim lies in the future: then "free now" is not enough.
    has_reservation: bool,
    cpus_free: u32,
    memory_free: MiB,
}

impl<'a> Space<'a> {
    pub(crate) fn of(node: &'a Node, cluster: &Cluster, now: Timestamp) -> Self {
        let mut claims = Vec::with_capacity(node.runs().len());
        for (id, task) in node.runs() {
            let Some(job) = cluster.job(*id) else { continue };
            let Some(run) = job.runs.get(task) else { continue };
            claims.push(claim_of(run, job.shape.time_limit, now));
        }
        Self {
            node,
            claims,
            has_reservation: false,
            cpus_free: node.cpus_free(),
            memory_free: node.memory_free(),
        }
    }

    pub(crate) fn claim(&mut self, claim: Claim, now: Timestamp) {
        if claim.from > now {
            self.has_reservation = true;
        } else {
            self.cpus_free = self.cpus_free.saturating_sub(claim.cpus);
            self.memory_free = self.memory_free.saturating_sub(claim.memory);
        }
        self.claims.push(claim);
    }

    /// Cpus a job of this shape would hold here.
    pub(crate) fn cpus_for(&self, shape: &Shape) -> u32 {
        if shape.demand.exclusive { self.node.cpus } else { shape.demand.cpus }
    }
    /// Memory a job of this shape would hold here.
    pub(crate) fn memory_for(&self, shape: &Shape) -> MiB {
        match shape.demand.memory {
            Memory::Amount(m) => m,
            Memory::WholeNode => self.node.memory,
        }
    }
    pub(crate) fn cpus_free(&self) -> u32 {
        self.cpus_free
    }

    /// The cards that would be free for a job of this shape from `start` for its whole span, if cpus and memory are; `None` when
    /// it does not fit then.
    pub(crate) fn free_cards_at(
        &self,
        shape: &Shape,
        start: Timestamp,
        now: Timestamp,
    ) -> Option<Vec<&'a Card>> {
        let (cpus, memory) = (self.cpus_for(shape), self.memory_for(shape));
        if cpus > self.node.cpus || memory > self.node.memory {
            return None;
        }
        if start <= now && (cpus > self.cpus_free || memory > self.memory_free) {
            return None;
        }
        let end = start.after(span(shape.time_limit));
        let overlapping = || self.claims.iter().filter(|c| c.from < end && c.until > start);
        if overlapping().any(|c| c.alone || shape.demand.exclusive) {
            return None;
        }
        if (start > now || self.has_reservation) && !self.has_room(cpus, memory, start, end) {
            return None;
        }
        if shape.demand.cards.count == 0 {
            return Some(Vec::new());
        }
        let taken: BTreeSet<u32> = overlapping().flat_map(|c| c.cards.iter().copied()).collect();
        Some(self.node.whole_cards().filter(|card| !taken.contains(&card.index)).collect())
    }

    /// Whether cpus and memory suffice at every moment from `start` to `end`: use only grows where a claim begins.
    fn has_room(&self, cpus: u32, memory: MiB, start: Timestamp, end: Timestamp) -> bool {
        let begins = self.claims.iter().map(|c| c.from).filter(|at| *at > start && *at < end);
        core::iter::once(start).chain(begins).all(|at| {
            let (mut used_cpus, mut used_memory) = (cpus, memory);
            for claim in self.claims.iter().filter(|c| c.from <= at && c.until > at) {
                used_cpus = used_cpus.saturating_add(claim.cpus);
                used_memory = used_memory.saturating_add(claim.memory);
            }
            used_cpus <= self.node.cpus && used_memory <= self.node.memory
        })
    }

    /// Moments at which something here becomes free, soonest first.
    pub(crate) fn releases(&self) -> BTreeSet<Timestamp> {
        self.claims.iter().map(|c| c.until).collect()
    }
}

fn claim_of(run: &Run, limit: Option<Seconds>, now: Timestamp) -> Claim {
    // A start outside what this clock has seen was read off a node's clock that goes wrong: it must not move the shadow time.
    let since = match run.started() {
        None => now,
        Some(at) if at >= run.allocated && at <= now => at,
        Some(_) => run.allocated,
    };
    let due = since.after(span(limit));
    // A job past its limit is being ended: it may be gone in the next second, and is not gone now.
    let until = due.max(now.after(Seconds(1)));
    Claim {
        from: Timestamp(i64::MIN),
        until,
        cpus: run.cpus,
        memory: run.memory,
        cards: run.cards.iter().map(|c| c.index).collect(),
        alone: run.exclusive,
    }
}
