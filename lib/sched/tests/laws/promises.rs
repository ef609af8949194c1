//! Promises: with exact limits, a reservation is kept or beaten, whatever is started in the holes before it; and nobody starves.

use crate::lab::{Lab, a100s, lasting, shape};
use gq_cluster::{Demand, Depth, Shape};
use gq_model::{JobId, Reason, Seconds, Timestamp};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
struct Arrival {
    after: u64,
    cpus: u32,
    cards: u32,
    exclusive: bool,
    seconds: u64,
}

fn an_arrival() -> impl Strategy<Value = Arrival> {
    (0..40u64, 1..9u32, 0..4u32, prop::bool::weighted(0.1), 1..120u64).prop_map(
        |(after, cpus, cards, exclusive, seconds)| Arrival { after, cpus, cards, exclusive, seconds },
    )
}

fn two_nodes() -> Lab {
    let mut lab = Lab::new();
    lab.node("ws0", 8, 8192, a100s(4));
    lab.node("ws1", 8, 4096, a100s(2));
    lab
}

impl Arrival {
    fn shape(&self) -> Shape {
        let plain = lasting(shape(self.cpus, self.cards), self.seconds);
        Shape { demand: Demand { exclusive: self.exclusive, ..plain.demand }, ..plain }
    }
}

/// The first promise to every job that got one.
type Promises = BTreeMap<JobId, Timestamp>;

/// One planning pass: each promise is kept or beaten, and never taken back for a later one.
fn pass(lab: &mut Lab, promised: &mut Promises) -> Result<(), TestCaseError> {
    let plan = lab.start();
    for start in &plan.starts {
        if let Some(at) = promised.get(&start.job) {
            prop_assert!(lab.now <= *at, "job {} was promised {at:?} and starts at {:?}", start.job, lab.now);
        }
    }
    for (job, (at, _)) in &plan.outlook.reserved {
        let before = promised.entry(*job).or_insert(*at);
        prop_assert!(*at <= *before, "job {job} was promised {before:?} and is now promised {at:?}");
        *before = *at;
    }
    Ok(())
}

proptest! {
    #[test]
    fn backfill_never_delays_who_was_promised_a_start(arrivals in prop::collection::vec(an_arrival(), 1..60)) {
        let mut lab = two_nodes();
        let mut promised = Promises::new();
        for arrival in &arrivals {
            let until = lab.now.after(Seconds(arrival.after));
            while lab.due().iter().any(|(at, _)| *at <= until) {
                lab.let_one_end();
                pass(&mut lab, &mut promised)?;
            }
            lab.now = until;
            lab.submit(arrival.shape());
            pass(&mut lab, &mut promised)?;
        }
        while lab.let_one_end() {
            pass(&mut lab, &mut promised)?;
        }
        prop_assert_eq!(lab.cluster.job_count(), 0);
    }

    #[test]
    fn jobs_that_end_early_only_make_promises_better(
        arrivals in prop::collection::vec((an_arrival(), any::<prop::sample::Index>()), 1..60),
    ) {
        let mut lab = two_nodes();
        let mut promised = Promises::new();
        for (arrival, early) in &arrivals {
            lab.submit(arrival.shape());
            pass(&mut lab, &mut promised)?;
            let due = lab.due();
            if let Some((at, key)) = due.get(early.index(due.len().max(1))) {
                lab.now = lab.now.after(Seconds(1)).min(*at);
                lab.end(*key);
                pass(&mut lab, &mut promised)?;
            }
            while lab.due().iter().any(|(at, _)| *at <= lab.now) {
                lab.let_one_end();
                pass(&mut lab, &mut promised)?;
            }
        }
        while lab.let_one_end() {
            pass(&mut lab, &mut promised)?;
        }
        prop_assert_eq!(lab.cluster.job_count(), 0);
    }
}

#[test]
fn a_wide_job_in_a_stream_of_narrow_ones_starts() {
    for depth in [Depth::First(1), Depth::First(4), Depth::All] {
        let mut lab = Lab::new();
        lab.policy.depth = depth;
        lab.node("ws0", 8, 8192, a100s(4));
        for second in 0..8 {
            lab.submit(lasting(shape(1, 0), 10 + second));
        }
        lab.start();
        let wide = lab.submit(lasting(shape(8, 4), 100));
        let mut rounds = 0;
        while !lab.is_running(wide) {
            // Every end is followed by two arrivals: there is always a narrow job that would fit.
            lab.submit(lasting(shape(1, 0), 15));
            lab.submit(lasting(shape(1, 0), 3));
            lab.start();
            assert!(lab.is_running(wide) || lab.let_one_end());
            rounds += 1;
            assert!(rounds < 100, "{depth:?}: the wide job starves");
        }
    }
}

#[test]
fn a_greedy_plan_makes_no_promise() {
    let mut lab = Lab::new();
    lab.policy.depth = Depth::First(0);
    lab.node("ws0", 2, 4096, Vec::new());
    lab.submit(shape(1, 0));
    lab.start();
    let wide = lab.submit(shape(2, 0));
    let narrow = lab.submit(lasting(shape(1, 0), 1_000));
    let plan = lab.start();
    assert!(plan.outlook.reserved.is_empty() && lab.is_running(narrow));
    assert_eq!(lab.reason(wide), Reason::Resources);
}

#[test]
fn a_later_job_starts_in_a_hole_that_it_leaves_in_time_or_beside_the_promise() {
    let mut lab = Lab::new();
    lab.node("ws0", 4, 8192, a100s(4));
    let first = lab.submit(lasting(shape(2, 2), 100));
    lab.start();
    let blocked = lab.submit(lasting(shape(3, 1), 100));
    let long = lab.submit(lasting(shape(2, 0), 101));
    let short = lab.submit(lasting(shape(1, 0), 100));
    let beside = lab.submit(lasting(shape(1, 1), 1_000));
    let plan = lab.start();
    assert!(lab.is_running(first) && lab.is_running(short) && lab.is_running(beside));
    assert!(!lab.is_running(long), "it would still hold two cpus when the promise falls due");
    let (at, node) = &plan.outlook.reserved[&blocked];
    assert_eq!((*at, node.as_str()), (lab.now.after(Seconds(100)), "ws0"));
    assert_eq!((lab.reason(blocked), lab.reason(long)), (Reason::Resources, Reason::Priority));
}

#[test]
fn an_estimate_is_what_then_comes_true() {
    let mut lab = two_nodes();
    for cpus in [8, 4, 8, 3] {
        lab.submit(lasting(shape(cpus, 1), u64::from(cpus) * 10));
    }
    lab.start();
    let asked = lasting(shape(6, 0), 20);
    let (_, at) = gq_sched::estimate(&lab.cluster, &lab.policy, lab.now, &asked).unwrap();
    let job = lab.submit(asked);
    lab.start();
    while !lab.is_running(job) {
        assert!(lab.let_one_end());
        lab.start();
    }
    assert!(lab.now <= at, "expected {at:?}, started {:?}", lab.now);
}

#[test]
fn a_nodes_wrong_clock_moves_no_promise() {
    for skew in [-86_400_000_000, 86_400_000_000] {
        let mut lab = Lab::new();
        lab.skew = skew;
        lab.node("ws0", 4, 8192, Vec::new());
        lab.submit(lasting(shape(3, 0), 100));
        lab.start();
        let due = lab.now.after(Seconds(100));
        lab.now = lab.now.after(Seconds(10));
        let wide = lab.submit(lasting(shape(4, 0), 100));
        assert_eq!(lab.start().outlook.reserved[&wide].0, due);
    }
}
