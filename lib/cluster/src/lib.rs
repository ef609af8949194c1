//! The state of everything the controller knows, and [`Cluster::apply`], the one function that changes it.
//!
//! No clock, no file, no thread: time comes in events. What should happen is `gq-engine`'s to say; how a state looks on
//! disk is `gq-store`'s, which keeps [`Job`] and [`Node`] as rows and [`Event`] as the audit trail.
#![no_std]
extern crate alloc;

mod apply;
mod event;
mod invariant;
mod job;
mod node;
mod policy;
mod queue;

pub use apply::IllegalEvent;
pub use event::{Event, NewJob, Next};
pub use job::{Demand, HeldBy, Job, Memory, Phase, Run, Shape, Stopping, Tally};
pub use node::{Link, Node};
pub use policy::{DeclaredNode, Depth, Partition, PartitionState, Policy, Serves};
pub use queue::{Place, Queue};

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use gq_model::{JobId, NodeName};

/// Everything the controller knows.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// The highest job id ever given.
    last_job: JobId,
    jobs: BTreeMap<JobId, Arc<Job>>,
    nodes: BTreeMap<NodeName, Arc<Node>>,
    queue: Queue,
}

impl Cluster {
    /// Rebuilds the state from its rows.
    ///
    /// # Errors
    /// [`IllegalEvent`] when the rows contradict each other: two jobs hold one card, say.
    pub fn restore(last_job: JobId, jobs: Vec<Job>, nodes: Vec<Node>) -> Result<Self, IllegalEvent> {
        let mut cluster = Self { last_job, ..Self::default() };
        for mut node in nodes {
            node.forget_holdings();
            cluster.nodes.insert(node.name.clone(), Arc::new(node));
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
            for (task, run) in &job.runs {
                cluster.node_mut(&run.node)?.hold((job.id, *task), run)?;
            }
            cluster.last_job = cluster.last_job.max(job.id);
            cluster.queue.file(&job);
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
        self.nodes.get(name)
    }
    /// All nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.values()
    }
    /// The jobs that wait and may start, by shape and place.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }
}
