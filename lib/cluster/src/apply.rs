//! [`Cluster::apply`]: folds an event into the state. The only function that changes it, live and on replay; an event that
//! the state does not allow is refused and changes nothing that a restart would keep.

use crate::{Cluster, Event, Job, Key, Link, NewJob, Next, Node, Phase, Run, Stopping, Tally, until};
use alloc::{collections::BTreeMap, format, string::String, sync::Arc, vec::Vec};
use core::fmt;
use gq_model::{
    BootId, Card, IndexSet, JobId, MiB, NodeId, NodeName, Outcome, RunKey, Stage, TaskIndex, Timestamp,
};

/// An event that the state does not allow: the state and what is on disk contradict each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IllegalEvent(
    /// What contradicts what.
    pub String,
);

impl fmt::Display for IllegalEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "illegal event: {}", self.0)
    }
}
impl core::error::Error for IllegalEvent {}

impl Cluster {
    /// Folds `event` into the state.
    ///
    /// # Errors
    /// [`IllegalEvent`] when the state does not allow it; the caller must throw the state away and load its rows.
    pub fn apply(&mut self, event: &Event) -> Result<(), IllegalEvent> {
        match event {
            Event::Submitted(new) => self.submitted(new),
            Event::Held { job, by } => self.change_job(*job, |job| job.held = Some(*by)),
            Event::Released { job } => self.change_job(*job, |job| job.held = None),
            Event::Ripened { job, at } => self.change_job(*job, |job| {
                job.not_before = job.not_before.filter(|until| until > at && *at > Timestamp(0));
                job.resting.retain(|_, until| *until > *at);
            }),
            Event::TasksHeld { .. }
            | Event::TasksReleased { .. }
            | Event::Heard { .. }
            | Event::Prepared { .. }
            | Event::WaitedTooLong { .. }
            | Event::Amended { .. }
            | Event::Suspended { .. }
            | Event::Adopted { .. }
            | Event::IdleFound { .. }
            | Event::IdleDue { .. }
            | Event::IdleOver { .. }
            | Event::Resumed { .. } => self.amend(event),
            Event::Allocated {
                key,
                node,
                boot,
                node_id,
                lease,
                cpus,
                memory,
                cards,
                exclusive,
                rate,
                price,
                promised,
                own_limit,
                at,
            } => {
                let run = Run {
                    number: key.run,
                    node: node.clone(),
                    boot: *boot,
                    node_id: *node_id,
                    lease: *lease,
                    cpus: *cpus,
                    memory: *memory,
                    cards: cards.clone(),
                    exclusive: *exclusive,
                    rate: *rate,
                    price: *price,
                    worth: 0,
                    allocated: *at,
                    counted: *at,
                    promised: *promised,
                    own_limit: *own_limit,
                    stage: self.job(key.job).map(|job| job.stage()).unwrap_or_default(),
                    suspended: None,
                    stood_still: 0,
                    idle: None,
                    idle_times: 0,
                    phase: Phase::Starting,
                    stopping: None,
                };
                self.allocated(*key, run)
            }
            Event::Started { key, at, counted } => self.started(*key, *at, *counted),
            Event::Exited { key, at } => self
                .change_run(*key, |run| {
                    run.phase = Phase::Completing { since: run.started().unwrap_or(*at), exited: *at };
                })
                .map(drop),
            Event::Stopped { key, why, .. } => self.stopped(*key, *why),
            Event::RunEnded { key, outcome, next, .. } => self.run_ended(*key, outcome, *next),
            Event::TasksEnded { job, tasks, outcome, .. } => self.tasks_ended(*job, tasks, outcome),
            Event::Promised { job, start } => {
                let job = self.jobs.get_mut(job).ok_or_else(|| IllegalEvent(format!("no live job {job}")))?;
                Arc::make_mut(job).first_promise.get_or_insert(*start);
                Ok(())
            }
            Event::Charged { account, uid, usage } => {
                self.ledger.charge(account.clone(), *uid, *usage);
                Ok(())
            }
            Event::Spent { purse, spent } | Event::BudgetReached { purse, spent, .. } => {
                self.ledger.purses.spend(purse.clone(), *spent);
                Ok(())
            }
            Event::Booked(booking) => {
                self.booked(booking);
                Ok(())
            }
            Event::Unbooked { name } => self.unbooked(name),
            Event::NodeFound { node, boot, id, cpus, memory, features, cards } => {
                self.found(node, (*boot, *id), (*cpus, *memory, features, cards))
            }
            Event::NodeSeen { node, link } => self.node_mut(node)?.be_seen(*link),
            Event::NodeDrained { node, reason } => {
                self.node_mut(node).map(|node| node.drained = Some(reason.clone()))
            }
            Event::NodeResumed { node } => self.node_mut(node).map(|node| {
                node.drained = None;
                node.failed_starts.clear();
                node.open();
            }),
            Event::NodeUnbound { node, what } => {
                self.node_mut(node).map(|node| node.unbound.clone_from(what))
            }
            Event::NodeTroubled { node, why } => self.node_mut(node).map(|node| {
                node.trouble.clone_from(why);
                node.open();
            }),
            Event::Strayed { node, key } => self.node_mut(node).map(|node| {
                node.strays.insert(*key);
            }),
            Event::StrayGone { node, key } => self.node_mut(node).map(|node| {
                node.strays.remove(key);
                node.open();
            }),
            Event::Ordered { node, seq } => self.node_mut(node)?.count_order(*seq),
            Event::Reported { node, epoch, seq } => self.node_mut(node)?.count_report(*epoch, *seq),
        }
    }

    /// The node of this name, to be changed.
    pub(crate) fn node_mut(&mut self, name: &NodeName) -> Result<&mut Node, IllegalEvent> {
        let missing = || IllegalEvent(format!("no node {name}"));
        let place = *self.by_name.get(name).ok_or_else(missing)?;
        self.journal.note(place);
        self.nodes.get_mut(place as usize).map(Arc::make_mut).ok_or_else(missing)
    }

    pub(crate) fn add_node(&mut self, mut node: Node) {
        let place = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        node.settle_at(place);
        self.by_name.insert(node.name.clone(), place);
        self.nodes.push(Arc::new(node));
        self.journal.note(place);
    }

    fn found(
        &mut self,
        name: &NodeName,
        (boot, id): (Option<BootId>, Option<NodeId>),
        has: (u32, MiB, &[String], &[Card]),
    ) -> Result<(), IllegalEvent> {
        if !self.by_name.contains_key(name) {
            self.add_node(Node::new(name.clone()));
        }
        let node = self.node_mut(name)?;
        node.boot = boot.or(node.boot);
        node.id = id.or(node.id);
        let held: Vec<(JobId, TaskIndex)> = node.runs().collect();
        node.refit(has);
        for who in held {
            let Some(job) = self.jobs.get(&who.0).map(Arc::clone) else { continue };
            let Some(run) = job.runs.get(&who.1) else { continue };
            self.node_mut(name)?.hold_again(who, run, until(&job.shape, run))?;
        }
        Ok(())
    }

    fn started(&mut self, key: RunKey, at: Timestamp, counted: Timestamp) -> Result<(), IllegalEvent> {
        let node = self.change_run(key, |run| {
            if run.phase == Phase::Starting {
                run.phase = Phase::Running { since: at };
                run.counted = counted;
            }
        })?;
        if let Some(job) = self.jobs.get_mut(&key.job) {
            Arc::make_mut(job).first_start.get_or_insert(counted);
        }
        self.node_mut(&node)?.failed_starts.clear();
        Ok(())
    }

    fn stopped(&mut self, key: RunKey, why: Stopping) -> Result<(), IllegalEvent> {
        self.change_run(key, |run| run.stopping = Some(why))?;
        self.preempted.retain(|(_, other)| *other != key);
        if let Stopping::Preempt { due, ordered: false, .. } = why {
            self.preempted.insert((due, key));
        }
        Ok(())
    }

    fn submitted(&mut self, new: &NewJob) -> Result<(), IllegalEvent> {
        if new.id <= self.last_job {
            return Err(IllegalEvent(format!("job id {} was given before", new.id)));
        }
        if new.tasks.is_empty() {
            return Err(IllegalEvent(format!("job {} has no task", new.id)));
        }
        let mut job = Job {
            id: new.id,
            uid: new.uid,
            user: new.user.clone(),
            token: new.token,
            spec: Arc::clone(&new.spec),
            job_file: new.job_file.clone(),
            sha256: new.sha256.clone(),
            submitted: new.at,
            shape: Arc::clone(&new.shape),
            payer: Arc::clone(&new.payer),
            priority: new.priority,
            held: new.held,
            not_before: new.not_before,
            first_promise: None,
            array: new.array,
            renamed: false,
            at_once: new.at_once,
            held_tasks: BTreeMap::new(),
            resting: BTreeMap::new(),
            waits: new.waits.clone(),
            main: new.main.clone(),
            prep_runs: 0,
            prep_task: None,
            retried: BTreeMap::new(),
            reclaimed: BTreeMap::new(),
            waited: false,
            first_start: None,
            waiting: new.tasks.clone(),
            runs: BTreeMap::new(),
            attempts: BTreeMap::new(),
            launch_failures: 0,
            tally: Tally::default(),
            group: Key::default(),
        };
        self.last_job = new.id;
        self.ledger.enter(&job.payer, job.waiting.len());
        self.queue.file(&mut job);
        self.alarms.extend(job.alarm().map(|at| (at, job.id)));
        self.dependents.enter(&job);
        self.jobs.insert(job.id, Arc::new(job));
        Ok(())
    }

    /// Changes a job and keeps the queue in step.
    pub(crate) fn change_job(
        &mut self,
        id: JobId,
        change: impl FnOnce(&mut Job),
    ) -> Result<(), IllegalEvent> {
        let job = self.jobs.get_mut(&id).ok_or_else(|| IllegalEvent(format!("no live job {id}")))?;
        self.queue.unfile(job);
        let before = job.alarm();
        let job = Arc::make_mut(job);
        change(job);
        self.queue.file(job);
        let after = job.alarm();
        if before != after {
            before.map(|at| self.alarms.remove(&(at, id)));
            self.alarms.extend(after.map(|at| (at, id)));
        }
        Ok(())
    }

    /// Changes the run `key`, and what is known of it by its node and the ledger when it is over at another time then; returns its node.
    pub(crate) fn change_run(
        &mut self,
        key: RunKey,
        change: impl FnOnce(&mut Run),
    ) -> Result<NodeName, IllegalEvent> {
        let missing = || IllegalEvent(format!("no live run {key}"));
        let job = Arc::make_mut(self.jobs.get_mut(&key.job).ok_or_else(missing)?);
        let (shape, who) = (Arc::clone(&job.shape), (key.job, key.task));
        let run = job.runs.get_mut(&key.task).filter(|run| run.number == key.run).ok_or_else(missing)?;
        let (before, due) = (until(&shape, run), run.reclaim_due());
        change(run);
        let (now, node) = (until(&shape, run), run.node.clone());
        if run.reclaim_due() != due {
            due.map(|at| self.reclaims.remove(&(at, key)));
            self.reclaims.extend(run.reclaim_due().map(|at| (at, key)));
        }
        if before != now {
            self.node_mut(&node)?.hold_until(who, now);
            self.ledger.hold_until(who, before, now);
        }
        Ok(node)
    }

    fn allocated(&mut self, key: RunKey, mut run: Run) -> Result<(), IllegalEvent> {
        let who = (key.job, key.task);
        let job = self.jobs.get(&key.job).ok_or_else(|| IllegalEvent(format!("no live job {}", key.job)))?;
        let job = Arc::clone(job);
        let node = self.node_mut(&run.node)?;
        if matches!(node.link, Link::Absent | Link::Forgotten) {
            return Err(IllegalEvent(format!("{key} is given to node {}, which was never seen", run.node)));
        }
        run.worth = node.layout().worth(node.layout().units(&node.cards, &run.cards));
        node.hold(who, &run, until(&job.shape, &run))?;
        self.ledger.hold(who, &run, &job);
        drop(job);
        let mut legal = false;
        self.change_job(key.job, |job| {
            legal = job.next_run(key.task) == key.run && job.waiting.remove(key.task.0);
            job.attempts.remove(&key.task);
            job.runs.insert(key.task, run);
        })?;
        if legal { Ok(()) } else { Err(IllegalEvent(format!("{key} does not wait for that run"))) }
    }

    fn run_ended(&mut self, key: RunKey, outcome: &Outcome, next: Next) -> Result<(), IllegalEvent> {
        let mut ended = None;
        self.change_job(key.job, |job| {
            if job.runs.get(&key.task).is_none_or(|run| run.number != key.run) {
                return;
            }
            ended = job.runs.remove(&key.task);
            match next {
                Next::Over => {
                    job.tally.add(outcome, 1);
                    job.retried.remove(&key.task);
                    job.reclaimed.remove(&key.task);
                }
                Next::Again { not_before, site_fault, retry, held } => {
                    job.wait_again(key, (not_before, held));
                    if retry {
                        let times = job.retried.entry(key.task).or_default();
                        *times = times.saturating_add(1);
                    }
                    if let Some(Run { stopping: Some(Stopping::Idle { .. }), .. }) = ended {
                        let times = job.reclaimed.entry(key.task).or_default();
                        *times = times.saturating_add(1);
                    }
                    if ended.as_ref().is_some_and(|run: &Run| run.stage == Stage::Prep) {
                        (job.prep_runs, job.prep_task) = (key.run.0, Some(key.task));
                    }
                    job.launch_failures = if site_fault { job.launch_failures.saturating_add(1) } else { 0 };
                }
            }
        })?;
        let run = ended.ok_or_else(|| IllegalEvent(format!("no live run {key}")))?;
        if let Some(Stopping::Preempt { due, .. }) = run.stopping {
            self.preempted.remove(&(due, key));
        }
        run.reclaim_due().map(|at| self.reclaims.remove(&(at, key)));
        if let Some(job) = self.jobs.get(&key.job) {
            self.ledger.release((key.job, key.task), &run, job);
            if next == Next::Over {
                self.ledger.leave(&job.payer, 1);
            }
        }
        let node = self.node_mut(&run.node)?;
        node.release((key.job, key.task))?;
        if let Next::Again { site_fault: true, .. } = next {
            node.failed_starts.insert(key.job);
        }
        self.drop_if_over(key.job);
        Ok(())
    }

    fn tasks_ended(&mut self, id: JobId, tasks: &IndexSet, outcome: &Outcome) -> Result<(), IllegalEvent> {
        let mut legal = !tasks.is_empty();
        self.change_job(id, |job| {
            legal &= tasks.without(&job.waiting).is_empty();
            job.waiting = job.waiting.without(tasks);
            job.release_tasks(tasks);
            job.retried.retain(|task, _| !tasks.contains(task.0));
            job.reclaimed.retain(|task, _| !tasks.contains(task.0));
            job.attempts.retain(|task, _| !tasks.contains(task.0));
            job.resting.retain(|task, _| !tasks.contains(task.0));
            job.tally.add(outcome, tasks.len());
        })?;
        if let Some(job) = self.jobs.get(&id) {
            self.ledger.leave(&job.payer, tasks.len());
        }
        self.drop_if_over(id);
        if legal { Ok(()) } else { Err(IllegalEvent(format!("not all of {id}_[{tasks}] wait"))) }
    }

    fn drop_if_over(&mut self, id: JobId) {
        if let Some(job) = self.jobs.get(&id).filter(|job| job.is_over()) {
            self.queue.unfile(job);
            self.dependents.leave(job);
            self.jobs.remove(&id);
        }
    }
}
