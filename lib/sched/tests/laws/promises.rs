//! Promises: with exact limits, a reservation is kept or beaten, whatever is started in the holes before it.

use crate::{
    audit::check_starts,
    lab::{Lab, a100s, cases, lasting, shape},
    site::a_firm_site,
    wishes::{BookingWish, Move, a_booking, a_calm_move, a_plain_wish, a_shape},
};
use gq_cluster::{Depth, Event, Shape};
use gq_model::{JobId, LicenceAsk, Reason, Seconds, TaskIndex, Timestamp};
use gq_sched::Plan;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The earliest promise to every task that got one: the first that waits of its job.
type Promises = BTreeMap<(JobId, TaskIndex), Timestamp>;

/// Each promise is kept or beaten, and never taken back for a later one.
fn keeps(lab: &Lab, plan: &Plan, promised: &mut Promises) -> Result<(), TestCaseError> {
    check_starts(lab, plan)?;
    for start in &plan.starts {
        if let Some(at) = promised.get(&(start.job, start.task)) {
            prop_assert!(lab.now <= *at, "{} was promised {at:?} and starts at {:?}", start.job, lab.now);
        }
    }
    for (job, (at, _)) in &plan.outlook.reserved {
        let started = plan.starts.iter().filter(|start| start.job == *job).count();
        let next = lab.cluster.job(*job).unwrap().waiting.iter().nth(started).unwrap();
        let before = promised.entry((*job, TaskIndex(next))).or_insert(*at);
        prop_assert!(*at <= *before, "job {job} was promised {before:?} and is now promised {at:?}");
        *before = *at;
    }
    // Who was promised a start and waits still is promised it still, or its time has not come.
    for ((job, task), at) in &*promised {
        let waits = lab.cluster.job(*job).is_some_and(|job| job.waiting.contains(task.0));
        let starts = plan.starts.iter().any(|start| (start.job, start.task) == (*job, *task));
        prop_assert!(!waits || starts || *at > lab.now, "{job} was promised {at:?}, which is past");
    }
    Ok(())
}

/// Some jobs of the shapes that a site may have; with or without licences.
fn a_licensed_shape() -> impl Strategy<Value = Shape> {
    (a_shape(), prop::option::weighted(0.2, 1..3u32)).prop_map(|(shape, matlab)| Shape {
        licences: matlab.map(|count| LicenceAsk { name: "matlab".into(), count }).into_iter().collect(),
        ..shape
    })
}

/// All of one partition.
fn a_shape_to_be_cut() -> impl Strategy<Value = Shape> {
    a_licensed_shape().prop_map(|shape| Shape { partition: "cut".into(), ..shape })
}

/// Lets time pass until `until`, with a pass wherever something happens.
fn pass_until(lab: &mut Lab, until: Timestamp, promised: &mut Promises) -> Result<(), TestCaseError> {
    loop {
        let plan = lab.pass(|lab, plan| keeps(lab, plan, promised))?;
        match lab.next(&plan) {
            Some(next) if next <= until => lab.go_to(next),
            _ => break,
        }
    }
    if until != Timestamp::NEVER {
        lab.go_to(until);
    }
    Ok(())
}

/// Makes a move; a wait is waited with passes in between.
fn step(
    lab: &mut Lab,
    site: &crate::site::Site,
    step: &Move,
    promised: &mut Promises,
) -> Result<(), TestCaseError> {
    match step {
        Move::Wait(seconds) => pass_until(lab, lab.now.after(Seconds(*seconds)), promised)?,
        Move::Run => {
            let plan = lab.pass(|lab, plan| keeps(lab, plan, promised))?;
            lab.next(&plan).into_iter().for_each(|next| lab.go_to(next));
        }
        other => lab.play(site, other),
    }
    lab.pass(|lab, plan| keeps(lab, plan, promised)).map(drop)
}

proptest! {
    #![proptest_config(cases(192))]
    #[test]
    fn no_reserved_job_starts_later_than_it_was_ever_promised(
        site in a_firm_site(),
        wishes in prop::collection::vec(a_plain_wish(a_licensed_shape()), 1..40),
        booking in prop::option::weighted(0.3, a_booking()),
    ) {
        let mut lab = site.lab();
        booking.into_iter().for_each(|wish| lab.book("ws0", &wish));
        for wish in wishes {
            lab.submit(wish);
        }
        pass_until(&mut lab, Timestamp::NEVER, &mut Promises::new())?;
    }

    #[test]
    fn neither_early_ends_nor_later_arrivals_nor_a_booking_that_is_known_delay_who_was_promised_a_start(
        site in a_firm_site(),
        moves in prop::collection::vec(a_calm_move(a_plain_wish(a_licensed_shape())), 1..60),
        booking in prop::option::weighted(0.3, a_booking()),
    ) {
        let mut lab = site.lab();
        let mut promised = Promises::new();
        booking.into_iter().for_each(|wish| lab.book("ws0", &wish));
        for one in &moves {
            step(&mut lab, &site, one, &mut promised)?;
        }
        pass_until(&mut lab, Timestamp::NEVER, &mut promised)?;
    }

    /// The same without memory: what is started now delays the first that cannot start not even in the eyes of who plans from scratch.
    #[test]
    fn a_start_behind_the_first_that_cannot_start_does_not_delay_it(
        site in a_firm_site(),
        moves in prop::collection::vec(a_calm_move(a_plain_wish(a_shape_to_be_cut())), 1..40),
    ) {
        let mut lab = site.lab();
        lab.policy.depth = Depth::First(1);
        for step in &moves {
            lab.play(&site, step);
            let plan = lab.fresh();
            plan.starts.iter().cloned().for_each(|start| lab.give(start));
            let after = lab.fresh();
            for (job, (at, _)) in &plan.outlook.reserved {
                let now = after.outlook.reserved.get(job).map(|(at, _)| *at);
                let starts = after.starts.iter().any(|start| start.job == *job);
                prop_assert!(starts || now.is_some_and(|now| now <= *at), "{job}: {at:?}, then {now:?}");
            }
        }
    }

    /// Starts take a moment, and limits count from there: promises slip by no more than that.
    #[test]
    fn slow_starts_make_promises_slip_by_no_more_than_they_take(
        site in a_firm_site(),
        wishes in prop::collection::vec(a_plain_wish(a_shape()), 1..25),
    ) {
        let mut lab = site.lab();
        lab.slow = true;
        for wish in wishes {
            lab.submit(wish);
        }
        for _ in 0..400 {
            let plan = lab.pass(check_starts)?;
            let starting: Vec<_> = lab
                .due()
                .into_iter()
                .map(|(_, key)| key)
                .filter(|key| lab.cluster.job(key.job).unwrap().runs[&key.task].started().is_none())
                .collect();
            for key in starting {
                let counted = lab.now.after(Seconds(1));
                lab.apply(Event::Started { key, at: counted, counted });
            }
            for (job, (at, _)) in &plan.outlook.reserved {
                prop_assert!(*at > lab.now, "{job} is promised the past");
            }
            match lab.next(&plan) {
                Some(next) => lab.go_to(next.max(lab.now.after(Seconds(1)))),
                None => break,
            }
        }
        prop_assert!(lab.due().is_empty());
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
fn a_nodes_wrong_clock_moves_no_promise() {
    for skew in [-86_400_000_000, 86_400_000_000] {
        let mut lab = Lab::new();
        lab.slow = true;
        lab.node("ws0", 4, 8192, Vec::new());
        let job = lab.submit(lasting(shape(3, 0), 100));
        lab.start();
        let key = lab.cluster.job(job).unwrap().run_key(TaskIndex(0)).unwrap();
        lab.apply(Event::Started { key, at: Timestamp(lab.now.0 + skew), counted: lab.now });
        let due = lab.now.after(Seconds(100));
        lab.now = lab.now.after(Seconds(10));
        let wide = lab.submit(lasting(shape(4, 0), 100));
        assert_eq!(lab.start().outlook.reserved[&wide].0, due);
    }
}

/// A partition without reservations does not undo those of another by looking at its jobs in vain.
#[test]
fn who_cannot_start_and_is_not_reserved_for_undoes_no_promise() {
    let mut lab = Lab::new();
    let mut greedy = crate::lab::partition("greedy", None, gq_cluster::PartitionState::Up);
    greedy.depth = Some(Depth::First(0));
    lab.policy.partitions.push(greedy);
    lab.policy.depth = Depth::All;
    lab.node("ws0", 4, 8192, Vec::new());
    lab.submit(lasting(shape(4, 0), 100));
    lab.start();
    lab.submit(Shape { partition: "greedy".into(), ..lasting(shape(4, 0), 1_000) });
    let first = lab.submit(lasting(shape(3, 0), 50));
    let second = lab.submit(lasting(shape(2, 0), 50));
    let before = lab.start().outlook.reserved;
    for seconds in 1..50 {
        lab.now = lab.now.after(Seconds(1));
        lab.submit(lasting(shape(1 + seconds % 4, 0), 7));
        let plan = lab.start();
        for job in [first, second] {
            assert_eq!(plan.outlook.reserved[&job], before[&job], "{job}");
        }
        assert_eq!(plan.outlook.look_again, None);
    }
}

/// A job whose advance reservation had not begun took the one promise that EASY makes, and who really was first was delayed.
#[test]
fn who_waits_for_his_advance_reservation_takes_no_promise_from_the_first() {
    let mut lab = Lab::new();
    lab.node("ws0", 4, 8192, Vec::new());
    lab.node("ws1", 1, 8192, Vec::new());
    lab.book("ws1", &BookingWish { window: false, whole: true, after: 1_000, lasts: 200, user: 1000 });
    lab.submit(lasting(shape(2, 0), 100));
    lab.start();
    let early = || Shape { reservation: Some("course".into()), ..lasting(shape(1, 0), 10) };
    let before = lab.submit(early());
    let blocked = lab.submit(lasting(shape(3, 0), 100));
    let long = lab.submit(lasting(shape(2, 0), 101));
    let behind = lab.submit(early());
    let plan = lab.start();
    assert!(!lab.is_running(long), "it would still hold two cpus when the promise falls due");
    assert_eq!(plan.outlook.reserved[&blocked].0, lab.now.after(Seconds(100)));
    assert_eq!((lab.reason(blocked), lab.reason(long)), (Reason::Resources, Reason::Priority));
    assert_eq!((lab.reason(before), lab.reason(behind)), (Reason::Reservation, Reason::Reservation));
}
