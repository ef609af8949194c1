//! Preemption: runs that make room for more important jobs, from the first signal to the end. Never decides who has to; that is the
//! plan's.

use crate::{
    Context, Decision, Order, acts::stop_order, ending::stopped, report::live_run, schedule::Orders,
};
use gq_cluster::{Cluster, Event, Next, Phase, Stopping};
use gq_model::{End, EndReason, NodeName, Outcome, Reason, RunKey, SignalTo};
use gq_sched::Preemption;

/// The signal that tells a run to make room.
pub(crate) const SIGTERM: u8 = 15;
/// The signal that nobody outlives.
const SIGKILL: u8 = 9;

/// A run is to make room: it is told so and has its grace, or it is ended at once when it has none or has not begun.
pub(crate) fn begin(
    cluster: &Cluster,
    context: &Context,
    preemption: &Preemption,
    decision: &mut Decision,
    orders: &mut Orders<'_>,
) {
    let Preemption { key, again, grace, .. } = *preemption;
    let Some(node) = node_of(cluster, key) else { return };
    let Some(run) = live_run(cluster, node, key).filter(|run| run.stopping.is_none()) else { return };
    let ordered = match run.phase {
        Phase::Starting => true,
        Phase::Running { .. } => grace.0 == 0,
        // It has come to its own end and is about to be gone.
        Phase::Completing { .. } => return,
    };
    let due = if ordered { context.now } else { context.now.after(grace) };
    let why = Stopping::Preempt { again, due, ordered };
    decision.events.push(Event::Stopped { key, why, by: None });
    let order = if ordered { stop_order(key, why, false) } else { Order::Warn(key, EndReason::Preemption) };
    orders.write(decision, node, order);
}

/// Runs whose grace is over are ended, and at once.
pub(crate) fn due(cluster: &Cluster, context: &Context, decision: &mut Decision, orders: &mut Orders<'_>) {
    for (due, key) in cluster.preempted().take_while(|(due, _)| *due <= context.now) {
        let Some(node) = node_of(cluster, *key) else { continue };
        let Some(run) = live_run(cluster, node, *key) else { continue };
        let Some(Stopping::Preempt { again, .. }) = run.stopping else { continue };
        let why = Stopping::Preempt { again, due: *due, ordered: true };
        decision.events.push(Event::Stopped { key: *key, why, by: None });
        orders.write(decision, node, stop_order(*key, why, false));
        // It has had its time: what is to be done when a run is ended does not give it more.
        if run.started().is_some() {
            orders.write(decision, node, Order::Signal(*key, SIGKILL, SignalTo::All));
        }
    }
}

fn node_of(cluster: &Cluster, key: RunKey) -> Option<&NodeName> {
    Some(&cluster.job(key.job)?.runs.get(&key.task)?.node)
}

/// How a run ends that was to make room, and what comes after.
pub(crate) fn ended(outcome: Outcome, again: bool) -> (Outcome, Next) {
    stopped(outcome, again, |outcome| Outcome { end: End::Preempted, reason: Reason::Preempted, ..outcome })
}
