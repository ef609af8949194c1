//! Endings: what comes after a run that has ended: nothing, another attempt, the next stage.

use crate::{Context, idle, preempt};
use alloc::{format, vec::Vec};
use gq_cluster::{Event, Job, Next, Policy, Run, Stopping};
use gq_model::{End, JobSpec, Outcome, Reason, Requeue, RetryAsk, RunKey, Seconds, Stage, Timestamp};

/// Longest pause before a task that failed is tried again.
const MAX_PAUSE: u64 = 300;

/// Another attempt, from now on.
const AGAIN: Next = Next::Again { not_before: None, site_fault: false, retry: false, held: None };

/// What happens when the run `key` of `job` ended like `outcome`.
pub(crate) fn ended(
    policy: &Policy,
    context: &Context,
    job: &Job,
    run: &Run,
    key: RunKey,
    outcome: Outcome,
    (started, at): (Option<Timestamp>, Timestamp),
) -> Vec<Event> {
    let (outcome, next) = fate(policy, &job.spec, run, outcome, at);
    let (outcome, next) = again(context, job, run, key, outcome, next);
    let was_prep = run.stage == Stage::Prep;
    // Who was cancelled while he prepared does not go on, though that ended well.
    let outcome = match run.stopping {
        Some(Stopping::Cancel) if was_prep && outcome.end == End::Completed => {
            Outcome { end: End::Cancelled, reason: Reason::Cancelled, ..outcome }
        }
        _ => outcome,
    };
    let is_prepared = was_prep && outcome.end == End::Completed && next == Next::Over;
    // Whoever cancelled the task as which it ran let the others be: it runs again, as the next of them.
    let is_in_vain = was_prep && !is_prepared && next == Next::Over && outcome.end != End::Cancelled;
    let outcome = if is_in_vain && outcome.end == End::Failed {
        Outcome { reason: Reason::PrepFailed, ..outcome }
    } else {
        outcome
    };
    let next = if is_prepared { AGAIN } else { next };
    let mut events = alloc::vec![Event::RunEnded { key, outcome: outcome.clone(), started, at, next }];
    if is_prepared {
        events.push(Event::Prepared { job: job.id });
    }
    if is_in_vain && !job.waiting.is_empty() {
        // The tasks that it was to prepare never begin.
        let detail = format!("the script of --prep failed in run {} of task {}", key.run, key.task);
        events.push(Event::TasksEnded {
            job: job.id,
            tasks: job.waiting.clone(),
            outcome: Outcome::without_exit(End::Failed, Reason::PrepFailed, detail),
            at: context.now,
        });
    }
    events
}

/// How a run ends whose cards were taken back, and what comes after. What it came to by itself stands: a result, a limit of its own. What the signal
/// or the order made of it is `made`.
pub(crate) fn stopped(
    outcome: Outcome,
    again: bool,
    made: impl FnOnce(Outcome) -> Outcome,
) -> (Outcome, Next) {
    let next = if again { AGAIN } else { Next::Over };
    match outcome.end {
        End::Completed | End::Timeout | End::OutOfMemory | End::Deadline => (outcome, Next::Over),
        // Its node went down under it, so that it never had its grace.
        End::NodeFail => (outcome, next),
        End::Failed | End::Cancelled | End::Preempted | End::LaunchFailed => (made(outcome), next),
    }
}

/// How a run has ended, by what it came to and what was done to it, and what comes after.
fn fate(policy: &Policy, spec: &JobSpec, run: &Run, outcome: Outcome, at: Timestamp) -> (Outcome, Next) {
    let held = |by| Next::Again { not_before: None, site_fault: false, retry: false, held: by };
    match (outcome.end, run.stopping) {
        // Who saved his work when he was told to make room, and wants to run again, has not completed.
        (End::Completed, Some(Stopping::Preempt { again: true, .. }))
            if spec.requeue.is_some_and(Requeue::is_wanted) =>
        {
            (Outcome { end: End::Preempted, reason: Reason::Preempted, ..outcome }, AGAIN)
        }
        (_, Some(Stopping::Preempt { again, .. })) => preempt::ended(outcome, again),
        (_, Some(Stopping::Idle { again })) => idle::ended(run, outcome, again, at),
        // Whoever was told that it is put back finds it put back, though it came to its own end before the signal reached it: scripts ask for
        // it themselves, and exit.
        (_, Some(Stopping::Requeue)) => (outcome, AGAIN),
        (_, Some(Stopping::RequeueHold(by))) => (outcome, held(Some(by))),
        // A cancel that came after a requeue, or while the node was away and then booted: what was wanted is done.
        (End::Cancelled | End::NodeFail, Some(Stopping::Cancel)) => {
            (Outcome { end: End::Cancelled, reason: Reason::Cancelled, ..outcome }, Next::Over)
        }
        // A cancel that came after the signal to make room, of which it died.
        (End::Failed, Some(Stopping::Cancel)) if outcome.signal == Some(preempt::SIGTERM) => {
            (Outcome { end: End::Cancelled, reason: Reason::Cancelled, ..outcome }, Next::Over)
        }
        // Nobody stopped it: the node was asked for it and knew nothing of it.
        (End::Cancelled, None) => {
            let detail = format!("node {} has lost its record of this run", run.node);
            let outcome = Outcome::without_exit(End::NodeFail, Reason::NodeFailure, detail);
            (outcome, if may_run_again(policy, spec) { AGAIN } else { Next::Over })
        }
        (End::NodeFail, None) if may_run_again(policy, spec) => (outcome, AGAIN),
        _ => (outcome, Next::Over),
    }
}

/// Whether a job runs again by itself after its node failed under it.
fn may_run_again(policy: &Policy, spec: &JobSpec) -> bool {
    spec.requeue.map_or(policy.requeue, Requeue::is_wanted)
}

/// Another attempt, when the task failed and its user wants it to be tried again: each pause is twice the one before.
fn again(
    context: &Context,
    job: &Job,
    run: &Run,
    key: RunKey,
    outcome: Outcome,
    next: Next,
) -> (Outcome, Next) {
    let Some(retry) = job.spec.retry.as_ref().filter(|_| next == Next::Over && run.stopping.is_none()) else {
        return (outcome, next);
    };
    let times = job.retried.get(&key.task).copied().unwrap_or(0);
    if outcome.end != End::Failed || times >= retry.times || !is_wanted(retry, &outcome) {
        return (outcome, next);
    }
    let pause = Seconds((1u64 << times.min(16)).min(MAX_PAUSE));
    let not_before = Some(context.now.after(pause));
    (outcome, Next::Again { not_before, site_fault: false, retry: true, held: None })
}

/// Whether a task that ended so is to be tried again.
fn is_wanted(retry: &RetryAsk, outcome: &Outcome) -> bool {
    // Whatever kept it from starting keeps it again.
    let ran = outcome.exit_code.is_some() || outcome.signal.is_some();
    ran && (retry.exits.is_empty() || outcome.exit_code.is_some_and(|code| retry.exits.contains(&code)))
}
