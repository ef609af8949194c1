//! The planner: what is remembered from one pass to the next, so that a pass looks again only at what changed. What it remembers
//! never changes what a plan is worth: reservations are kept so that nobody is promised a later start than before, and what could not
//! start anywhere is asked again only of nodes with more room.

use crate::{Plan, memo::Memo, options::Options, seats::Seats, share::Ranks};
use alloc::{sync::Arc, vec::Vec};
use gq_cluster::{Booking, Cluster, Depth, Policy, Units};
use gq_model::{CardUse, JobId, NodeName, Timestamp};

/// A reservation that was made in an earlier pass.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) job: JobId,
    pub(crate) seat: u32,
    pub(crate) at: Timestamp,
    pub(crate) units: Units,
    /// The last job there was when it was made: whoever was there then and got none does not undo it.
    pub(crate) seen: JobId,
}

/// Plans, and remembers from pass to pass.
#[derive(Clone, Debug, Default)]
pub struct Planner {
    pub(crate) seats: Seats,
    pub(crate) memo: Memo,
    pub(crate) kept: Vec<Kept>,
    /// How many passes in a row asked for another at once.
    pub(crate) at_once: u32,
    /// Seats where the last pass gave up a reservation.
    pub(crate) reopened: Vec<u32>,
    pub(crate) ranks: Ranks,
    pub(crate) options: Options,
    /// The cluster's revision and how many bookings had begun or ended.
    bookings: (u64, usize),
}

/// What plans: the planner, or whoever watches it at work.
pub trait Plans {
    /// Says who starts now, who is reserved for, who has to make room, and why the others wait.
    fn plan(&mut self, cluster: &Cluster, policy: &Policy, now: Timestamp) -> Plan;
    /// Forgets everything: the policy changed, or the cluster was loaded anew.
    fn forget(&mut self);
    /// The planner itself, for those who look ahead with what it remembers.
    fn planner(&self) -> &Planner;
}

impl Plans for Planner {
    fn plan(&mut self, cluster: &Cluster, policy: &Policy, now: Timestamp) -> Plan {
        Self::plan(self, cluster, policy, now)
    }
    fn forget(&mut self) {
        Self::forget(self);
    }
    fn planner(&self) -> &Planner {
        self
    }
}

impl Planner {
    /// Says who starts now, who is reserved for, who has to make room, and why the others wait.
    pub fn plan(&mut self, cluster: &Cluster, policy: &Policy, now: Timestamp) -> Plan {
        self.catch_up(cluster, policy, now);
        crate::pass::run(self, cluster, policy, now)
    }

    /// Forgets everything: the policy changed, or the cluster was loaded anew.
    pub fn forget(&mut self) {
        let memo = Memo::after(&self.memo);
        *self = Self { memo, ..Self::default() };
    }

    /// Brings what is remembered up to date with the cluster.
    pub(crate) fn catch_up(&mut self, cluster: &Cluster, policy: &Policy, now: Timestamp) {
        self.memo.next_pass();
        if self.seats.refresh(cluster) {
            self.memo = Memo::after(&self.memo);
            self.kept.clear();
        } else {
            self.seats.opened.append(&mut self.reopened);
        }
        let phase =
            |booking: &Arc<Booking>| usize::from(booking.start <= now) + usize::from(booking.end <= now);
        let bookings = (cluster.revision(), cluster.bookings().map(phase).sum());
        if bookings != self.bookings {
            self.bookings = bookings;
            self.memo.doubt();
        }
        self.ranks.refresh(cluster, policy, now);
        // Only clusters with cards in MIG mode have any.
        if !self.seats.grids.is_empty() {
            self.options.refresh(cluster.queue(), &self.seats.grids);
        }
    }
}

/// How many reservations a partition has.
pub(crate) fn depth_of(policy: &Policy, partition: u32) -> Depth {
    policy.partitions.get(partition as usize).and_then(|p| p.depth).unwrap_or(policy.depth)
}

/// A task to be started now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The job.
    pub job: JobId,
    /// The task.
    pub task: gq_model::TaskIndex,
    /// Where.
    pub node: NodeName,
    /// Cpus it gets.
    pub cpus: u32,
    /// Memory it gets.
    pub memory: gq_model::MiB,
    /// Cards it gets.
    pub cards: Vec<CardUse>,
    /// Whether it gets the node alone.
    pub exclusive: bool,
    /// What it is charged for each second, in thousandths of a card.
    pub rate: u32,
    /// When it was promised to start, if it was.
    pub promised: Option<Timestamp>,
    /// Whether it passes a job that goes before it.
    pub backfilled: bool,
    /// Its time limit, when it is lowered so that it starts now (`--time-min`).
    pub limit: Option<gq_model::Seconds>,
}

/// A run that has to make room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preemption {
    /// Which.
    pub key: gq_model::RunKey,
    /// Whether it is to run again.
    pub again: bool,
    /// What it gets between the signal and its end.
    pub grace: gq_model::Seconds,
    /// For whom.
    pub by: JobId,
}
