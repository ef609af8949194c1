//! Charges: what runs that have ended cost is added to what their users have used on their accounts. Never decides what a second costs.

use crate::{Context, report::live_run};
use alloc::{collections::BTreeMap, string::String};
use gq_cluster::{Cluster, Event, Policy, Usage};
use gq_model::{NodeName, RunKey, Uid};
use gq_sched::decay;

/// The charges of one decision: each is made on what the ones before it left.
#[derive(Default)]
pub(crate) struct Charges(BTreeMap<(Option<String>, Uid), Usage>);

impl Charges {
    /// The use of a run's payer when the run ends now; none when it costs nothing.
    pub(crate) fn charge(
        &mut self,
        cluster: &Cluster,
        policy: &Policy,
        context: &Context,
        node: &NodeName,
        key: RunKey,
    ) -> Option<Event> {
        let run = live_run(cluster, node, key).filter(|run| run.rate > 0)?;
        let payer = &cluster.job(key.job)?.payer;
        let who = (payer.account.clone(), payer.uid);
        let on_record = || cluster.ledger().usage_of(payer.account.as_deref(), payer.uid);
        let before = self.0.get(&who).copied().unwrap_or_else(on_record);
        let kept = decay(before, context.now, policy.half_life);
        // What is not old enough to have decayed keeps its time, so that it does once it is.
        let at = if kept.charge == 0 { context.now } else { kept.at };
        let seconds = context.now.micros_since(run.allocated).div_ceil(1_000_000);
        let charge = kept.charge.saturating_add(u64::from(run.rate).saturating_mul(seconds));
        let usage = Usage { charge, at };
        self.0.insert(who.clone(), usage);
        Some(Event::Charged { account: who.0, uid: who.1, usage })
    }
}
