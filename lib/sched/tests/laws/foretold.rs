//! Foretold: what a forecast says is what comes when runs last as long as they may and nobody else comes; and it is what a plain EASY
//! scheduler, written anew here, does.

use crate::{
    lab::{Lab, a100s, cases, lasting, payer, shape},
    site::{Site, a_site},
    wishes::{Move, a_move},
};
use gq_cluster::{Depth, Shape, Weights};
use gq_model::{JobId, NodeName, Seconds, Timestamp};
use gq_sched::Planner;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Plays the plan out from where it is, with a planner that remembers nothing of what was before; says when and where jobs started.
fn play_out(lab: &mut Lab) -> Result<BTreeMap<JobId, (Timestamp, NodeName)>, TestCaseError> {
    lab.planner = Planner::default();
    let mut starts = BTreeMap::new();
    for _ in 0..20_000 {
        let plan = lab.pass(|_, _| Ok(()))?;
        for start in &plan.starts {
            starts.entry(start.job).or_insert_with(|| (lab.now, start.node.clone()));
        }
        match lab.next(&plan) {
            // Whoever is past his limit is gone in the next second.
            Some(next) => lab.go_to(next),
            None => return Ok(starts),
        }
    }
    Err(TestCaseError::fail("it goes on for ever"))
}

/// Starts of jobs of so many cpus and seconds on one machine, by EASY as it is written in books; all are there from the start.
fn by_the_book(cpus: u32, jobs: &[(u32, u64)]) -> Vec<u64> {
    let mut starts = vec![None; jobs.len()];
    let mut running: Vec<(u64, u32)> = Vec::new();
    let mut now = 0;
    loop {
        running.retain(|(end, _)| *end > now);
        let free = |running: &[(u64, u32)]| cpus - running.iter().map(|(_, width)| width).sum::<u32>();
        let waiting: Vec<usize> = (0..jobs.len()).filter(|at| starts[*at].is_none()).collect();
        let mut shadow: Option<(u64, u32)> = None;
        for at in waiting {
            let (width, length) = jobs[at];
            let room = free(&running) >= width;
            let starts_now = match &mut shadow {
                None => room,
                Some((from, extra)) => {
                    let brief = now + length <= *from;
                    let good = room && (brief || width <= *extra);
                    if good && !brief {
                        *extra -= width;
                    }
                    good
                }
            };
            if starts_now {
                starts[at] = Some(now);
                running.push((now + length, width));
            } else if shadow.is_none() {
                let mut ends = running.clone();
                ends.sort_unstable();
                let mut there = free(&running);
                for (end, freed) in &ends {
                    there += freed;
                    let later = ends.iter().filter(|(other, _)| other == end).map(|(_, w)| w).sum::<u32>();
                    let all = free(&running)
                        + ends.iter().filter(|(other, _)| other <= end).map(|(_, w)| w).sum::<u32>();
                    if there >= width || (later > 0 && all >= width) {
                        shadow = Some((*end, all - width));
                        break;
                    }
                }
            }
        }
        match running.iter().map(|(end, _)| *end).min() {
            Some(next) => now = next,
            None => return starts.into_iter().map(Option::unwrap).collect(),
        }
    }
}

proptest! {
    #![proptest_config(cases(128))]
    #[test]
    fn every_job_starts_when_and_where_the_forecast_said(
        site in a_site(),
        moves in prop::collection::vec(a_move(), 1..40),
    ) {
        let weights = Weights { fair_share: 0, ..site.weights };
        let mut lab = Site { weights, ..site.clone() }.lab();
        // Where a start failed before it is not tried again until one went well, which a forecast does not wait for.
        for step in moves.iter().filter(|step| !matches!(step, Move::Fail(_))) {
            lab.play(&site, step);
            lab.start();
        }
        let said = gq_sched::forecast(&lab.cluster, &lab.policy, &Planner::default(), lab.now);
        prop_assert_eq!(said.at, lab.now);
        prop_assert_eq!(&said, &gq_sched::forecast(&lab.cluster, &lab.policy, &Planner::default(), lab.now));
        // Of who waits now; runs that are to be started again are not foretold.
        let waiting: BTreeSet<JobId> =
            lab.cluster.jobs().filter(|job| !job.waiting.is_empty()).map(|job| job.id).collect();
        let of_waiting = |mut starts: BTreeMap<JobId, (Timestamp, NodeName)>| {
            // Behind what has no time limit nobody can say when.
            starts.retain(|job, (at, _)| waiting.contains(job) && *at < said.at.after(Seconds(300 * 86_400)));
            starts
        };
        prop_assert_eq!(of_waiting(said.starts.clone()), of_waiting(play_out(&mut lab)?));
    }

    #[test]
    fn on_one_machine_the_plan_is_easy_by_the_book(
        cpus in 1..12u32,
        jobs in prop::collection::vec((1..12u32, 1..50u64), 1..40),
    ) {
        let jobs: Vec<(u32, u64)> = jobs.into_iter().map(|(width, length)| (width.min(cpus), length)).collect();
        let mut lab = Lab::new();
        lab.node("ws0", cpus, 65_536, Vec::new());
        let begin = lab.now;
        for (width, length) in &jobs {
            lab.submit(lasting(shape(*width, 0), *length));
        }
        let said = gq_sched::forecast(&lab.cluster, &lab.policy, &Planner::default(), lab.now).starts;
        let said: Vec<u64> = said.values().map(|(at, _)| at.micros_since(begin) / 1_000_000).collect();
        prop_assert_eq!(said, by_the_book(cpus, &jobs));
    }

    #[test]
    fn an_estimate_comes_true_or_is_beaten(
        jobs in prop::collection::vec((1..9u32, 0..3u32, 1..50u64), 1..20),
        asked in (1..9u32, 0..3u32, 1..50u64),
        depth in prop_oneof![Just(Depth::First(1)), Just(Depth::All)],
    ) {
        let shape_of = |(cpus, cards, seconds): (u32, u32, u64)| -> Shape { lasting(shape(cpus, cards), seconds) };
        let mut lab = Lab::new();
        lab.policy.depth = depth;
        lab.node("ws0", 8, 8192, a100s(4));
        lab.node("ws1", 8, 4096, a100s(2));
        for job in jobs {
            lab.submit(shape_of(job));
        }
        lab.start();
        // An estimate knows nothing of reservations that were made before and are kept.
        lab.planner.forget();
        let asked = shape_of(asked);
        let (_, at) =
            gq_sched::estimate(&lab.cluster, &lab.policy, &Planner::default(), lab.now, (&asked, &payer(1000, "main")), None).unwrap();
        // The depth of reservations bounds what an estimate can know: with all of them it is a promise.
        let job = lab.submit(asked);
        lab.start();
        while !lab.is_running(job) {
            prop_assert!(lab.let_one_end());
            lab.start();
        }
        prop_assert!(depth != Depth::All || lab.now <= at, "expected {:?}, started {:?}", at, lab.now);
    }
}
