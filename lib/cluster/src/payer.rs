//! Payers: on whose account jobs run, and what each has waiting and running. Sums only; limits are the policy's.

use crate::Run;
use alloc::string::String;
use gq_model::{Timestamp, Uid};
use serde::{Deserialize, Serialize};

/// On whose account a job runs: what limits and fair share look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Payer {
    /// The user.
    pub uid: Uid,
    /// The partition.
    pub partition: String,
    /// The account, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The QOS, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
}

/// What a payer has in the queue and in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Tasks that live, waiting or running.
    pub submitted: u64,
    /// Tasks that hold resources.
    pub jobs: u64,
    /// Cpus held.
    pub cpus: u64,
    /// Cards held, in thousandths.
    pub cards: u64,
    /// What the runs are charged for each second, in thousandths of a card.
    pub rate: u64,
    /// The sum over runs of their rate times the second they are charged from.
    pub(crate) since: i128,
}

impl Holdings {
    /// Of one run more; it is charged nothing yet.
    pub fn of_run(cpus: u32, cards: u32) -> Self {
        Self { jobs: 1, cpus: u64::from(cpus), cards: u64::from(cards), ..Self::default() }
    }
    /// Of one run as it is.
    pub(crate) fn of(run: &Run) -> Self {
        let rate = u64::from(run.rate);
        let second = i128::from(run.allocated.0.div_euclid(1_000_000));
        Self { rate, since: i128::from(rate).saturating_mul(second), ..Self::of_run(run.cpus, run.worth) }
    }
    /// Adds up what several payers hold.
    #[must_use]
    pub fn with(self, other: &Self) -> Self {
        Self {
            submitted: self.submitted.saturating_add(other.submitted),
            jobs: self.jobs.saturating_add(other.jobs),
            cpus: self.cpus.saturating_add(other.cpus),
            cards: self.cards.saturating_add(other.cards),
            rate: self.rate.saturating_add(other.rate),
            since: self.since.saturating_add(other.since),
        }
    }

    /// Takes away what was added.
    #[must_use]
    pub(crate) fn without(self, other: &Self) -> Self {
        Self {
            submitted: self.submitted.saturating_sub(other.submitted),
            jobs: self.jobs.saturating_sub(other.jobs),
            cpus: self.cpus.saturating_sub(other.cpus),
            cards: self.cards.saturating_sub(other.cards),
            rate: self.rate.saturating_sub(other.rate),
            since: self.since.saturating_sub(other.since),
        }
    }

    /// What the runs that live have cost so far, in thousandths of a card times seconds.
    pub fn accrued(&self, now: Timestamp) -> u64 {
        let now = i128::from(now.0.div_euclid(1_000_000));
        let total = i128::from(self.rate).saturating_mul(now).saturating_sub(self.since);
        u64::try_from(total.max(0)).unwrap_or(u64::MAX)
    }
}

/// Use of cards in the past, halved with every half-life of the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Thousandths of a card times seconds, as of `at`.
    pub charge: u64,
    /// When.
    pub at: Timestamp,
}
