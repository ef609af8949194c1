//! Views of jobs, nodes and partitions, made from the board and from history. Never asks the state's own thread.

use crate::board::Board;
use gq_cluster::{Job, Link, Memory, NewJob, Node, Run};
use gq_model::{
    CardUse, IndexSet, JobId, JobState, MiB, NodeName, PatternFields, Reason, RunKey, RunNumber, TaskIndex,
    Timestamp, output_path,
};
use gq_proto::{CardView, GpuView, JobView, NodeView, PartitionView, SliceView};
use gq_store::{EndedJob, EndedRun};

/// What a job's views have in common.
struct Face<'a> {
    id: JobId,
    uid: gq_model::Uid,
    user: &'a str,
    spec: &'a gq_model::JobSpec,
    shape: &'a gq_cluster::Shape,
    priority: i64,
    submitted: Timestamp,
    begin: Option<Timestamp>,
    array: bool,
}

impl<'a> Face<'a> {
    fn of_job(job: &'a Job) -> Self {
        Self {
            id: job.id,
            uid: job.uid,
            user: &job.user,
            spec: &job.spec,
            shape: &job.shape,
            priority: job.priority,
            submitted: job.submitted,
            begin: job.not_before.or(job.spec.begin),
            array: job.array,
        }
    }

    fn of_new(new: &'a NewJob) -> Self {
        Self {
            id: new.id,
            uid: new.uid,
            user: &new.user,
            spec: &new.spec,
            shape: &new.shape,
            priority: new.priority,
            submitted: new.at,
            begin: new.spec.begin,
            array: new.array,
        }
    }

    fn view(
        &self,
        task: TaskIndex,
        run: RunNumber,
        node: Option<&NodeName>,
        state: JobState,
        reason: Reason,
    ) -> JobView {
        let fields = PatternFields {
            key: RunKey { job: self.id, task, run },
            array: self.array.then_some((self.id, task)),
            name: &self.spec.name,
            user: self.user,
            node,
        };
        let stdout = output_path(self.spec.stdout.as_deref(), &self.spec.work_dir, &fields);
        let stderr = match &self.spec.stderr {
            Some(pattern) => output_path(Some(pattern), &self.spec.work_dir, &fields),
            None => stdout.clone(),
        };
        JobView {
            id: self.id,
            array_job_id: self.array.then_some(self.id),
            array_task_id: None,
            array_tasks: None,
            name: self.spec.name.clone(),
            uid: self.uid,
            user: self.user.to_owned(),
            account: self.spec.account.clone(),
            partition: self.shape.partition.clone(),
            state: state.name().to_owned(),
            reason,
            reason_detail: None,
            priority: self.priority,
            submit_time: self.submitted,
            begin_time: self.begin,
            start_time: None,
            end_time: None,
            expected_start: None,
            time_limit: self.shape.time_limit,
            nodes: node.cloned().into_iter().collect(),
            cpus: self.shape.demand.cpus,
            memory_mib: match self.shape.demand.memory {
                Memory::Amount(amount) => amount,
                Memory::WholeNode => MiB(0),
            },
            gpu_count: self.shape.demand.cards.count,
            gpus: Vec::new(),
            exit_code: None,
            signal: None,
            run: run.0,
            stdout,
            stderr,
            work_dir: self.spec.work_dir.clone(),
            command: self.spec.command.clone(),
            comment: self.spec.comment.clone(),
            features: self.spec.features.clone(),
            exclusive: self.spec.exclusive,
        }
    }
}

/// The views of a live job: one for its waiting tasks, one for each run.
pub(crate) fn live(board: &Board, job: &Job) -> Vec<JobView> {
    let face = Face::of_job(job);
    let mut views = Vec::with_capacity(1 + job.runs.len());
    if let Some(first) = job.waiting.first().map(TaskIndex) {
        let (reason, expected) = board.outlook.of(job, &board.policy);
        let attempts = job.attempts.get(&first).copied().unwrap_or_default();
        let mut view = face.view(first, attempts, None, JobState::Pending, reason);
        view.expected_start = expected;
        view.array_tasks = job.array.then(|| job.waiting.to_string());
        views.push(view);
    }
    views.extend(job.runs.iter().map(|(task, run)| running(board, &face, *task, run)));
    views
}

fn running(board: &Board, face: &Face<'_>, task: TaskIndex, run: &Run) -> JobView {
    let state = state_of(board, run);
    let mut view = face.view(task, run.number, Some(&run.node), state, Reason::None);
    view.array_task_id = face.array.then_some(task.0);
    view.start_time = run.started();
    view.cpus = run.cpus;
    view.memory_mib = run.memory;
    view.gpus = gpus(&run.node, &run.cards);
    view
}

/// A run's state, as far as its node is in sight.
pub(crate) fn state_of(board: &Board, run: &Run) -> JobState {
    let lost = board.node(&run.node).is_some_and(|node| matches!(node.link, Link::Lost { .. }));
    if lost { JobState::Unknown } else { run.state() }
}

fn gpus(node: &NodeName, cards: &[CardUse]) -> Vec<GpuView> {
    let gpu = |card: &CardUse| GpuView {
        node: node.clone(),
        index: card.index,
        uuid: card.uuid.clone(),
        slice: card.slice.clone(),
    };
    cards.iter().map(gpu).collect()
}

/// The views of what has ended of a job: the last run of each task, and tasks that never started.
pub(crate) fn ended(job: &EndedJob) -> Vec<JobView> {
    let face = Face::of_new(&job.new);
    job.runs.iter().filter(|run| !run.again).map(|run| ended_run(&face, run)).collect()
}

fn ended_run(face: &Face<'_>, run: &EndedRun) -> JobView {
    let state = JobState::Ended(run.outcome.end);
    let never_started = run.node.is_none();
    let number = if never_started { RunNumber(run.run.0.saturating_sub(1)) } else { run.run };
    let mut view = face.view(run.task, number, run.node.as_ref(), state, run.outcome.reason);
    view.array_task_id = (face.array && run.tasks.is_none()).then_some(run.task.0);
    view.array_tasks = run.tasks.clone();
    view.reason_detail = Some(run.outcome.detail.clone()).filter(|detail| !detail.is_empty());
    view.start_time = run.started;
    view.end_time = Some(run.ended);
    view.cpus = run.cpus;
    view.memory_mib = run.memory;
    view.gpus = run.node.as_ref().map(|node| gpus(node, &run.cards)).unwrap_or_default();
    view.exit_code = run.outcome.exit_code;
    view.signal = run.outcome.signal;
    view
}

/// Whether a view is one of the tasks that are meant.
pub(crate) fn means(tasks: Option<&IndexSet>, view: &JobView) -> bool {
    let Some(tasks) = tasks else { return true };
    match (view.array_task_id, &view.array_tasks) {
        (Some(task), _) => tasks.contains(task),
        (None, Some(_)) => true,
        (None, None) => tasks.contains(0),
    }
}

fn holder(board: &Board, who: (JobId, TaskIndex)) -> String {
    board.job(who.0).map_or_else(|| who.0.to_string(), |job| job.task_name(who.1))
}

/// The view of a node.
pub(crate) fn node(board: &Board, node: &Node) -> NodeView {
    let cards = node.cards.iter().map(|card| {
        let job = node.holder(card.index).map(|who| holder(board, who));
        let slice =
            |s: &gq_model::Slice| SliceView { profile: s.profile.clone(), uuid: s.uuid.clone(), job: None };
        CardView { card: card.clone(), job, slices: card.slices.iter().map(slice).collect() }
    });
    let named = |p: &&gq_cluster::Partition| p.has(&node.name);
    NodeView {
        name: node.name.clone(),
        state: node_state(node).to_owned(),
        reason: node.drained.clone(),
        partitions: board.policy.partitions.iter().filter(named).map(|p| p.name.clone()).collect(),
        cpus: node.cpus,
        cpus_used: node.cpus_used(),
        memory_mib: node.memory,
        memory_used_mib: node.memory_used(),
        features: node.features.clone(),
        cards: cards.collect(),
        jobs: node.runs().iter().map(|who| holder(board, *who)).collect(),
    }
}

fn node_state(node: &Node) -> &'static str {
    match (node.link, &node.drained, node.runs().is_empty()) {
        (Link::Absent, _, _) => "absent",
        (Link::Suspect { .. }, _, _) => "suspect",
        (Link::Lost { .. }, _, _) => "lost",
        (Link::Up, Some(_), true) => "drained",
        (Link::Up, Some(_), false) => "draining",
        (Link::Up, None, true) => "idle",
        (Link::Up, None, false) if node.cpus_free() == 0 => "allocated",
        (Link::Up, None, false) => "mixed",
    }
}

/// The views of all partitions.
pub(crate) fn partitions(board: &Board) -> Vec<PartitionView> {
    let view = |(at, p): (usize, &gq_cluster::Partition)| PartitionView {
        name: p.name.clone(),
        default: at == 0,
        state: p.state.name().to_owned(),
        nodes: match &p.nodes {
            Some(nodes) => gq_model::compress_hosts(nodes),
            None => gq_model::compress_hosts(board.nodes.iter().map(|node| &node.name)),
        },
        max_time: p.max_time,
        default_time: p.default_time,
    };
    board.policy.partitions.iter().enumerate().map(view).collect()
}
