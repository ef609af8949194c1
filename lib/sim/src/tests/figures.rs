//! Figures: that they are what their definitions say, against slow and plain ways to count, and on the real logs against published starts.

use super::traces;
use crate::{
    fragmentation::{CardMoment, CardState, NodeState, Wish, fragmentation},
    metrics::{Capacity, Fate, Metrics, measure},
    read::read,
    spread::{Spread, jain},
    trace::{Reading, Trace, TraceJob, open},
};
use gq_model::{Grid, MiB, Profile};
use proptest::prelude::*;
use std::{collections::BTreeMap, io::BufRead, sync::Arc};

#[test]
fn ranks_are_numbers_of_the_set() {
    let mut numbers: Vec<f64> = (1..=200).rev().map(f64::from).collect();
    let spread = Spread::of(&mut numbers);
    assert_eq!(
        (spread.mean, spread.p50, spread.p95, spread.p99, spread.max),
        (100.5, 100.0, 190.0, 198.0, 200.0)
    );
    assert_eq!(Spread::of(&mut []), Spread::default());
    assert_eq!((jain(&[]), jain(&[3.0, 3.0]), jain(&[4.0, 0.0])), (1.0, 1.0, 0.5));
}

/// A job and what became of it.
fn fates() -> impl Strategy<Value = Vec<(TraceJob, Fate)>> {
    let one = (
        0i64..400,
        1i64..300,
        0i64..200,
        1u32..70,
        0u64..9,
        prop::option::weighted(0.9, 0i64..900_000),
        prop::option::of(-50i64..50),
    );
    prop::collection::vec(one, 0..40).prop_map(|all| {
        let fate = |(id, (submit, run, more, cpus, user, wait, error))| {
            let (user, wait): (u64, Option<i64>) = (user, wait);
            let name = crate::trace::Name(u32::try_from(user).unwrap());
            let job =
                TraceJob { id, submit, run, estimate: run + more, cpus, user: name, ..TraceJob::default() };
            let start = wait.map(|wait| submit + wait);
            let promise = start.and_then(|start| Some(start - error?));
            let fate =
                Fate { start, end: start.map(|s| s + run), promise, refused: wait.is_none() && user == 0 };
            (job, fate)
        };
        (0u64..).zip(all).map(fate).collect()
    })
}

fn measured(all: &[(TraceJob, Fate)], capacity: Capacity) -> Metrics {
    let jobs = all.iter().map(|(job, _)| job.clone()).collect();
    let fates: Vec<Fate> = all.iter().map(|(_, fate)| *fate).collect();
    measure(&Trace { jobs, ..Trace::default() }, &fates, capacity)
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

proptest! {
    #[test]
    fn figures_are_what_a_slow_count_says(all in fates()) {
        let m = measured(&all, Capacity { cpus: 64, milli: 0 });
        let live: Vec<&(TraceJob, Fate)> = all.iter().filter(|(_, f)| !f.refused).collect();
        let started: Vec<(&TraceJob, i64)> = all.iter().filter_map(|(j, f)| Some((j, f.start?))).collect();
        let slowdown = |j: &TraceJob, s: i64| (((s - j.submit) + j.run) as f64 / (j.run.max(10)) as f64).max(1.0);
        let n = started.len() as f64;
        if n > 0.0 {
            prop_assert!(near(m.wait.mean, started.iter().map(|(j, s)| (s - j.submit) as f64).sum::<f64>() / n));
            prop_assert!(near(m.bounded_slowdown.mean, started.iter().map(|(j, s)| slowdown(j, *s)).sum::<f64>() / n));
            prop_assert!(m.wait.p50 <= m.wait.p95 && m.wait.p95 <= m.wait.p99 && m.wait.p99 <= m.wait.max);
        }
        prop_assert_eq!(m.jobs, m.refused + m.started + m.never_started);
        for buckets in [&m.by_width, &m.by_length] {
            prop_assert_eq!(buckets.iter().map(|b| b.jobs).sum::<u64>(), m.started);
        }
        // Queue order: submission, then place in the file.
        let ahead = |a: &TraceJob, b: &TraceJob| (a.submit, a.id) < (b.submit, b.id);
        let late = |f: &Fate| f.start.unwrap_or(i64::MAX);
        let passes = |a: &(TraceJob, Fate), b: &(TraceJob, Fate)| ahead(&a.0, &b.0) && late(&b.1) < late(&a.1);
        let backfilled = live.iter().filter(|b| live.iter().any(|a| passes(a, b))).count() as u64;
        prop_assert_eq!(m.backfilled, backfilled);
        let overtaken = live.iter().map(|a| live.iter().filter(|b| passes(a, b)).count() as u64).max();
        prop_assert_eq!(m.overtaken_max, overtaken.unwrap_or(0));
        // Use, second by second at the moments at which it changes.
        let first = all.iter().map(|(j, _)| j.submit).min().unwrap_or(0);
        let last_submit = all.iter().map(|(j, _)| j.submit).max().unwrap_or(0);
        let last = all.iter().filter_map(|(_, f)| f.end).max().unwrap_or(0).max(last_submit);
        let use_until = |until: i64| {
            let mut moments: Vec<i64> = all.iter().flat_map(|(_, f)| [f.start, f.end]).flatten().chain([first, until]).collect();
            moments.sort_unstable();
            moments.windows(2).filter(|w| w[0] >= first && w[1] <= until).map(|w| {
                let held: i64 = all.iter().filter(|(_, f)| f.start.is_some_and(|s| s <= w[0]) && f.end.is_some_and(|e| e > w[0])).map(|(j, _)| i64::from(j.cpus)).sum();
                (held * (w[1] - w[0])) as f64
            }).sum::<f64>() / (64.0 * (until - first).max(1) as f64)
        };
        prop_assert!(near(m.utilisation, use_until(last)), "{} {}", m.utilisation, use_until(last));
        prop_assert!(near(m.utilisation_arrivals, use_until(last_submit)));
        prop_assert_eq!(m.makespan, last - first);
        let mut users: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        started.iter().for_each(|(j, s)| users.entry(j.user.0).or_default().push(slowdown(j, *s)));
        let means: Vec<f64> = users.values().map(|s| s.iter().sum::<f64>() / s.len() as f64).collect();
        prop_assert!(near(m.fairness, jain(&means)));
        let errors: Vec<i64> = all.iter().filter_map(|(_, f)| Some(f.start? - f.promise?)).collect();
        prop_assert_eq!(m.estimate_error.promised, errors.len() as u64);
        let later = errors.iter().filter(|e| **e > 0).count() as f64;
        prop_assert!(near(m.estimate_error.later * errors.len() as f64, later));
    }

    /// Equal jobs may change places: no figure moves.
    #[test]
    fn no_figure_knows_the_names_of_equal_jobs(all in fates(), seed: u64) {
        let mut other = all.clone();
        let mut state = seed;
        for at in (1..other.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let to = usize::try_from(state >> 33).unwrap() % (at + 1);
            if other[at].0.submit == other[to].0.submit && other[at].1.start == other[to].1.start {
                other.swap(at, to);
            }
        }
        let capacity = Capacity { cpus: 64, milli: 0 };
        prop_assert_eq!(measured(&all, capacity), measured(&other, capacity));
    }
}

#[test]
fn starved_is_who_waited_for_days_for_little() {
    let job = |estimate| TraceJob { run: 1, estimate, cpus: 1, ..TraceJob::default() };
    let fate = |start| Fate { start, end: start.map(|s: i64| s + 1), ..Fate::default() };
    let refused = Fate { refused: true, ..Fate::default() };
    let all = [
        (job(60), fate(Some(86_400))),
        (job(60), fate(Some(86_401))),
        (job(86_400), fate(Some(864_000))),
        (job(86_400), fate(Some(864_001))),
        (job(60), fate(None)),
        (job(60), refused),
    ];
    let m = measured(&all, Capacity { cpus: 1, milli: 0 });
    assert_eq!((m.starved, m.never_started, m.refused), (3, 1, 1));
}

/// A grid of eight units with the profiles 1g (one unit, seven of them), 3g and 7g.
fn grid() -> Arc<Grid> {
    let profile = |name: &str, size, starts: &[u8], most, compute| Profile {
        name: name.to_owned(),
        size,
        starts: starts.to_vec(),
        most,
        compute,
        memory: MiB(u64::from(size) * 10_240),
    };
    let profiles = vec![
        profile("1g.10gb", 1, &[0, 1, 2, 3, 4, 5, 6], 7, 1),
        profile("3g.40gb", 4, &[0, 4], 2, 3),
        profile("7g.80gb", 8, &[0], 1, 7),
    ];
    Arc::new(Grid { units: 8, profiles })
}

fn wish(cpus: u32, count: u32, profile: Option<&str>, weight: u64) -> Wish {
    Wish { cpus, memory: MiB(0), count, profile: profile.map(Arc::from), weight }
}

#[test]
fn what_no_request_can_use_is_stranded() {
    let card = |taken| CardState { grid: Some(grid()), taken };
    let node = |cpus_free, cards: Vec<CardState>| NodeState { cpus_free, memory_free: MiB(1), cards };
    // Unit 0 taken: a 3g still fits at 4, a 7g does not.
    let nodes = [node(8, vec![card(0b1), card(0)])];
    let share = |wish: Wish| fragmentation(&nodes, &[wish]);
    assert_eq!(share(wish(1, 1, Some("3g.40gb"), 1)), 0.0);
    assert!(near(share(wish(1, 1, Some("7g.80gb"), 1)), 875.0 / 1875.0));
    assert_eq!(share(wish(1, 2, Some("7g.80gb"), 1)), 1.0);
    assert_eq!(share(wish(9, 1, Some("1g.10gb"), 1)), 1.0);
    assert!(near(share(wish(1, 1, None, 1)), 875.0 / 1875.0));
    // The mean over the mix.
    let mix = [wish(1, 1, Some("3g.40gb"), 3), wish(9, 1, Some("1g.10gb"), 1)];
    assert!(near(fragmentation(&nodes, &mix), 0.25));
    let moment = CardMoment::of(&nodes, &mix, 2500);
    assert!(near(moment.allocated, 125.0 / 2000.0) && near(moment.arrived, 1.25));
    assert!(near(moment.stranded, 0.25 * 1875.0 / 2000.0));
    // Whole cards, and nothing at all.
    let whole = |taken| CardState { grid: None, taken };
    let nodes = [node(4, vec![whole(1), whole(0), whole(0)])];
    assert_eq!(fragmentation(&nodes, &[wish(1, 2, None, 1)]), 0.0);
    assert_eq!(fragmentation(&nodes, &[wish(1, 3, None, 1)]), 1.0);
    assert_eq!(fragmentation(&[], &[wish(1, 3, None, 1)]), 0.0);
    assert_eq!(fragmentation(&nodes, &[]), 0.0);
}

/// What is published of a log and policy: jobs, mean wait, mean bounded slowdown, utilisation, makespan, backfilled.
type Published = (&'static str, u32, &'static str, u64, f64, f64, f64, i64, u64);

#[test]
fn figures_of_published_starts_are_the_published_ones() {
    let Some(folder) = traces() else { return };
    let published: [Published; 4] = [
        ("KTH-SP2-1996-2.1-cln", 100, "fcfs", 27_992, 218_832.062, 4294.5004, 0.6837, 28_779_758, 0),
        ("KTH-SP2-1996-2.1-cln", 100, "easy", 27_992, 6351.4934, 86.3712, 0.6841, 28_763_776, 16_601),
        ("HPC2N-2002-2.1-cln", 240, "easy", 202_876, 10800.5278, 89.0365, 0.5906, 109_598_927, 37_793),
        ("LLNL-Thunder-2007-1.1-cln", 4008, "easy", 113_613, 317.4399, 4.3836, 0.8635, 12_976_994, 10_126),
    ];
    for (log, procs, policy, jobs, wait, slowdown, utilisation, makespan, backfilled) in published {
        let reading = Reading { strict: true, first: None, widest: Some(procs) };
        let (_, trace) = read(&folder.join(format!("{log}.swf.gz")), None, reading).unwrap();
        let starts = open(&folder.join(format!("reference/{log}.{procs}.{policy}.all.starts.gz"))).unwrap();
        let fates: BTreeMap<u64, i64> = starts
            .lines()
            .map(|line| {
                let line = line.unwrap();
                let (id, start) = line.split_once(' ').unwrap();
                (id.parse().unwrap(), start.parse().unwrap())
            })
            .collect();
        let fate = |job: &TraceJob| {
            let start = fates[&job.id];
            Fate { start: Some(start), end: Some(start + job.run), ..Fate::default() }
        };
        let fates: Vec<Fate> = trace.jobs.iter().map(fate).collect();
        let m = measure(&trace, &fates, Capacity { cpus: u64::from(procs), milli: 0 });
        let name = format!("{log} {policy}");
        assert_eq!((m.started, m.makespan, m.backfilled), (jobs, makespan, backfilled), "{name}");
        assert!((m.wait.mean - wait).abs() < 5e-4, "{name}: {}", m.wait.mean);
        assert!((m.bounded_slowdown.mean - slowdown).abs() < 5e-4, "{name}: {}", m.bounded_slowdown.mean);
        assert!((m.utilisation - utilisation).abs() < 5e-4, "{name}: {}", m.utilisation);
    }
}
