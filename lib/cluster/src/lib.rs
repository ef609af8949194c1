//! The state of everything the controller knows, and [`Cluster::apply`], the one function that changes it.
//!
//! No clock, no file, no thread: time comes in events. What should happen is `gq-engine`'s to say; how a state looks on
//! disk is `gq-store`'s, which keeps [`Job`] and [`Node`] as rows and [`Event`] as the audit trail.
#![no_std]
extern crate alloc;

mod amend;
mod apply;
mod booking;
mod budget;
mod event;
mod invariant;
mod job;
mod journal;
mod layout;
mod ledger;
mod node;
mod payer;
mod policy;
mod queue;
mod rights;
mod scope;
mod waits;

pub use apply::IllegalEvent;
pub use booking::{Booked, Booking};
pub use budget::{Budget, Purse, Spending, Spent, TOLD_AT, UsedUp, Whose};
pub use event::{Amendment, Event, NewJob, Next};
pub use job::{Demand, HeldBy, Idleness, Job, Memory, Phase, Run, Shape, Stopping, Tally};
pub use journal::Journal;
pub use layout::{Layout, MAX_NODE_UNITS, Slot, Units, WHOLE_CARD, position_of, slice_place};
pub use ledger::Ledger;
pub use node::{Hold, Link, Node, Used};
pub use payer::{Holdings, Payer, Usage};
pub use policy::{
    Access, Account, DeclaredNode, Depth, Idle, IdleAction, Limits, Partition, PartitionState, Policy,
    Preempt, Qos, Serves, SliceRule, Weights,
};
pub use queue::{Group, Key, Place, Queue};
pub use rights::{Owner, Private, Role};
pub use scope::Scope;
pub use waits::{Condition, Fate, Waits};

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    sync::Arc,
    vec::Vec,
};
use gq_model::{JobId, NodeName, RunKey, Seconds, Timestamp, Uid};

/// Everything the controller knows.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// The highest job id ever given.
    last_job: JobId,
    jobs: BTreeMap<JobId, Arc<Job>>,
    /// Nodes in the order they became known; a node's place never changes.
    nodes: Vec<Arc<Node>>,
    by_name: BTreeMap<NodeName, u32>,
    journal: Journal,
    queue: Queue,
    bookings: BTreeMap<String, Arc<Booking>>,
    ledger: Ledger,
    /// Runs that make room and are to be ended when their grace is over.
    preempted: BTreeSet<(Timestamp, RunKey)>,
    /// Runs about whose idle cards something is to be done at a time.
    reclaims: BTreeSet<(Timestamp, RunKey)>,
    /// Waiting jobs of which something is to be done at a time.
    alarms: BTreeSet<(Timestamp, JobId)>,
    dependents: waits::Dependents,
    /// Changes with the bookings.
    revision: u64,
}

/// The rows a state is rebuilt from.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// The highest job id ever given.
    pub last_job: JobId,
    /// Live jobs.
    pub jobs: Vec<Job>,
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Advance reservations.
    pub bookings: Vec<Booking>,
    /// Use of cards by account and user.
    pub usage: Vec<(Option<String>, Uid, Usage)>,
    /// What was taken of budgets.
    pub spent: Vec<(Purse, Spent)>,
}

impl Cluster {
    /// Rebuilds the state from its rows.
    ///
    /// # Errors
    /// [`IllegalEvent`] when the rows contradict each other: two jobs hold one card, say.
    pub fn restore(rows: Rows) -> Result<Self, IllegalEvent> {
        let Rows { last_job, jobs, nodes, bookings, usage, spent } = rows;
        let mut cluster = Self { last_job, ..Self::default() };
        cluster.bookings = bookings.into_iter().map(|b| (b.name.clone(), Arc::new(b))).collect();
        for (account, uid, usage) in usage {
            cluster.ledger.charge(account, uid, usage);
        }
        for (purse, spent) in spent {
            cluster.ledger.purses.spend(purse, spent);
        }
        for mut node in nodes {
            node.forget_holdings();
            cluster.add_node(node);
        }
        let mut last_spec: Option<Arc<gq_model::JobSpec>> = None;
        for mut job in jobs {
            match &last_spec {
                Some(spec) if *spec == job.spec => job.spec = Arc::clone(spec),
                _ => last_spec = Some(Arc::clone(&job.spec)),
            }
            if let Some(shape) = cluster.queue.shared(&job.shape) {
                job.shape = shape;
            }
            if let Some(payer) = cluster.queue.shared_payer(&job.shape, &job.payer) {
                job.payer = payer;
            }
            cluster.ledger.enter(&job.payer, job.waiting.len());
            for (task, run) in &job.runs {
                cluster.ledger.enter(&job.payer, 1);
                cluster.ledger.hold((job.id, *task), run, &job);
                let until = until(&job.shape, run);
                cluster.node_mut(&run.node)?.hold_again((job.id, *task), run, until)?;
                if let (Some(Stopping::Preempt { due, ordered: false, .. }), Some(key)) =
                    (run.stopping, job.run_key(*task))
                {
                    cluster.preempted.insert((due, key));
                }
                cluster.reclaims.extend(run.reclaim_due().zip(job.run_key(*task)));
            }
            cluster.last_job = cluster.last_job.max(job.id);
            cluster.queue.file(&mut job);
            cluster.alarms.extend(job.alarm().map(|at| (at, job.id)));
            cluster.dependents.enter(&job);
            cluster.jobs.insert(job.id, Arc::new(job));
        }
        Ok(cluster)
    }

    /// The highest job id ever given.
    pub fn last_job(&self) -> JobId {
        self.last_job
    }
    /// A live job.
    pub fn job(&self, id: JobId) -> Option<&Arc<Job>> {
        self.jobs.get(&id)
    }
    /// All live jobs, by id.
    pub fn jobs(&self) -> impl DoubleEndedIterator<Item = &Arc<Job>> {
        self.jobs.values()
    }
    /// How many jobs live.
    pub fn job_count(&self) -> usize {
        self.jobs.len()
    }
    /// A node.
    pub fn node(&self, name: &NodeName) -> Option<&Arc<Node>> {
        self.node_at(*self.by_name.get(name)?)
    }
    /// The node at this place (see [`Node::place`]).
    pub fn node_at(&self, place: u32) -> Option<&Arc<Node>> {
        self.nodes.get(place as usize)
    }
    /// All nodes but those that are forgotten, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        let all = self.by_name.values().filter_map(|place| self.node_at(*place));
        all.filter(|node| node.link != Link::Forgotten)
    }
    /// How many nodes are known, those that are forgotten among them: places go up to there.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }
    /// Which nodes changed, and when.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }
    /// What payers have and used, and the licences in use.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }
    /// Runs that make room, with when their grace is over and they are to be ended; the first in front.
    pub fn preempted(&self) -> impl Iterator<Item = &(Timestamp, RunKey)> {
        self.preempted.iter()
    }
    /// Runs about whose idle cards something is to be done at a time, the first in front: see [`Run::reclaim_due`].
    pub fn reclaims(&self) -> impl Iterator<Item = &(Timestamp, RunKey)> {
        self.reclaims.iter()
    }
    /// Waiting jobs of which something is to be done at a time, the first in front: see [`Job::alarm`].
    pub fn alarms(&self) -> impl Iterator<Item = &(Timestamp, JobId)> {
        self.alarms.iter()
    }
    /// Jobs that wait for something of this one.
    pub fn dependents(&self, job: JobId) -> impl Iterator<Item = &Arc<Job>> {
        self.dependents.of(job).filter_map(|id| self.jobs.get(&id))
    }
    /// Live jobs of a user that have this name, by id.
    pub fn alike(&self, uid: Uid, name: &str) -> impl Iterator<Item = &Arc<Job>> {
        self.dependents.alike(uid, name).filter_map(|id| self.jobs.get(&id))
    }
    /// A number that changes with the advance reservations.
    pub fn revision(&self) -> u64 {
        self.revision
    }
    /// The jobs that wait and may start, by shape and place.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }
}

/// How long a job without time limit is taken to run, for planning only.
pub const UNLIMITED: Seconds = Seconds(365 * 86_400);

/// When a run is over at the latest: its time limit passes, or the grace it has to make room.
fn until(shape: &Shape, run: &Run) -> Timestamp {
    let limit = run.counted.after(run.own_limit.or(shape.time_limit).unwrap_or(UNLIMITED));
    match run.stopping {
        Some(Stopping::Preempt { due, .. }) => limit.min(due),
        Some(Stopping::Cancel | Stopping::Requeue | Stopping::RequeueHold(_) | Stopping::Idle { .. })
        | None => limit,
    }
}
