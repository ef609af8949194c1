//! [`Cluster::apply`]: folds an event into the state. The only function that changes it, live and on replay; an event that
//! the state does not allow is refused and changes nothing that a restart would keep.

use crate::{Cluster, Event, Job, Link, NewJob, Next, Node, Phase, Run, Tally};
use alloc::{collections::BTreeMap, format, string::String, sync::Arc};
use core::fmt;
use gq_model::{JobId, NodeName, Outcome, RunKey, TaskIndex};

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
            Event::Ripened { job } => self.change_job(*job, |job| job.not_before = None),
            Event::Allocated { key, node, boot, cpus, memory, cards, exclusive, at } => {
                let run = Run {
                    number: key.run,
                    node: node.clone(),
                    boot: *boot,
                    cpus: *cpus,
                    memory: *memory,
                    cards: cards.clone(),
                    exclusive: *exclusive,
                    allocated: *at,
                    phase: Phase::Starting,
                    stopping: None,
                };
                self.allocated(*key, run)
            }
            Event::Started { key, at } => {
                let node = self.change_run(*key, |run| {
                    if run.phase == Phase::Starting {
                        run.phase = Phase::Running { since: *at };
                    }
                })?;
                let node = self.node_mut(&node)?;
                node.failed_starts.clear();
                Ok(())
            }
            Event::Exited { key, at } => self
                .change_run(*key, |run| {
                    run.phase = Phase::Completing { since: run.started().unwrap_or(*at), exited: *at };
                })
                .map(drop),
            Event::Stopped { key, why, .. } => {
                self.change_run(*key, |run| run.stopping = Some(*why)).map(drop)
            }
            Event::RunEnded { key, outcome, next, .. } => self.run_ended(*key, outcome, *next),
            Event::TasksEnded { job, tasks, outcome, .. } => {
                let mut legal = !tasks.is_empty();
                self.change_job(*job, |job| {
                    for task in tasks.iter() {
                        legal &= job.waiting.remove(task);
                        job.attempts.remove(&TaskIndex(task));
                    }
                    job.tally.add(outcome, tasks.len());
                })?;
                self.drop_if_over(*job);
                if legal { Ok(()) } else { Err(IllegalEvent(format!("not all of {job}_[{tasks}] wait"))) }
            }
            Event::NodeFound { node: name, boot, cpus, memory, features, cards } => {
                let node =
                    self.nodes.entry(name.clone()).or_insert_with(|| Arc::new(Node::new(name.clone())));
                let node = Arc::make_mut(node);
                node.boot = boot.or(node.boot);
                (node.cpus, node.memory) = (*cpus, *memory);
                (node.features, node.cards) = (features.clone(), cards.clone());
                Ok(())
            }
            Event::NodeSeen { node, link } => self.node_mut(node).map(|node| node.link = *link),
            Event::NodeDrained { node, reason } => {
                self.node_mut(node).map(|node| node.drained = Some(reason.clone()))
            }
            Event::NodeResumed { node } => self.node_mut(node).map(|node| {
                node.drained = None;
                node.failed_starts.clear();
            }),
            Event::Ordered { node, seq } => self.node_mut(node)?.count_order(*seq),
            Event::Reported { node, epoch, seq } => self.node_mut(node)?.count_report(*epoch, *seq),
        }
    }

    pub(crate) fn node_mut(&mut self, name: &NodeName) -> Result<&mut Node, IllegalEvent> {
        let node = self.nodes.get_mut(name).ok_or_else(|| IllegalEvent(format!("no node {name}")))?;
        Ok(Arc::make_mut(node))
    }

    fn submitted(&mut self, new: &NewJob) -> Result<(), IllegalEvent> {
        if new.id <= self.last_job {
            return Err(IllegalEvent(format!("job id {} was given before", new.id)));
        }
        if new.tasks.is_empty() {
            return Err(IllegalEvent(format!("job {} has no task", new.id)));
        }
        let job = Job {
            id: new.id,
            uid: new.uid,
            user: new.user.clone(),
            token: new.token,
            spec: Arc::clone(&new.spec),
            job_file: new.job_file.clone(),
            sha256: new.sha256.clone(),
            submitted: new.at,
            shape: Arc::clone(&new.shape),
            priority: new.priority,
            held: new.held,
            not_before: new.not_before,
            array: new.array,
            waiting: new.tasks.clone(),
            runs: BTreeMap::new(),
            attempts: BTreeMap::new(),
            launch_failures: 0,
            tally: Tally::default(),
        };
        self.last_job = new.id;
        self.queue.file(&job);
        self.jobs.insert(job.id, Arc::new(job));
        Ok(())
    }

    /// Changes a job and keeps the queue in step.
    fn change_job(&mut self, id: JobId, change: impl FnOnce(&mut Job)) -> Result<(), IllegalEvent> {
        let job = self.jobs.get_mut(&id).ok_or_else(|| IllegalEvent(format!("no live job {id}")))?;
        self.queue.unfile(job);
        let job = Arc::make_mut(job);
        change(job);
        self.queue.file(job);
        Ok(())
    }

    /// Changes the run `key`; returns its node.
    fn change_run(&mut self, key: RunKey, change: impl FnOnce(&mut Run)) -> Result<NodeName, IllegalEvent> {
        let missing = || IllegalEvent(format!("no live run {key}"));
        let job = Arc::make_mut(self.jobs.get_mut(&key.job).ok_or_else(missing)?);
        let run = job.runs.get_mut(&key.task).filter(|run| run.number == key.run).ok_or_else(missing)?;
        change(run);
        Ok(run.node.clone())
    }

    fn allocated(&mut self, key: RunKey, run: Run) -> Result<(), IllegalEvent> {
        let who = (key.job, key.task);
        let node = self.node_mut(&run.node)?;
        if node.link == Link::Absent {
            return Err(IllegalEvent(format!("{key} is given to node {}, which was never seen", run.node)));
        }
        node.hold(who, &run)?;
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
                Next::Over => job.tally.add(outcome, 1),
                Next::Again { not_before, site_fault, held } => {
                    job.waiting.insert(key.task.0);
                    job.attempts.insert(key.task, key.run);
                    job.not_before = not_before.max(job.not_before);
                    job.held = held.or(job.held);
                    job.launch_failures = if site_fault { job.launch_failures.saturating_add(1) } else { 0 };
                }
            }
        })?;
        let run = ended.ok_or_else(|| IllegalEvent(format!("no live run {key}")))?;
        let node = self.node_mut(&run.node)?;
        node.release((key.job, key.task), &run)?;
        if let Next::Again { site_fault: true, .. } = next {
            node.failed_starts.insert(key.job);
        }
        self.drop_if_over(key.job);
        Ok(())
    }

    fn drop_if_over(&mut self, id: JobId) {
        if let Some(job) = self.jobs.get(&id).filter(|job| job.is_over()) {
            self.queue.unfile(job);
            self.jobs.remove(&id);
        }
    }
}
