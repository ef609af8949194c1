//! Priority: how much each factor counts for a job. Never decides whether it starts.

use crate::share::Ranks;
use gq_cluster::{Cluster, Job, Memory, Payer, Policy, Shape, WHOLE_CARD, Weights};
use gq_model::Timestamp;

/// The factors of a job's priority, each with its weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Factors {
    /// How long it has waited.
    pub age: i64,
    /// How little its user has used for his share.
    pub fair_share: i64,
    /// How little it asks for.
    pub size: i64,
    /// Its partition.
    pub partition: i64,
    /// Its QOS.
    pub qos: i64,
    /// Its own part: minus its nice value.
    pub own: i64,
    /// That a budget is used up: it stands behind all others.
    pub budget: i64,
    /// All together.
    pub total: i64,
}

/// What a job lacks to the others whose payer has used up a budget: more than tiers, partitions and whatever users say come to.
pub(crate) const BEHIND: i64 = 1 << 61;

/// The factors of `job` as of `now`.
pub fn factors(cluster: &Cluster, policy: &Policy, now: Timestamp, job: &Job) -> Factors {
    let mut ranks = Ranks::default();
    ranks.refresh(cluster, policy, now);
    let (mut factors, weights) = (of_group(policy, &job.shape, &job.payer), &policy.weights);
    factors.fair_share = of_rank(weights, ranks.of(&job.payer));
    factors.age = of_age(weights, job.submitted, now);
    factors.own = job.priority;
    factors.total =
        [factors.age, factors.fair_share, factors.size, factors.partition, factors.qos, factors.own]
            .into_iter()
            .fold(0, i64::saturating_add);
    factors
}

impl Factors {
    /// The same of a job for which a budget is used up, so that it stands behind all others.
    #[must_use]
    pub fn behind(self) -> Self {
        Self { budget: -BEHIND, total: self.total.saturating_sub(BEHIND), ..self }
    }
}

/// What is the same for all jobs of a shape and payer and does not change with time: size, partition and QOS.
pub(crate) fn of_group(policy: &Policy, shape: &Shape, payer: &Payer) -> Factors {
    let weights = &policy.weights;
    let partition = policy.partition(&shape.partition).map_or(0, |p| p.priority);
    let qos = payer.qos.as_deref().and_then(|name| policy.qos(name)).map_or(0, |q| q.priority);
    let mut factors = Factors {
        size: if weights.size == 0 { 0 } else { part(weights.size, smallness(policy, shape)) },
        partition: weights.partition.saturating_mul(partition),
        qos: weights.qos.saturating_mul(qos),
        ..Factors::default()
    };
    factors.total = factors.size.saturating_add(factors.partition).saturating_add(factors.qos);
    factors
}

/// The most that size, fair share and age could give a job together. Who was promised a start is taken to have it, so that only a job of a
/// higher partition, QOS or nice value goes before him.
pub(crate) fn most(weights: &Weights) -> i64 {
    [weights.size, weights.fair_share, weights.age]
        .into_iter()
        .map(|weight| weight.max(0))
        .fold(0, i64::saturating_add)
}

/// Thousandths of a weight.
fn part(weight: i64, thousandths: i64) -> i64 {
    i64::try_from(i128::from(weight) * i128::from(thousandths) / 1000).unwrap_or(i64::MAX)
}

pub(crate) fn of_rank(weights: &Weights, rank: i64) -> i64 {
    if weights.fair_share == 0 { 0 } else { part(weights.fair_share, rank) }
}

/// Age counts with the square of the time waited: little on the first day, everything towards `age_max`, so that it orders nobody's day but
/// lets nobody starve.
pub(crate) fn of_age(weights: &Weights, submitted: Timestamp, now: Timestamp) -> i64 {
    if weights.age == 0 {
        return 0;
    }
    // In whole seconds, so that the square of the longest span there is fits.
    let most = u128::from(weights.age_max.0.clamp(1, u64::from(u32::MAX)));
    let waited = u128::from(now.micros_since(submitted) / 1_000_000).min(most);
    let part = i128::try_from(waited * waited * 1_000_000 / (most * most)).unwrap_or(0);
    i64::try_from(i128::from(weights.age) * part / 1_000_000).unwrap_or(i64::MAX)
}

/// How little a job asks for, in thousandths: the binary logarithm of its cards (and cpus, as they are charged) times its time limit, from
/// 1000 for nothing down to 0 for 2^44 thousandths of a card times seconds.
fn smallness(policy: &Policy, shape: &Shape) -> i64 {
    let cards = u64::from(shape.demand.cards.count).saturating_mul(u64::from(WHOLE_CARD));
    let cpus = u64::from(shape.demand.cpus).saturating_mul(u64::from(policy.cpu_charge.max(1)));
    let memory = if shape.demand.memory == Memory::WholeNode { cpus } else { 0 };
    let area = cards
        .saturating_add(cpus)
        .saturating_add(memory)
        .saturating_mul(crate::need::span(shape.time_limit).0)
        .max(1);
    let whole = area.ilog2();
    let rest = if whole >= 10 { (area >> (whole - 10)) & 0x3ff } else { (area << (10 - whole)) & 0x3ff };
    let log = i64::from(whole) * 1024 + i64::try_from(rest).unwrap_or(0);
    (1000 - log * 1000 / (44 * 1024)).clamp(0, 1000)
}
