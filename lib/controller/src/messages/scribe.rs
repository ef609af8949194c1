//! The scribe: reads what of a turn's steps is to be told, and to whom. In the state's own thread, so that it only looks and never waits.

use super::{
    budget::News,
    note::{Change, Happened, Note, Subject, Tasks, What, each_task, wants, wants_end, wants_warning},
};
use gq_cluster::{Cluster, Event, Job, Link, Next, Run};
use gq_engine::Step;
use gq_model::{End, IndexSet, JobId, JobState, MailOn, Outcome, RunKey, Stage, TaskIndex, Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The parts of a time limit that messages are about.
pub(crate) const PERCENTS: [(MailOn, u8); 3] =
    [(MailOn::Half, 50), (MailOn::Eighty, 80), (MailOn::Ninety, 90)];

/// What a turn gives to tell.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) notes: Vec<Note>,
    /// Runs whose time limit is to be watched.
    pub(crate) watch: Vec<RunKey>,
}

/// What it remembers from turn to turn.
#[derive(Debug, Default)]
pub(crate) struct Scribe {
    /// Jobs, or tasks of arrays, that have begun and whose users want to know when they do.
    pub(super) begun: BTreeSet<(JobId, Option<TaskIndex>)>,
    /// The number of the last note.
    last: u64,
}

/// A turn as it is read.
struct Reading<'a> {
    cluster: &'a Cluster,
    /// Runs that ended in it, with their jobs as they were before.
    ended: BTreeMap<RunKey, &'a Arc<Job>>,
    /// By which step jobs ended in it.
    over: BTreeMap<JobId, usize>,
    now: Timestamp,
    /// Whether there is a program that is told of everything.
    notify: bool,
    told: Told,
}

/// The end of a run, or of tasks that never started.
struct Ending<'a> {
    outcome: &'a Outcome,
    at: Timestamp,
    /// Whether its job ended with it.
    last: bool,
}

impl<'a> Reading<'a> {
    fn of(cluster: &'a Cluster, steps: &'a [Step], now: Timestamp, notify: bool) -> Self {
        let (mut ended, mut over) = (BTreeMap::new(), BTreeMap::new());
        for (at, step) in steps.iter().enumerate() {
            let Some(before) = &step.before else { continue };
            if let Event::RunEnded { key, .. } = &step.event {
                ended.insert(*key, before);
            }
            if cluster.job(before.id).is_none() {
                over.insert(before.id, at);
            }
        }
        Self { cluster, ended, over, now, notify, told: Told::default() }
    }

    /// The job of a run, at a time when it had that run.
    fn job(&self, key: &RunKey) -> Option<&'a Arc<Job>> {
        let has = |job: &&Arc<Job>| job.runs.get(&key.task).is_some_and(|run| run.number == key.run);
        self.cluster.job(key.job).filter(has).or_else(|| self.ended.get(key).copied())
    }

    fn node(&mut self, scribe: &mut Scribe, node: &gq_model::NodeName, change: Change) {
        let at = self.now;
        self.add(scribe, at, false, || What::Node(node.clone(), change));
    }

    /// Takes a note, unless nobody is told.
    fn add(&mut self, scribe: &mut Scribe, at: Timestamp, mail: bool, what: impl FnOnce() -> What) {
        if mail || self.notify {
            self.told.notes.push(scribe.note(at, what(), (mail, self.notify)));
        }
    }
}

impl Scribe {
    /// Begins with the jobs that live: what has begun is not told again. Also returns the runs whose time limits are to be watched.
    pub(crate) fn begin(cluster: &Cluster) -> (Self, Vec<RunKey>) {
        let (mut scribe, mut watch) = (Self::default(), Vec::new());
        for job in cluster.jobs().filter(|job| job.spec.mail.is_some()) {
            let started: Vec<TaskIndex> =
                job.runs.iter().filter(|(_, run)| run.started().is_some()).map(|(task, _)| *task).collect();
            for task in started.iter().chain(job.attempts.keys()) {
                scribe.begun.insert(beginner(job, *task));
            }
            if job.tally.ends.iter().any(|(end, _)| *end != End::Cancelled) {
                scribe.begun.insert((job.id, None));
            }
            if is_watched(job) {
                watch.extend(started.iter().filter_map(|task| job.run_key(*task)));
            }
        }
        (scribe, watch)
    }

    /// One for notes that no turn gives, whose numbers begin behind `last`.
    pub(crate) fn numbering_from(last: u64) -> Self {
        Self { last, ..Self::default() }
    }

    /// A job has waited longer than its user wanted it to.
    pub(crate) fn waited(&mut self, job: &Job, at: Timestamp, notify: bool) -> Note {
        let subject = Subject::of_job(job, Tasks::All, JobState::Pending);
        self.note(at, What::Job(Happened::Waited, Box::new(subject)), (true, notify))
    }

    /// So much of a budget is used: a notice, and a message for each of those it concerns.
    pub(crate) fn budget(
        &mut self,
        at: Timestamp,
        (news, to): (News, Vec<String>),
        notify: bool,
    ) -> Vec<Note> {
        let messages = to.into_iter().map(|name| (news.to(name), (true, false)));
        let notice = notify.then(|| (news.to(String::new()), (false, true)));
        notice.into_iter().chain(messages).map(|(what, how)| self.note(at, what, how)).collect()
    }

    /// Messages were left out, of which this is the last.
    pub(crate) fn left_out(&mut self, last: &Note) -> Option<Note> {
        let (What::Job(_, subject) | What::LeftOut(subject)) = &last.what else { return None };
        Some(self.note(last.at, What::LeftOut(subject.clone()), (true, false)))
    }

    /// Reads a turn. `notify`: whether there is a program that is told of everything.
    pub(crate) fn read(&mut self, cluster: &Cluster, steps: &[Step], now: Timestamp, notify: bool) -> Told {
        let mut reading = Reading::of(cluster, steps, now, notify);
        for (at, step) in steps.iter().enumerate() {
            let last = |job: &Job| reading.over.get(&job.id) == Some(&at);
            match (&step.event, &step.before) {
                (Event::Submitted(new), _) => reading.add(self, new.at, false, || {
                    What::Job(Happened::Submitted, Box::new(Subject::of_new(new)))
                }),
                (Event::Started { key, at, .. }, _) => self.started(&mut reading, key, *at),
                (Event::RunEnded { key, outcome, started, at, next }, Some(job)) => {
                    let end = Ending { outcome, at: *at, last: last(job) };
                    self.run_ended(&mut reading, (job, key), *started, &end, next);
                }
                (Event::TasksEnded { tasks, outcome, at, .. }, Some(job)) => {
                    let end = Ending { outcome, at: *at, last: last(job) };
                    self.tasks_ended(&mut reading, job, tasks, &end);
                }
                (Event::WaitedTooLong { job, .. }, _) => {
                    if let Some(job) = cluster.job(*job) {
                        let note = self.waited(job, now, notify);
                        reading.told.notes.push(note);
                    }
                }
                (Event::IdleFound { key, .. }, _) => self.found_idle(&mut reading, key),
                (Event::NodeDrained { node, reason }, _) => {
                    reading.node(self, node, Change::Drained(reason.clone()));
                }
                (Event::NodeResumed { node }, _) => reading.node(self, node, Change::Resumed),
                (Event::NodeSeen { node, link }, _) => match link {
                    Link::Up => reading.node(self, node, Change::Up),
                    Link::Lost { .. } => reading.node(self, node, Change::Lost),
                    Link::Absent | Link::Suspect { .. } | Link::Forgotten => {}
                },
                (Event::RunEnded { .. } | Event::TasksEnded { .. }, None)
                | (
                    Event::Held { .. }
                    | Event::Released { .. }
                    | Event::Ripened { .. }
                    | Event::Allocated { .. }
                    | Event::Exited { .. }
                    | Event::NodeTroubled { .. }
                    | Event::NodeUnbound { .. }
                    | Event::TasksHeld { .. }
                    | Event::TasksReleased { .. }
                    | Event::Heard { .. }
                    | Event::Prepared { .. }
                    | Event::Amended { .. }
                    | Event::Suspended { .. }
                    | Event::IdleDue { .. }
                    | Event::IdleOver { .. }
                    | Event::Adopted { .. }
                    | Event::Resumed { .. }
                    | Event::Stopped { .. }
                    | Event::Promised { .. }
                    | Event::Charged { .. }
                    | Event::Spent { .. }
                    | Event::BudgetReached { .. }
                    | Event::Booked(_)
                    | Event::Unbooked { .. }
                    | Event::NodeFound { .. }
                    | Event::Strayed { .. }
                    | Event::StrayGone { .. }
                    | Event::Ordered { .. }
                    | Event::Reported { .. },
                    _,
                ) => {}
            }
        }
        reading.told
    }

    /// A note of the next number, told by mail and to the notify program.
    pub(crate) fn note(&mut self, at: Timestamp, what: What, (mail, notify): (bool, bool)) -> Note {
        self.last += 1;
        Note { number: self.last, at, what, mail, notify }
    }

    fn started(&mut self, reading: &mut Reading<'_>, key: &RunKey, at: Timestamp) {
        let Some(job) = reading.job(key) else { return };
        let Some(run) = job.runs.get(&key.task) else { return };
        let mail = wants(&job.spec, MailOn::Begin) && self.begun.insert(beginner(job, key.task));
        let each = each_task(&job.spec, job.array);
        if is_watched(job) {
            reading.told.watch.push(*key);
        }
        let what = |tasks: Option<Tasks>| {
            let mut subject = Subject::of_run(job, key.task, run);
            (subject.state, subject.started) = (JobState::Running, Some(at));
            subject.tasks = tasks.unwrap_or(subject.tasks);
            What::Job(Happened::Begin, Box::new(subject))
        };
        reading.add(self, at, mail && each, || what(None));
        if mail && !each {
            let note = self.note(at, what(Some(Tasks::All)), (true, false));
            reading.told.notes.push(note);
        }
    }

    /// The cards of a run are idle; nothing is told when it ended, or used them again, in the same turn.
    fn found_idle(&mut self, reading: &mut Reading<'_>, key: &RunKey) {
        let Some(job) = reading.cluster.job(key.job) else { return };
        let Some(run) = job.runs.get(&key.task).filter(|run| run.number == key.run) else { return };
        let Some(idle) = run.idle else { return };
        let (at, mail) = (reading.now, wants_warning(&job.spec) && each_task(&job.spec, job.array));
        let subject = || Box::new(Subject::of_run(job, key.task, run));
        reading.add(self, at, mail, || What::Job(Happened::Idle(idle), subject()));
    }

    fn run_ended(
        &mut self,
        reading: &mut Reading<'_>,
        (job, key): (&Arc<Job>, &RunKey),
        started: Option<Timestamp>,
        end: &Ending<'_>,
        next: &Next,
    ) {
        let is_prepared = |run: &Run| run.stage == Stage::Prep && end.outcome.end == End::Completed;
        if *next != Next::Over && job.runs.get(&key.task).is_some_and(is_prepared) {
            // The next stage of the job follows: nothing that its user has to hear of.
            return;
        }
        let each = each_task(&job.spec, job.array);
        let (happened, wanted) = match next {
            Next::Over => (Happened::End, wants_end(&job.spec, end.outcome.end == End::Completed)),
            Next::Again { .. } => (Happened::Requeue, wants(&job.spec, MailOn::Requeue)),
        };
        reading.add(self, end.at, wanted && each, || {
            let mut subject = match job.runs.get(&key.task) {
                Some(run) => Subject::of_run(job, key.task, run),
                None => Subject::of_job(job, Tasks::One(key.task), JobState::Completing),
            };
            subject.started = started.or(subject.started);
            subject = subject.ended(end.outcome, end.at);
            if happened == Happened::Requeue {
                subject.state = JobState::Pending;
            }
            What::Job(happened, Box::new(subject))
        });
        if happened == Happened::End {
            self.begun.remove(&(job.id, Some(key.task)));
            self.whole(reading, job, 1, end);
        }
    }

    fn tasks_ended(&mut self, reading: &mut Reading<'_>, job: &Arc<Job>, tasks: &IndexSet, end: &Ending<'_>) {
        let wanted = wants_end(&job.spec, end.outcome.end == End::Completed);
        reading.add(self, end.at, wanted && each_task(&job.spec, job.array), || {
            let tasks = if job.array { Tasks::Some(tasks.clone()) } else { Tasks::All };
            let subject = Subject::of_job(job, tasks, JobState::Pending).ended(end.outcome, end.at);
            What::Job(Happened::End, Box::new(subject))
        });
        self.whole(reading, job, tasks.len(), end);
    }

    /// The end of a job as a whole; an array has one beside those of its tasks.
    fn whole(&mut self, reading: &mut Reading<'_>, job: &Arc<Job>, tasks: u64, end: &Ending<'_>) {
        if !end.last {
            return;
        }
        self.begun.remove(&(job.id, None));
        if !job.array {
            return;
        }
        let mut tally = job.tally.clone();
        tally.add(end.outcome, tasks);
        let wanted = wants_end(&job.spec, tally.is_good()) && !wants(&job.spec, MailOn::EachTask);
        reading.add(self, end.at, wanted, || {
            let subject = Subject::of_job(job, Tasks::All, JobState::Pending);
            let subject = subject.ended(tally.worst.as_ref().unwrap_or(end.outcome), end.at);
            What::Job(Happened::End, Box::new(Subject { tally: tally.ends, ..subject }))
        });
    }
}

/// What of a job begins once: it, or each task of an array when its user wants to know of each.
fn beginner(job: &Job, task: TaskIndex) -> (JobId, Option<TaskIndex>) {
    (job.id, (job.array && wants(&job.spec, MailOn::EachTask)).then_some(task))
}

/// Whether the time limits of the job's runs are to be watched.
fn is_watched(job: &Job) -> bool {
    each_task(&job.spec, job.array) && PERCENTS.iter().any(|(on, _)| wants(&job.spec, *on))
}
