//! Idle cards: runs that hold cards and do nothing with them are warned, and after their grace ended, put back or only told of. Never judges
//! whether cards are idle; their node does.

use crate::{Context, Decision, acts::stop_order, ending::stopped, report::live_run, schedule::Orders};
use alloc::{format, string::String};
use gq_cluster::{Cluster, Event, Idle, IdleAction, Job, Link, Next, Policy, Run, Stopping};
use gq_model::{End, JobSpec, NodeName, Outcome, Reason, Requeue, RunKey, Seconds, Timestamp};

/// How often a task is put back for its idle cards; then it is ended.
const MAX_AGAIN: u32 = 3;
/// How long a run whose node is out of sight is let be: it may be in use again, and its node cannot say so.
const OUT_OF_SIGHT: Seconds = Seconds(5);

/// What is to be done about a job whose cards are idle; none when nothing is.
pub(crate) fn rule<'a>(policy: &'a Policy, partition: &str, spec: &JobSpec) -> Option<&'a Idle> {
    let idle = policy.partition(partition)?.idle.as_ref();
    idle.filter(|idle| !(idle.may_excuse && spec.idle_ok.is_some()))
}

/// A node says since when all cards of a run are idle, or that they are not.
pub(crate) fn told(
    cluster: &Cluster,
    policy: &Policy,
    context: &Context,
    node: &NodeName,
    (key, since): (RunKey, Option<Timestamp>),
) -> Option<Event> {
    let (job, run) = (cluster.job(key.job)?, live_run(cluster, node, key)?);
    match (since, run.idle) {
        // Why it is being ended is told when it has ended.
        _ if run.stopping.is_some() => None,
        (None, Some(_)) => Some(Event::IdleOver { key }),
        (Some(since), None) if run.state() == gq_model::JobState::Running => {
            let idle = rule(policy, &job.shape.partition, &job.spec)?;
            let due = (idle.action != IdleAction::Report).then(|| context.now.after(idle.grace));
            let again = idle.action == IdleAction::Requeue && may_run_again(job, key);
            Some(Event::IdleFound { key, since: since.min(context.now), due, again })
        }
        (None, None) | (Some(_), _) => None,
    }
}

/// Nobody knows any more whether the cards of runs on a node are idle.
pub(crate) fn forgotten(cluster: &Cluster, node: &NodeName) -> impl Iterator<Item = Event> {
    let runs = cluster.node(node).into_iter().flat_map(|node| node.runs());
    runs.filter_map(|(job, task)| {
        let job = cluster.job(job)?;
        let (key, run) = (job.run_key(task)?, job.runs.get(&task)?);
        // Why it is being ended is told when it has ended.
        run.idle.filter(|_| run.stopping.is_none()).map(|_| Event::IdleOver { key })
    })
}

/// What becomes of the runs of a job that were found idle, now that something else is asked of it: excused, they are let be; excused no longer,
/// they get their grace from now on.
pub(crate) fn counted_anew(
    policy: &Policy,
    context: &Context,
    job: &Job,
    spec: &JobSpec,
) -> impl Iterator<Item = Event> {
    let rule = rule(policy, &job.shape.partition, spec).filter(|idle| idle.action != IdleAction::Report);
    let due = rule.map(|idle| context.now.after(idle.grace));
    job.runs.iter().filter(|(_, run)| run.stopping.is_none()).filter_map(move |(task, run)| {
        let other = run.idle?.due.is_some() != due.is_some();
        job.run_key(*task).filter(|_| other).map(|key| Event::IdleDue { key, due })
    })
}

/// Runs whose cards stayed idle through their grace are ended, as their partition says now.
pub(crate) fn due(
    cluster: &Cluster,
    policy: &Policy,
    context: &Context,
    decision: &mut Decision,
    orders: &mut Orders<'_>,
) {
    for (_, key) in cluster.reclaims().take_while(|(due, _)| *due <= context.now) {
        let Some(job) = cluster.job(key.job) else { continue };
        let Some(run) = job.runs.get(&key.task) else { continue };
        let later = |due| Event::IdleDue { key: *key, due };
        if cluster.node(&run.node).is_none_or(|node| node.link != Link::Up) {
            decision.events.push(later(Some(context.now.after(OUT_OF_SIGHT))));
            continue;
        }
        let action = rule(policy, &job.shape.partition, &job.spec).map(|idle| idle.action);
        let again = match action {
            None | Some(IdleAction::Report) => {
                decision.events.push(later(None));
                continue;
            }
            Some(IdleAction::Cancel) => false,
            Some(IdleAction::Requeue) => may_run_again(job, *key),
        };
        let why = Stopping::Idle { again };
        decision.events.push(Event::Stopped { key: *key, why, by: None });
        orders.write(decision, &run.node, stop_order(*key, why, false));
    }
}

/// Whether a task is put back: its user did not forbid it, and it was not put back too often.
fn may_run_again(job: &Job, key: RunKey) -> bool {
    let times = job.reclaimed.get(&key.task).copied().unwrap_or(0);
    job.spec.requeue != Some(Requeue::Never) && times < MAX_AGAIN
}

/// How a run ends that was ended for its idle cards, and what comes after.
pub(crate) fn ended(run: &Run, outcome: Outcome, again: bool, at: Timestamp) -> (Outcome, Next) {
    stopped(outcome, again, |outcome| {
        let detail = run.idle.map_or_else(String::new, |idle| {
            let span = Seconds(at.micros_since(idle.since) / 1_000_000);
            format!("its cards had been idle for {span}")
        });
        Outcome { end: End::Cancelled, reason: Reason::IdleCards, detail, ..outcome }
    })
}
