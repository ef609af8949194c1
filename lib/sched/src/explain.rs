//! Explains one waiting job: what it lacks where it is going to start, who holds that and until when, who goes before it, and what would
//! start at once instead. Decides nothing.

use crate::{
    forecast::forecast, limits::used_up, memo::learn, need::Need, outlook::Outlook, pass::Pass,
    place::Ground, planner::Planner, timeline::Load,
};
use alloc::{collections::BTreeSet, format, string::String, sync::Arc, vec::Vec};
use gq_cluster::{Cluster, Hold, Job, Node, Place, Policy, Shape, Units, UsedUp};
use gq_model::{JobId, NodeName, Reason, Seconds, TaskIndex, Timestamp};

/// Most holders that are named.
const MOST_HOLDERS: usize = 16;
/// Most cards and slices that are named for what is wrong with them.
const MOST_FAILING: usize = 8;
/// Most jobs ahead that are named.
const MOST_AHEAD: usize = 8;

/// A run that holds what a job waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The job.
    pub job: JobId,
    /// Its task.
    pub task: TaskIndex,
    /// Where.
    pub node: NodeName,
    /// What it holds, in words.
    pub holds: String,
    /// When its time limit passes.
    pub due: Timestamp,
}

/// Why a job waits, in detail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// As the outlook says.
    pub reason: Reason,
    /// When and where it is expected to start.
    pub expected: Option<(Timestamp, NodeName)>,
    /// What it lacks where it is going to start, in words.
    pub lacks: Vec<String>,
    /// Who holds that, the first to be due in front.
    pub holders: Vec<Holder>,
    /// The first jobs that go before it for the same nodes.
    pub ahead: Vec<JobId>,
    /// How many go before it.
    pub ahead_count: u64,
    /// What would start at once instead, in words.
    pub instead: Vec<String>,
}

/// Explains why `job` waits; none if no such job waits.
///
/// `planner`: the one that plans for the cluster, with the reservations it has made.
pub fn explain(
    cluster: &Cluster,
    policy: &Policy,
    planner: &Planner,
    now: Timestamp,
    job: JobId,
) -> Option<Explanation> {
    let job = cluster.job(job).filter(|job| !job.waiting.is_empty())?;
    let outlook = planner.clone().plan(cluster, policy, now).outlook;
    let (reason, begins) = outlook.of(job, policy);
    let expected = forecast(cluster, policy, planner, now).starts.remove(&job.id);
    let expected = expected.or_else(|| Some((begins?, outlook.reserved.get(&job.id)?.1.clone())));
    let mut planner = planner.clone();
    planner.catch_up(cluster, policy, now);
    let mut pass = Pass::begin(&mut planner, cluster, policy, now);
    pass.walk();
    let foretold = expected.as_ref().and_then(|(_, name)| cluster.node(name));
    let node = foretold.or_else(|| node_of(&pass, job));
    let (mut lacks, holders) = match node {
        Some(node) => lacking(&pass.ground, job, node),
        None => (nowhere(cluster, policy, &job.shape, reason), Vec::new()),
    };
    lacks.extend(lacking_licences(cluster, policy, &job.shape));
    lacks.extend(lacking_budget(policy, &outlook, job));
    let (ahead, ahead_count) = ahead(&mut pass, job);
    pass.withdraw(job);
    let instead = if job.is_eligible() { instead(&mut pass.ground, job, &outlook) } else { Vec::new() };
    Some(Explanation { reason, expected, lacks, holders, ahead, ahead_count, instead })
}

/// Where a job waits of which nobody can say when it starts: where it is reserved for, else the first node that could run it.
fn node_of<'a>(pass: &Pass<'a>, job: &Job) -> Option<&'a Arc<Node>> {
    let reserved = pass.kept.iter().find(|kept| kept.job == job.id).map(|kept| kept.seat);
    let known = learn(pass.ground.seats, pass.ground.cluster, pass.ground.policy, &job.shape);
    let able = || known.seats().find(|seat| pass.ground.could_now(*seat, &job.shape));
    pass.ground.node(pass.ground.seats.get(reserved.or_else(able)?)?)
}

fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// What a job lacks on a node now, and who has to end for it.
fn lacking(ground: &Ground<'_>, job: &Job, node: &Arc<Node>) -> (Vec<String>, Vec<Holder>) {
    let need = Need::of(&job.shape, node);
    let mut load = Load::now(node);
    let fits = |load: &Load| {
        let cutting = ground.cutting(&job.shape);
        let free = node.layout().good() & !load.units;
        need.fits(load, node) && crate::cards::choose((&**node).into(), &job.shape, free, &cutting).is_some()
    };
    let mut lacks = Vec::new();
    let alone = need.exclusive && load.holders > 0;
    let cpus = (u64::from(load.cpus) + u64::from(need.cpus)).saturating_sub(u64::from(node.cpus));
    let memory = load.memory.saturating_add(need.memory).saturating_sub(node.memory.0);
    let with_cards_alone = Load { units: load.units, ..Load::default() };
    let cards = job.shape.demand.cards.count > 0 && !fits(&with_cards_alone);
    if alone {
        lacks.push(format!("the whole node {}", node.name));
    } else {
        lacks.extend((cpus > 0).then(|| counted(cpus, "cpu")));
        lacks.extend((memory > 0).then(|| format!("{} of memory", gq_model::MiB(memory))));
    }
    if cards {
        lacks.push(cards_in_words(&job.shape));
        lacks.extend(failing(node));
    }
    let is_in_the_way = |hold: &Hold| {
        alone
            || (cpus > 0 && hold.cpus > 0)
            || (memory > 0 && hold.memory.0 > 0)
            || (cards && hold.units != 0)
    };
    let mut holders = Vec::new();
    for ((due, id, task), hold) in node.ends().filter(|(_, hold)| is_in_the_way(hold)) {
        if fits(&load) || holders.len() >= MOST_HOLDERS {
            break;
        }
        load = load.minus(&Load::of(hold));
        holders.push(Holder {
            job: *id,
            task: *task,
            node: node.name.clone(),
            holds: holding(node, hold),
            due: (*due).max(ground.now),
        });
    }
    (lacks, holders)
}

/// What a job lacks that no node could run at present: cards that fail.
fn nowhere(cluster: &Cluster, policy: &Policy, shape: &Shape, reason: Reason) -> Vec<String> {
    if reason != Reason::CardsUnavailable {
        return Vec::new();
    }
    let partition = policy.partition(&shape.partition);
    let here =
        cluster.nodes().filter(|node| node.is_open() && partition.is_some_and(|it| it.has(&node.name)));
    here.flat_map(|node| failing(node)).take(MOST_FAILING).collect()
}

/// The budget that is used up, in words, when that holds the job back.
fn lacking_budget(policy: &Policy, outlook: &Outlook, job: &Job) -> Option<String> {
    if job.shape.demand.cards.count == 0 {
        return None;
    }
    let used_up = |then| used_up(policy, &outlook.budgets, then, &job.payer);
    let (spending, what) = match used_up(UsedUp::Refuse) {
        Some(spending) => (spending, "no job of it that asks for cards starts"),
        None => (used_up(UsedUp::LowPriority)?, "its jobs stand behind all others"),
    };
    let (name, used, most) = (&spending.purse.budget, spending.used, spending.most);
    Some(format!(
        "card time: {used} of {most} card-hours of budget {name} are used, and until it begins anew {what}"
    ))
}

/// Cards and slices of a node that cannot be handed out, in words.
fn failing(node: &Node) -> impl Iterator<Item = String> {
    let name = &node.name;
    let all = node.cards.iter().flat_map(move |card| {
        let index = card.index;
        let whole =
            card.health.trouble().map(|words| format!("card {index} of {name} cannot be had: {words}"));
        let slices = card.slices.iter().filter_map(move |slice| {
            let words = slice.health.trouble()?;
            Some(format!("slice {} of card {index} of {name} cannot be had: {words}", slice.profile))
        });
        whole.into_iter().chain(slices)
    });
    all.take(MOST_FAILING)
}

/// What is asked for of cards, in words.
fn cards_in_words(shape: &Shape) -> String {
    let ask = &shape.demand.cards;
    let count = u64::from(ask.count);
    if let Some(memory) = ask.share {
        return format!("a share of a card with {memory}");
    }
    match (&ask.profile, ask.memory) {
        (Some(profile), _) => format!("{} {profile}", counted(count, "slice")),
        (None, Some(memory)) => {
            format!(
                "{} with {memory}",
                if count == 1 { "1 card or slice".into() } else { format!("{count} cards or slices") }
            )
        }
        (None, None) => counted(count, "card"),
    }
}

fn holding(node: &Node, hold: &Hold) -> String {
    let mut words = alloc::vec![counted(u64::from(hold.cpus), "cpu")];
    let (mut whole, mut slices, mut parts): (u64, u64, u64) = (0, 0, 0);
    for at in 0..node.cards.len() {
        let Some(slot) = node.layout().slot(at) else { continue };
        let taken: Units = hold.units & slot.mask();
        match (taken, node.cards.get(at).is_some_and(|card| card.mig)) {
            (0, _) => {}
            (_, true) => slices += u64::from(taken.count_ones()),
            (taken, false) if taken == slot.mask() => whole += 1,
            (_, false) => parts += u64::from(taken.count_ones()),
        }
    }
    if whole > 0 {
        words.push(counted(whole, "card"));
    }
    if parts > 0 {
        words.push(format!("{} of shared cards", counted(parts, "part")));
    }
    if slices > 0 {
        words.push(format!("{} of sliced cards", counted(slices, "unit")));
    }
    words.join(", ")
}

fn lacking_licences(cluster: &Cluster, policy: &Policy, shape: &Shape) -> Vec<String> {
    let lack = |ask: &gq_model::LicenceAsk| {
        let most = policy.licences.get(&ask.name).copied().unwrap_or(0);
        let used = cluster.ledger().licences_used(&ask.name);
        let missing = used.saturating_add(ask.count).saturating_sub(most);
        (missing > 0).then(|| format!("{missing} of licence {} ({used} of {most} in use)", ask.name))
    };
    shape.licences.iter().filter_map(lack).collect()
}

/// Jobs that go before this one for nodes that it may be on too.
fn ahead(pass: &mut Pass<'_>, job: &Job) -> (Vec<JobId>, u64) {
    let (cluster, policy) = (pass.ground.cluster, pass.ground.policy);
    let seats = |pass: &Pass<'_>, shape: &Shape| learn(pass.ground.seats, cluster, policy, shape);
    let mine: BTreeSet<u32> = seats(pass, &job.shape).seats().collect();
    let Some(group) = cluster.queue().group(job.group()) else { return (Vec::new(), 0) };
    let my_order = pass.order(job.group(), group, Place::of(job));
    let mut before = Vec::new();
    for (key, group) in cluster.queue().groups() {
        if seats(pass, &group.shape).seats().any(|seat| mine.contains(&seat)) {
            let orders = group.jobs.iter().map(|place| pass.order(key, group, *place));
            before.extend(orders.filter(|order| *order < my_order));
        }
    }
    before.sort_unstable();
    let count = before.len() as u64;
    (before.into_iter().take(MOST_AHEAD).map(|(.., id)| id).collect(), count)
}

/// What would start at once instead.
fn instead(ground: &mut Ground<'_>, job: &Job, outlook: &Outlook) -> Vec<String> {
    let mut found = Vec::new();
    if outlook.groups.get(&job.group()).is_some_and(|reason| *reason != Reason::Reservation) {
        return found;
    }
    let shape = &*job.shape;
    let starts = |ground: &mut Ground<'_>, shape: &Shape| {
        let known = learn(ground.seats, ground.cluster, ground.policy, shape);
        ground.best_now(&known, shape, None).is_some()
    };
    if let Some(limit) = shorter(ground, shape, &starts) {
        found.push(format!("with --time={limit} or less"));
    }
    let ask = &shape.demand.cards;
    if let Some(wanted) = &ask.profile {
        let mut profiles: Vec<_> = ground.seats.grids.iter().flat_map(|grid| grid.profiles.clone()).collect();
        profiles.sort_by_key(|profile| (profile.memory, profile.name.clone()));
        profiles.dedup_by(|a, b| a.name == b.name);
        for profile in profiles.into_iter().filter(|p| p.is_plain() && !p.name.eq_ignore_ascii_case(wanted)) {
            let mut other = shape.clone();
            other.demand.cards.profile = Some(profile.name.clone());
            if starts(ground, &other) {
                found.push(format!("with --slice={}", profile.name));
            }
        }
    } else if ask.count > 1 {
        let fewer = (1..ask.count).rev().find(|count| {
            let mut other = shape.clone();
            other.demand.cards.count = *count;
            starts(ground, &other)
        });
        found.extend(fewer.map(|count| format!("with --gpus={count}")));
    }
    if shape.demand.exclusive {
        let mut other = shape.clone();
        other.demand.exclusive = false;
        if starts(ground, &other) {
            found.push("without --exclusive".into());
        }
    }
    let partitions = ground.policy.partitions.iter();
    let others: Vec<String> = partitions
        .filter(|p| {
            p.name != shape.partition && p.state.starts() && p.access == gq_cluster::Access::default()
        })
        .filter(|p| p.max_time.is_none_or(|most| shape.time_limit.is_some_and(|limit| limit <= most)))
        .map(|p| p.name.clone())
        .collect();
    for partition in others {
        let other = Shape { partition: partition.clone(), ..shape.clone() };
        if starts(ground, &other) {
            found.push(format!("with --partition={partition}"));
        }
    }
    found
}

/// The longest time limit in whole minutes with which a job would start now, if there is one.
fn shorter(
    ground: &mut Ground<'_>,
    shape: &Shape,
    starts: &impl Fn(&mut Ground<'_>, &Shape) -> bool,
) -> Option<Seconds> {
    let most = crate::need::span(shape.time_limit).0 / 60;
    let with = |minutes: u64| Shape { time_limit: Some(Seconds(minutes * 60)), ..shape.clone() };
    if most < 2 || !starts(ground, &with(1)) {
        return None;
    }
    // The shorter it is, the sooner it fits: halve the span between one that does and one that does not.
    let (mut good, mut bad) = (1, most);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if starts(ground, &with(middle)) { good = middle } else { bad = middle }
    }
    Some(Seconds(good * 60))
}
