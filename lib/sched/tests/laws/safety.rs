//! Safety: whatever waits and runs, a plan gives nothing twice, nothing above what there is, nothing to who may not have it, and goes in
//! order; whoever waits is told why.

use crate::{
    audit::{check_limits, check_preempt, check_starts},
    lab::{Lab, cases},
    site::a_site,
    wishes::a_move,
};
use gq_cluster::{Cluster, Depth, Rows};
use gq_model::{JobId, Reason};
use gq_sched::{Plan, Planner};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Jobs are started in order of priority, and nobody passes his like.
fn check_order(lab: &Lab, plan: &Plan) -> Result<(), TestCaseError> {
    let order = |id: &JobId| {
        let job = lab.cluster.job(*id).unwrap();
        let factors = gq_sched::factors(&lab.cluster, &lab.policy, lab.now, job);
        (-factors.total, job.submitted, job.id)
    };
    let jobs: Vec<JobId> = plan.starts.iter().map(|start| start.job).collect();
    // Within a group the job's own part goes before its age; ranks by use are up to a minute old.
    let weights = &lab.policy.weights;
    if weights.age == 0 && weights.fair_share == 0 {
        // Who was promised a start keeps it against those of a higher place.
        let newly = plan.starts.iter().filter(|start| start.promised.is_none()).map(|start| start.job);
        let newly: Vec<JobId> = newly.collect();
        prop_assert!(newly.iter().map(order).is_sorted(), "not in order: {newly:?}");
    }
    for (_, group) in lab.cluster.queue().groups() {
        let mut full = true;
        for place in &group.jobs {
            let waiting = lab.cluster.job(place.job).unwrap().waiting.len();
            let started = jobs.iter().filter(|id| **id == place.job).count() as u64;
            prop_assert!(full || started == 0, "{} was passed by its like, {:?}", place.job, group.shape);
            full = started == waiting;
        }
    }
    Ok(())
}

/// Whoever waits is told why; a job that only closed nodes could run is promised nothing, and who is first of those that can be
/// reserved for is promised something.
fn check_outlook(lab: &Lab, plan: &Plan) -> Result<(), TestCaseError> {
    let started: BTreeSet<JobId> = plan.starts.iter().map(|start| start.job).collect();
    for job in lab.cluster.jobs().filter(|job| !job.waiting.is_empty() && !started.contains(&job.id)) {
        let (reason, expected) = plan.outlook.of(job, &lab.policy);
        prop_assert!(reason != Reason::None);
        let idle = job.held.is_some() || job.not_before.is_some();
        if let (false, Some(at)) = (idle, expected) {
            prop_assert!(at > lab.now, "{} is expected in the past", job.id);
        }
        let reserved = plan.outlook.reserved.contains_key(&job.id);
        prop_assert!(!idle || !reserved);
        let first = plan.outlook.first.contains(&job.id);
        if matches!(reason, Reason::NodesUnavailable | Reason::CardsUnavailable) {
            prop_assert!(!reserved && !first, "{} is promised what is not there", job.id);
        }
        let part = lab.policy.partition(&job.shape.partition).unwrap();
        let makes = !matches!(part.depth.unwrap_or(lab.policy.depth), Depth::Fcfs | Depth::First(0));
        // Behind what has no time limit nobody can say when.
        let known = lab.cluster.jobs().all(|job| job.shape.time_limit.is_some());
        if first && makes && known && job.shape.reservation.is_none() {
            prop_assert!(reserved, "{} is the first in line and has no reservation: {reason:?}", job.id);
        }
    }
    if let (Depth::First(n), None) = (lab.policy.depth, lab.policy.partitions[0].depth) {
        prop_assert!(plan.outlook.reserved.len() <= n as usize * lab.policy.partitions.len());
    }
    Ok(())
}

/// The same cluster, read back from its rows.
fn read_back(cluster: &Cluster) -> Cluster {
    let jobs = cluster.jobs().map(|job| serde_json::to_value(&**job).unwrap());
    let nodes = cluster.nodes().map(|node| serde_json::to_value(&**node).unwrap());
    Cluster::restore(Rows {
        last_job: cluster.last_job(),
        jobs: jobs.map(|row| serde_json::from_value(row).unwrap()).collect(),
        nodes: nodes.map(|row| serde_json::from_value(row).unwrap()).collect(),
        bookings: cluster.bookings().map(|booking| (**booking).clone()).collect(),
        usage: cluster.ledger().usage().map(|((a, uid), usage)| (a.clone(), *uid, *usage)).collect(),
        spent: Vec::new(),
    })
    .unwrap()
}

proptest! {
    #![proptest_config(cases(192))]
    #[test]
    fn a_plan_gives_nothing_twice_nothing_above_what_there_is_and_nothing_to_who_may_not_have_it(
        site in a_site(),
        slow in any::<bool>(),
        moves in prop::collection::vec(a_move(), 1..50),
    ) {
        let mut lab = site.lab();
        lab.slow = slow;
        for step in &moves {
            lab.play(&site, step);
            let before = lab.cluster.clone();
            lab.pass(|lab, plan| {
                check_starts(lab, plan)?;
                check_order(lab, plan)?;
                check_outlook(lab, plan)?;
                check_preempt(lab, plan)
            })?;
            check_limits(&before, &lab)?;
        }
    }

    #[test]
    fn the_same_input_gives_the_same_plan(
        site in a_site(),
        moves in prop::collection::vec(a_move(), 1..50),
    ) {
        let mut lab = site.lab();
        for step in &moves {
            let mut twin = lab.clone();
            lab.play(&site, step);
            twin.play(&site, step);
            let plan = lab.plan();
            prop_assert_eq!(&plan, &twin.plan());
            let fresh = lab.fresh();
            let read = Planner::default().plan(&read_back(&lab.cluster), &lab.policy, lab.now);
            prop_assert_eq!((&fresh.starts, &fresh.preempt), (&read.starts, &read.preempt));
            prop_assert_eq!(&fresh.outlook.reserved, &read.outlook.reserved);
            prop_assert_eq!(&fresh.outlook.first, &read.outlook.first);
            lab.start();
        }
        // What is started is not started again, and what could not start then cannot now.
        prop_assert_eq!(lab.plan().starts, vec![]);
    }
}
