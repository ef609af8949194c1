//! Charges: what runs that have ended cost is added to what their users have used on their accounts, and taken of budgets. Never decides what a
//! second costs.

use crate::{Context, report::live_run};
use alloc::{collections::BTreeMap, string::String, sync::Arc, vec::Vec};
use gq_cluster::{Cluster, Event, Job, Node, Policy, Spent, Usage, position_of};
use gq_model::{CardTime, CardUse, NodeName, Outcome, RunKey, Timestamp, Uid};
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

/// What a run that has ended took of the budgets of its payer, in the periods that it is now. `job`: as it was before.
pub(crate) fn spent(
    cluster: &Cluster,
    policy: &Policy,
    context: &Context,
    (job, key, outcome, ended): (&Job, RunKey, &Outcome, Timestamp),
) -> Vec<Event> {
    let Some(run) = job.runs.get(&key.task).filter(|run| run.number == key.run) else { return Vec::new() };
    let of_budget = |budget: &gq_cluster::Budget| {
        let purse = budget.purse(policy, &job.payer)?;
        let span = policy.calendar.span(budget.period, context.now);
        let taken = run.taken(outcome, ended.min(context.now), span.from);
        let kept = cluster.spent(&purse, span.day);
        let spent = Spent { used: kept.used.saturating_add(taken), ..kept };
        (taken > CardTime(0)).then_some(Event::Spent { purse, spent })
    };
    policy.budgets.iter().filter_map(of_budget).collect()
}

/// Budgets of which so much is used that it is to be told.
pub(crate) fn reached(cluster: &Cluster, policy: &Policy, context: &Context) -> Vec<Event> {
    let reached = |spending: gq_cluster::Spending| {
        let percent = spending.untold()?;
        let kept = cluster.spent(&spending.purse, spending.span.day);
        let (used, until) = (spending.used, spending.span.until);
        let spent = Spent { told: percent, ..kept };
        Some(Event::BudgetReached { purse: spending.purse, percent, spent, used, until })
    };
    cluster.spendings(policy, context.now).into_iter().filter_map(reached).collect()
}

/// What cards cost an hour, in millionths; none when none of them has a price.
pub(crate) fn price(policy: &Policy, node: Option<&Arc<Node>>, held: &[CardUse]) -> Option<u64> {
    let node = node.filter(|_| !policy.prices.is_empty())?;
    let of_one = |one: &CardUse| {
        let card = node.cards.get(position_of(&node.cards, one)?)?;
        let (_, price) = policy.prices.iter().find(|(model, _)| card.is_model(model))?;
        let worth = node.layout().worth(node.layout().units(&node.cards, core::slice::from_ref(one)));
        Some(price.saturating_mul(u64::from(worth)) / u64::from(gq_cluster::WHOLE_CARD))
    };
    let prices: Vec<u64> = held.iter().filter_map(of_one).collect();
    (!prices.is_empty()).then(|| prices.into_iter().fold(0, u64::saturating_add))
}
