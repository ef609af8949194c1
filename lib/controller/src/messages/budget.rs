//! News of budgets: so much of one is used. What is said of it, and to whom.

use super::note::What;
use gq_cluster::{Cluster, Event, Policy, UsedUp, Whose};
use gq_engine::Step;
use gq_model::{CardTime, Period, Timestamp, Uid};

/// That so much of a budget is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct News {
    pub(crate) budget: String,
    /// The account whose it is.
    pub(crate) account: Option<String>,
    /// The user whose it is, by name.
    pub(crate) user: Option<String>,
    pub(crate) percent: u8,
    pub(crate) used: CardTime,
    pub(crate) most: CardTime,
    pub(crate) period: Period,
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
    pub(crate) then: UsedUp,
    /// To whom a message goes.
    pub(crate) to: String,
}

impl News {
    /// What an event says of a budget, with those who are to get a message; none when it is about something else.
    pub(crate) fn of(
        policy: &Policy,
        cluster: &Cluster,
        steps: &[Step],
        event: &Event,
    ) -> Option<(Self, Vec<String>)> {
        let Event::BudgetReached { purse, percent, used, until, .. } = event else { return None };
        let budget = policy.budget(&purse.budget)?;
        let span = policy.calendar.span(budget.period, Timestamp(until.0.saturating_sub(1)));
        let (account, user) = match (&budget.whose, purse.uid) {
            (Whose::Account(name), _) => (Some(name.clone()), None),
            (Whose::EveryUser, Some(uid)) => (None, Some(name_of(cluster, steps, uid))),
            (Whose::User(_) | Whose::EveryUser, _) => (None, budget.tell.first().cloned()),
        };
        let own = user.iter().filter(|_| budget.tell.is_empty());
        let tell: Vec<String> = budget.tell.iter().chain(own).cloned().collect();
        let news = Self {
            budget: budget.name.clone(),
            account,
            user,
            percent: *percent,
            used: *used,
            most: budget.most,
            period: budget.period,
            from: span.from,
            until: *until,
            then: budget.then,
            to: String::new(),
        };
        Some((news, tell))
    }

    /// It as news for one of those it concerns.
    pub(crate) fn to(&self, name: String) -> What {
        What::Budget(Box::new(Self { to: name, ..self.clone() }))
    }

    /// Whose it is, in words.
    pub(crate) fn whose(&self) -> String {
        let account = self.account.as_ref().map(|name| format!("account {name}"));
        let user = || self.user.as_ref().map(|name| format!("user {name}"));
        account.or_else(user).unwrap_or_default()
    }

    /// What has happened, in a sentence.
    pub(crate) fn sentence(&self) -> String {
        format!(
            "budget {} of {}: {} % are used: {} of {} card-hours of this {}",
            self.budget,
            self.whose(),
            self.percent,
            self.used,
            self.most,
            self.period.name(),
        )
    }

    /// What follows, in a sentence.
    pub(crate) const fn what_follows(&self) -> &'static str {
        match self.then {
            UsedUp::Report => "Jobs go on as before.",
            UsedUp::LowPriority => "While it is used up, jobs that ask for cards stand behind all others.",
            UsedUp::Refuse => {
                "While it is used up, no new jobs that ask for cards are taken, and none that wait are started; what runs goes on."
            }
        }
    }
}

/// The name of a user, as one of his jobs has it.
fn name_of(cluster: &Cluster, steps: &[Step], uid: Uid) -> String {
    let ended = steps.iter().filter_map(|step| step.before.as_ref());
    let job = ended.chain(cluster.jobs()).find(|job| job.uid == uid);
    job.map_or_else(|| uid.to_string(), |job| job.user.clone())
}
