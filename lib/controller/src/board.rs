//! The board: what is shown. Immutable records, published after each turn; a reader takes the whole board by one reference count.
//!
//! Live jobs are kept in shelves of 256 ids, so that a turn copies only the shelves it touched.

use crate::pulse::Pulse;
use gq_cluster::{Booking, Cluster, Job, Node, Policy};
use gq_engine::Step;
use gq_model::{ClusterId, JobId, NodeName};
use gq_sched::Outlook;
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

const SHELF_BITS: u32 = 8;

type Shelf = BTreeMap<JobId, Arc<Job>>;

/// What is shown.
#[derive(Clone)]
pub(crate) struct Board {
    shelves: BTreeMap<u64, Arc<Shelf>>,
    /// By name.
    pub(crate) nodes: Vec<Arc<Node>>,
    /// By name.
    pub(crate) bookings: Vec<Arc<Booking>>,
    /// Changes with the bookings.
    revision: u64,
    pub(crate) outlook: Arc<Outlook>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) cluster_id: ClusterId,
    /// What cards do now; one for all boards, since it is no part of the state.
    pub(crate) pulse: Pulse,
    /// Why no new jobs are taken, when none are.
    pub(crate) degraded: Option<String>,
    /// Why nothing is taken from the drop box, when nothing is.
    pub(crate) shut: Option<String>,
}

impl Board {
    pub(crate) fn of(cluster: &Cluster, policy: Arc<Policy>, cluster_id: ClusterId) -> Self {
        let mut shelves: BTreeMap<u64, Shelf> = BTreeMap::new();
        for job in cluster.jobs() {
            shelves.entry(job.id.0 >> SHELF_BITS).or_default().insert(job.id, Arc::clone(job));
        }
        Self {
            shelves: shelves.into_iter().map(|(key, shelf)| (key, Arc::new(shelf))).collect(),
            nodes: cluster.nodes().map(Arc::clone).collect(),
            bookings: cluster.bookings().map(Arc::clone).collect(),
            revision: cluster.revision(),
            outlook: Arc::default(),
            policy,
            cluster_id,
            pulse: Pulse::default(),
            degraded: None,
            shut: None,
        }
    }

    /// Why no new jobs are taken, when none are.
    pub(crate) fn takes_none(&self) -> Option<&String> {
        self.degraded.as_ref().or(self.shut.as_ref())
    }

    /// Puts what `steps` touched in its new state.
    pub(crate) fn follow(&mut self, cluster: &Cluster, steps: &[Step]) {
        let mut touched: Vec<JobId> = steps.iter().filter_map(|step| step.event.job()).collect();
        touched.sort_unstable();
        touched.dedup();
        for id in touched {
            let key = id.0 >> SHELF_BITS;
            match cluster.job(id) {
                Some(job) => {
                    let shelf = self.shelves.entry(key).or_default();
                    Arc::make_mut(shelf).insert(id, Arc::clone(job));
                }
                None => {
                    if let Some(shelf) = self.shelves.get_mut(&key) {
                        Arc::make_mut(shelf).remove(&id);
                        if shelf.is_empty() {
                            self.shelves.remove(&key);
                        }
                    }
                }
            }
        }
        // Runs that begin or end change what is free on their node, so any step may.
        if !steps.is_empty() {
            self.nodes = cluster.nodes().map(Arc::clone).collect();
        }
        if self.revision != cluster.revision() {
            self.bookings = cluster.bookings().map(Arc::clone).collect();
            self.revision = cluster.revision();
        }
    }

    pub(crate) fn job(&self, id: JobId) -> Option<&Arc<Job>> {
        self.shelves.get(&(id.0 >> SHELF_BITS))?.get(&id)
    }

    pub(crate) fn node(&self, name: &NodeName) -> Option<&Arc<Node>> {
        let at = self.nodes.binary_search_by(|node| node.name.cmp(name)).ok()?;
        self.nodes.get(at)
    }

    pub(crate) fn jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.shelves.values().flat_map(|shelf| shelf.values())
    }
}

/// Where the board hangs.
#[derive(Clone)]
pub(crate) struct Wall(Arc<RwLock<Arc<Board>>>);

impl Wall {
    pub(crate) fn new(board: Board) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(board))))
    }
    /// The board as it is now.
    pub(crate) fn look(&self) -> Arc<Board> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
    /// Hangs up a changed board. Only the state's own thread does.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Board)) {
        let mut board = Board::clone(&self.look());
        change(&mut board);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(board);
    }
}
