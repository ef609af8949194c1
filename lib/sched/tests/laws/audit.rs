//! An auditor who knows nothing of the planner: whether every start of a plan may be, given the starts before it.

use crate::lab::Lab;
use gq_cluster::{Cluster, Limits, Memory, Node, Payer, Shape, UNLIMITED};
use gq_model::{Card, CardAsk, CardHealth, CardUse, JobId, RunKey, Share, TaskIndex, Timestamp};
use gq_sched::{Plan, Start};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// What is in use on a node, counted from the jobs.
#[derive(Clone, Default)]
pub struct Used {
    pub cpus: u32,
    pub memory: u64,
    /// Units of cards: the card's index and the unit; a whole card is all its units.
    pub units: BTreeSet<(u32, u8)>,
    /// Slices by card and profile.
    slices: BTreeMap<(u32, String), usize>,
    pub runs: usize,
    pub alone: bool,
}

impl Used {
    pub fn add(&mut self, cpus: u32, memory: u64, cards: &[CardUse], alone: bool) {
        self.cpus += cpus;
        self.memory += memory;
        for held in cards {
            self.units.extend(units_of(held));
            if let Some(profile) = &held.slice {
                *self.slices.entry((held.index, profile.clone())).or_default() += 1;
            }
        }
        self.runs += 1;
        self.alone |= alone;
    }
}

pub fn units_of(held: &CardUse) -> Vec<(u32, u8)> {
    if let Some(share) = &held.share {
        let parts = (0..16).filter(|part| share.parts >> part & 1 == 1);
        return parts.map(|part| (held.index, part)).collect();
    }
    match (&held.slice, held.placement) {
        (None, _) => (0..16).map(|unit| (held.index, unit)).collect(),
        (Some(_), Some(at)) => (at.start..at.start + at.size).map(|unit| (held.index, unit)).collect(),
        (Some(_), None) => Vec::new(),
    }
}

/// What is in use on every node.
pub fn in_use(cluster: &Cluster) -> BTreeMap<String, Used> {
    let mut all: BTreeMap<String, Used> = BTreeMap::new();
    for run in cluster.jobs().flat_map(|job| job.runs.values()) {
        let used = all.entry(run.node.to_string()).or_default();
        used.add(run.cpus, run.memory.0, &run.cards, run.exclusive);
    }
    all
}

/// Whether a whole card is what is asked for.
pub fn is_asked(card: &Card, ask: &CardAsk) -> bool {
    ask.model.as_ref().is_none_or(|m| card.is_model(m)) && ask.memory.is_none_or(|m| card.offers(m))
}

/// When a start is over at the latest.
pub fn until(lab: &Lab, shape: &Shape) -> Timestamp {
    lab.now.after(shape.time_limit.unwrap_or(UNLIMITED))
}

/// Every start is to be had, given the starts before it.
pub fn check_starts(lab: &Lab, plan: &Plan) -> Result<(), TestCaseError> {
    let mut all = in_use(&lab.cluster);
    let mut given: BTreeSet<(JobId, TaskIndex)> = BTreeSet::new();
    for start in &plan.starts {
        let job = lab.cluster.job(start.job).unwrap();
        let node = lab.cluster.node(&start.node).unwrap();
        let (shape, demand) = (&job.shape, &job.shape.demand);
        prop_assert!(job.is_eligible() && job.waiting.contains(start.task.0), "{start:?} does not wait");
        prop_assert!(given.insert((start.job, start.task)), "{start:?} is started twice");
        prop_assert!(node.is_open(), "{start:?} is on a closed node");
        let part = lab.policy.partition(&shape.partition).unwrap();
        prop_assert!(part.state.starts() && part.has(&node.name), "{start:?} is not in its partition");
        prop_assert!(shape.nodelist.is_empty() || shape.nodelist.contains(&node.name));
        prop_assert!(!shape.exclude.contains(&node.name));
        prop_assert!(shape.features.iter().all(|f| node.features.contains(f)));
        check_booking(lab, start, shape, &job.payer)?;
        let used = all.entry(node.name.to_string()).or_default();
        prop_assert!(!used.alone && (!demand.exclusive || used.runs == 0), "{start:?} is not alone");
        prop_assert_eq!(start.cpus, if demand.exclusive { node.cpus } else { demand.cpus });
        match demand.memory {
            Memory::Amount(amount) => prop_assert_eq!(start.memory, amount),
            Memory::WholeNode => prop_assert_eq!(start.memory, node.memory),
        }
        check_cards(lab, start, shape, node, used)?;
        used.add(start.cpus, start.memory.0, &start.cards, start.exclusive);
        prop_assert!(used.cpus <= node.cpus && used.memory <= node.memory.0, "{start:?} is over capacity");
    }
    check_licences(lab, plan)
}

fn check_cards(
    lab: &Lab,
    start: &Start,
    shape: &Shape,
    node: &Node,
    used: &Used,
) -> Result<(), TestCaseError> {
    let ask = &shape.demand.cards;
    let part = lab.policy.partition(&shape.partition).unwrap();
    prop_assert_eq!(start.cards.len(), ask.count as usize);
    let mut mine: BTreeSet<(u32, u8)> = BTreeSet::new();
    let mut made: BTreeMap<(u32, &str), usize> = BTreeMap::new();
    for held in &start.cards {
        let card = node.cards.iter().find(|card| card.index == held.index).unwrap();
        prop_assert!(card.health == CardHealth::Good, "{start:?} gets a failed card");
        for unit in units_of(held) {
            prop_assert!(mine.insert(unit) && !used.units.contains(&unit), "{held:?} is given twice");
        }
        prop_assert_eq!(held.share.map(|share| share.memory), ask.share, "{:?}", held);
        if let Some(share) = &held.share {
            check_share(share, card, ask)?;
            prop_assert!(part.shares, "{held:?} is shared without leave");
            continue;
        }
        let Some(profile) = &held.slice else {
            prop_assert!(!card.mig && is_asked(card, ask), "{held:?} is no card for {ask:?}");
            prop_assert!(ask.profile.is_none() && (ask.memory.is_none() || part.cards_by_memory));
            continue;
        };
        prop_assert!(card.mig && ask.model.as_ref().is_none_or(|model| card.is_model(model)));
        let placement = held.placement.unwrap();
        let is_it = |at: usize| {
            let slice = &card.slices[at];
            slice.profile == *profile
                && slice.uuid == held.uuid
                && gq_cluster::slice_place(card, at) == held.placement
        };
        if !(0..card.slices.len()).any(is_it) {
            let profile = card.grid.as_ref().unwrap().profile(profile).unwrap();
            prop_assert!(part.recut && held.uuid.is_none(), "{held:?} is cut without leave");
            prop_assert!(profile.placements().any(|at| at == placement), "{held:?} cannot lie there");
        }
        match (&ask.profile, ask.memory) {
            (Some(wanted), _) => prop_assert!(wanted.eq_ignore_ascii_case(profile)),
            (None, least) => {
                let offered = card.slices.iter().filter(|s| s.profile == *profile).map(|s| s.memory).next();
                let offered =
                    card.grid.as_ref().and_then(|g| g.profile(profile)).map(|p| p.memory).or(offered);
                prop_assert!(shape.slices_by_memory && !profile.contains(['+', '-']));
                let slack = 1024 + least.unwrap().0 / 20;
                prop_assert!(offered.unwrap().0 + slack >= least.unwrap().0, "{held:?} is too small");
            }
        }
        let count = made.entry((held.index, profile)).or_default();
        *count += 1;
        let most =
            card.grid.as_ref().and_then(|g| g.profile(profile)).map_or(usize::MAX, |p| usize::from(p.most));
        let there = used.slices.get(&(held.index, profile.clone())).copied().unwrap_or(0);
        prop_assert!(*count + there <= most, "{held:?}: too many of {profile} on a card");
    }
    Ok(())
}

/// A share is parts of a card of the model that is asked for, as many as its memory needs and no more.
fn check_share(share: &Share, card: &Card, ask: &CardAsk) -> Result<(), TestCaseError> {
    prop_assert!(!card.mig && card.parts >= 2 && share.of == card.parts, "{share:?} of {card:?}");
    prop_assert_eq!(u32::from(share.parts) >> card.parts, 0, "parts that are not there");
    prop_assert!(ask.model.as_ref().is_none_or(|model| card.is_model(model)));
    let held = |count: u32| u64::from(count) * card.memory.0 / u64::from(card.parts);
    let (count, memory) = (share.parts.count_ones(), share.memory.0);
    let slack = (memory / 50).min(1024);
    prop_assert!(held(count) + slack >= memory, "{share:?} is too small");
    prop_assert!(held(count - 1) + slack < memory, "{share:?} is larger than it has to be");
    Ok(())
}

fn check_booking(lab: &Lab, start: &Start, shape: &Shape, payer: &Payer) -> Result<(), TestCaseError> {
    let end = until(lab, shape);
    if let Some(name) = &shape.reservation {
        let booking = lab.cluster.booking(name).unwrap();
        prop_assert!(booking.admits(payer.uid, payer.account.as_deref()), "{start:?} is no member");
        prop_assert!(booking.start <= lab.now && end <= booking.end, "{start:?} is outside of its time");
        let booked = booking.of_node(&start.node);
        prop_assert!(booked.is_some(), "{start:?} is outside of its reservation");
        if let Some(cards) = booked.and_then(|booked| booked.cards.as_ref()) {
            prop_assert!(start.cards.iter().all(|card| cards.contains(&card.index)));
        }
    }
    for booking in lab.cluster.bookings().filter(|b| Some(&b.name) != shape.reservation.as_ref()) {
        let Some(booked) = booking.of_node(&start.node) else { continue };
        if booking.start >= end || booking.end <= lab.now {
            continue;
        }
        match &booked.cards {
            None => prop_assert!(false, "{start:?} is on a node that is booked"),
            Some(cards) => prop_assert!(start.cards.iter().all(|card| !cards.contains(&card.index))),
        }
    }
    Ok(())
}

/// No licence is given out above what there is, now.
fn check_licences(lab: &Lab, plan: &Plan) -> Result<(), TestCaseError> {
    for (name, most) in &lab.policy.licences {
        let asks = |job: JobId| {
            let job = lab.cluster.job(job).unwrap();
            job.shape.licences.iter().filter(|ask| ask.name == *name).map(|ask| ask.count).sum::<u32>()
        };
        let started: u32 = plan.starts.iter().map(|start| asks(start.job)).sum();
        prop_assert!(started == 0 || lab.cluster.ledger().licences_used(name) + started <= *most);
    }
    Ok(())
}

/// What payers of whom this is said hold: jobs, cpus, cards.
fn held(cluster: &Cluster, is_meant: impl Fn(&Payer) -> bool) -> [u64; 3] {
    let payers = cluster.ledger().payers().filter(|(payer, _)| is_meant(payer));
    payers.fold([0; 3], |sum, (_, has)| [sum[0] + has.jobs, sum[1] + has.cpus, sum[2] + has.cards])
}

/// Limits, whose they are, and whom they are for.
type Scope<'a> = (String, Limits, Box<dyn Fn(&Payer) -> bool + 'a>);

/// No limit is passed that was not passed before.
pub fn check_limits(before: &Cluster, after: &Lab) -> Result<(), TestCaseError> {
    let policy = &after.policy;
    let mut scopes: Vec<Scope<'_>> = Vec::new();
    for one in &policy.partitions {
        scopes.push((one.name.clone(), one.limits.clone(), Box::new(|p| p.partition == one.name)));
    }
    for one in &policy.qos {
        scopes.push((one.name.clone(), one.limits.clone(), Box::new(|p| p.qos.as_ref() == Some(&one.name))));
    }
    for one in &policy.accounts {
        let is_below = |p: &Payer| {
            p.account.as_ref().is_some_and(|name| policy.accounts_above(name).any(|a| a.name == one.name))
        };
        scopes.push((one.name.clone(), one.limits.clone(), Box::new(is_below)));
    }
    for (name, limits, is_meant) in scopes {
        let check = |most: [Option<u64>; 3], is_meant: &dyn Fn(&Payer) -> bool| {
            let (was, is) = (held(before, is_meant), held(&after.cluster, is_meant));
            for at in 0..3 {
                let good = most[at].is_none_or(|most| is[at] <= most.max(was[at]));
                prop_assert!(good, "limits of {name}: {most:?} and now {is:?}");
            }
            Ok(())
        };
        check([limits.max_jobs, limits.max_cpus, limits.max_cards], &is_meant)?;
        let of_user = [limits.max_jobs_per_user, limits.max_cpus_per_user, limits.max_cards_per_user];
        for uid in 1000..1003 {
            check(of_user, &|payer| payer.uid.0 == uid && is_meant(payer))?;
        }
    }
    Ok(())
}

/// Runs that are told to make room may be told so, and nobody twice.
pub fn check_preempt(lab: &Lab, plan: &Plan) -> Result<(), TestCaseError> {
    let mut told: BTreeSet<RunKey> = BTreeSet::new();
    for one in &plan.preempt {
        prop_assert!(told.insert(one.key), "{one:?} is told twice");
        let run = &lab.cluster.job(one.key.job).unwrap().runs[&one.key.task];
        prop_assert!(run.stopping.is_none() && run.number == one.key.run);
    }
    Ok(())
}
