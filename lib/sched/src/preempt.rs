//! Preemption: which runs make room for the first job in line of a higher tier. Never more than it takes, those that lose least first.

use crate::{cards::choose, need::Need, pass::Pass, place::Left, planner::Preemption, timeline::Load};
use alloc::{sync::Arc, vec::Vec};
use gq_cluster::{Cluster, Hold, Job, Node, Payer, Policy, Preempt};
use gq_model::{JobId, Reason, Requeue, RunKey, Seconds, TaskIndex, Timestamp};

/// The tier of a payer's jobs: that of their QOS, else of their partition.
pub(crate) fn tier(policy: &Policy, payer: &Payer) -> u32 {
    let qos = payer.qos.as_deref().and_then(|name| policy.qos(name)).and_then(|qos| qos.tier);
    qos.or_else(|| policy.partition(&payer.partition).map(|p| p.tier)).unwrap_or(1)
}

/// What happens to a payer's jobs that are preempted, and their grace.
fn fate(policy: &Policy, payer: &Payer) -> (Preempt, Seconds) {
    let qos = payer.qos.as_deref().and_then(|name| policy.qos(name));
    let partition = policy.partition(&payer.partition);
    let mode = qos.and_then(|q| q.preempt).or(partition.map(|p| p.preempt)).unwrap_or_default();
    let grace = qos.and_then(|q| q.grace).or(partition.map(|p| p.grace)).unwrap_or_default();
    (mode, grace)
}

fn is_on(policy: &Policy) -> bool {
    policy.partitions.iter().any(|p| p.preempt != Preempt::Off)
        || policy.qos.iter().any(|q| q.preempt.is_some_and(|mode| mode != Preempt::Off))
}

/// What goes before all priority where jobs preempt others: whoever makes room must not take it again.
pub(crate) fn lead(policy: &Policy, payer: &Payer) -> i64 {
    if is_on(policy) { i64::from(tier(policy, payer)) << 40 } else { 0 }
}

/// A run that may have to make room.
struct Victim {
    key: RunKey,
    hold: Hold,
    tier: u32,
    since: Timestamp,
    again: bool,
    grace: Seconds,
}

/// Decides who makes room for the first jobs in line.
pub(crate) fn make_room(pass: &mut Pass<'_>) {
    let (cluster, policy) = (pass.ground.cluster, pass.ground.policy);
    if !is_on(policy) {
        return;
    }
    let firsts: Vec<JobId> = pass.plan.outlook.first.iter().copied().collect();
    for id in firsts {
        let Some(job) = cluster.job(id) else { continue };
        // Where advance reservations are in its way, room elsewhere helps; against all else that holds it up, room does not.
        let held_up = pass.plan.outlook.groups.get(&job.group());
        if held_up.is_some_and(|reason| *reason != Reason::Reservation) {
            continue;
        }
        let mut found: Vec<Vec<Victim>> = cluster
            .nodes()
            .filter(|node| node.is_open() && crate::eligible_by_name(&job.shape, node, policy))
            .filter_map(|node| victims(pass, job, node))
            .collect();
        // Somewhere room is made already.
        if found.iter().any(Vec::is_empty) {
            continue;
        }
        let best = found
            .drain(..)
            .map(|victims| {
                let lost: u64 =
                    victims.iter().map(|v| pass.ground.now.micros_since(v.since) / 1_000_000).sum();
                ((victims.iter().map(|v| v.tier).max(), victims.len(), lost), victims)
            })
            .min_by(|a, b| a.0.cmp(&b.0));
        let Some((_, victims)) = best else { continue };
        pass.plan.preempt.extend(victims.into_iter().map(|victim| Preemption {
            key: victim.key,
            again: victim.again,
            grace: victim.grace,
            by: id,
        }));
    }
    if let Some(soon) = exempt_until(pass) {
        let look = &mut pass.plan.outlook.look_again;
        *look = Some(look.map_or(soon, |at| at.min(soon)));
    }
}

/// The runs of a node that would make room for `job`, the fewest that do: nobody when those that are being stopped are enough. None when
/// all together are not enough, or something else than they keeps the job from starting.
fn victims(pass: &Pass<'_>, job: &Arc<Job>, node: &Node) -> Option<Vec<Victim>> {
    let (cluster, policy, now) = (pass.ground.cluster, pass.ground.policy, pass.ground.now);
    let rank = tier(policy, &job.payer);
    let mut found: Vec<Victim> = node
        .ends()
        .filter_map(|((_, id, task), hold)| victim(cluster, policy, now, (*id, *task), *hold, rank))
        .filter(|victim| !pass.plan.preempt.iter().any(|other| other.key == victim.key))
        .collect();
    // Those of the lowest tier first, of those the ones that have run least.
    found.sort_by_key(|v| (v.tier, core::cmp::Reverse(v.since), v.key));
    let need = Need::of(&job.shape, node);
    let cutting = pass.ground.cutting(&job.shape);
    let index = pass.ground.seats.of_place(node.place())?;
    let seat = pass.ground.seats.get(index)?;
    let grace = found.iter().map(|v| v.grace).max().unwrap_or_default();
    let until = now.after(need.span).after(grace);
    let Left::Without(taken) = pass.ground.left(index, node, &job.shape, now, until) else { return None };
    let fits = |load: &Load| {
        let free = node.layout().good() & !load.units & !taken;
        need.fits(load, node) && choose(node.into(), &job.shape, free, &cutting).is_some()
    };
    let mut load = seat.load;
    if fits(&load) {
        return None;
    }
    for ((_, id, task), hold) in node.ends() {
        let run = cluster.job(*id).and_then(|job| job.runs.get(task));
        if run.is_some_and(|run| run.stopping.is_some()) {
            load = load.minus(&Load::of(hold));
        }
    }
    let mut chosen: Vec<Victim> = Vec::new();
    for victim in found {
        if fits(&load) {
            break;
        }
        load = load.minus(&Load::of(&victim.hold));
        chosen.push(victim);
    }
    if !fits(&load) {
        return None;
    }
    // Whoever turns out not to be in the way stays.
    let mut at = 0;
    while let Some(victim) = chosen.get(at) {
        let with = load.plus(&Load::of(&victim.hold));
        if fits(&with) {
            load = with;
            chosen.remove(at);
        } else {
            at += 1;
        }
    }
    Some(chosen)
}

fn victim(
    cluster: &Cluster,
    policy: &Policy,
    now: Timestamp,
    who: (JobId, TaskIndex),
    hold: Hold,
    rank: u32,
) -> Option<Victim> {
    let job = cluster.job(who.0)?;
    let run = job.runs.get(&who.1)?;
    let tier = tier(policy, &job.payer);
    let (mode, grace) = fate(policy, &job.payer);
    let exempt = now < run.counted.after(policy.preempt_exempt);
    if tier >= rank || mode == Preempt::Off || run.stopping.is_some() || exempt {
        return None;
    }
    let key = RunKey { job: who.0, task: who.1, run: run.number };
    let again = mode == Preempt::Requeue && job.spec.requeue != Some(Requeue::Never);
    Some(Victim { key, hold, tier, since: run.counted, again, grace })
}

/// When the next run may be preempted that may not be yet, if somebody waits for it.
fn exempt_until(pass: &Pass<'_>) -> Option<Timestamp> {
    let (cluster, policy, now) = (pass.ground.cluster, pass.ground.policy, pass.ground.now);
    if policy.preempt_exempt.0 == 0 || pass.plan.outlook.first.is_empty() {
        return None;
    }
    let runs = cluster
        .nodes()
        .flat_map(|node| node.runs())
        .filter_map(|(job, task)| cluster.job(job)?.runs.get(&task));
    runs.map(|run| run.counted.after(policy.preempt_exempt)).filter(|at| *at > now).min()
}
