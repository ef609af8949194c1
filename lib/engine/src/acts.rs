//! Acts: what is done to one job that a request means, or to tasks of it: ended, put back, stopped in place, signalled, held, released.

use crate::{
    Actor, Context, Decision, Order, Refusal, RefusalKind, Verb,
    command::{Selection, Target},
    schedule::Orders,
};
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use gq_cluster::{Cluster, Event, HeldBy, Phase, Policy, Run, Stopping};
use gq_model::{
    End, EndReason, IndexSet, JobRef, JobState, MAX_SCATTER, NodeName, Outcome, Reason, Requeue, RunKey,
    TaskIndex,
};

/// What an act sees, and what comes of it.
pub(crate) struct Act<'a, 'd> {
    pub cluster: &'a Cluster,
    pub policy: &'a Policy,
    pub context: &'a Context,
    pub by: Actor,
    pub target: Target<'a>,
    pub select: &'a Selection,
    pub decision: &'d mut Decision,
    pub orders: &'d mut Orders<'a>,
}

impl<'a> Act<'a, '_> {
    /// Does what is wanted.
    pub(crate) fn perform(&mut self, verb: &Verb) -> Result<(), Refusal> {
        match verb {
            Verb::Cancel => self.cancel()?,
            Verb::Requeue { hold } => self.requeue(*hold)?,
            Verb::Suspend => self.steer(Order::Suspend, is_running)?,
            Verb::Continue => self.steer(Order::Resume, is_running)?,
            Verb::Signal(signal, to) => {
                self.steer(|key| Order::Signal(key, *signal, *to), |run| run.started().is_some())?;
            }
            Verb::Hold => self.hold_back()?,
            Verb::Release => self.release()?,
            // Decided by `update`.
            Verb::Update(_) => {}
        }
        Ok(())
    }

    /// Whether a state is one of those that are meant.
    fn wants(&self, state: JobState) -> bool {
        self.select.states.is_empty() || self.select.states.contains(&state)
    }

    /// The runs that are meant.
    fn runs(&self) -> Vec<(TaskIndex, &'a Run)> {
        let is_meant = |(task, run): &(&TaskIndex, &Run)| {
            let node = self.cluster.node(&run.node);
            let blind = node.is_some_and(|node| node.is_blind_to(run));
            self.target.means(task.0) && self.wants(if blind { JobState::Unknown } else { run.state() })
        };
        self.target.job.runs.iter().filter(is_meant).map(|(task, run)| (*task, run)).collect()
    }

    fn key(&self, task: TaskIndex, run: &Run) -> RunKey {
        RunKey { job: self.target.job.id, task, run: run.number }
    }

    /// The tasks that are meant and wait.
    fn waiting(&self) -> IndexSet {
        match &self.target.tasks {
            None => self.target.job.waiting.clone(),
            Some(tasks) => tasks.and(&self.target.job.waiting),
        }
    }

    fn holder(&self) -> HeldBy {
        self.policy.holder(self.by.uid, self.by.role, self.target.job.owner())
    }

    /// The most that may be released by who asks.
    fn power(&self) -> HeldBy {
        self.policy.releases(self.by.uid, self.by.role, self.target.job.owner())
    }

    fn cancel(&mut self) -> Result<(), Refusal> {
        let tasks = if self.wants(JobState::Pending) { self.waiting() } else { IndexSet::default() };
        self.is_together(&self.target.job.waiting.without(&tasks))?;
        if !tasks.is_empty() {
            let detail = format!("by uid {}", self.by.uid);
            let outcome = Outcome::without_exit(End::Cancelled, Reason::Cancelled, detail);
            let (job, at) = (self.target.job.id, self.context.now);
            self.decision.events.push(Event::TasksEnded { job, tasks, outcome, at });
        }
        self.stop(Stopping::Cancel);
        Ok(())
    }

    /// Refuses what would leave tasks in so many separate ranges that each change of the job took long.
    fn is_together(&self, rest: &IndexSet) -> Result<(), Refusal> {
        if rest.ranges().len() <= MAX_SCATTER {
            return Ok(());
        }
        let text = format!(
            "tasks of job {} would lie in more than {MAX_SCATTER} separate ranges",
            self.target.job.id
        );
        Err(Refusal::new(RefusalKind::Policy, text).hint("name tasks in a row"))
    }

    fn requeue(&mut self, hold: bool) -> Result<(), Refusal> {
        let job = self.target.job;
        if job.spec.requeue == Some(Requeue::Never) {
            let text = format!("job {} is not to be requeued (--no-requeue)", job.id);
            return Err(Refusal::new(RefusalKind::Policy, text).hint("gqctl update --requeue=yes lets it be"));
        }
        if self.runs().is_empty() && (!hold || self.waiting().is_empty()) {
            let text = format!("job {} does not run: only what runs is put back into the queue", job.id);
            return Err(Refusal::new(RefusalKind::Policy, text));
        }
        self.stop(if hold { Stopping::RequeueHold(self.holder()) } else { Stopping::Requeue });
        // What waits already is held as well.
        if hold && !self.waiting().is_empty() {
            self.hold_back()?;
        }
        Ok(())
    }

    /// Has the runs that are meant ended.
    fn stop(&mut self, why: Stopping) {
        let power = self.power();
        for (task, run) in self.runs() {
            // A cancel outranks a requeue; saying the same thing twice changes nothing.
            let why = match (why, run.stopping) {
                (_, Some(Stopping::Cancel)) => continue,
                (_, Some(other)) if other == why => continue,
                // Whom somebody has held who may do more stays held.
                (Stopping::Requeue | Stopping::RequeueHold(_), Some(Stopping::RequeueHold(by)))
                    if by > power =>
                {
                    continue;
                }
                (
                    Stopping::Requeue | Stopping::RequeueHold(_),
                    Some(Stopping::Preempt { again: true, ordered: true, .. }),
                ) => continue,
                // It was sent a signal to make room, and may end by that yet: whatever ends it, it waits again.
                (Stopping::Requeue | Stopping::RequeueHold(_), Some(Stopping::Preempt { .. })) => {
                    Stopping::Preempt { again: true, due: self.context.now, ordered: true }
                }
                _ => why,
            };
            let key = self.key(task, run);
            self.decision.events.push(Event::Stopped { key, why, by: Some(self.by.uid) });
            let drains = self.cluster.node(&run.node).is_some_and(|node| node.drained.is_some());
            self.orders.write(
                self.decision,
                &run.node,
                stop_order(key, why, self.by.is_operator() && drains),
            );
        }
    }

    /// Gives an order about each of the runs that are meant and that `fits`; an error when there is none.
    fn steer(&mut self, order: impl Fn(RunKey) -> Order, fits: impl Fn(&Run) -> bool) -> Result<(), Refusal> {
        let found: Vec<(NodeName, RunKey)> = self
            .runs()
            .into_iter()
            .filter(|(_, run)| fits(run))
            .map(|(task, run)| (run.node.clone(), self.key(task, run)))
            .collect();
        if found.is_empty() {
            let id = self.target.job.id;
            let starts = self.runs().iter().any(|(_, run)| run.phase == Phase::Starting);
            let text =
                if starts { format!("job {id} is only starting") } else { format!("job {id} does not run") };
            let refusal = Refusal::new(RefusalKind::Policy, text);
            return Err(if starts { refusal.hint("try again in a moment") } else { refusal });
        }
        for (node, key) in found {
            self.orders.write(self.decision, &node, order(key));
        }
        Ok(())
    }

    fn hold_back(&mut self) -> Result<(), Refusal> {
        let (job, tasks, by) = (self.target.job, self.waiting(), self.holder());
        if tasks.is_empty() {
            let text = format!("job {} does not wait: only what waits can be held", job.id);
            return Err(Refusal::new(RefusalKind::Policy, text));
        }
        if self.target.tasks.is_some() && job.array {
            let held = job.held_tasks.get(&by).map_or_else(|| tasks.clone(), |held| held.or(&tasks));
            self.is_together(&held)?;
            self.decision.events.push(Event::TasksHeld { job: job.id, by, tasks });
        } else if job.held < Some(by) {
            self.decision.events.push(Event::Held { job: job.id, by });
        }
        Ok(())
    }

    /// Releases a job with all its tasks, or the tasks that are meant; of those, what nobody holds who may do more.
    fn release(&mut self) -> Result<(), Refusal> {
        let job = self.target.job;
        let parts = self.target.tasks.as_ref().filter(|_| job.array);
        let power = self.power();
        let refused = |by: HeldBy, what: String| {
            let whom = match by {
                HeldBy::Coordinator => "a coordinator",
                HeldBy::User | HeldBy::Admin => "an admin",
            };
            let text = format!("{whom} holds {what}");
            Err(Refusal::new(RefusalKind::NotPermitted, text).hint(format!("ask {whom} to release it")))
        };
        if let Some(by) = job.held.filter(|by| *by > power) {
            return refused(by, format!("job {}", job.id));
        }
        let held = job.held_tasks.values().fold(IndexSet::default(), |all, held| all.or(held));
        let meant = parts.cloned().unwrap_or_else(|| job.waiting.or(&held));
        let mut kept = IndexSet::default();
        let mut keeper = HeldBy::Admin;
        for (by, tasks) in job.held_tasks.iter().filter(|(by, _)| **by > power) {
            let tasks = tasks.and(&meant);
            if !tasks.is_empty() {
                (kept, keeper) = (kept.or(&tasks), *by);
            }
        }
        let tasks = meant.without(&kept);
        if let Some(by) = job.held.filter(|_| parts.is_none() || !tasks.and(&job.waiting).is_empty()) {
            // What was held as a whole is held task by task, as far as it is not meant.
            let rest = job.waiting.without(&tasks);
            if !rest.is_empty() {
                self.decision.events.push(Event::TasksHeld { job: job.id, by, tasks: rest });
            }
            self.decision.events.push(Event::Released { job: job.id });
        }
        let tasks = held.and(&tasks);
        self.is_together(&held.without(&tasks))?;
        if !tasks.is_empty() {
            self.decision.events.push(Event::TasksReleased { job: job.id, tasks });
        }
        match kept.is_empty() {
            true => Ok(()),
            false => refused(keeper, JobRef { job: job.id, tasks: Some(kept) }.to_string()),
        }
    }
}

fn is_running(run: &Run) -> bool {
    matches!(run.phase, Phase::Running { .. })
}

/// The order that ends a run. `drains`: an admin ends it because its node is being drained.
pub(crate) fn stop_order(key: RunKey, why: Stopping, drains: bool) -> Order {
    let told = |reason| if drains { EndReason::Drain } else { reason };
    match why {
        Stopping::Cancel => Order::Cancel(key, told(EndReason::Cancel)),
        Stopping::Preempt { again: false, .. } => Order::Cancel(key, EndReason::Preemption),
        Stopping::Requeue | Stopping::RequeueHold(_) => Order::Requeue(key, told(EndReason::Requeue)),
        Stopping::Preempt { again: true, .. } => Order::Requeue(key, EndReason::Preemption),
        Stopping::Idle { again: false } => Order::Cancel(key, EndReason::IdleCards),
        Stopping::Idle { again: true } => Order::Requeue(key, EndReason::IdleCards),
    }
}
