//! Progress: when arrivals stop the queue empties, nobody starves in an endless stream of others, and equal jobs are equal.

use crate::{
    lab::{Lab, Wish, a100s, cases, cut, lasting, payer, shape, slice_shape},
    site::{Site, a_depth, a_firm_site, a_site},
    wishes::{a_move, a_plain_wish, a_shape},
};
use gq_cluster::{Demand, Depth, Limits, PartitionState, Shape};
use gq_model::{JobId, LicenceAsk, Reason, Timestamp};
use proptest::prelude::*;

/// Plays on until nothing happens any more by itself.
fn play_out(lab: &mut Lab) -> Result<(), TestCaseError> {
    for _ in 0..20_000 {
        let plan = lab.pass(|_, _| Ok(()))?;
        match lab.next(&plan) {
            Some(next) => lab.go_to(next),
            None => return Ok(()),
        }
    }
    Err(TestCaseError::fail("it goes on for ever"))
}

/// Whoever still waits could never run.
fn check_left(lab: &Lab, site: &Site) -> Result<(), TestCaseError> {
    let plan = lab.plan();
    prop_assert!(plan.starts.is_empty());
    for job in lab.cluster.jobs() {
        let able = lab.cluster.nodes().any(|node| {
            gq_sched::eligible_by_name(&job.shape, node, &lab.policy)
                && gq_sched::could_ever(&job.shape, node.cpus, node.memory, &node.cards, &lab.policy)
        });
        let reason = plan.outlook.of(job, &lab.policy).0;
        let limited = site.limits != 0
            && !matches!(reason, Reason::Priority | Reason::Resources | Reason::NodesUnavailable);
        let outside = job.shape.reservation.is_some();
        prop_assert!(!able || limited || outside, "{} waits for ever: {reason:?}, {:?}", job.id, job.shape);
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(128))]
    #[test]
    fn when_arrivals_stop_the_queue_empties(
        site in a_site(),
        moves in prop::collection::vec(a_move(), 1..50),
    ) {
        let mut lab = site.lab();
        for step in &moves {
            lab.play(&site, step);
            lab.start();
        }
        lab.clear(&site);
        lab.policy.partitions.iter_mut().for_each(|p| p.state = PartitionState::Up);
        lab.planner.forget();
        play_out(&mut lab)?;
        check_left(&lab, &site)?;
    }

    #[test]
    fn equal_jobs_may_come_in_any_order(
        site in a_firm_site(),
        depth in a_depth(),
        wishes in prop::collection::vec((a_shape(), 1..6u32), 1..6),
        order in Just((0..40usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let starts = |swapped: bool| -> Result<Vec<(usize, Timestamp)>, TestCaseError> {
            let mut lab = Site { depth, ..site.clone() }.lab();
            let mut kinds = Vec::new();
            for (kind, (shape, count)) in wishes.iter().enumerate() {
                for copy in 0..*count as usize {
                    let who = if swapped { order[copy + 6 * (kind % 6)] } else { copy } as u32;
                    let payer = payer(1000 + who % 3, &shape.partition);
                    lab.submit(Wish { payer, ..shape.clone().into() });
                    kinds.push(kind);
                }
            }
            let mut starts = Vec::new();
            loop {
                let plan = lab.pass(|_, _| Ok(()))?;
                starts.extend(plan.starts.iter().map(|start| (kinds[start.job.0 as usize - 1], lab.now)));
                match lab.next(&plan) {
                    Some(next) => lab.go_to(next),
                    None => break,
                }
            }
            starts.sort_unstable();
            Ok(starts)
        };
        prop_assert_eq!(starts(false)?, starts(true)?);
    }

    #[test]
    fn whoever_waits_in_line_starts_whatever_keeps_coming(
        site in a_firm_site(),
        wish in a_plain_wish(a_shape().prop_map(|shape| lasting(shape, 100))),
        others in prop::collection::vec(a_plain_wish(a_shape()), 2..8),
    ) {
        let mut lab = site.lab();
        let brief = |wish: Wish| Wish { shape: lasting(wish.shape.clone(), wish.shape.time_limit.map_or(7, |l| l.0)), ..wish };
        let others: Vec<Wish> = others.into_iter().map(brief).collect();
        let able = lab.cluster.nodes().any(|node| {
            gq_sched::eligible_by_name(&wish.shape, node, &lab.policy)
                && gq_sched::could_ever(&wish.shape, node.cpus, node.memory, &node.cards, &lab.policy)
        });
        if !able {
            return Ok(());
        }
        for other in &others {
            lab.submit(other.clone());
        }
        lab.start();
        let job = lab.submit(wish);
        for round in 0..2_000 {
            lab.start();
            if lab.is_running(job) || lab.cluster.job(job).is_none() {
                return Ok(());
            }
            for at in 0..2 {
                lab.submit(others[(round + at) % others.len()].clone());
            }
            let plan = lab.start();
            match lab.next(&plan) {
                Some(next) => lab.go_to(next),
                None => break,
            }
        }
        prop_assert!(false, "{job} starves");
    }
}

/// A stream of narrow jobs of which one always fits; says after how many rounds the wide one starts.
fn rounds(lab: &mut Lab, narrow: &Shape, wide: Shape) -> u32 {
    for second in 0..8 {
        lab.submit(lasting(narrow.clone(), 10 + second));
    }
    lab.start();
    let wide = lab.submit(lasting(wide, 100));
    stream(lab, narrow, wide)
}

fn stream(lab: &mut Lab, narrow: &Shape, wide: JobId) -> u32 {
    let mut rounds = 0;
    while !lab.is_running(wide) {
        // Every end is followed by two arrivals.
        lab.submit(lasting(narrow.clone(), 15));
        lab.submit(lasting(narrow.clone(), 3));
        lab.start();
        assert!(lab.is_running(wide) || lab.let_one_end());
        rounds += 1;
        assert!(rounds < 100, "the wide job starves");
    }
    rounds
}

#[test]
fn a_wide_job_in_a_stream_of_narrow_ones_starts() {
    for depth in [Depth::First(1), Depth::First(4), Depth::All] {
        let lab = || {
            let mut lab = Lab::new();
            lab.policy.depth = depth;
            lab.node("ws0", 8, 8192, a100s(4));
            lab
        };
        rounds(&mut lab(), &shape(1, 0), shape(8, 4));
        rounds(&mut lab(), &shape(1, 1), shape(1, 4));
        let plain = shape(1, 0);
        let alone = Shape { demand: Demand { exclusive: true, ..plain.demand.clone() }, ..plain.clone() };
        rounds(&mut lab(), &plain, alone);
    }
}

#[test]
fn who_needs_all_licences_in_a_stream_of_those_who_need_one_starts() {
    let licensed =
        |count| Shape { licences: vec![LicenceAsk { name: "matlab".into(), count }], ..shape(1, 0) };
    for depth in [Depth::First(1), Depth::All] {
        let mut lab = Lab::new();
        lab.policy.depth = depth;
        lab.policy.licences = [("matlab".into(), 4)].into();
        lab.node("ws0", 8, 8192, Vec::new());
        lab.node("ws1", 8, 8192, Vec::new());
        rounds(&mut lab, &licensed(1), licensed(4));
    }
}

#[test]
fn who_needs_a_whole_sliced_card_in_a_stream_of_small_slices_starts() {
    for depth in [Depth::First(1), Depth::All] {
        let mut lab = Lab::new();
        lab.policy.depth = depth;
        lab.policy.partitions[0].recut = true;
        lab.node("ws0", 64, 65_536, vec![cut(0, "A100", 80, &[])]);
        rounds(&mut lab, &slice_shape("1g.10gb", 1), slice_shape("7g.80gb", 1));
    }
}

/// Who has one job running at most is not kept from starting his wide one by his own narrow ones behind it.
#[test]
fn who_is_reserved_for_is_not_kept_back_by_a_limit_that_later_jobs_of_his_fill() {
    for depth in [Depth::First(1), Depth::All] {
        let mut lab = Lab::new();
        lab.policy.depth = depth;
        lab.policy.partitions[0].limits = Limits { max_jobs_per_user: Some(4), ..Limits::default() };
        lab.node("ws0", 8, 8192, a100s(4));
        rounds(&mut lab, &shape(1, 0), shape(8, 4));
    }
}
