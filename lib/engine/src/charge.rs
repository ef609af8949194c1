//! Charges: what a run that has ended cost is added to what its user has used on its account. Never decides what a second costs.

use crate::{Context, report::live_run};
use gq_cluster::{Cluster, Event, Policy, Usage};
use gq_model::{NodeName, RunKey};
use gq_sched::decay;

/// The use of a run's payer when the run ends now; none when it costs nothing.
pub(crate) fn charged(
    cluster: &Cluster,
    policy: &Policy,
    context: &Context,
    node: &NodeName,
    key: RunKey,
) -> Option<Event> {
    let run = live_run(cluster, node, key).filter(|run| run.rate > 0)?;
    let payer = &cluster.job(key.job)?.payer;
    let before = cluster.ledger().usage_of(payer.account.as_deref(), payer.uid);
    let kept = decay(before, context.now, policy.half_life);
    // What is not old enough to have decayed keeps its time, so that it does once it is.
    let at = if kept.charge == 0 { context.now } else { kept.at };
    let seconds = context.now.micros_since(run.allocated).div_ceil(1_000_000);
    let charge = kept.charge.saturating_add(u64::from(run.rate).saturating_mul(seconds));
    Some(Event::Charged { account: payer.account.clone(), uid: payer.uid, usage: Usage { charge, at } })
}
