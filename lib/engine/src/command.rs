//! What users and admins do to jobs and nodes: cancel, signal, hold, release, requeue, drain, resume.
//! One request, however many jobs: what cannot be done to one of them is said of that one alone.

use crate::{
    Actor, Answer, ClientId, Context, Decision, Effect, Failure, Order, Past, Refusal, RefusalKind,
    schedule::Orders, update::Update,
};
use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};
use gq_cluster::{Cluster, Event, HeldBy, Job, Link, Phase, Policy, Stopping};
use gq_model::{
    Change, End, EndReason, IndexSet, JobId, JobRef, JobState, NodeName, Outcome, Reason, RunKey, SignalTo,
    TaskIndex, Uid,
};

/// Which jobs are meant. Without `jobs`, every live job that fits all the other words; several words of one kind mean "any".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// By id.
    pub jobs: Vec<JobRef>,
    /// By user.
    pub users: Vec<Uid>,
    /// By name.
    pub names: Vec<String>,
    /// By partition.
    pub partitions: Vec<String>,
    /// By state.
    pub states: Vec<JobState>,
}

impl Selection {
    /// Whether it names nothing at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it names this job by id.
    pub fn names(&self, id: JobId) -> bool {
        self.jobs.iter().any(|named| named.job == id)
    }

    /// Whether `job` fits every word but its id and state.
    pub fn fits(&self, job: &Job) -> bool {
        (self.users.is_empty() || self.users.contains(&job.uid))
            && (self.names.is_empty() || self.names.contains(&job.spec.name))
            && (self.partitions.is_empty() || self.partitions.contains(&job.shape.partition))
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// End them.
    Cancel,
    /// Send a signal to their processes.
    Signal(u8, SignalTo),
    /// Keep them from starting.
    Hold,
    /// Let them start.
    Release,
    /// End them and let them run again; held, if that is said.
    Requeue {
        /// Whether they are held then.
        hold: bool,
    },
    /// Stop them in place.
    Suspend,
    /// Let suspended ones go on.
    Continue,
    /// Say something anew of them.
    Update(Vec<Change>),
}

/// The tasks of one job that a request means.
struct Target<'a> {
    job: &'a Job,
    /// None means all.
    tasks: Option<IndexSet>,
}

impl Target<'_> {
    fn means(&self, task: u32) -> bool {
        self.tasks.as_ref().is_none_or(|set| set.contains(task))
    }
}

/// What somebody wants done, and what was looked up for it.
pub(crate) struct Asked<'a> {
    pub by: Actor,
    pub verb: &'a Verb,
    pub select: &'a Selection,
    /// Of the ids named, those of jobs that have ended.
    pub ended: &'a [JobId],
    /// What became of jobs that a new dependency names.
    pub past: &'a [Past],
}

pub(crate) fn command(
    cluster: &Cluster,
    policy: &Policy,
    context: &Context,
    client: ClientId,
    asked: &Asked<'_>,
) -> Decision {
    let Asked { by, verb, select, ended, past } = asked;
    if select.is_empty() {
        let refusal = Refusal::new(RefusalKind::Usage, "no job is named")
            .hint("name ids, or select by user, name, partition or state");
        return Decision::reply(client, Answer::Refused(refusal));
    }
    let mut decision = Decision::default();
    let mut orders = Orders::of(cluster);
    let (mut count, mut failures) = (0u64, Vec::new());
    for target in targets(cluster, *by, select, ended, verb, &mut failures) {
        let may = by.admin || by.uid == target.job.uid;
        let done = match (may, verb) {
            (false, _) => {
                let text = format!("job {} belongs to {}", target.job.id, target.job.user);
                Err(Refusal::new(RefusalKind::NotPermitted, text))
            }
            (true, Verb::Update(changes)) => {
                let update = Update { cluster, policy, context, by: *by, past };
                update.decide(target.job, changes, &mut decision, &mut orders)
            }
            (true, _) => act(cluster, context, *by, verb, &target, select, (&mut decision, &mut orders)),
        };
        match done {
            Ok(()) => count = count.saturating_add(1),
            Err(refusal) => failures.push(Failure { what: target.job.id.to_string(), refusal }),
        }
    }
    count = count.saturating_add(ended.iter().filter(|_| **verb == Verb::Cancel).count() as u64);
    decision.effects.push(Effect::Reply(client, Answer::Done { count, failures }));
    decision
}

/// The jobs meant, each once. Jobs of others are passed over silently when they were not named by id.
fn targets<'a>(
    cluster: &'a Cluster,
    by: Actor,
    select: &Selection,
    ended: &[JobId],
    verb: &Verb,
    failures: &mut Vec<Failure>,
) -> Vec<Target<'a>> {
    if select.jobs.is_empty() {
        let mine = |job: &Job| by.admin || job.uid == by.uid;
        let states = |job: &Job| {
            select.states.is_empty() || job_states(cluster, job).any(|s| select.states.contains(&s))
        };
        let fit = cluster.jobs().filter(|job| select.fits(job) && mine(job) && states(job));
        return fit.map(|job| Target { job, tasks: None }).collect();
    }
    let mut wanted: BTreeMap<JobId, Option<IndexSet>> = BTreeMap::new();
    for reference in &select.jobs {
        match &reference.tasks {
            None => {
                wanted.insert(reference.job, None);
            }
            Some(tasks) => {
                if let Some(set) = wanted.entry(reference.job).or_insert_with(|| Some(IndexSet::default())) {
                    *set = set.or(tasks);
                }
            }
        }
    }
    let mut targets = Vec::new();
    for (id, tasks) in wanted {
        match cluster.job(id) {
            Some(job) if select.fits(job) => {
                targets.extend(parts(job, tasks, failures));
            }
            Some(_) => {}
            None if ended.contains(&id) => {
                if *verb != Verb::Cancel {
                    let refusal = Refusal::new(RefusalKind::Policy, format!("job {id} has ended"));
                    failures.push(Failure { what: id.to_string(), refusal });
                }
            }
            None => {
                let refusal = Refusal::new(RefusalKind::NoSuchJob, format!("there is no job {id}"));
                failures.push(Failure { what: id.to_string(), refusal });
            }
        }
    }
    targets
}

/// A job, or those tasks of it that are meant; tasks that it never had are said to be none.
fn parts<'a>(job: &'a Job, tasks: Option<IndexSet>, failures: &mut Vec<Failure>) -> Option<Target<'a>> {
    let Some(tasks) = tasks else { return Some(Target { job, tasks: None }) };
    let all = match &job.spec.array {
        Some(array) => array.tasks.clone(),
        None => IndexSet::range(0, 0),
    };
    let strange = tasks.without(&all);
    if !strange.is_empty() {
        let named = JobRef { job: job.id, tasks: Some(strange) };
        let refusal = Refusal::new(RefusalKind::NoSuchJob, format!("there is no task {named}"));
        failures.push(Failure { what: named.to_string(), refusal });
    }
    let tasks = tasks.and(&all);
    (!tasks.is_empty()).then_some(Target { job, tasks: Some(tasks) })
}

/// The states that the tasks of a job are in.
fn job_states<'a>(cluster: &'a Cluster, job: &'a Job) -> impl Iterator<Item = JobState> + 'a {
    let waiting = (!job.waiting.is_empty()).then_some(JobState::Pending);
    let running = job.runs.values().map(|run| {
        let lost = cluster.node(&run.node).is_some_and(|node| matches!(node.link, Link::Lost { .. }));
        if lost { JobState::Unknown } else { run.state() }
    });
    waiting.into_iter().chain(running)
}

fn act(
    cluster: &Cluster,
    context: &Context,
    by: Actor,
    verb: &Verb,
    target: &Target<'_>,
    select: &Selection,
    (decision, orders): (&mut Decision, &mut Orders<'_>),
) -> Result<(), Refusal> {
    let job = target.job;
    let wants = |state: JobState| select.states.is_empty() || select.states.contains(&state);
    let runs = || {
        job.runs.iter().filter(|(task, run)| {
            let lost = cluster.node(&run.node).is_some_and(|node| matches!(node.link, Link::Lost { .. }));
            target.means(task.0) && wants(if lost { JobState::Unknown } else { run.state() })
        })
    };
    let mut stop = |decision: &mut Decision, why: Stopping| {
        for (task, run) in runs() {
            // A cancel outranks a requeue; saying the same thing twice changes nothing.
            let why = match (why, run.stopping) {
                (_, Some(Stopping::Cancel)) => continue,
                (_, Some(other)) if other == why => continue,
                (
                    Stopping::Requeue | Stopping::RequeueHold(_),
                    Some(Stopping::Preempt { again: true, ordered: true, .. }),
                ) => continue,
                // It was sent a signal to make room, and may end by that yet: whatever ends it, it waits again.
                (Stopping::Requeue | Stopping::RequeueHold(_), Some(Stopping::Preempt { .. })) => {
                    Stopping::Preempt { again: true, due: context.now, ordered: true }
                }
                _ => why,
            };
            let key = RunKey { job: job.id, task: *task, run: run.number };
            decision.events.push(Event::Stopped { key, why, by: Some(by.uid) });
            let drained = cluster.node(&run.node).is_some_and(|node| node.drained.is_some());
            orders.write(decision, &run.node, stop_order(key, why, by.admin && drained));
        }
    };
    match verb {
        Verb::Cancel => {
            let waits = if wants(JobState::Pending) { waiting(target) } else { IndexSet::default() };
            if !waits.is_empty() {
                let outcome =
                    Outcome::without_exit(End::Cancelled, Reason::Cancelled, format!("by uid {}", by.uid));
                decision.events.push(Event::TasksEnded {
                    job: job.id,
                    tasks: waits,
                    outcome,
                    at: context.now,
                });
            }
            stop(decision, Stopping::Cancel);
            Ok(())
        }
        Verb::Requeue { hold } => {
            if job.spec.requeue == Some(false) {
                let text = format!("job {} is not to be requeued (--no-requeue)", job.id);
                return Err(
                    Refusal::new(RefusalKind::Policy, text).hint("gqctl update --requeue=yes lets it be")
                );
            }
            let holder = if by.uid == job.uid { HeldBy::User } else { HeldBy::Admin };
            stop(decision, if *hold { Stopping::RequeueHold(holder) } else { Stopping::Requeue });
            // What waits already is held as well.
            if *hold && !waiting(target).is_empty() {
                hold_back(target, by, decision)?;
            }
            Ok(())
        }
        Verb::Suspend | Verb::Continue => {
            let suspends = *verb == Verb::Suspend;
            let found: Vec<(NodeName, RunKey)> = runs()
                .filter(|(_, run)| matches!(run.phase, Phase::Running { .. }))
                .map(|(task, run)| (run.node.clone(), RunKey { job: job.id, task: *task, run: run.number }))
                .collect();
            if found.is_empty() {
                return Err(Refusal::new(RefusalKind::Policy, format!("job {} does not run", job.id)));
            }
            for (node, key) in found {
                orders.write(
                    decision,
                    &node,
                    if suspends { Order::Suspend(key) } else { Order::Resume(key) },
                );
            }
            Ok(())
        }
        Verb::Signal(signal, to) => {
            let started: Vec<(TaskIndex, NodeName, RunKey)> = runs()
                .filter(|(_, run)| run.started().is_some())
                .map(|(task, run)| {
                    (*task, run.node.clone(), RunKey { job: job.id, task: *task, run: run.number })
                })
                .collect();
            if started.is_empty() {
                return Err(Refusal::new(RefusalKind::Policy, format!("job {} does not run", job.id)));
            }
            for (_, node, key) in started {
                orders.write(decision, &node, Order::Signal(key, *signal, *to));
            }
            Ok(())
        }
        Verb::Hold => hold_back(target, by, decision),
        Verb::Release => release(target, by, decision),
        // Decided by `update`.
        Verb::Update(_) => Ok(()),
    }
}

/// The order that ends a run. `drains`: an admin ends it because its node is being drained.
pub(crate) fn stop_order(key: RunKey, why: Stopping, drains: bool) -> Order {
    let told = |reason| if drains { EndReason::Drain } else { reason };
    match why {
        Stopping::Cancel => Order::Cancel(key, told(EndReason::Cancel)),
        Stopping::Preempt { again: false, .. } => Order::Cancel(key, EndReason::Preemption),
        Stopping::Requeue | Stopping::RequeueHold(_) => Order::Requeue(key, told(EndReason::Requeue)),
        Stopping::Preempt { again: true, .. } => Order::Requeue(key, EndReason::Preemption),
    }
}

fn waiting(target: &Target<'_>) -> IndexSet {
    match &target.tasks {
        None => target.job.waiting.clone(),
        Some(tasks) => tasks.and(&target.job.waiting),
    }
}

fn hold_back(target: &Target<'_>, by: Actor, decision: &mut Decision) -> Result<(), Refusal> {
    let (job, tasks) = (target.job, waiting(target));
    if tasks.is_empty() {
        let text = format!("job {} does not wait: only what waits can be held", job.id);
        return Err(Refusal::new(RefusalKind::Policy, text));
    }
    let holder = if by.uid == job.uid { HeldBy::User } else { HeldBy::Admin };
    if target.tasks.is_some() && job.array {
        decision.events.push(Event::TasksHeld { job: job.id, by: holder, tasks });
    } else if job.held != Some(HeldBy::Admin) && job.held != Some(holder) {
        decision.events.push(Event::Held { job: job.id, by: holder });
    }
    Ok(())
}

/// Releases a job with all its tasks, or the tasks that are meant.
fn release(target: &Target<'_>, by: Actor, decision: &mut Decision) -> Result<(), Refusal> {
    let job = target.job;
    let tasks = match &target.tasks {
        Some(tasks) if job.array => tasks.clone(),
        Some(_) | None => job.waiting.clone(),
    };
    let by_admin = job.held_tasks.get(&HeldBy::Admin).map(|held| held.and(&tasks)).unwrap_or_default();
    if !by.admin && (job.held == Some(HeldBy::Admin) || !by_admin.is_empty()) {
        let text = format!("job {} is held by an admin", job.id);
        return Err(Refusal::new(RefusalKind::NotPermitted, text).hint("ask an admin to release it"));
    }
    if target.tasks.is_some() && job.array && job.held.is_some() {
        let text = format!("job {} is held as a whole, not task by task", job.id);
        return Err(Refusal::new(RefusalKind::Policy, text).hint(format!("gqctl release {}", job.id)));
    }
    let held = job.held_tasks.values().fold(IndexSet::default(), |all, held| all.or(held)).and(&tasks);
    if !held.is_empty() {
        decision.events.push(Event::TasksReleased { job: job.id, tasks: held });
    }
    if job.held.is_some() {
        decision.events.push(Event::Released { job: job.id });
    }
    Ok(())
}

/// Drains (with a reason) or resumes nodes.
pub(crate) fn nodes(
    cluster: &Cluster,
    client: ClientId,
    by: Actor,
    names: &[NodeName],
    drain: Option<&str>,
) -> Decision {
    if !by.admin {
        let refusal = Refusal::new(RefusalKind::NotPermitted, "only admins drain and resume nodes")
            .hint("admins are named in the conf: [cluster] admins");
        return Decision::reply(client, Answer::Refused(refusal));
    }
    let mut decision = Decision::default();
    let mut failures = Vec::new();
    for name in names {
        if cluster.node(name).is_none() {
            let refusal = Refusal::new(RefusalKind::Policy, format!("there is no node {name}"))
                .hint("gqstat --nodes lists them");
            failures.push(Failure { what: name.to_string(), refusal });
            continue;
        }
        decision.events.push(match drain {
            Some(reason) => Event::NodeDrained { node: name.clone(), reason: reason.to_string() },
            None => Event::NodeResumed { node: name.clone() },
        });
    }
    let count = decision.events.len() as u64;
    decision.effects.push(Effect::Reply(client, Answer::Done { count, failures }));
    decision
}
