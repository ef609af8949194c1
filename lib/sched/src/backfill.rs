//! Backfill: starts jobs in order of place; the first ones that cannot start get a reservation on a concrete node and concrete
//! cards at the earliest time it can be kept, and later jobs start only where they leave every reservation alone.
//!
//! Source: EASY, Lifka 1995 (one reservation); conservative backfill, Mu'alem & Feitelson 2001 (one for every job).
//! Cost of a pass: shapes × nodes, plus (jobs started + reservations) × nodes × claims of a node.

use crate::{
    Outlook,
    order::Order,
    place::{Spot, best_spot, could_now, eligible_by_name},
    space::{Claim, Space, span},
};
use alloc::{collections::BTreeSet, sync::Arc, vec::Vec};
use gq_cluster::{Cluster, Depth, Policy, Shape};
use gq_model::{CardUse, JobId, MiB, NodeName, Reason, TaskIndex, Timestamp};

/// A task to be started now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The job.
    pub job: JobId,
    /// The task.
    pub task: TaskIndex,
    /// Where.
    pub node: NodeName,
    /// Cpus it gets.
    pub cpus: u32,
    /// Memory it gets.
    pub memory: MiB,
    /// Cards it gets.
    pub cards: Vec<CardUse>,
    /// Whether it gets the node alone.
    pub exclusive: bool,
}

/// What a planning pass found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Tasks to be started now, in order.
    pub starts: Vec<Start>,
    /// Why the others wait.
    pub outlook: Outlook,
}

/// Plans: who starts now, who is reserved for, why the others wait.
pub fn plan(cluster: &Cluster, policy: &Policy, now: Timestamp) -> Plan {
    Pass::run(cluster, policy, now).plan
}

/// When and where a job of this shape would start if it were submitted now, behind what runs, starts and is reserved for.
///
/// Returns `None` when that is not known: its nodes are away, or nothing there ever ends.
pub fn estimate(
    cluster: &Cluster,
    policy: &Policy,
    now: Timestamp,
    shape: &Shape,
) -> Option<(NodeName, Timestamp)> {
    let pass = Pass::run(cluster, policy, now);
    let candidates = pass.open_nodes(shape);
    pass.earliest(&candidates, shape).map(|(spot, at)| (spot.node, at))
}

struct Pass<'a> {
    cluster: &'a Cluster,
    policy: &'a Policy,
    now: Timestamp,
    spaces: Vec<Space<'a>>,
    reservations_left: u32,
    plan: Plan,
}

impl<'a> Pass<'a> {
    fn run(cluster: &'a Cluster, policy: &'a Policy, now: Timestamp) -> Self {
        let open = cluster.nodes().filter(|node| node.is_open());
        let reservations_left = match policy.depth {
            Depth::First(n) => n,
            Depth::All => u32::MAX,
        };
        let spaces = open.map(|node| Space::of(node, cluster, now)).collect();
        let mut pass = Self { cluster, policy, now, spaces, reservations_left, plan: Plan::default() };
        let mut order = Order::of(cluster.queue());
        while let Some(head) = order.next() {
            if pass.look_at(head.shape(), head.place().job) {
                order.go_on(head);
            }
        }
        pass
    }

    /// Nodes in sight that a job of this shape may be on.
    fn open_nodes(&self, shape: &Shape) -> Vec<usize> {
        let named = |space: &Space<'_>| eligible_by_name(shape, space.node, self.policy);
        self.spaces.iter().enumerate().filter(|(_, space)| named(space)).map(|(i, _)| i).collect()
    }

    /// Looks at the next job of a shape; says whether the jobs of that shape behind it need a look too.
    fn look_at(&mut self, shape: &Arc<Shape>, id: JobId) -> bool {
        if !self.policy.partition(&shape.partition).is_some_and(|p| p.state.starts()) {
            return false;
        }
        let Some(job) = self.cluster.job(id) else { return true };
        let candidates = self.open_nodes(shape);
        let failed = |i: &usize| self.spaces.get(*i).is_some_and(|s| s.node.failed_starts.contains(&id));
        // What could not be started on one node is tried on another, if another has room.
        let others: Vec<usize> = match job.launch_failures {
            0 => Vec::new(),
            _ => candidates.iter().copied().filter(|i| !failed(i)).collect(),
        };
        for task in job.waiting.iter().map(TaskIndex) {
            let spot = |among: &[usize]| best_spot(&self.spaces, among, shape, self.now, self.now);
            match spot(&others).or_else(|| spot(&candidates)) {
                Some(spot) => self.start(id, task, shape, spot),
                None => return self.reserve(&candidates, shape, id),
            }
        }
        true
    }

    fn start(&mut self, job: JobId, task: TaskIndex, shape: &Shape, spot: Spot) {
        let Some(space) = self.spaces.get_mut(spot.space) else { return };
        let (cpus, memory) = (space.cpus_for(shape), space.memory_for(shape));
        let claim = claim(shape, &spot, cpus, memory, self.now);
        space.claim(claim, self.now);
        let exclusive = shape.demand.exclusive;
        self.plan.starts.push(Start {
            job,
            task,
            node: spot.node,
            cpus,
            memory,
            cards: spot.cards,
            exclusive,
        });
    }

    /// Says why a job cannot start now, and makes a reservation for it while there are some left; says whether the next job of its
    /// shape may get one too.
    fn reserve(&mut self, candidates: &[usize], shape: &Arc<Shape>, id: JobId) -> bool {
        let able = |space: &Space<'_>| could_now(shape, space.node);
        if !candidates.iter().filter_map(|i| self.spaces.get(*i)).any(able) {
            // Nothing in sight could ever run it: it waits for a node, holds up nobody, and gets no promise.
            self.plan.outlook.shapes.insert(Arc::clone(shape), Reason::NodesUnavailable);
            return false;
        }
        self.plan.outlook.first.get_or_insert(id);
        if self.reservations_left == 0 {
            return false;
        }
        let Some((spot, at)) = self.earliest(candidates, shape) else { return false };
        self.reservations_left -= 1;
        self.plan.outlook.reserved.insert(id, (at, spot.node.clone()));
        if let Some(space) = self.spaces.get_mut(spot.space) {
            let (cpus, memory) = (space.cpus_for(shape), space.memory_for(shape));
            space.claim(claim(shape, &spot, cpus, memory, at), self.now);
        }
        self.reservations_left > 0
    }

    /// The earliest time at which a job of this shape can run to its limit on one of these nodes, and the best spot then.
    fn earliest(&self, candidates: &[usize], shape: &Shape) -> Option<(Spot, Timestamp)> {
        let releases = candidates.iter().filter_map(|i| self.spaces.get(*i)).flat_map(Space::releases);
        let moments: BTreeSet<Timestamp> = core::iter::once(self.now).chain(releases).collect();
        moments
            .into_iter()
            .find_map(|at| best_spot(&self.spaces, candidates, shape, at, self.now).map(|spot| (spot, at)))
    }
}

fn claim(shape: &Shape, spot: &Spot, cpus: u32, memory: MiB, from: Timestamp) -> Claim {
    Claim {
        from,
        until: from.after(span(shape.time_limit)),
        cpus,
        memory,
        cards: spot.cards.iter().map(|c| c.index).collect(),
        alone: shape.demand.exclusive,
    }
}
