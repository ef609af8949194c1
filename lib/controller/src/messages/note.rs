//! Notes: one thing that happened to a job or a node, with all that may be told of it. How it is told, `letter` and `notice` know.

use super::budget::News;
use gq_cluster::{Idleness, Job, NewJob, Payer, Run, Shape};
use gq_model::{
    CardUse, End, IndexSet, JobId, JobSpec, JobState, MailOn, MiB, NodeName, Outcome, PatternFields, RunKey,
    RunNumber, Seconds, TaskIndex, Timestamp, Uid, output_path,
};
use std::sync::Arc;

/// Something that happened.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    /// Counted from 1 in each life of `gqd`.
    pub(crate) number: u64,
    pub(crate) at: Timestamp,
    pub(crate) what: What,
    /// Whether the job's user wants a message about it.
    pub(crate) mail: bool,
    /// Whether the notify program is told of it.
    pub(crate) notify: bool,
}

/// What happened.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// Something to a job.
    Job(Happened, Box<Subject>),
    /// So many messages about jobs of the user of this one were left out.
    LeftOut(Box<Subject>),
    /// Something to a node.
    Node(NodeName, Change),
    /// So much of a budget is used.
    Budget(Box<News>),
}

/// What happens to jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// It was accepted.
    Submitted,
    /// Its script was started.
    Begin,
    /// It has ended.
    End,
    /// It waits again.
    Requeue,
    /// So many percent of its time limit are over.
    TimeLimit(u8),
    /// It has waited longer than its user wanted it to.
    Waited,
    /// Its cards are idle.
    Idle(Idleness),
}

/// What happens to nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing new is started there, for this reason.
    Drained(String),
    /// It is used again.
    Resumed,
    /// It is in sight.
    Up,
    /// It was silent for too long.
    Lost,
}

/// Which tasks of its job a note is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tasks {
    /// The job has no others.
    All,
    One(TaskIndex),
    Some(IndexSet),
}

/// Where a run is, and what it holds there.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) node: NodeName,
    pub(crate) cpus: u32,
    pub(crate) memory: MiB,
    pub(crate) cards: Vec<CardUse>,
}

/// A job, or tasks of one, as a note tells of it.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) id: JobId,
    pub(crate) array: bool,
    pub(crate) tasks: Tasks,
    pub(crate) uid: Uid,
    pub(crate) user: String,
    pub(crate) spec: Arc<JobSpec>,
    pub(crate) shape: Arc<Shape>,
    pub(crate) payer: Arc<Payer>,
    pub(crate) submitted: Timestamp,
    pub(crate) state: JobState,
    /// Which attempt; 0 before the first.
    pub(crate) run: RunNumber,
    pub(crate) place: Option<Place>,
    pub(crate) started: Option<Timestamp>,
    pub(crate) ended: Option<Timestamp>,
    /// How long it was suspended before, in microseconds, and since when it is.
    pub(crate) suspended: (u64, Option<Timestamp>),
    pub(crate) outcome: Option<Outcome>,
    /// How the tasks of a whole array ended.
    pub(crate) tally: Vec<(End, u64)>,
}

impl Subject {
    /// A job that was accepted.
    pub(crate) fn of_new(new: &NewJob) -> Self {
        Self {
            id: new.id,
            array: new.array,
            tasks: Tasks::All,
            uid: new.uid,
            user: new.user.clone(),
            spec: Arc::clone(&new.spec),
            shape: Arc::clone(&new.shape),
            payer: Arc::clone(&new.payer),
            submitted: new.at,
            state: JobState::Pending,
            run: RunNumber(0),
            place: None,
            started: None,
            ended: None,
            suspended: (0, None),
            outcome: None,
            tally: Vec::new(),
        }
    }

    /// A job, or tasks of it, without what a run would add.
    pub(crate) fn of_job(job: &Job, tasks: Tasks, state: JobState) -> Self {
        Self {
            id: job.id,
            array: job.array,
            tasks,
            uid: job.uid,
            user: job.user.clone(),
            spec: Arc::clone(&job.spec),
            shape: Arc::clone(&job.shape),
            payer: Arc::clone(&job.payer),
            submitted: job.submitted,
            state,
            run: RunNumber(0),
            place: None,
            started: None,
            ended: None,
            suspended: (0, None),
            outcome: None,
            tally: Vec::new(),
        }
    }

    /// One run of a job.
    pub(crate) fn of_run(job: &Job, task: TaskIndex, run: &Run) -> Self {
        let tasks = if job.array { Tasks::One(task) } else { Tasks::All };
        Self {
            run: run.number,
            place: Some(Place {
                node: run.node.clone(),
                cpus: run.cpus,
                memory: run.memory,
                cards: run.cards.clone(),
            }),
            started: run.started(),
            suspended: (run.stood_still, run.suspended),
            ..Self::of_job(job, tasks, run.state())
        }
    }

    /// The same, ended.
    pub(crate) fn ended(mut self, outcome: &Outcome, at: Timestamp) -> Self {
        self.state = JobState::Ended(outcome.end);
        self.outcome = Some(outcome.clone());
        self.ended = Some(at);
        self
    }

    /// `17`, `17_3`, `17_[0-4]`.
    pub(crate) fn name(&self) -> String {
        match &self.tasks {
            Tasks::All => self.id.to_string(),
            Tasks::One(task) => format!("{}_{task}", self.id),
            Tasks::Some(tasks) => format!("{}_[{tasks}]", self.id),
        }
    }

    /// The file of its standard output, when it is one file.
    pub(crate) fn stdout(&self) -> Option<String> {
        let task = match &self.tasks {
            Tasks::One(task) => *task,
            Tasks::All if !self.array => TaskIndex(0),
            Tasks::All | Tasks::Some(_) => return None,
        };
        let fields = PatternFields {
            key: RunKey { job: self.id, task, run: self.run },
            array: self.array.then_some((self.id, task)),
            name: &self.spec.name,
            user: &self.user,
            node: self.place.as_ref().map(|place| &place.node),
        };
        Some(output_path(self.spec.stdout.as_deref(), &self.spec.work_dir, &fields))
    }

    /// How long it ran, the time it was suspended not counted.
    pub(crate) fn ran(&self) -> Option<Seconds> {
        let (started, ended) = (self.started?, self.ended?);
        let (before, since) = self.suspended;
        let ran = since.unwrap_or(ended).micros_since(started).saturating_sub(before);
        Some(Seconds(ran / 1_000_000))
    }
}

/// Whether the user wants a message about each task of an array by itself; a job without others is one.
pub(crate) fn each_task(spec: &JobSpec, array: bool) -> bool {
    !array || wants(spec, MailOn::EachTask)
}

/// Whether the user wants a message about this.
pub(crate) fn wants(spec: &JobSpec, on: MailOn) -> bool {
    spec.mail.as_ref().is_some_and(|ask| ask.on.contains(&on))
}

/// Whether the user wants to be warned of idle cards: who wants to hear when the job fails wants to hear before.
pub(crate) fn wants_warning(spec: &JobSpec) -> bool {
    wants(spec, MailOn::Idle) || wants(spec, MailOn::Fail)
}

/// Whether the user wants a message about this end.
pub(crate) fn wants_end(spec: &JobSpec, good: bool) -> bool {
    wants(spec, MailOn::End) || (!good && wants(spec, MailOn::Fail))
}
