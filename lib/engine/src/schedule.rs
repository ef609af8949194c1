//! The last step of every turn: what time has brought, then one planning pass, and the orders that follow.

use crate::{Context, Decision, Effect, Order, charge, idle, preempt, promise};
use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};
use gq_cluster::{Cluster, Event, Job, Policy};
use gq_model::{
    ArrayBounds, Assignment, BootId, End, NodeId, NodeName, Outcome, Reason, Requeue, RunKey, Seconds, Seq,
    Stage, Timestamp, WaitEnd,
};
use gq_sched::{Plans, Start};

/// What time has brought: jobs whose time has come, advance reservations that are over, runs whose grace is over.
pub(crate) fn due(cluster: &Cluster, policy: &Policy, context: &Context) -> Decision {
    let ripe = cluster.queue().ripe(context.now).map(|job| Event::Ripened { job, at: context.now });
    let over = cluster.bookings().filter(|booking| booking.end <= context.now);
    let over = over.map(|booking| Event::Unbooked { name: booking.name.clone() });
    let late = cluster.alarms().take_while(|(at, _)| *at <= context.now);
    let late = late.filter_map(|(_, id)| too_late(policy, context, cluster.job(*id)?)).flatten();
    let told = charge::reached(cluster, policy, context);
    let mut decision =
        Decision { events: ripe.chain(over).chain(late).chain(told).collect(), ..Decision::default() };
    let mut orders = Orders::of(cluster);
    preempt::due(cluster, context, &mut decision, &mut orders);
    idle::due(cluster, policy, context, &mut decision, &mut orders);
    decision
}

/// What goes before every other job of its partition, for admins.
const FIRST_OF_ALL: i64 = 1 << 38;

/// What is to be done about a job that waits still: it cannot end before its deadline any more, or has waited too long.
fn too_late(policy: &Policy, context: &Context, job: &Job) -> Option<Vec<Event>> {
    let end = |end, reason| {
        let outcome = Outcome::without_exit(end, reason, "");
        Event::TasksEnded { job: job.id, tasks: job.waiting.clone(), outcome, at: context.now }
    };
    if job.latest_start().is_some_and(|at| at < context.now) {
        return Some(alloc::vec![end(End::Deadline, Reason::Deadline)]);
    }
    let then = job.spec.max_wait?.then;
    let priority = match then {
        WaitEnd::Boost if policy.is_admin(job.uid) => FIRST_OF_ALL,
        // Nobody says for himself that he goes before all others: he gets what the longest wait would give him.
        WaitEnd::Boost => job.priority.saturating_add(policy.weights.age.max(0)),
        WaitEnd::Notify | WaitEnd::Cancel => job.priority,
    };
    let told = Event::WaitedTooLong { job: job.id, priority };
    Some(match then {
        WaitEnd::Cancel => alloc::vec![told, end(End::Cancelled, Reason::WaitedTooLong)],
        WaitEnd::Notify | WaitEnd::Boost => alloc::vec![told],
    })
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
        let assignment = assignment(job, key, &start, (policy, context.now), (boot, node.id));
        let price = charge::price(policy, cluster.node(&start.node), &start.cards);
        let own_limit = assignment.time_limit.filter(|limit| Some(*limit) != job.shape.time_limit);
        let (node_id, lease) = (assignment.node_id, assignment.lease);
        let Start { node, cpus, memory, cards, exclusive, rate, promised, .. } = start;
        decision.events.push(Event::Allocated {
            key,
            node: node.clone(),
            boot,
            node_id,
            lease,
            cpus,
            memory,
            cards,
            exclusive,
            rate,
            price,
            promised,
            own_limit,
            at: context.now,
        });
        orders.write(&mut decision, &node, Order::Start(Box::new(assignment)));
    }
    decision.effects.push(Effect::Outlook(plan.outlook));
    decision
}

fn assignment(
    job: &Job,
    key: RunKey,
    start: &Start,
    (policy, now): (&Policy, Timestamp),
    (boot, node_id): (BootId, Option<NodeId>),
) -> Assignment {
    let spec = &job.spec;
    let planned = start.limit.or(job.shape.time_limit);
    let left = spec.deadline.map(|at| Seconds((at.micros_since(now) / 1_000_000).max(1)));
    let cut = left.filter(|left| planned.is_none_or(|limit| *left < limit));
    let bounds = spec.array.as_ref().map(|array| ArrayBounds {
        count: array.tasks.len(),
        min: array.tasks.first().unwrap_or(0),
        max: array.tasks.last().unwrap_or(0),
        step: array.step,
    });
    let stage = job.stage();
    let runs_before = key.run.0.saturating_sub(1);
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
        time_limit: cut.or(planned),
        kill_wait: policy.kill_wait,
        array: job.array.then_some((job.id, key.task)),
        allow_test_run: policy.allow_test_run,
        bounds,
        stage,
        restarts: spec.prep.then(|| match stage {
            Stage::Prep => runs_before,
            Stage::Main => job.restarts(key.task, runs_before),
        }),
        over_limit: policy.over_limit,
        deadline: left,
        signal: spec.signal,
        account: job.payer.account.clone().or_else(|| spec.account.clone()),
        qos: job.payer.qos.clone(),
        user: job.user.clone(),
        name: job.renamed.then(|| spec.name.clone()),
        node_id,
        lease: (spec.requeue == Some(Requeue::OnLost)).then_some(policy.lease),
        may_run_again: spec.requeue.is_some_and(Requeue::is_wanted) || spec.retry.is_some(),
        idle: idle::rule(policy, &job.shape.partition, spec)
            .map(|idle| idle.rule)
            .filter(|_| !start.cards.is_empty()),
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
