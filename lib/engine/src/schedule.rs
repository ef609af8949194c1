//! The last step of every turn: what time has brought, then one planning pass, and the orders that follow.

use crate::{Context, Decision, Effect, Order, preempt, promise};
use alloc::{boxed::Box, collections::BTreeMap};
use gq_cluster::{Cluster, Event, Job, Policy};
use gq_model::{Assignment, NodeName, RunKey, Seconds, Seq, Stage};
use gq_sched::{Plans, Start};

/// What time has brought: jobs whose time has come, advance reservations that are over, runs whose grace is over.
pub(crate) fn due(cluster: &Cluster, context: &Context) -> Decision {
    let ripe = cluster.queue().ripe(context.now).map(|job| Event::Ripened { job });
    let over = cluster.bookings().filter(|booking| booking.end <= context.now);
    let over = over.map(|booking| Event::Unbooked { name: booking.name.clone() });
    let mut decision = Decision { events: ripe.chain(over).collect(), ..Decision::default() };
    preempt::due(cluster, context, &mut decision, &mut Orders::of(cluster));
    decision
}

/// One planning pass: starts, runs that are to make room, first promises.
pub(crate) fn plan(
    planner: &mut impl Plans,
    cluster: &Cluster,
    policy: &Policy,
    context: &Context,
) -> Decision {
    let plan = planner.plan(cluster, policy, context.now);
    let mut decision = Decision::default();
    let mut orders = Orders::of(cluster);
    decision.events.extend(promise::reserved(cluster, &plan));
    for preemption in &plan.preempt {
        preempt::begin(cluster, context, preemption, &mut decision, &mut orders);
    }
    for start in plan.starts {
        let (Some(job), Some(node)) = (cluster.job(start.job), cluster.node(&start.node)) else { continue };
        let Some(boot) = node.boot else { continue };
        let key = RunKey { job: start.job, task: start.task, run: job.next_run(start.task) };
        let assignment = assignment(job, key, &start, policy, boot);
        let Start { node, cpus, memory, cards, exclusive, rate, promised, .. } = start;
        decision.events.push(Event::Allocated {
            key,
            node: node.clone(),
            boot,
            cpus,
            memory,
            cards,
            exclusive,
            rate,
            promised,
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
        bounds: None,
        stage: Stage::Main,
        restarts: None,
        over_limit: Seconds(0),
        until_deadline: false,
        signal: job.spec.signal,
        account: job.payer.account.clone().or_else(|| job.spec.account.clone()),
        qos: job.payer.qos.clone(),
        user: job.user.clone(),
        name: None,
        may_run_again: false,
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
