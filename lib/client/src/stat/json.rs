//! JSON answers: the keys that scripts rely on, all of them always there. Exact bytes; whatever could harm a terminal is
//! written as `\u` and four digits.

use super::used::Measured;
use crate::escape::is_harmful;
use gq_model::{Bound, MiB, Seconds, Timestamp};
use gq_proto::{ArrayView, CardView, ExplanationView, JobView, NodeView, PartitionView};
use serde::{Serialize, Serializer};
use serde_json::ser::{CompactFormatter, Formatter};
use std::{
    collections::BTreeMap,
    io::{self, Write},
};

/// Writes `value` as one line of JSON, without an end of line.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write(to: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(to, Harmless)).map_err(io::Error::from)
}

struct Harmless;

impl Formatter for Harmless {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, to: &mut W, fragment: &str) -> io::Result<()> {
        if fragment.bytes().all(|b| matches!(b, b' '..=b'~')) {
            return CompactFormatter.write_string_fragment(to, fragment);
        }
        let mut rest = fragment;
        while let Some(at) = rest.find(is_harmful) {
            let (before, after) = rest.split_at(at);
            to.write_all(before.as_bytes())?;
            let mut chars = after.chars();
            let mut units = [0; 2];
            for unit in chars.next().into_iter().flat_map(|c| c.encode_utf16(&mut units).to_vec()) {
                write!(to, "\\u{unit:04x}")?;
            }
            rest = chars.as_str();
        }
        to.write_all(rest.as_bytes())
    }
}

/// A time as seconds since 1970, with decimals where it has some.
pub(crate) struct Time(pub Timestamp);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        Span(self.0.0).serialize(s)
    }
}

/// A span of time (microseconds) as seconds, with decimals where it has some.
struct Span(i64);

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if self.0 % 1_000_000 == 0 {
            s.serialize_i64(self.0 / 1_000_000)
        } else {
            s.serialize_f64(self.0 as f64 / 1e6)
        }
    }
}

#[derive(Serialize)]
struct Licence<'a> {
    name: &'a str,
    count: u32,
}

/// A card or slice that is or was held.
#[derive(Serialize)]
pub(crate) struct Gpu<'a> {
    node: &'a str,
    index: u32,
    uuid: Option<&'a str>,
    slice: Option<&'a str>,
    /// Of shares alone: what stands there for a card or a slice is as it always was.
    #[serde(skip_serializing_if = "Option::is_none")]
    share_mib: Option<MiB>,
}

#[derive(Serialize)]
struct Job<'a> {
    id: u64,
    array_job_id: Option<u64>,
    array_task_id: Option<u32>,
    array_tasks: Option<&'a str>,
    name: &'a str,
    user: &'a str,
    uid: u32,
    account: Option<&'a str>,
    qos: Option<&'a str>,
    reservation: Option<&'a str>,
    licenses: Vec<Licence<'a>>,
    partition: &'a str,
    state: &'a str,
    reason: &'static str,
    reason_detail: Option<&'a str>,
    priority: i64,
    submit_time: Time,
    begin_time: Option<Time>,
    start_time: Option<Time>,
    end_time: Option<Time>,
    expected_start: Option<Time>,
    expected_node: Option<&'a str>,
    first_promise: Option<Time>,
    last_promise: Option<Time>,
    promise_error: Option<Span>,
    time_limit: Option<Seconds>,
    nodes: Vec<&'a str>,
    cpus: u32,
    memory_mib: MiB,
    gpu_count: u32,
    gpus_asked: Option<String>,
    gpu_profile: Option<&'a str>,
    gpu_model: Option<&'a str>,
    gpu_memory_mib: Option<MiB>,
    gpu_share_mib: Option<MiB>,
    gpus: Vec<Gpu<'a>>,
    exit_code: Option<u8>,
    signal: Option<u8>,
    used: Option<Measured<'a>>,
    run: u32,
    restarts: u32,
    stage: Option<&'a str>,
    suspended: Option<Time>,
    suspended_time: Span,
    idle_since: Option<Time>,
    idle_until: Option<Time>,
    idle_ok: Option<&'a str>,
    dependency: Option<&'a str>,
    deadline: Option<Time>,
    time_min: Option<Seconds>,
    array_throttle: Option<u32>,
    stdout: &'a str,
    stderr: &'a str,
    work_dir: &'a str,
    command: Option<&'a str>,
    comment: Option<&'a str>,
    features: &'a [String],
    exclusive: bool,
}

/// A job with all its keys.
pub(crate) fn job(job: &JobView) -> impl Serialize + '_ {
    Job {
        id: job.id.0,
        array_job_id: job.array_job_id.map(|id| id.0),
        array_task_id: job.array_task_id,
        array_tasks: job.array_tasks.as_deref(),
        name: &job.name,
        user: &job.user,
        uid: job.uid.0,
        account: job.account.as_deref(),
        qos: job.qos.as_deref(),
        reservation: job.reservation.as_deref(),
        licenses: job.licences.iter().map(|l| Licence { name: &l.name, count: l.count }).collect(),
        partition: &job.partition,
        state: &job.state,
        reason: job.reason.word(),
        reason_detail: job.reason_detail.as_deref(),
        priority: job.priority,
        submit_time: Time(job.submit_time),
        begin_time: job.begin_time.map(Time),
        start_time: job.start_time.map(Time),
        end_time: job.end_time.map(Time),
        expected_start: job.expected_start.map(Time),
        expected_node: job.expected_node.as_ref().map(|node| node.as_str()),
        first_promise: job.first_promise.map(Time),
        last_promise: job.last_promise.map(Time),
        promise_error: job.promise_error().map(Span),
        time_limit: job.time_limit,
        nodes: job.nodes.iter().map(|node| node.as_str()).collect(),
        cpus: job.cpus,
        memory_mib: job.memory_mib,
        gpu_count: job.gpu_count,
        gpus_asked: (job.gpu_count > 0).then(|| asked(job)),
        gpu_profile: job.gpu_profile.as_deref(),
        gpu_model: job.gpu_model.as_deref(),
        gpu_memory_mib: job.gpu_memory_mib,
        gpu_share_mib: job.gpu_share_mib,
        gpus: job.gpus.iter().map(Gpu::of).collect(),
        exit_code: job.exit_code,
        signal: job.signal,
        used: job.used.as_deref().map(super::used::json),
        run: job.run,
        restarts: job.restarts,
        stage: job.stage.as_deref(),
        suspended: job.suspended.map(Time),
        suspended_time: Span(i64::try_from(job.suspended_before).unwrap_or(i64::MAX)),
        idle_since: job.idle_since.map(Time),
        idle_until: job.idle_until.map(Time),
        idle_ok: job.idle_ok.as_deref(),
        dependency: job.dependency.as_deref(),
        deadline: job.deadline.map(Time),
        time_min: job.time_min,
        array_throttle: job.array_throttle,
        stdout: &job.stdout,
        stderr: &job.stderr,
        work_dir: &job.work_dir,
        command: job.command.as_deref(),
        comment: job.comment.as_deref(),
        features: &job.features,
        exclusive: job.exclusive,
    }
}

#[derive(Serialize)]
struct Explained<'a, J> {
    #[serde(flatten)]
    job: J,
    why: Option<Why<'a>>,
}

#[derive(Serialize)]
struct Why<'a> {
    lacks: &'a [String],
    holders: Vec<Holder<'a>>,
    ahead: Vec<u64>,
    ahead_count: u64,
    instead: &'a [String],
}

#[derive(Serialize)]
struct Array<'a> {
    id: u64,
    tasks: u64,
    waiting: u64,
    running: u64,
    ended: BTreeMap<&'a str, u64>,
    array_throttle: Option<u32>,
    start_time: Option<Time>,
    tasks_per_second: Option<f64>,
    expected_end: Option<Time>,
}

/// How far an array is.
pub(crate) fn array(array: &ArrayView) -> impl Serialize + '_ {
    Array {
        id: array.id.0,
        tasks: array.tasks,
        waiting: array.waiting,
        running: array.running,
        ended: array.ended.iter().map(|(state, count)| (state.as_str(), *count)).collect(),
        array_throttle: array.at_once,
        start_time: array.started.map(Time),
        tasks_per_second: array.rate.map(|rate| rate as f64 / 1e3),
        expected_end: array.expected_end.map(Time),
    }
}

#[derive(Serialize)]
struct Holder<'a> {
    job: &'a str,
    node: &'a str,
    holds: &'a str,
    due: Time,
}

/// A job with all its keys and `why`: what it waits for; null when it does not wait.
pub(crate) fn explained<'a>(
    job: &'a JobView,
    explained: Option<&'a ExplanationView>,
) -> impl Serialize + use<'a> {
    let why = explained.map(|explained| Why {
        lacks: &explained.lacks,
        holders: explained.holders.iter().map(Holder::of).collect(),
        ahead: explained.ahead.iter().map(|job| job.0).collect(),
        ahead_count: explained.ahead_count,
        instead: &explained.instead,
    });
    Explained { job: self::job(job), why }
}

impl<'a> Holder<'a> {
    fn of(holder: &'a gq_proto::HolderView) -> Self {
        let node = holder.node.as_str();
        Self { job: &holder.job, node, holds: &holder.holds, due: Time(holder.due) }
    }
}

fn asked(job: &JobView) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = super::field::write_asked(job, &mut text);
    text
}

impl<'a> Gpu<'a> {
    pub(crate) fn of(gpu: &'a gq_proto::GpuView) -> Self {
        Self {
            node: gpu.node.as_str(),
            index: gpu.index,
            uuid: gpu.uuid.as_deref(),
            slice: gpu.slice.as_deref(),
            share_mib: gpu.share_mib,
        }
    }
}

#[derive(Serialize)]
struct Slice<'a> {
    profile: &'a str,
    uuid: Option<&'a str>,
    memory_mib: Option<MiB>,
    start: Option<u8>,
    units: Option<u8>,
    failed: Option<&'a str>,
    job: Option<&'a str>,
}

/// Parts of a shared card that a job holds.
#[derive(Serialize)]
struct Part<'a> {
    job: &'a str,
    parts: u32,
    share_mib: MiB,
}

#[derive(Serialize)]
struct Card<'a> {
    index: u32,
    uuid: Option<&'a str>,
    model: &'a str,
    memory_mib: MiB,
    mig: bool,
    failed: Option<&'a str>,
    utilization: Option<f64>,
    memory_used_mib: Option<MiB>,
    nvlink: &'a [(u32, u32)],
    job: Option<&'a str>,
    slices: Vec<Slice<'a>>,
    parts: Option<u8>,
    free_parts: Option<u32>,
    shares: Vec<Part<'a>>,
    units: Option<u8>,
    free_units: Option<u32>,
    free: &'a [String],
}

impl<'a> Part<'a> {
    fn of(part: &'a gq_proto::PartView) -> Self {
        Self { job: &part.job, parts: part.parts, share_mib: part.memory_mib }
    }
}

impl<'a> Card<'a> {
    fn of(view: &'a CardView) -> Self {
        let card = &view.card;
        let slices = view.slices.iter().map(|slice| Slice {
            profile: &slice.profile,
            uuid: slice.uuid.as_deref(),
            memory_mib: slice.memory_mib,
            start: slice.placement.map(|placement| placement.start),
            units: slice.placement.map(|placement| placement.size),
            failed: slice.trouble.as_deref(),
            job: slice.job.as_deref(),
        });
        Self {
            index: card.index,
            uuid: card.uuid.as_deref(),
            model: &card.model,
            memory_mib: card.memory,
            mig: card.mig,
            failed: card.health.trouble(),
            utilization: view.busy.map(|busy| f64::from(busy) / 100.0),
            memory_used_mib: view.memory_taken,
            nvlink: &card.nvlink,
            job: view.job.as_deref(),
            slices: slices.collect(),
            parts: card.is_shared().then_some(card.parts),
            free_parts: view.free_parts,
            shares: view.parts.iter().map(Part::of).collect(),
            units: card.grid.as_ref().map(|grid| grid.units),
            free_units: view.free_units,
            free: &view.free,
        }
    }
}

#[derive(Serialize)]
struct Node<'a> {
    name: &'a str,
    state: &'a str,
    reason: Option<&'a str>,
    unbound: &'a [Bound],
    partitions: &'a [String],
    cpus: u32,
    cpus_used: u32,
    memory_mib: MiB,
    memory_used_mib: MiB,
    features: &'a [String],
    gpus: Vec<Card<'a>>,
    jobs: &'a [String],
}

/// All nodes: `{"nodes":[…]}`.
pub(crate) fn nodes(nodes: &[NodeView]) -> impl Serialize + '_ {
    Nodes { nodes: nodes.iter().map(Node::of).collect() }
}

#[derive(Serialize)]
struct Nodes<'a> {
    nodes: Vec<Node<'a>>,
}

impl<'a> Node<'a> {
    fn of(node: &'a NodeView) -> Self {
        Self {
            name: node.name.as_str(),
            state: &node.state,
            reason: node.reason.as_deref(),
            unbound: &node.unbound,
            partitions: &node.partitions,
            cpus: node.cpus,
            cpus_used: node.cpus_used,
            memory_mib: node.memory_mib,
            memory_used_mib: node.memory_used_mib,
            features: &node.features,
            gpus: node.cards.iter().map(Card::of).collect(),
            jobs: &node.jobs,
        }
    }
}

#[derive(Serialize)]
struct Partition<'a> {
    name: &'a str,
    default: bool,
    state: &'a str,
    nodes: &'a str,
    max_time: Option<Seconds>,
    default_time: Option<Seconds>,
}

#[derive(Serialize)]
struct Partitions<'a> {
    partitions: Vec<Partition<'a>>,
}

/// All partitions: `{"partitions":[…]}`.
pub(crate) fn partitions(partitions: &[PartitionView]) -> impl Serialize + '_ {
    Partitions { partitions: partitions.iter().map(Partition::of).collect() }
}

impl<'a> Partition<'a> {
    fn of(p: &'a PartitionView) -> Self {
        Self {
            name: &p.name,
            default: p.default,
            state: &p.state,
            nodes: &p.nodes,
            max_time: p.max_time,
            default_time: p.default_time,
        }
    }
}
