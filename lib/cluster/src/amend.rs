//! Amendments: what changes of a job after it was accepted, beside its runs beginning and ending. The part of [`Cluster::apply`] that folds
//! them in.

use crate::{Amendment, Cluster, Event, Fate, HeldBy, Idleness, IllegalEvent, Job, Run};
use alloc::{format, sync::Arc};
use core::cmp::Ordering;
use gq_model::{IndexSet, JobId, RunKey, Seconds, Timestamp};

impl Cluster {
    /// Folds an event in that changes what is kept of a job.
    pub(crate) fn amend(&mut self, event: &Event) -> Result<(), IllegalEvent> {
        match event {
            Event::TasksHeld { job, by, tasks } => self.change_job(*job, |job| job.hold_tasks(*by, tasks)),
            Event::TasksReleased { job, tasks } => self.change_job(*job, |job| job.release_tasks(tasks)),
            Event::Heard { job, condition, fate, done, never, failed, not_before } => {
                self.heard(*job, *condition, *fate, (done, never), *failed, *not_before)
            }
            Event::Prepared { job } => self.change_job(*job, |job| {
                if let Some(main) = job.main.take() {
                    job.shape = main;
                }
            }),
            Event::WaitedTooLong { job, priority } => self.change_job(*job, |job| {
                job.waited = true;
                job.priority = *priority;
            }),
            Event::Suspended { key, at } => {
                // What stands still is idle by somebody's will.
                let change = |run: &mut Run| (run.suspended, run.idle) = (run.suspended.or(Some(*at)), None);
                self.change_run(*key, change).map(drop)
            }
            Event::IdleFound { key, since, due, again } => {
                let change = |run: &mut Run| {
                    run.idle = Some(Idleness { since: *since, due: *due, again: *again });
                    run.idle_times = run.idle_times.saturating_add(1);
                };
                self.change_run(*key, change).map(drop)
            }
            Event::IdleDue { key, due } => {
                let change = |run: &mut Run| run.idle.iter_mut().for_each(|idle| idle.due = *due);
                self.change_run(*key, change).map(drop)
            }
            Event::IdleOver { key } => self.change_run(*key, |run| run.idle = None).map(drop),
            Event::Adopted { key, node_id } => {
                self.change_run(*key, |run| run.node_id = Some(*node_id)).map(drop)
            }
            Event::Resumed { key, counted, .. } => self.limit_anew(*key, None, Some(*counted)),
            Event::Amended { job, what, .. } => self.amended(*job, what),
            _ => Err(IllegalEvent(format!("{event:?} amends no job"))),
        }
    }

    fn amended(&mut self, id: JobId, what: &Amendment) -> Result<(), IllegalEvent> {
        match what {
            Amendment::RunLimit(key, limit) => self.limit_anew(*key, Some(*limit), None),
            Amendment::Priority(priority) => self.change_job(id, |job| job.priority = *priority),
            Amendment::AtOnce(most) => self.change_job(id, |job| job.at_once = *most),
            Amendment::NotBefore(at) => self.change_job(id, |job| job.not_before = *at),
            Amendment::Spec(spec) => self.reindex(id, |job| {
                job.renamed |= job.spec.name != spec.name;
                job.spec = Arc::clone(spec);
            }),
            Amendment::Waits(waits) => self.reindex(id, |job| job.waits.clone_from(waits)),
            Amendment::Shape(shape, payer) => {
                let job = self.jobs.get(&id).ok_or_else(|| IllegalEvent(format!("no live job {id}")))?;
                if !job.runs.is_empty() && (job.payer != *payer || job.shape.licences != shape.licences) {
                    return Err(IllegalEvent(format!("job {id} runs: what it is charged to cannot change")));
                }
                let (old, tasks) = (Arc::clone(&job.payer), job.live_tasks());
                // What runs keeps the limit it was started with.
                let limits: alloc::vec::Vec<(RunKey, Seconds)> = job
                    .runs
                    .iter()
                    .filter(|(_, run)| run.own_limit.is_none() && job.shape.time_limit != shape.time_limit)
                    .filter_map(|(task, _)| {
                        Some((job.run_key(*task)?, job.shape.time_limit.unwrap_or(crate::UNLIMITED)))
                    })
                    .collect();
                for (key, limit) in limits {
                    self.limit_anew(key, Some(limit), None)?;
                }
                if old != *payer {
                    self.ledger.leave(&old, tasks);
                    self.ledger.enter(payer, tasks);
                }
                self.change_job(id, |job| {
                    job.payer = Arc::clone(payer);
                    match &mut job.main {
                        Some(main) => {
                            *main = Arc::clone(shape);
                            job.shape = Arc::new(shape.for_prep());
                        }
                        None => job.shape = Arc::clone(shape),
                    }
                })
            }
        }
    }

    /// Changes what others find a job by.
    fn reindex(&mut self, id: JobId, change: impl FnOnce(&mut Job)) -> Result<(), IllegalEvent> {
        if let Some(job) = self.jobs.get(&id) {
            self.dependents.leave(job);
        }
        self.change_job(id, change)?;
        if let Some(job) = self.jobs.get(&id) {
            self.dependents.enter(job);
        }
        Ok(())
    }

    fn heard(
        &mut self,
        id: JobId,
        at: u32,
        fate: Fate,
        (done, never): (&IndexSet, &IndexSet),
        failed: bool,
        not_before: Option<Timestamp>,
    ) -> Result<(), IllegalEvent> {
        let mut legal = false;
        let mut change = |job: &mut Job| {
            let condition = job.waits.as_mut().and_then(|waits| waits.conditions.get_mut(at as usize));
            let Some(condition) = condition else { return };
            legal = true;
            condition.left = condition.left.without(done).without(never);
            condition.never = condition.never.or(never);
            condition.failed |= failed;
            condition.fate = fate;
            job.not_before = not_before.max(job.not_before);
        };
        if fate == Fate::Open {
            self.change_job(id, change)?;
        } else {
            self.reindex(id, &mut change)?;
        }
        if legal { Ok(()) } else { Err(IllegalEvent(format!("job {id} has no condition {at}"))) }
    }

    /// Says anew what the time limit of a run is, or from when it counts, which ends a suspension.
    fn limit_anew(
        &mut self,
        key: RunKey,
        limit: Option<Seconds>,
        counted: Option<Timestamp>,
    ) -> Result<(), IllegalEvent> {
        let change = |run: &mut Run| {
            run.own_limit = limit.or(run.own_limit);
            if let Some(counted) = counted {
                // Its time limit stood still just as long as it did.
                run.stood_still = run.stood_still.saturating_add(counted.micros_since(run.counted));
                (run.counted, run.suspended) = (counted, None);
            }
        };
        self.change_run(key, change).map(drop)
    }
}

impl Job {
    /// Holds tasks back. Each is held by the one who says most; who is held by an admin stays so.
    pub(crate) fn hold_tasks(&mut self, by: HeldBy, tasks: &IndexSet) {
        let mut tasks = tasks.and(&self.waiting);
        for (other, held) in &mut self.held_tasks {
            match (*other).cmp(&by) {
                Ordering::Less => *held = held.without(&tasks),
                Ordering::Greater => tasks = tasks.without(held),
                Ordering::Equal => {}
            }
        }
        let held = self.held_tasks.entry(by).or_default();
        *held = held.or(&tasks);
        self.held_tasks.retain(|_, held| !held.is_empty());
    }

    /// Holds none of these tasks any more.
    pub(crate) fn release_tasks(&mut self, tasks: &IndexSet) {
        self.held_tasks.retain(|_, held| {
            *held = held.without(tasks);
            !held.is_empty()
        });
    }

    /// A task waits again after a run, each by itself.
    pub(crate) fn wait_again(
        &mut self,
        key: RunKey,
        (not_before, held): (Option<Timestamp>, Option<HeldBy>),
    ) {
        self.waiting.insert(key.task.0);
        self.attempts.insert(key.task, key.run);
        if let Some(at) = not_before {
            self.resting.insert(key.task, at);
        }
        match held {
            Some(by) if self.array => self.hold_tasks(by, &IndexSet::range(key.task.0, key.task.0)),
            _ => self.held = held.max(self.held),
        }
    }
}
