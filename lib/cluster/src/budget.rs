//! Budgets: how much card time an account or a user has in a period of the calendar, and what of it is used. What has ended is kept as sums; what
//! runs is added when somebody asks. Never decides what follows.

use crate::{Cluster, Payer, Policy, Run};
use alloc::{collections::BTreeMap, string::String, sync::Arc, vec::Vec};
use gq_model::{CardTime, End, JobId, Outcome, Period, Span, TaskIndex, Timestamp, Uid};
use serde::{Deserialize, Serialize};

/// Of how many hundredths of a budget those whom it concerns are told.
pub const TOLD_AT: [u8; 2] = [80, 100];

/// A budget of card time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Its name.
    pub name: String,
    /// Whose runs count.
    pub whose: Whose,
    /// How much there is in each period.
    pub most: CardTime,
    /// How long a period is.
    pub period: Period,
    /// What happens when it is used up.
    pub then: UsedUp,
    /// Who is told of it, by name; whoever has one of his own is told of it himself.
    pub tell: Vec<String>,
}

/// Whose runs count in a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Those of an account, and of the accounts below it.
    Account(String),
    /// Those of a user, on whatever account.
    User(Uid),
    /// Everybody has one of his own.
    EveryUser,
}

/// What happens when a budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsedUp {
    /// It is told.
    Report,
    /// Jobs stand behind all others.
    LowPriority,
    /// No new jobs are taken, and none that wait are started.
    Refuse,
}

impl UsedUp {
    /// Its name in the conf.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::LowPriority => "low_priority",
            Self::Refuse => "refuse",
        }
    }
}

/// What sums are kept of: a budget, or one user's of one that everybody has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Purse {
    /// The budget.
    pub budget: String,
    /// Whose, where everybody has one of his own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<Uid>,
}

/// What runs that have ended took of a budget in one period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// The first day of the period.
    pub day: i64,
    /// How much.
    pub used: CardTime,
    /// Of how many hundredths it was told already.
    #[serde(default)]
    pub told: u8,
}

/// How a budget stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spending {
    /// Which.
    pub purse: Purse,
    /// The period.
    pub span: Span,
    /// How much is used, by what runs too.
    pub used: CardTime,
    /// How much there is.
    pub most: CardTime,
    /// As of when.
    pub at: Timestamp,
    /// Thousandths of cards that are held.
    pub cards: u64,
    /// What happens when it is used up.
    pub then: UsedUp,
    /// Of how many hundredths it was told already.
    pub told: u8,
}

impl Spending {
    /// Adds what runs hold and have held in the period.
    fn hold(&mut self, runs: &Held) {
        for (since, worth) in runs.values() {
            let micros = self.at.micros_since((*since).max(self.span.from));
            self.used = self.used.saturating_add(CardTime::of(u64::from(*worth), micros));
            self.cards = self.cards.saturating_add(u64::from(*worth));
        }
    }
    /// The same some time later, when nothing else has happened and the period is not over.
    #[must_use]
    pub fn as_of(self, now: Timestamp) -> Self {
        let more = CardTime::of(self.cards, now.min(self.span.until).micros_since(self.at));
        Self { used: self.used.saturating_add(more), at: self.at.max(now), ..self }
    }
    /// Whether the runs of a payer count in it.
    pub fn is_of(&self, policy: &Policy, payer: &Payer) -> bool {
        let budget = policy.budget(&self.purse.budget);
        budget.is_some_and(|budget| budget.pays(policy, payer, &self.purse))
    }
    /// Whether it is used up.
    pub fn is_over(&self) -> bool {
        self.used >= self.most
    }
    /// How many hundredths are used.
    pub fn percent(&self) -> u64 {
        self.used.percent_of(self.most)
    }
    /// The highest step of [`TOLD_AT`] that is reached, unless it was told before.
    pub fn untold(&self) -> Option<u8> {
        let reached = TOLD_AT.iter().rev().find(|step| self.percent() >= u64::from(**step));
        reached.copied().filter(|step| *step > self.told)
    }
    /// When what runs reaches the next step of [`TOLD_AT`], if it does in this period.
    pub fn next_step(&self, now: Timestamp) -> Option<Timestamp> {
        let next = TOLD_AT.iter().map(|step| self.step(*step)).filter(|step| *step > self.used).min();
        self.reaches(next?, now)
    }
    /// When it begins, or ceases, to hold jobs back by time alone.
    pub fn turns(&self, now: Timestamp) -> Option<Timestamp> {
        match (self.then, self.is_over()) {
            (UsedUp::Report, _) => None,
            (UsedUp::LowPriority | UsedUp::Refuse, true) => Some(self.span.until),
            (UsedUp::LowPriority | UsedUp::Refuse, false) => self.reaches(self.most, now),
        }
    }

    /// So many hundredths of it, rounded up.
    fn step(&self, percent: u8) -> CardTime {
        let part = (u128::from(self.most.0) * u128::from(percent)).div_ceil(100);
        CardTime(u64::try_from(part).unwrap_or(u64::MAX))
    }

    /// When so much is used by what runs, if that is in this period.
    fn reaches(&self, much: CardTime, now: Timestamp) -> Option<Timestamp> {
        let micros = CardTime(much.0.saturating_sub(self.used.0)).reached_by(self.cards)?;
        // Of each run what is held is rounded down: a moment later all of it is there.
        let micros = i64::try_from(micros).ok()?.checked_add(1000)?;
        now.0.checked_add(micros).map(Timestamp).filter(|at| *at < self.span.until)
    }
}

impl Budget {
    /// In which purse of it the runs of a payer count; none when they do not.
    pub fn purse(&self, policy: &Policy, payer: &Payer) -> Option<Purse> {
        self.counts(policy, payer).then(|| self.of(payer.uid))
    }

    /// Whether the runs of a payer count in this purse of it.
    fn pays(&self, policy: &Policy, payer: &Payer, purse: &Purse) -> bool {
        purse.uid.is_none_or(|uid| uid == payer.uid) && self.counts(policy, payer)
    }

    fn counts(&self, policy: &Policy, payer: &Payer) -> bool {
        match &self.whose {
            Whose::Account(name) => payer.account.as_deref().is_some_and(|own| policy.is_within(own, name)),
            Whose::User(uid) => payer.uid == *uid,
            Whose::EveryUser => true,
        }
    }

    fn of(&self, uid: Uid) -> Purse {
        let uid = match self.whose {
            Whose::EveryUser => Some(uid),
            Whose::Account(_) | Whose::User(_) => None,
        };
        Purse { budget: self.name.clone(), uid }
    }
}

impl Policy {
    /// The budget of this name.
    pub fn budget(&self, name: &str) -> Option<&Budget> {
        self.budgets.iter().find(|budget| budget.name == name)
    }
}

/// Whether what a run held counts in budgets and costs something when it ended so: what the site is to blame for does not.
pub fn is_charged(outcome: &Outcome) -> bool {
    !matches!(outcome.end, End::NodeFail | End::LaunchFailed)
}

impl Run {
    /// The card time that it took of a period when it ended so.
    pub fn taken(&self, outcome: &Outcome, ended: Timestamp, from: Timestamp) -> CardTime {
        let micros = if is_charged(outcome) { ended.micros_since(self.allocated.max(from)) } else { 0 };
        CardTime::of(u64::from(self.worth), micros)
    }

    /// What its cards cost, in millionths, when it ended so; none when they have no price.
    pub fn cost(&self, outcome: &Outcome, ended: Timestamp) -> Option<u64> {
        let micros = if is_charged(outcome) { ended.micros_since(self.allocated) } else { 0 };
        let cost = u128::from(self.price?) * u128::from(micros) / 3_600_000_000;
        Some(u64::try_from(cost).unwrap_or(u64::MAX))
    }
}

/// Runs that hold cards: since when, and how many thousandths.
type Held = BTreeMap<(JobId, TaskIndex), (Timestamp, u32)>;

/// What runs hold of cards, by whom it is paid for, and what was spent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Purses {
    held: BTreeMap<Arc<Payer>, Held>,
    spent: BTreeMap<Purse, Spent>,
}

impl Purses {
    pub(crate) fn hold(&mut self, payer: &Arc<Payer>, who: (JobId, TaskIndex), run: &Run) {
        if run.worth > 0 {
            self.held.entry(Arc::clone(payer)).or_default().insert(who, (run.allocated, run.worth));
        }
    }

    pub(crate) fn release(&mut self, payer: &Arc<Payer>, who: (JobId, TaskIndex)) {
        if let Some(runs) = self.held.get_mut(payer) {
            runs.remove(&who);
            if runs.is_empty() {
                self.held.remove(payer);
            }
        }
    }

    pub(crate) fn spend(&mut self, purse: Purse, spent: Spent) {
        self.spent.insert(purse, spent);
    }

    pub(crate) fn spent(&self) -> impl Iterator<Item = (&Purse, &Spent)> {
        self.spent.iter()
    }
}

impl Cluster {
    /// What runs that have ended took of a purse in the period that begins on a day.
    pub fn spent(&self, purse: &Purse, day: i64) -> Spent {
        let kept = self.ledger().purses.spent.get(purse).copied().filter(|spent| spent.day == day);
        kept.unwrap_or(Spent { day, ..Spent::default() })
    }

    /// How a purse of a budget stands.
    pub fn spending(&self, policy: &Policy, budget: &Budget, purse: Purse, now: Timestamp) -> Spending {
        let span = policy.calendar.span(budget.period, now);
        let mut spending = self.ended(budget, purse, span, now);
        for (payer, runs) in &self.ledger().purses.held {
            if budget.pays(policy, payer, &spending.purse) {
                spending.hold(runs);
            }
        }
        spending
    }

    /// How all budgets stand, in their order; of one that everybody has, those of users who have used or hold something. Costs a look at each
    /// payer who holds cards, and at his runs, for each budget.
    pub fn spendings(&self, policy: &Policy, now: Timestamp) -> Vec<Spending> {
        let mut all = Vec::new();
        let Purses { held, spent } = &self.ledger().purses;
        for budget in &policy.budgets {
            let span = policy.calendar.span(budget.period, now);
            let begin = |purse: Purse| (purse.clone(), self.ended(budget, purse, span, now));
            let mut stand: BTreeMap<Purse, Spending> = BTreeMap::new();
            if budget.whose == Whose::EveryUser {
                let of_it = |(purse, spent): &(&Purse, &Spent)| {
                    purse.budget == budget.name && purse.uid.is_some() && spent.day == span.day
                };
                stand.extend(spent.iter().filter(of_it).map(|(purse, _)| begin(purse.clone())));
            } else {
                stand.extend([begin(Purse { budget: budget.name.clone(), uid: None })]);
            }
            for (payer, runs) in held {
                let Some(purse) = budget.purse(policy, payer) else { continue };
                stand.entry(purse).or_insert_with_key(|purse| begin(purse.clone()).1).hold(runs);
            }
            all.extend(stand.into_values());
        }
        all
    }

    /// How a purse of a budget would stand if nothing ran.
    fn ended(&self, budget: &Budget, purse: Purse, span: Span, at: Timestamp) -> Spending {
        let Spent { used, told, .. } = self.spent(&purse, span.day);
        Spending { purse, span, used, most: budget.most, at, cards: 0, then: budget.then, told }
    }
}
