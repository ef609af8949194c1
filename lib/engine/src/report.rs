//! What nodes say, and what their silence means. A late report of an old run, or one that was taken before, changes nothing.

use crate::{
    Context, Decision, NodeReport, Order, acts::stop_order, charge::Charges, ending, found::found, idle,
    preempt, schedule::Orders,
};
use alloc::{collections::BTreeSet, format, string::String, vec::Vec};
use gq_cluster::{Cluster, Event, Link, Next, Node, Phase, Policy, Run, Stopping};
use gq_model::{
    BootId, End, Epoch, Fault, JobId, NodeId, NodeName, Outcome, Reason, RunKey, Seconds, Seq, Timestamp,
};

/// A start that fails by the site's fault is tried so often altogether.
const MAX_LAUNCHES: u32 = 5;
/// Longest pause between two such tries.
const MAX_PAUSE: u64 = 300;
/// Different jobs whose start fails in a row before their node is drained.
const FAILED_JOBS_TO_DRAIN: usize = 2;

pub(crate) fn report(
    cluster: &Cluster,
    policy: &Policy,
    context: &Context,
    name: &NodeName,
    epoch: Epoch,
    seq: Seq,
    body: &NodeReport,
) -> Decision {
    let node = cluster.node(name);
    let (last_epoch, last) = node.map_or((Epoch(0), Seq(0)), |n| (n.epoch, n.last_report));
    if epoch < last_epoch || (epoch == last_epoch && seq <= last) {
        return Decision::default();
    }
    let mut decision = match (body, node) {
        (NodeReport::Joined { boot, id, cpus, memory, cards, unbound, runs }, _) => {
            let has = ((Some(*boot), *id), *cpus, *memory, cards.as_slice());
            let found = found(policy, cluster.node(name).map(|node| &**node), name, has);
            let mut decision = joined(cluster, context, name, (*boot, *id), found, runs);
            if node.map_or(&[][..], |node| &node.unbound) != unbound.as_slice() {
                decision.events.push(Event::NodeUnbound { node: name.clone(), what: unbound.clone() });
            }
            decision
        }
        (_, None) => Decision::default(),
        (NodeReport::Trouble(why), Some(node)) => {
            Decision { events: troubled(node, why.clone()).into_iter().collect(), effects: Vec::new() }
        }
        // It is another node than the one that the run was given to, and knows nothing of what that one did.
        (body, Some(node)) if is_hearsay(cluster, node, body) => Decision::default(),
        (NodeReport::Started(key, at), Some(node)) => {
            let mut decision = on_run(cluster, name, *key, |run| {
                (run.phase == Phase::Starting).then(|| started(context, run, *key, *at))
            });
            if !decision.events.is_empty() && !node.failed_starts.is_empty() {
                // The start clears them: said once more of the node, so that its row is written too.
                decision.events.push(Event::NodeSeen { node: name.clone(), link: node.link });
            }
            decision
        }
        (NodeReport::Suspended(key, at), Some(_)) => on_run(cluster, name, *key, |run| {
            let runs = matches!(run.phase, Phase::Running { .. }) && run.suspended.is_none();
            runs.then_some(Event::Suspended { key: *key, at: *at })
        }),
        (NodeReport::Resumed(key, at), Some(_)) => on_run(cluster, name, *key, |run| {
            // Its time limit stood still for so long.
            let still = i64::try_from(at.micros_since(run.suspended?)).unwrap_or(i64::MAX);
            let counted = Timestamp(run.counted.0.saturating_add(still)).min(context.now);
            Some(Event::Resumed { key: *key, at: *at, counted })
        }),
        (NodeReport::Idle(key, since), Some(_)) => Decision {
            events: idle::told(cluster, policy, context, name, (*key, *since)).into_iter().collect(),
            effects: Vec::new(),
        },
        (NodeReport::Exited(key, at), Some(_)) => on_run(cluster, name, *key, |run| {
            let again = matches!(run.phase, Phase::Completing { .. });
            (!again).then_some(Event::Exited { key: *key, at: *at })
        }),
        (NodeReport::Ended { key, outcome, started, ended, epilog }, Some(node)) => {
            let mut decision = Decision::default();
            if let (Some(job), Some(run)) = (cluster.job(key.job), live_run(cluster, name, *key)) {
                let started = started.or(run.started());
                let outcome = blamed(node, run, outcome.clone());
                let mut events = ending::ended(policy, context, job, run, *key, outcome, (started, *ended));
                // What it cost is the very next thing that is known of it.
                let rest = events.split_off(1);
                events.extend(Charges::default().charge(cluster, policy, context, name, *key));
                events.extend(rest);
                decision.events = events;
            }
            // What a failed epilog has left is no matter of the run's, and every job there would meet it.
            decision.events.extend(epilog.as_ref().and_then(|failure| drained(node, failure.clone())));
            decision
        }
        (NodeReport::Refused { key, fault, reason, detail }, Some(node)) => {
            refused(cluster, policy, context, node, *key, (*fault, *reason, detail))
        }
        (NodeReport::Cards(cards), Some(node)) => {
            let has = ((node.boot, None), node.cpus, node.memory, cards.as_slice());
            Decision { events: alloc::vec![found(policy, Some(node), name, has)], effects: Vec::new() }
        }
    };
    if let (Some(key), Some(node)) = (body.key().filter(|_| body.is_end()), node)
        && node.strays.contains(&key)
    {
        decision.events.push(Event::StrayGone { node: name.clone(), key });
    }
    if node.is_some() || matches!(body, NodeReport::Joined { .. }) {
        decision.events.push(Event::Reported { node: name.clone(), epoch, seq });
    }
    decision
}

/// An outcome, with its reason in a card that fails: a script that failed where a card failed under it did not fail by its own fault alone.
fn blamed(node: &Node, run: &Run, outcome: Outcome) -> Outcome {
    let failed_by_itself = outcome.end == End::Failed
        && matches!(outcome.reason, Reason::NonZeroExitCode | Reason::RaisedSignal);
    let failing = if failed_by_itself { node.failing(&run.cards).next() } else { None };
    match failing {
        Some((card, words)) => {
            let detail = format!("card {card} of {} failed: {words}", node.name);
            Outcome { reason: Reason::CardGone, detail, ..outcome }
        }
        None => outcome,
    }
}

/// Whether a node tells of a live run that it cannot know of.
fn is_hearsay(cluster: &Cluster, node: &Node, body: &NodeReport) -> bool {
    let run = body.key().and_then(|key| live_run(cluster, &node.name, key));
    run.is_some_and(|run| !node.vouches_for(run))
}

/// The event that `event` makes of the live run `key` on `node`; nothing when there is no such run or it says nothing new.
fn on_run(
    cluster: &Cluster,
    node: &NodeName,
    key: RunKey,
    event: impl FnOnce(&Run) -> Option<Event>,
) -> Decision {
    let run = live_run(cluster, node, key);
    Decision { events: run.and_then(event).into_iter().collect(), effects: Vec::new() }
}

/// A script was started `at` a time on its node's clock, which may go wrong: its limit counts from no time that this clock has not seen.
fn started(context: &Context, run: &Run, key: RunKey, at: Timestamp) -> Event {
    let counted = at.min(context.now).max(run.allocated);
    Event::Started { key, at, counted }
}

pub(crate) fn live_run<'a>(cluster: &'a Cluster, node: &NodeName, key: RunKey) -> Option<&'a Run> {
    let run = cluster.job(key.job)?.runs.get(&key.task)?;
    (run.number == key.run && run.node == *node).then_some(run)
}

fn refused(
    cluster: &Cluster,
    policy: &Policy,
    context: &Context,
    node: &Node,
    key: RunKey,
    why: (Fault, Reason, &String),
) -> Decision {
    let Some(run) = live_run(cluster, &node.name, key) else { return Decision::default() };
    let failures = match cluster.job(key.job) {
        // Each task of an array is tried by itself.
        Some(job) if job.array => key.run.0,
        job => job.map_or(0, |job| job.launch_failures).saturating_add(1),
    };
    let (fault, reason, detail) = why;
    let over = |end, reason| (Outcome::without_exit(end, reason, detail.clone()), Next::Over);
    let later = |tries: u32, site_fault| {
        let pause = Seconds((1u64 << tries.min(16)).min(MAX_PAUSE));
        let next =
            Next::Again { not_before: Some(context.now.after(pause)), site_fault, retry: false, held: None };
        (Outcome::without_exit(End::LaunchFailed, reason, detail.clone()), next)
    };
    let (outcome, next) = match (fault, run.stopping) {
        (_, Some(Stopping::Cancel)) => over(End::Cancelled, Reason::Cancelled),
        (Fault::User, _) => over(End::Failed, reason),
        (Fault::Site, Some(Stopping::Preempt { again, .. })) => {
            preempt::ended(Outcome::without_exit(End::Cancelled, reason, detail.clone()), again)
        }
        // What it was given is gone, which says nothing of the node. It never started, so it waits until there is another.
        // Or its node said itself that it can start nothing, and says when it can.
        (Fault::Site, _) if matches!(reason, Reason::CardGone | Reason::NodeTrouble) => {
            later(key.run.0, false)
        }
        (Fault::Site, _) if failures >= MAX_LAUNCHES => over(End::LaunchFailed, reason),
        (Fault::Site, _) => later(failures, true),
    };
    let ended = Event::RunEnded { key, outcome, started: None, at: context.now, next };
    let mut events: Vec<Event> = core::iter::once(ended)
        .chain(Charges::default().charge(cluster, policy, context, &node.name, key))
        .collect();
    // What a user named may be of his making: a file system of his own answers as he likes. It takes two users to tell.
    let is_named_by_user =
        matches!(reason, Reason::WorkDir | Reason::InputFile | Reason::OutputFile | Reason::ExecFailed);
    let owner = |job: &JobId| cluster.job(*job).map(|job| job.uid);
    let counts = |job: &&JobId| **job != key.job && !(is_named_by_user && owner(job) == owner(&key.job));
    let others = node.failed_starts.iter().filter(counts).count();
    if (fault, reason) == (Fault::Site, Reason::Prolog) {
        // The site's own word that something is wrong with the node needs no second job to confirm it.
        events.extend(drained(node, detail.clone()));
    } else if matches!(next, Next::Again { site_fault: true, .. }) && others + 1 >= FAILED_JOBS_TO_DRAIN {
        events.extend(drained(node, format!("jobs cannot be started here: {detail}")));
    }
    Decision { events, effects: Vec::new() }
}

/// What a node says of itself, unless it is known.
fn troubled(node: &Node, why: Option<String>) -> Option<Event> {
    (node.trouble != why).then(|| Event::NodeTroubled { node: node.name.clone(), why })
}

/// Drains a node, unless it is drained.
fn drained(node: &Node, reason: String) -> Option<Event> {
    node.drained.is_none().then(|| Event::NodeDrained { node: node.name.clone(), reason })
}

/// A node begins a life: what it has, and which runs live there.
fn joined(
    cluster: &Cluster,
    context: &Context,
    name: &NodeName,
    (boot, id): (BootId, Option<NodeId>),
    found: Event,
    runs: &[(RunKey, Option<Timestamp>)],
) -> Decision {
    let mut decision = Decision::default();
    decision.events.push(found);
    decision.events.push(Event::NodeSeen { node: name.clone(), link: Link::Up });
    // A new life says anew what keeps it from starting anything.
    decision.events.extend(cluster.node(name).and_then(|node| troubled(node, None)));
    decision.events.extend(idle::forgotten(cluster, name));
    let mut orders = Orders::of(cluster);
    let known = cluster.node(name);
    for (key, started) in runs {
        let run = live_run(cluster, name, *key);
        if let (Some(run), Some(node_id)) = (run, id)
            && is_of_another(run, boot, id)
        {
            // Its supervisor lives there, whatever was lost. What was ordered before may be lost with it.
            decision.events.push(Event::Adopted { key: *key, node_id });
            if let Some(why) =
                run.stopping.filter(|why| !matches!(why, Stopping::Preempt { ordered: false, .. }))
            {
                orders.write(&mut decision, name, stop_order(*key, why, false));
            }
        }
        match (run, started) {
            (Some(run), Some(at)) if run.started().is_none() => {
                decision.events.push(self::started(context, run, *key, *at))
            }
            (Some(_), _) => {}
            (None, _) => {
                if known.is_none_or(|node| !node.strays.contains(key)) {
                    decision.events.push(Event::Strayed { node: name.clone(), key: *key });
                }
                orders.write(&mut decision, name, Order::Stray(*key));
            }
        }
    }
    let listed: BTreeSet<RunKey> = runs.iter().map(|(key, _)| *key).collect();
    let Some(node) = known else { return decision };
    // What was given up, and is not listed, may have been said to be gone to nobody: it is asked for again.
    for key in node.strays.difference(&listed) {
        orders.write(&mut decision, name, Order::Stray(*key));
    }
    // A run that the node had begun, or that was meant for an earlier boot, or that is being stopped anyway, lives no more when
    // it is not listed. The node may hold its end still (a result is kept through a reboot), so it is asked: it says the end
    // again, or that it knows of none. One that only waits to be started is let alone: its order may be on the way.
    for (job, task) in node.runs() {
        let Some(run) = cluster.job(job).and_then(|job| job.runs.get(&task)) else { continue };
        let key = RunKey { job, task, run: run.number };
        let is_known = run.boot != boot || run.started().is_some() || run.stopping.is_some();
        // One that was given to a node that has lost its memory since may live, and nobody can be asked; a boot ends it, or an admin.
        if is_known && !is_of_another(run, boot, id) && !listed.contains(&key) {
            orders.write(&mut decision, name, Order::Stray(key));
        }
    }
    decision
}

/// Whether a run was given to another node than this one, in the same boot.
fn is_of_another(run: &Run, boot: BootId, id: Option<NodeId>) -> bool {
    run.boot == boot && run.node_id.is_some() && id.is_some() && run.node_id != id
}

/// A node is in sight again without a new life: its connection is back. A life that has not reported yet reports first.
pub(crate) fn heard(cluster: &Cluster, name: &NodeName, epoch: Epoch) -> Decision {
    let is_back = |node: &Node| match node.link {
        Link::Up => false,
        Link::Suspect { .. } | Link::Lost { .. } => true,
        // What it has is known, if it was ever seen.
        Link::Absent | Link::Forgotten => node.boot.is_some(),
    };
    let back = cluster.node(name).is_some_and(|node| node.epoch == epoch && is_back(node));
    let event = Event::NodeSeen { node: name.clone(), link: Link::Up };
    Decision { events: back.then_some(event).into_iter().collect(), effects: Vec::new() }
}

/// After a start of the controller no node is in sight, and none is lost before one full timeout.
pub(crate) fn restarted(cluster: &Cluster, context: &Context) -> Decision {
    let seen = cluster.nodes().filter(|node| matches!(node.link, Link::Up | Link::Suspect { .. }));
    let link = Link::Suspect { since: context.now };
    let events = seen.map(|node| Event::NodeSeen { node: node.name.clone(), link }).collect();
    Decision { events, effects: Vec::new() }
}

pub(crate) fn silent(cluster: &Cluster, context: &Context, name: &NodeName) -> Decision {
    let is_up = cluster.node(name).is_some_and(|node| node.link == Link::Up);
    let event = Event::NodeSeen { node: name.clone(), link: Link::Suspect { since: context.now } };
    Decision { events: is_up.then_some(event).into_iter().collect(), effects: Vec::new() }
}

pub(crate) fn lost(cluster: &Cluster, context: &Context, name: &NodeName) -> Decision {
    let since = cluster.node(name).and_then(|node| match node.link {
        Link::Suspect { since } => Some(since),
        Link::Up => Some(context.now),
        Link::Absent | Link::Lost { .. } | Link::Forgotten => None,
    });
    let Some(since) = since else { return Decision::default() };
    let mut events = alloc::vec![Event::NodeSeen { node: name.clone(), link: Link::Lost { since } }];
    events.extend(idle::forgotten(cluster, name));
    Decision { events, effects: Vec::new() }
}
