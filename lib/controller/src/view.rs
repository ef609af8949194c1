//! Views of jobs, nodes, partitions and reservations, made from the board and from history. Never asks the state's own thread.

use crate::{board::Board, cuts, forecast::Told, parts, standing::Standing, viewer::Viewer};
use gq_cluster::{Booking, HeldBy, Job, Link, Memory, NewJob, Node, Payer, Run, Stopping, UNLIMITED};
use gq_model::{
    CardUse, IndexSet, JobId, JobSpec, JobState, MiB, NodeName, PatternFields, Reason, RunKey, RunNumber,
    Stage, TaskIndex, Timestamp, output_path,
};
use gq_proto::{
    CardView, GpuView, JobView, NodeView, PartitionView, ReservationView, ReservedView, SliceView,
};
use gq_store::{Alike, EndedRun};

/// Most jobs that the view of a reservation names.
const MOST_NAMED: usize = 256;

/// What a job's views have in common.
struct Face<'a> {
    id: JobId,
    uid: gq_model::Uid,
    user: &'a str,
    spec: &'a JobSpec,
    shape: &'a gq_cluster::Shape,
    payer: &'a Payer,
    priority: i64,
    submitted: Timestamp,
    begin: Option<Timestamp>,
    array: bool,
    at_once: Option<u32>,
}

impl<'a> Face<'a> {
    fn of_job(sight: &Sight<'_>, job: &'a Job) -> Self {
        Self {
            id: job.id,
            uid: job.uid,
            user: &job.user,
            spec: &job.spec,
            // While the script that runs first is next, the job is still what its own script needs.
            shape: job.main.as_ref().unwrap_or(&job.shape),
            payer: &job.payer,
            priority: sight.standing.priority(job),
            submitted: job.submitted,
            begin: job.not_before.or(job.spec.begin),
            array: job.array,
            at_once: job.at_once,
        }
    }

    fn of_new(new: &'a NewJob) -> Self {
        Self {
            id: new.id,
            uid: new.uid,
            user: &new.user,
            spec: &new.spec,
            shape: new.main.as_ref().unwrap_or(&new.shape),
            payer: &new.payer,
            priority: new.priority,
            submitted: new.at,
            begin: new.spec.begin,
            array: new.array,
            at_once: new.at_once,
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
        let (stdout, stderr) = files(self.id, self.user, self.spec, self.array, (task, run), node);
        JobView {
            id: self.id,
            array_job_id: self.array.then_some(self.id),
            array_task_id: None,
            array_tasks: None,
            name: self.spec.name.clone(),
            uid: self.uid,
            user: self.user.to_owned(),
            account: self.payer.account.as_ref().or(self.spec.account.as_ref()).cloned(),
            qos: self.payer.qos.clone(),
            reservation: self.shape.reservation.clone(),
            licences: self.shape.licences.clone(),
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
            expected_node: None,
            first_promise: None,
            last_promise: None,
            time_limit: self.shape.time_limit,
            nodes: node.cloned().into_iter().collect(),
            cpus: self.shape.demand.cpus,
            memory_mib: match self.shape.demand.memory {
                Memory::Amount(amount) => amount,
                Memory::WholeNode => MiB(0),
            },
            gpu_count: self.shape.demand.cards.count,
            gpu_profile: self.shape.demand.cards.profile.clone(),
            gpu_model: self.shape.demand.cards.model.clone(),
            gpu_memory_mib: self.shape.demand.cards.memory,
            gpu_share_mib: self.shape.demand.cards.share,
            gpus: Vec::new(),
            exit_code: None,
            signal: None,
            used: None,
            run: run.0,
            restarts: 0,
            stage: None,
            suspended: None,
            suspended_before: 0,
            idle_since: None,
            idle_until: None,
            idle_ok: self.spec.idle_ok.clone(),
            dependency: self.spec.dependency.as_ref().map(ToString::to_string),
            deadline: self.spec.deadline,
            time_min: self.spec.time_min,
            array_throttle: self.at_once,
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

/// The output and the error file of a run.
fn files(
    job: JobId,
    user: &str,
    spec: &JobSpec,
    array: bool,
    (task, run): (TaskIndex, RunNumber),
    node: Option<&NodeName>,
) -> (String, String) {
    let array = array.then_some((job, task));
    let fields = PatternFields { key: RunKey { job, task, run }, array, name: &spec.name, user, node };
    let stdout = output_path(spec.stdout.as_deref(), &spec.work_dir, &fields);
    let stderr = match &spec.stderr {
        Some(pattern) => output_path(Some(pattern), &spec.work_dir, &fields),
        None => stdout.clone(),
    };
    (stdout, stderr)
}

/// What views of live jobs are made from.
pub(crate) struct Sight<'a> {
    pub(crate) board: &'a Board,
    pub(crate) standing: &'a Standing,
    /// The forecast, for those who asked for starts.
    pub(crate) told: Option<&'a Told>,
    pub(crate) now: Timestamp,
}

impl Sight<'_> {
    /// Why a job waits, and when and where it is expected to start: as the plan has it, else as was foretold.
    pub(crate) fn outlook(&self, job: &Job) -> (Reason, Option<Timestamp>, Option<&NodeName>) {
        let (reason, planned) = self.board.outlook.of(job, &self.board.policy);
        let told = self.told.and_then(|told| told.start(job.id, self.now));
        let place = self.board.outlook.reserved.get(&job.id).map(|(_, node)| node);
        match (told, planned) {
            // A begin time is when it may start; when it will start was foretold.
            (Some((at, node)), Some(begin)) if reason == Reason::BeginTime => {
                (reason, Some(at.max(begin)), Some(node))
            }
            (_, Some(at)) => (reason, Some(at.max(self.now)), place),
            (Some((at, node)), None) => (reason, Some(at), Some(node)),
            (None, None) => (reason, None, None),
        }
    }
}

/// The view of tasks of a live job that wait together.
pub(crate) fn waiting(sight: &Sight<'_>, job: &Job, tasks: &IndexSet, apart: Apart) -> JobView {
    let face = Face::of_job(sight, job);
    let first = TaskIndex(tasks.first().unwrap_or(0));
    let (mut reason, mut expected, place) = sight.outlook(job);
    let is_held = |why| matches!(why, Reason::JobHeldUser | Reason::JobHeldAdmin);
    let own = apart.filter(|(why, _)| job.held.is_none() && (job.is_free() || is_held(*why)));
    if let Some((why, at)) = own {
        (reason, expected) = (why, at);
    }
    let attempts = job.attempts.get(&first).copied().unwrap_or_default();
    let mut view = face.view(first, attempts, None, JobState::Pending, reason);
    view.expected_start = expected;
    view.expected_node = place.filter(|_| apart.is_none()).cloned();
    view.first_promise = job.first_promise;
    view.last_promise = sight.board.outlook.reserved.get(&job.id).map(|(at, _)| *at);
    view.restarts = job.restarts(first, attempts.0);
    view.stage = stage(job, job.stage());
    view.array_tasks = job.array.then(|| match job.at_once {
        Some(most) => format!("{tasks}%{most}"),
        None => tasks.to_string(),
    });
    view
}

/// Why tasks of an array wait by themselves, and until when if that is known; none for those that wait as the job does.
pub(crate) type Apart = Option<(Reason, Option<Timestamp>)>;

/// The tasks of a job that wait, those together that wait for the same.
pub(crate) fn waiting_alike(job: &Job) -> Vec<(IndexSet, Apart)> {
    let mut rest = job.waiting.clone();
    let mut alike = Vec::new();
    let mut take = |tasks: IndexSet, why: (Reason, Option<Timestamp>)| {
        let tasks = tasks.and(&rest);
        if !tasks.is_empty() {
            rest = rest.without(&tasks);
            alike.push((tasks, Some(why)));
        }
    };
    for (by, tasks) in &job.held_tasks {
        let reason = if *by == HeldBy::User { Reason::JobHeldUser } else { Reason::JobHeldAdmin };
        take(tasks.clone(), (reason, None));
    }
    if let Some(waits) = &job.waits {
        take(waits.never(), (Reason::DependencyNeverSatisfied, None));
        take(waits.barred(), (Reason::Dependency, None));
    }
    let soonest = job.resting.values().min().copied();
    take(job.resting.keys().map(|task| task.0).collect(), (Reason::Backoff, soonest));
    if !rest.is_empty() {
        alike.insert(0, (rest, None));
    }
    alike
}

/// The view of one task of an array that waits, from that of all: what each has for itself is said anew.
pub(crate) fn waiting_task(job: &Job, all: &JobView, task: u32) -> JobView {
    let attempts = job.attempts.get(&TaskIndex(task)).copied().unwrap_or_default();
    let mut view = JobView {
        array_task_id: Some(task),
        array_tasks: None,
        run: attempts.0,
        restarts: job.restarts(TaskIndex(task), attempts.0),
        ..all.clone()
    };
    (view.stdout, view.stderr) = files(job.id, &job.user, &job.spec, true, (TaskIndex(task), attempts), None);
    view
}

/// The word for a stage of a job that has two.
fn stage(job: &Job, stage: Stage) -> Option<String> {
    let word = match stage {
        Stage::Prep => "prep",
        Stage::Main => "main",
    };
    job.spec.prep.then(|| word.to_owned())
}

/// The view of a run of a live job.
pub(crate) fn running(sight: &Sight<'_>, job: &Job, task: TaskIndex, run: &Run) -> JobView {
    let (board, face) = (sight.board, Face::of_job(sight, job));
    let state = state_of(board, run);
    let reason = match run.stopping {
        Some(Stopping::Preempt { .. }) => Reason::Preempted,
        Some(Stopping::Cancel) => Reason::Cancelled,
        Some(Stopping::Requeue | Stopping::RequeueHold(_)) => Reason::Requeued,
        Some(Stopping::Idle { .. }) => Reason::IdleCards,
        None if run.idle.is_some() => Reason::IdleCards,
        None => Reason::None,
    };
    let mut view = face.view(task, run.number, Some(&run.node), state, reason);
    view.array_task_id = face.array.then_some(task.0);
    view.start_time = run.started();
    view.cpus = run.cpus;
    view.memory_mib = run.memory;
    view.gpus = gpus(&run.node, &run.cards);
    view.restarts = job.restarts(task, run.number.0.saturating_sub(1));
    view.stage = stage(job, run.stage);
    if let Some(limit) = run.own_limit {
        view.time_limit = Some(limit).filter(|limit| *limit != UNLIMITED);
    }
    (view.suspended, view.suspended_before) = (run.suspended, run.stood_still);
    (view.idle_since, view.idle_until) = (run.idle.map(|idle| idle.since), run.reclaim_due());
    if run.stopping.is_some() && state == JobState::Unknown {
        view.reason_detail = Some(format!("node {} is told when it is back", run.node));
    }
    (view.first_promise, view.last_promise) = (job.first_promise, run.promised);
    if let Some(node) = board.node(&run.node) {
        name_slices(node, &run.cards, &mut view.gpus);
        if let Some((card, words)) = node.failing(&run.cards).next() {
            view.reason_detail.get_or_insert_with(|| format!("card {card} of {} fails: {words}", run.node));
        }
    }
    view
}

/// A run's state, as far as its node is in sight.
pub(crate) fn state_of(board: &Board, run: &Run) -> JobState {
    let blind = board.node(&run.node).is_some_and(|node| node.is_blind_to(run));
    if blind { JobState::Unknown } else { run.state() }
}

pub(crate) fn gpus(node: &NodeName, cards: &[CardUse]) -> Vec<GpuView> {
    let gpu = |card: &CardUse| GpuView {
        node: node.clone(),
        index: card.index,
        uuid: card.uuid.clone(),
        slice: card.slice.clone(),
        share_mib: card.share.map(|share| share.memory),
    };
    cards.iter().map(gpu).collect()
}

/// Names the slices that were cut for a run: their order has a place only, and the node has told since what lies there.
fn name_slices(node: &Node, cards: &[CardUse], gpus: &mut [GpuView]) {
    for (held, gpu) in cards.iter().zip(gpus) {
        let Some(place) = held.placement.filter(|_| gpu.uuid.is_none()) else { continue };
        let card = gq_cluster::position_of(&node.cards, held).and_then(|at| node.cards.get(at));
        let is_it = |slice: &&gq_model::Slice| {
            slice.placement == Some(place) && held.slice.as_ref() == Some(&slice.profile)
        };
        let slice = card.and_then(|card| card.slices.iter().find(is_it));
        gpu.uuid = slice.and_then(|slice| slice.uuid.clone());
    }
}

/// The view of tasks that ended alike.
pub(crate) fn ended_alike(new: &NewJob, alike: &Alike) -> JobView {
    let mut view = ended_task(new, &alike.first);
    if !new.array || (alike.tasks.len() == 1 && alike.first.tasks.is_none()) {
        return view;
    }
    view.array_task_id = None;
    view.array_tasks = Some(alike.tasks.to_string());
    (view.start_time, view.end_time) = (alike.started, Some(alike.ended));
    if alike.tasks.len() > 1 && alike.first.tasks.is_none() {
        // Where each was, and what it held there, is its own.
        view.nodes.clear();
        view.gpus.clear();
        view.suspended_before = 0;
        view.used = None;
        view.reason_detail = None;
    }
    view
}

/// The view of a task's last run, or of tasks that never started.
pub(crate) fn ended_task(new: &NewJob, run: &EndedRun) -> JobView {
    let face = Face::of_new(new);
    let state = JobState::Ended(run.outcome.end);
    let never_started = run.node.is_none();
    let number = if never_started { RunNumber(run.run.0.saturating_sub(1)) } else { run.run };
    let mut view = face.view(run.task, number, run.node.as_ref(), state, run.outcome.reason);
    view.restarts = run.restarts.unwrap_or(run.run.0.saturating_sub(1));
    view.array_task_id = (face.array && run.tasks.is_none()).then_some(run.task.0);
    view.array_tasks = run.tasks.clone();
    view.reason_detail = Some(run.outcome.detail.clone()).filter(|detail| !detail.is_empty());
    view.start_time = run.started;
    view.end_time = Some(run.ended);
    view.suspended_before = run.suspended;
    (view.first_promise, view.last_promise) = (run.first_promise, run.last_promise);
    view.cpus = run.cpus;
    view.memory_mib = run.memory;
    if let Some(limit) = run.time_limit {
        view.time_limit = Some(limit).filter(|limit| *limit != UNLIMITED);
    }
    view.gpus = run.node.as_ref().map(|node| gpus(node, &run.cards)).unwrap_or_default();
    view.exit_code = run.outcome.exit_code;
    view.signal = run.outcome.signal;
    view.used.clone_from(&run.outcome.used);
    view
}

/// The view of a node.
pub(crate) fn node(board: &Board, viewer: &Viewer<'_>, node: &Node) -> NodeView {
    let mine = |p: &&gq_cluster::Partition| p.has(&node.name);
    let recut = board.policy.partitions.iter().filter(mine).any(|p| p.recut);
    let cards = node.cards.iter().enumerate().map(|(position, card)| {
        let free = cuts::free(node, position, recut);
        let run = |who: (JobId, TaskIndex)| board.job(who.0)?.runs.get(&who.1);
        let parts = parts::held(node, position, run, |who| viewer.name(board, who));
        let is_whole = !card.mig && parts.is_empty();
        let (busy, memory_taken) = board.pulse.of(&node.name, card.uuid.as_deref());
        CardView {
            card: card.clone(),
            job: node.holder(card.index).filter(|_| is_whole).map(|who| viewer.name(board, who)),
            busy,
            memory_taken,
            parts,
            free_parts: parts::free(node, position),
            slices: slices(board, viewer, node, card),
            free_units: free.units,
            free: free.sets,
        }
    });
    NodeView {
        name: node.name.clone(),
        state: node_state(node).to_owned(),
        reason: reason(node, viewer),
        unbound: node.unbound.clone(),
        partitions: board.policy.partitions.iter().filter(mine).map(|p| p.name.clone()).collect(),
        cpus: node.cpus,
        cpus_used: node.cpus_used(),
        memory_mib: node.memory,
        memory_used_mib: node.memory_used(),
        features: node.features.clone(),
        cards: cards.collect(),
        jobs: node
            .runs()
            .filter(|who| viewer.sees_job(board, who.0))
            .map(|who| viewer.name(board, who))
            .collect(),
    }
}

/// The slices of a card with who holds each: those the node told of, but for idle ones whose units a run has by now, and those that are
/// being cut for runs.
fn slices(board: &Board, viewer: &Viewer<'_>, node: &Node, card: &gq_model::Card) -> Vec<SliceView> {
    let mut held: Vec<(&CardUse, String)> = Vec::new();
    if card.mig {
        for who in node.runs() {
            let run = board.job(who.0).and_then(|job| job.runs.get(&who.1));
            let its = run.into_iter().flat_map(|run| &run.cards).filter(|held| held.index == card.index);
            held.extend(its.filter(|held| held.slice.is_some()).map(|held| (held, viewer.name(board, who))));
        }
    }
    let mut all = Vec::with_capacity(card.slices.len() + held.len());
    for (at, slice) in card.slices.iter().enumerate() {
        let is_this = |held: &CardUse| match (&held.uuid, held.placement) {
            (Some(uuid), _) => slice.uuid.as_ref() == Some(uuid),
            (None, Some(place)) => {
                slice.placement == Some(place) && held.slice.as_ref() == Some(&slice.profile)
            }
            (None, None) => {
                node.slice_holder(card, at).is_some() && held.slice.as_ref() == Some(&slice.profile)
            }
        };
        let job = held.iter().position(|(held, _)| is_this(held)).map(|found| held.swap_remove(found).1);
        if job.is_none() && node.slice_holder(card, at).is_some() {
            continue;
        }
        all.push(SliceView {
            profile: slice.profile.clone(),
            uuid: slice.uuid.clone(),
            memory_mib: Some(slice.memory),
            placement: slice.placement,
            trouble: slice.health.trouble().map(str::to_owned),
            job,
        });
    }
    let grid = card.grid.as_ref();
    all.extend(held.into_iter().map(|(held, job)| {
        let profile = held.slice.clone().unwrap_or_default();
        SliceView {
            memory_mib: grid.and_then(|grid| grid.profile(&profile)).map(|p| p.memory),
            profile,
            uuid: held.uuid.clone(),
            placement: held.placement,
            trouble: None,
            job: Some(job),
        }
    }));
    all
}

/// Why nothing new is started on a node that is in sight.
fn reason(node: &Node, viewer: &Viewer<'_>) -> Option<String> {
    let strays = || {
        let first = node.strays.first()?;
        Some(match node.strays.len() {
            count if !viewer.sees_all() => {
                format!("what gqd has given up may still be alive there: {count} of its runs")
            }
            1 => format!("run {first}, which gqd has given up, may still be alive there"),
            count => format!(
                "run {first} and {} more, which gqd has given up, may still be alive there",
                count - 1
            ),
        })
    };
    node.closed_for().map(str::to_owned).or_else(strays)
}

fn node_state(node: &Node) -> &'static str {
    match (node.link, node.closed_for(), node.runs().len() == 0) {
        (Link::Absent | Link::Forgotten, _, _) => "absent",
        (Link::Suspect { .. }, _, _) => "suspect",
        (Link::Lost { .. }, _, _) => "lost",
        (Link::Up, None, _) if !node.strays.is_empty() => "clearing",
        (Link::Up, Some(_), true) => "drained",
        (Link::Up, Some(_), false) => "draining",
        (Link::Up, None, true) => "idle",
        (Link::Up, None, false) if node.cpus_used() >= node.cpus => "allocated",
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

/// The views of advance reservations; `name_of` gives the names of users.
pub(crate) fn reservations(
    board: &Board,
    viewer: &Viewer<'_>,
    name_of: impl Fn(gq_model::Uid) -> String,
) -> Vec<ReservationView> {
    let view = |booking: &std::sync::Arc<Booking>| ReservationView {
        name: booking.name.clone(),
        start: booking.start,
        end: booking.end,
        takes: booking
            .takes
            .iter()
            .map(|taken| ReservedView { node: taken.node.clone(), cards: taken.cards.clone() })
            .collect(),
        users: booking.users.iter().map(|uid| name_of(*uid)).collect(),
        accounts: booking.accounts.clone(),
        maintenance: booking.maintenance,
        jobs: board
            .jobs()
            .filter(|job| job.shape.reservation.as_ref() == Some(&booking.name) && viewer.sees(job.owner()))
            .take(MOST_NAMED)
            .map(|job| job.id.to_string())
            .collect(),
    };
    board.bookings.iter().filter(|booking| viewer.sees_booking(booking)).map(view).collect()
}
