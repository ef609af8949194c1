//! Limits: what a payer may still start, by partition, QOS and account. A job blocked by a limit holds no reservation, and its reason
//! says which limit.

use crate::decay::decay;
use alloc::{string::String, sync::Arc, vec::Vec};
use gq_cluster::{Cluster, Holdings, Limits, Payer, Policy, Scope, Shape, Spending, UsedUp, WHOLE_CARD};
use gq_model::{Reason, Timestamp, Uid};

/// What is asked for of the limits: one more task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct More {
    pub(crate) cpus: u64,
    /// In thousandths.
    pub(crate) cards: u64,
}

impl More {
    /// The least that a task of this shape takes: a slice or a share is taken for the smallest there is until it is placed.
    pub(crate) fn of(shape: &Shape) -> Self {
        let ask = &shape.demand.cards;
        let each = match &ask.profile {
            Some(profile) => worth_of(profile),
            None if shape.slices_by_memory || ask.share.is_some() => 1,
            None => u64::from(WHOLE_CARD),
        };
        Self { cpus: u64::from(shape.demand.cpus), cards: u64::from(ask.count).saturating_mul(each) }
    }
}

/// What a profile is worth by its name alone: `3g` of the 7 or so compute slices of a card, in thousandths, rounded down so that the true
/// worth of its units is never less.
fn worth_of(profile: &str) -> u64 {
    let digits: String = profile.chars().take_while(char::is_ascii_digit).collect();
    digits.parse::<u64>().unwrap_or(1).saturating_mul(125).min(u64::from(WHOLE_CARD))
}

/// The sums of all payers as of a pass, with what the pass starts.
pub(crate) struct Bounds<'a> {
    cluster: &'a Cluster,
    policy: &'a Policy,
    now: Timestamp,
    has: Vec<(Arc<Payer>, Holdings)>,
    spent: Vec<(&'a str, bool)>,
    any: bool,
    /// Budgets that have something to say of who starts, or soon will.
    budgets: Vec<Spending>,
}

impl<'a> Bounds<'a> {
    pub(crate) fn of(cluster: &'a Cluster, policy: &'a Policy, now: Timestamp) -> Self {
        let is_bounded = |limits: &Limits| *limits != Limits::default();
        let any = policy.partitions.iter().any(|p| is_bounded(&p.limits))
            || policy.qos.iter().any(|q| is_bounded(&q.limits))
            || policy.accounts.iter().any(|a| is_bounded(&a.limits) || a.card_minutes.is_some());
        let budgets = cluster.spendings(policy, now);
        if !any {
            return Self { cluster, policy, now, has: Vec::new(), spent: Vec::new(), any, budgets };
        }
        let has = cluster.ledger().payers().map(|(payer, has)| (Arc::clone(payer), *has)).collect();
        let budget = |account: &'a gq_cluster::Account| {
            let minutes = account.card_minutes?;
            let most = minutes.saturating_mul(60).saturating_mul(u64::from(WHOLE_CARD));
            Some((account.name.as_str(), used_below(cluster, policy, &account.name, now) >= most))
        };
        let spent = policy.accounts.iter().filter_map(budget).collect();
        Self { cluster, policy, now, has, spent, any, budgets }
    }

    /// What a start adds.
    pub(crate) fn take(&mut self, payer: &Arc<Payer>, cpus: u32, worth: u32) {
        self.hold(payer, worth);
        if !self.any {
            return;
        }
        let more = Holdings::of_run(cpus, worth);
        match self.has.iter_mut().find(|(other, _)| other == payer) {
            Some((_, has)) => *has = has.with(&more),
            None => self.has.push((Arc::clone(payer), more)),
        }
    }

    /// Adds what a start holds to the budgets it is paid of: they are used up the sooner.
    fn hold(&mut self, payer: &Payer, worth: u32) {
        for budget in self.policy.budgets.iter().filter(|_| worth > 0) {
            let Some(purse) = budget.purse(self.policy, payer) else { continue };
            let at = self.budgets.iter().position(|spending| spending.purse == purse);
            let at = at.unwrap_or_else(|| {
                self.budgets.push(self.cluster.spending(self.policy, budget, purse, self.now));
                self.budgets.len() - 1
            });
            if let Some(spending) = self.budgets.get_mut(at) {
                spending.cards = spending.cards.saturating_add(u64::from(worth));
            }
        }
    }

    fn sum(&self, is_meant: impl Fn(&Payer) -> bool) -> Holdings {
        let meant = self.has.iter().filter(|(payer, _)| is_meant(payer));
        meant.fold(Holdings::default(), |sum, (_, has)| sum.with(has))
    }

    /// The limit that keeps a payer from starting one more task, if one does.
    pub(crate) fn reached(&self, payer: &Payer, more: More) -> Option<Reason> {
        if more.cards > 0 && used_up(self.policy, &self.budgets, UsedUp::Refuse, payer).is_some() {
            return Some(Reason::Budget);
        }
        if !self.any {
            return None;
        }
        self.policy.scopes(payer).find_map(|scope| {
            let is_meant = |other: &Payer| scope.has(self.policy, other);
            match scope {
                Scope::Partition(_) | Scope::Qos(_) => {
                    self.over(scope.limits(), more, payer.uid, is_meant, &SHARED)
                }
                Scope::Account(account) => {
                    let is_spent = |(spent, over): &(&str, bool)| *spent == account.name && *over;
                    let spent = more.cards > 0 && self.spent.iter().any(is_spent);
                    let reached = self.over(scope.limits(), more, payer.uid, is_meant, &OF_ACCOUNT);
                    reached.or(spent.then_some(Reason::CardMinutes))
                }
            }
        })
    }

    /// Whether the jobs of a payer that ask for cards stand behind all others.
    pub(crate) fn is_behind(&self, shape: &Shape, payer: &Payer) -> bool {
        !self.budgets.is_empty() && behind(self.policy, &self.budgets, shape, payer).is_some()
    }

    /// How budgets stand, for whoever is done with the limits.
    pub(crate) fn take_budgets(&mut self) -> Vec<Spending> {
        core::mem::take(&mut self.budgets)
    }

    fn over(
        &self,
        limits: &Limits,
        more: More,
        uid: Uid,
        is_meant: impl Fn(&Payer) -> bool,
        words: &Words,
    ) -> Option<Reason> {
        if *limits == Limits::default() {
            return None;
        }
        let mine = self.sum(|payer| payer.uid == uid && is_meant(payer));
        let all = self.sum(is_meant);
        let past = |limit: Option<u64>, has: u64, more: u64| {
            limit.is_some_and(|most| has.saturating_add(more) > most)
        };
        let tests = [
            (past(limits.max_jobs_per_user, mine.jobs, 1), words.user_jobs),
            (past(limits.max_cards_per_user, mine.cards, more.cards) && more.cards > 0, words.user_cards),
            (past(limits.max_cpus_per_user, mine.cpus, more.cpus), words.user_cpus),
            (past(limits.max_jobs, all.jobs, 1), words.jobs),
            (past(limits.max_cards, all.cards, more.cards) && more.cards > 0, words.cards),
            (past(limits.max_cpus, all.cpus, more.cpus), words.cpus),
        ];
        tests.into_iter().find(|(is_past, _)| *is_past).map(|(_, reason)| reason)
    }
}

/// The first budget of a payer that is used up and means this for him.
pub(crate) fn used_up<'s>(
    policy: &Policy,
    budgets: &'s [Spending],
    then: UsedUp,
    payer: &Payer,
) -> Option<&'s Spending> {
    let mut used_up = budgets.iter().filter(|spending| spending.then == then && spending.is_over());
    used_up.find(|spending| spending.is_of(policy, payer))
}

/// The budget for which a job of this shape and payer stands behind all others, if it does.
pub fn behind<'s>(
    policy: &Policy,
    budgets: &'s [Spending],
    shape: &Shape,
    payer: &Payer,
) -> Option<&'s Spending> {
    if shape.demand.cards.count == 0 { None } else { used_up(policy, budgets, UsedUp::LowPriority, payer) }
}

/// The reasons of one kind of limits.
struct Words {
    user_jobs: Reason,
    user_cards: Reason,
    user_cpus: Reason,
    jobs: Reason,
    cards: Reason,
    cpus: Reason,
}

const SHARED: Words = Words {
    user_jobs: Reason::UserJobLimit,
    user_cards: Reason::UserCardLimit,
    user_cpus: Reason::UserCpuLimit,
    jobs: Reason::GroupJobLimit,
    cards: Reason::GroupCardLimit,
    cpus: Reason::GroupCpuLimit,
};
const OF_ACCOUNT: Words = Words {
    jobs: Reason::AccountJobLimit,
    cards: Reason::AccountCardLimit,
    cpus: Reason::AccountCpuLimit,
    ..SHARED
};

/// What an account and those below it have used as of now, runs that live included.
fn used_below(cluster: &Cluster, policy: &Policy, account: &str, now: Timestamp) -> u64 {
    let ledger = cluster.ledger();
    let past =
        ledger.usage().filter(|((a, _), _)| a.as_deref().is_some_and(|a| policy.is_within(a, account)));
    let live = ledger
        .payers()
        .filter(|(payer, _)| payer.account.as_deref().is_some_and(|a| policy.is_within(a, account)));
    past.map(|(_, usage)| decay(*usage, now, policy.half_life).charge)
        .chain(live.map(|(_, has)| has.accrued(now)))
        .fold(0, u64::saturating_add)
}
