//! The last input of every turn: jobs whose time has come, then one planning pass, and the orders that follow.

use crate::{Context, Decision, Effect, Order};
use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};
use gq_cluster::{Cluster, Event, Job, Policy};
use gq_model::{Assignment, NodeName, RunKey, Seq};
use gq_sched::Start;

/// When jobs ripen, that is all it says: the turn asks again, and they are planned for with the others.
pub(crate) fn schedule(cluster: &Cluster, policy: &Policy, context: &Context) -> Decision {
    let ripe: Vec<Event> = cluster.queue().ripe(context.now).map(|job| Event::Ripened { job }).collect();
    if !ripe.is_empty() {
        return Decision { events: ripe, effects: Vec::new() };
    }
    let plan = gq_sched::plan(cluster, policy, context.now);
    let mut decision = Decision::default();
    let mut orders = Orders::of(cluster);
    for start in plan.starts {
        let (Some(job), Some(node)) = (cluster.job(start.job), cluster.node(&start.node)) else { continue };
        let Some(boot) = node.boot else { continue };
        let key = RunKey { job: start.job, task: start.task, run: job.next_run(start.task) };
        let assignment = assignment(job, key, &start, policy, boot);
        let Start { node, cpus, memory, cards, exclusive, .. } = start;
        decision.events.push(Event::Allocated {
            key,
            node: node.clone(),
            boot,
            cpus,
            memory,
            cards,
            exclusive,
            at: context.now,
        });
        orders.write(&mut decision, &node, Order::Start(Box::new(assignment)));
    }
    decision.effects.push(Effect::Outlook(plan.outlook));
    decision
}

fn assignment(job: &Job, key: RunKey, start: &Start, policy: &Policy, boot: gq_model::BootId) -> Assignment {
    Assignment {
        key,
        boot,
        node: start.node.clone(),
        uid: job.uid,
        job_file: job.job_file.clone(),
        sha256: job.sha256.clone(),
        partition: job.shape.partition.clone(),
        cluster: policy.cluster.clone(),
        cpus: start.cpus,
        memory: start.memory,
        cards: start.cards.clone(),
        time_limit: job.shape.time_limit,
        kill_wait: policy.kill_wait,
        array: job.array.then_some((job.id, key.task)),
        allow_test_run: policy.allow_test_run,
    }
}

/// Numbers orders within one decision, each node's on its own.
pub(crate) struct Orders<'a> {
    cluster: &'a Cluster,
    next: BTreeMap<NodeName, Seq>,
}

impl<'a> Orders<'a> {
    pub(crate) fn of(cluster: &'a Cluster) -> Self {
        Self { cluster, next: BTreeMap::new() }
    }

    pub(crate) fn write(&mut self, decision: &mut Decision, node: &NodeName, order: Order) {
        let last = match self.next.get(node) {
            Some(seq) => *seq,
            None => self.cluster.node(node).map_or(Seq(0), |n| n.last_order),
        };
        let seq = Seq(last.0.saturating_add(1));
        self.next.insert(node.clone(), seq);
        decision.events.push(Event::Ordered { node: node.clone(), seq });
        decision.effects.push(Effect::Order { node: node.clone(), seq, order });
    }
}
