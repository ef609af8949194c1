//! Metrics: what a simulation comes to, computed from the log and from what became of each job. Times are whole seconds of the log.
//!
//! Definitions. *Wait*: from submission to start. *Bounded slowdown*: max(1, (wait + run) / max(run, 10 s)). *Utilisation to makespan*:
//! processor seconds (card seconds, when the log asks for cards) held, of what the machine had from the first submission to the
//! last end; *in the arrival window*: the same until the last submission, without the tail in which the machine drains. *Starved*: a
//! job that never started, or waited more than ten times its own time limit and more than a day. *Overtaken*: how many jobs
//! submitted later started before it. *Backfilled*: a job that started while one submitted before it still waited. *Fairness*: Jain's index
//! over the users' mean bounded slowdowns. *Estimate error*: start less first promise.

use crate::{
    spread::{Spread, jain, mean, share},
    trace::{Trace, TraceJob},
};
use serde::Serialize;
use std::collections::BTreeMap;

/// Shorter runs count as this long in a slowdown, in seconds.
const TAU: i64 = 10;
/// A job that waited so many times its limit may be starved.
const STARVED_TIMES: i64 = 10;
/// A job that waited less is not starved, in seconds.
const STARVED_LEAST: i64 = 86_400;

/// What became of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    /// When it started.
    pub(crate) start: Option<i64>,
    /// When it ended.
    pub(crate) end: Option<i64>,
    /// The first start it was promised, if it ever was.
    pub(crate) promise: Option<i64>,
    /// Whether it was refused at submission.
    pub(crate) refused: bool,
}

/// What the machine has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Capacity {
    /// Cpus of all nodes.
    pub(crate) cpus: u64,
    /// Cards of all nodes, in thousandths.
    pub(crate) milli: u64,
}

/// Jobs of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Bucket {
    /// Which jobs.
    pub(crate) kind: &'static str,
    /// How many.
    pub(crate) jobs: u64,
    /// Their mean wait, in seconds.
    pub(crate) mean_wait: f64,
    /// Their bounded slowdown.
    pub(crate) bounded_slowdown: Spread,
}

/// How well jobs were told when they would start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct EstimateError {
    /// Jobs that were promised a start before they started.
    pub(crate) promised: u64,
    /// Mean of start less first promise, in seconds; below 0 when jobs start sooner.
    pub(crate) mean: f64,
    /// Its median.
    pub(crate) p50: f64,
    /// What 95 of 100 do not exceed.
    pub(crate) p95: f64,
    /// The worst.
    pub(crate) max: f64,
    /// Share of the promised jobs that started later than promised.
    pub(crate) later: f64,
}

/// What a simulation comes to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Metrics {
    /// Jobs that were submitted.
    pub(crate) jobs: u64,
    /// Of these, refused at submission.
    pub(crate) refused: u64,
    /// Of these, started.
    pub(crate) started: u64,
    /// Wait of those that started, in seconds.
    pub(crate) wait: Spread,
    /// Bounded slowdown of those that started.
    pub(crate) bounded_slowdown: Spread,
    /// The same by width.
    pub(crate) by_width: Vec<Bucket>,
    /// The same by length of the run.
    pub(crate) by_length: Vec<Bucket>,
    /// What was held of what there was, from the first submission to the last end.
    pub(crate) utilisation: f64,
    /// The same until the last submission.
    pub(crate) utilisation_arrivals: f64,
    /// From the first submission to the last end, in seconds.
    pub(crate) makespan: i64,
    /// Jobs that starved.
    pub(crate) starved: u64,
    /// Jobs that never started, those refused left out.
    pub(crate) never_started: u64,
    /// Most jobs by which one was overtaken.
    pub(crate) overtaken_max: u64,
    /// Users.
    pub(crate) users: u64,
    /// Jain's index over their mean bounded slowdowns.
    pub(crate) fairness: f64,
    /// How well jobs were told their start.
    pub(crate) estimate_error: EstimateError,
    /// Jobs that were backfilled.
    pub(crate) backfilled: u64,
}

/// One job that started.
struct Ran<'t> {
    job: &'t TraceJob,
    wait: f64,
    slowdown: f64,
}

/// Measures a simulation. `fates` are those of the jobs of `trace`, in the same order.
pub(crate) fn measure(trace: &Trace, fates: &[Fate], capacity: Capacity) -> Metrics {
    let ran: Vec<Ran<'_>> = trace
        .jobs
        .iter()
        .zip(fates)
        .filter_map(|(job, fate)| {
            let wait = fate.start?.saturating_sub(job.submit);
            Some(Ran { job, wait: wait as f64, slowdown: slowdown(wait, job.run) })
        })
        .collect();
    let refused = fates.iter().filter(|fate| fate.refused).count() as u64;
    let users = by_user(&ran);
    let (backfilled, overtaken_max) = overtakings(&trace.jobs, fates);
    let span = Span::of(&trace.jobs, fates);
    let (utilisation, utilisation_arrivals) = span.utilisation(&trace.jobs, fates, capacity);
    Metrics {
        jobs: trace.jobs.len() as u64,
        refused,
        started: ran.len() as u64,
        wait: Spread::of(&mut ran.iter().map(|r| r.wait).collect::<Vec<_>>()),
        bounded_slowdown: Spread::of(&mut ran.iter().map(|r| r.slowdown).collect::<Vec<_>>()),
        by_width: buckets(&ran, &WIDTHS, |job| i64::from(job.width())),
        by_length: buckets(&ran, &LENGTHS, |job| job.run),
        utilisation,
        utilisation_arrivals,
        makespan: span.last_end.saturating_sub(span.first),
        starved: trace.jobs.iter().zip(fates).filter(|(job, fate)| is_starved(job, fate)).count() as u64,
        never_started: (fates.len() - ran.len()) as u64 - refused,
        overtaken_max,
        users: users.len() as u64,
        fairness: jain(&users),
        estimate_error: estimate_error(fates),
        backfilled,
    }
}

fn slowdown(wait: i64, run: i64) -> f64 {
    ((wait + run) as f64 / run.max(TAU) as f64).max(1.0)
}

fn is_starved(job: &TraceJob, fate: &Fate) -> bool {
    match fate.start {
        None => !fate.refused,
        Some(start) => {
            let wait = start.saturating_sub(job.submit);
            wait > STARVED_LEAST && wait > job.estimate.saturating_mul(STARVED_TIMES)
        }
    }
}

/// Kinds of width: up to so many processors or cards.
const WIDTHS: [(i64, &str); 6] =
    [(1, "1"), (4, "2-4"), (16, "5-16"), (64, "17-64"), (256, "65-256"), (i64::MAX, "over 256")];
/// Kinds of length: up to so many seconds.
const LENGTHS: [(i64, &str); 6] = [
    (60, "to 1 min"),
    (600, "to 10 min"),
    (3600, "to 1 h"),
    (6 * 3600, "to 6 h"),
    (86_400, "to 1 d"),
    (i64::MAX, "over 1 d"),
];

fn buckets(ran: &[Ran<'_>], kinds: &[(i64, &'static str)], of: impl Fn(&TraceJob) -> i64) -> Vec<Bucket> {
    let mut least = i64::MIN;
    let mut buckets = Vec::with_capacity(kinds.len());
    for (most, kind) in kinds {
        let of_kind: Vec<&Ran<'_>> = ran.iter().filter(|r| (least..=*most).contains(&of(r.job))).collect();
        least = most.saturating_add(1);
        if of_kind.is_empty() {
            continue;
        }
        let mut waits: Vec<f64> = of_kind.iter().map(|r| r.wait).collect();
        waits.sort_unstable_by(f64::total_cmp);
        buckets.push(Bucket {
            kind,
            jobs: of_kind.len() as u64,
            mean_wait: mean(&waits),
            bounded_slowdown: Spread::of(&mut of_kind.iter().map(|r| r.slowdown).collect::<Vec<_>>()),
        });
    }
    buckets
}

/// Each user's mean bounded slowdown.
fn by_user(ran: &[Ran<'_>]) -> Vec<f64> {
    let mut users: BTreeMap<_, Vec<f64>> = BTreeMap::new();
    for r in ran {
        users.entry(r.job.user).or_default().push(r.slowdown);
    }
    users
        .into_values()
        .map(|mut slowdowns| {
            slowdowns.sort_unstable_by(f64::total_cmp);
            mean(&slowdowns)
        })
        .collect()
}

fn estimate_error(fates: &[Fate]) -> EstimateError {
    let error = |fate: &Fate| Some((fate.start? - fate.promise?) as f64);
    let mut errors: Vec<f64> = fates.iter().filter_map(error).collect();
    let later = errors.iter().filter(|e| **e > 0.0).count();
    let spread = Spread::of(&mut errors);
    EstimateError {
        promised: errors.len() as u64,
        mean: spread.mean,
        p50: spread.p50,
        p95: spread.p95,
        max: spread.max,
        later: share(later as f64, errors.len() as f64),
    }
}

/// The span of time of a simulation.
struct Span {
    first: i64,
    last_submit: i64,
    last_end: i64,
}

impl Span {
    fn of(jobs: &[TraceJob], fates: &[Fate]) -> Self {
        let submits = || jobs.iter().map(|job| job.submit);
        let first = submits().min().unwrap_or_default();
        let last_submit = submits().max().unwrap_or_default();
        let last_end = fates.iter().filter_map(|fate| fate.end).max().unwrap_or(last_submit);
        Self { first, last_submit, last_end: last_end.max(last_submit) }
    }

    /// What was held of what there was: to the last end, and to the last submission. Cards count when the machine has some and a
    /// job asks for some; else cpus.
    fn utilisation(&self, jobs: &[TraceJob], fates: &[Fate], capacity: Capacity) -> (f64, f64) {
        let cards = counts_cards(jobs, capacity);
        let (mut whole, mut window) = (0i128, 0i128);
        for (job, fate) in jobs.iter().zip(fates) {
            let (Some(start), Some(end)) = (fate.start, fate.end) else { continue };
            let held = i128::from(held(job, cards));
            whole += held * i128::from(end.saturating_sub(start));
            window += held * i128::from(end.min(self.last_submit).saturating_sub(start).max(0));
        }
        let there = if cards { capacity.milli } else { capacity.cpus };
        let of = |held: i128, until: i64| {
            share(held as f64, there as f64 * until.saturating_sub(self.first) as f64)
        };
        (of(whole, self.last_end), of(window, self.last_submit))
    }
}

/// Whether use is counted in cards: the machine has some, and a job asks for some.
pub(crate) fn counts_cards(jobs: &[TraceJob], capacity: Capacity) -> bool {
    capacity.milli > 0 && jobs.iter().any(|job| job.cards > 0)
}

/// What a job holds: thousandths of cards, or processors. A log of cards on a machine without any takes a card as a processor.
pub(crate) fn held(job: &TraceJob, cards: bool) -> u64 {
    if cards { job.milli() } else { u64::from(job.width().max(job.cpus)) }
}

/// How many jobs were backfilled, and by how many jobs the unluckiest was overtaken.
fn overtakings(jobs: &[TraceJob], fates: &[Fate]) -> (u64, u64) {
    // In the order of submission; the sort is stable, so that jobs of one second stay in the order of the file.
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|i| jobs.get(*i).map(|job| job.submit));
    let start = |i: &usize| match fates.get(*i) {
        Some(fate) if !fate.refused => Some(fate.start.unwrap_or(i64::MAX)),
        _ => None,
    };
    let starts: Vec<i64> = order.iter().filter_map(start).collect();
    // A job that never started lets everybody behind it pass.
    let mut latest = i64::MIN;
    let mut backfilled = 0;
    for start in &starts {
        backfilled += u64::from(*start < latest);
        latest = latest.max(*start);
    }
    (backfilled, most_overtaken(&starts))
}

/// The most jobs behind one that started before it, by a tree of sums over the ranks of the starts.
fn most_overtaken(starts: &[i64]) -> u64 {
    let mut ranks: Vec<i64> = starts.to_vec();
    ranks.sort_unstable();
    ranks.dedup();
    let mut tree = vec![0u64; ranks.len() + 1];
    let mut most = 0;
    for start in starts.iter().rev() {
        let rank = ranks.partition_point(|other| other < start);
        let (mut sum, mut at) = (0, rank);
        while at > 0 {
            sum += tree.get(at).copied().unwrap_or_default();
            at &= at - 1;
        }
        most = most.max(sum);
        at = rank + 1;
        while let Some(node) = tree.get_mut(at) {
            *node += 1;
            at += at & at.wrapping_neg();
        }
    }
    most
}
