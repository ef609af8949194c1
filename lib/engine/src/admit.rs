//! Admission: is a request taken, and as what: partition, payer, time limit, memory and priority are fixed here. A request is refused
//! as impossible only when no declared or ever-seen node could meet it.

use crate::{
    Actor, Answer, ClientId, Context, Decision, Effect, Past, Refusal, RefusalKind, Submission, access,
    bounds,
    dependency::{conditions, settle_singleton},
    limits,
    possible::possible,
};
use alloc::{
    boxed::Box,
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use gq_cluster::{
    Cluster, Demand, Event, HeldBy, Memory, NewJob, Node, Partition, Payer, Policy, Serves, Shape,
};
use gq_model::{
    CardAsk, IndexSet, JobId, JobSpec, MemoryAsk, MiB, NodeName, Seconds, TimeAsk, Timestamp, Uid,
};
use gq_sched::{Planner, estimate};

/// Longest name of an image, in bytes.
const MAX_IMAGE: usize = 4096;
/// Most partitions that words name.
const MOST_NAMED: usize = 8;

pub(crate) fn submit(
    cluster: &Cluster,
    policy: &Policy,
    context: &Context,
    client: Option<ClientId>,
    submission: &Submission,
    known: Option<(JobId, Uid)>,
    past: &[Past],
) -> Decision {
    let answer = match known {
        Some((job, owner)) if owner == submission.by.uid => Answer::Submitted(job),
        Some(_) => Answer::Refused(
            Refusal::new(RefusalKind::NotPermitted, "this token belongs to another user")
                .hint("submit again with a new token"),
        ),
        None => match admit(cluster, policy, context, submission, past) {
            Ok(new) => {
                let id = new.id;
                let file =
                    Effect::File { drop_name: submission.drop_name.clone(), job_file: new.job_file.clone() };
                let mut decision = Decision::reply(client, Answer::Submitted(id));
                decision.effects.push(file);
                decision.events.push(Event::Submitted(Box::new(new)));
                return decision;
            }
            Err(refusal) => Answer::Refused(refusal),
        },
    };
    let why = match &answer {
        Answer::Submitted(job) => format!("it is job {job} already"),
        Answer::Refused(refusal) => refusal.text.clone(),
        Answer::Tested { .. } | Answer::Done { .. } => String::new(),
    };
    let mut decision = Decision::reply(client, answer);
    let (drop_name, uid) = (submission.drop_name.clone(), submission.by.uid);
    decision.effects.push(Effect::Discard { drop_name, uid, why });
    decision
}

pub(crate) fn test_only(
    cluster: &Cluster,
    policy: &Policy,
    context: &Context,
    client: ClientId,
    by: Actor,
    spec: &JobSpec,
    planner: &Planner,
) -> Decision {
    let asked =
        tasks_of(policy, spec).and_then(|tasks| request(cluster, policy, context, by, spec, tasks.len()));
    let answer = match asked {
        Ok((shape, payer)) => Answer::Tested {
            start: start_of(cluster, policy, context, spec, (&shape, &payer), planner),
            cpus: shape.demand.cpus,
            partition: shape.partition,
        },
        Err(refusal) => Answer::Refused(refusal),
    };
    Decision::reply(client, answer)
}

/// When and where it would start: when it is held, nobody knows; not before it may.
fn start_of(
    cluster: &Cluster,
    policy: &Policy,
    context: &Context,
    spec: &JobSpec,
    job: (&Shape, &Payer),
    planner: &Planner,
) -> Option<(NodeName, Timestamp)> {
    if spec.hold || spec.dependency.is_some() {
        return None;
    }
    estimate(cluster, policy, planner, context.now, job, spec.begin)
}

fn admit(
    cluster: &Cluster,
    policy: &Policy,
    context: &Context,
    submission: &Submission,
    past: &[Past],
) -> Result<NewJob, Refusal> {
    let spec = &submission.spec;
    let tasks = tasks_of(policy, spec)?;
    let (shape, payer) = request(cluster, policy, context, submission.by, spec, tasks.len())?;
    if cluster.job_count() as u64 >= policy.max_job_count {
        let text = format!("the queue is full: {} jobs live, no more are taken", cluster.job_count());
        return Err(Refusal::new(RefusalKind::Policy, text).hint("[scheduler] max_job_count bounds them"));
    }
    let id = JobId(cluster.last_job().0.saturating_add(1));
    let (waits, later) = match &spec.dependency {
        None => (None, None),
        Some(asked) => {
            let (mut waits, later) = conditions(
                (cluster, policy, context),
                submission.by,
                past,
                asked,
                (id, &tasks, spec.array.is_some()),
            )?;
            settle_singleton(cluster, &mut waits, id, &(submission.by.uid, spec.name.clone()));
            (Some(waits), later)
        }
    };
    let payer = cluster.queue().shared_payer(&shape, &payer).unwrap_or_else(|| Arc::new(payer));
    let (first, main) = match spec.prep {
        true => (interned(cluster, shape.for_prep()), Some(Arc::new(shape))),
        false => (interned(cluster, shape), None),
    };
    Ok(NewJob {
        id,
        uid: submission.by.uid,
        user: submission.user.clone(),
        token: submission.token,
        spec: shared_spec(cluster, &first, &payer, spec),
        job_file: format!("jobs/{:02x}/{id}.job", context.shard),
        sha256: submission.sha256.clone(),
        at: context.now,
        payer,
        shape: first,
        priority: 0i64.saturating_sub(i64::from(spec.nice)),
        held: spec.hold.then_some(HeldBy::User),
        not_before: spec.begin.filter(|at| *at > context.now).max(later),
        array: spec.array.is_some(),
        at_once: spec.array.as_ref().and_then(|array| array.at_once),
        waits,
        main,
        tasks,
    })
}

/// The tasks of a request: those of its array, else one.
fn tasks_of(policy: &Policy, spec: &JobSpec) -> Result<IndexSet, Refusal> {
    let most = u64::from(policy.max_array_size);
    if let Some(array) = &spec.array
        && array.tasks.len() > most
    {
        let count = array.tasks.len();
        let text = format!("--array={array}: {count} tasks, and an array may have {most}");
        return Err(Refusal::new(RefusalKind::Policy, text).hint("[scheduler] max_array_size bounds them"));
    }
    Ok(spec.tasks())
}

/// The request of the last job in line of this shape and payer, when it is the same word for word: a script submitted in a loop is
/// kept once.
fn shared_spec(cluster: &Cluster, shape: &Shape, payer: &Payer, spec: &Arc<JobSpec>) -> Arc<JobSpec> {
    let last = cluster.queue().last(shape, payer).and_then(|id| cluster.job(id));
    Arc::clone(last.map(|job| &job.spec).filter(|last| *last == spec).unwrap_or(spec))
}

/// The shape that waiting jobs share already, when there is one: ten thousand jobs of one shape keep one.
fn interned(cluster: &Cluster, shape: Shape) -> Arc<Shape> {
    cluster.queue().shared(&shape).unwrap_or_else(|| Arc::new(shape))
}

/// What a request means: what matters for its placement, and on whose account it runs. `tasks`: how many more tasks it brings.
pub(crate) fn request(
    cluster: &Cluster,
    policy: &Policy,
    context: &Context,
    by: Actor,
    spec: &JobSpec,
    tasks: u64,
) -> Result<(Shape, Payer), Refusal> {
    may_submit(policy, by, spec)?;
    let partition = partition_of(policy, spec)?;
    let payer = access::payer(policy, partition, by, spec)?;
    may_share(policy, partition, spec)?;
    may_be_idle(partition, spec)?;
    let demand = Demand {
        cpus: spec.cpus(),
        memory: memory_of(cluster, policy, partition, spec)?,
        cards: cards_of(spec),
        exclusive: spec.exclusive,
    };
    let time_limit = time_limit_of(policy, partition, &payer, spec)?;
    in_time(context, time_limit, spec)?;
    let shape = Shape {
        partition: partition.name.clone(),
        time_limit,
        time_min: spec.time_min.filter(|least| time_limit.is_none_or(|limit| *least < limit)),
        features: spec.features.clone(),
        nodelist: spec.nodelist.clone(),
        exclude: spec.exclude.clone(),
        licences: access::licences(policy, spec)?,
        reservation: access::reservation(cluster, policy, context, by, &payer, time_limit, spec)?,
        slices_by_memory: partition.slices_by_memory && may_be_slices(&demand.cards, spec),
        demand,
    };
    // What waits already is possible: a script submitted in a loop is looked at once.
    if cluster.queue().shared(&shape).is_none() {
        possible(cluster, policy, &shape)?;
    }
    limits::within(cluster, policy, &shape, &payer, (tasks, context.now))?;
    Ok((shape, payer))
}

/// One wish in one form: none has no words, a profile is in lower case.
fn cards_of(spec: &JobSpec) -> CardAsk {
    let ask = &spec.cards;
    if ask.count == 0 {
        return CardAsk::default();
    }
    if ask.share.is_some() {
        return CardAsk { count: 1, profile: None, memory: None, ..ask.clone() };
    }
    let profile = ask.profile.as_ref().map(|profile| profile.to_ascii_lowercase());
    CardAsk { memory: if profile.is_some() { None } else { ask.memory }, profile, ..ask.clone() }
}

/// Whether the partition lets its jobs share cards, when that is asked for.
fn may_share(policy: &Policy, partition: &Partition, spec: &JobSpec) -> Result<(), Refusal> {
    let Some(memory) = spec.cards.share.filter(|_| spec.cards.count > 0 && !partition.shares) else {
        return Ok(());
    };
    let text = format!("--gpu-share={memory}: jobs of partition {} do not share cards", partition.name);
    let others = policy.partitions.iter().filter(|other| other.shares).map(|other| other.name.as_str());
    let others: Vec<&str> = others.take(MOST_NAMED).collect();
    Err(Refusal::new(RefusalKind::Policy, text).hint(match others.is_empty() {
        true => "gpu_share = true of a [[partition]] of the conf allows it".to_string(),
        false => format!("partitions whose jobs do: {}", others.join(" ")),
    }))
}

/// Whether the partition takes an excuse for idle cards, when one is given. Where nobody looks for them it does no harm.
pub(crate) fn may_be_idle(partition: &Partition, spec: &JobSpec) -> Result<(), Refusal> {
    if spec.idle_ok.is_none() || partition.idle.is_none_or(|idle| idle.may_excuse) {
        return Ok(());
    }
    let text = format!("--idle-ok: partition {} takes no excuse for idle cards", partition.name);
    Err(Refusal::new(RefusalKind::Policy, text)
        .hint("leave it out; idle_ok = true of the [[partition]] of the conf would allow it"))
}

/// Whether cards asked for by memory may be slices: a process can use only one, so there is one, or one for each process.
fn may_be_slices(ask: &CardAsk, spec: &JobSpec) -> bool {
    ask.count > 0
        && ask.memory.is_some()
        && ask.profile.is_none()
        && (ask.count == 1 || ask.count == spec.process_count())
}

fn may_submit(policy: &Policy, by: Actor, spec: &JobSpec) -> Result<(), Refusal> {
    match policy.serves {
        Serves::Only(uid) if uid != by.uid => {
            let text = format!("this queue serves uid {uid} only (personal mode)");
            return Err(Refusal::new(RefusalKind::NotPermitted, text));
        }
        Serves::Everyone if by.uid == Uid(0) => {
            return Err(Refusal::new(RefusalKind::NotPermitted, "root's jobs are not run").hint(
                "submit as an ordinary user; user = \"root\" in the conf makes a personal queue for root",
            ));
        }
        Serves::Only(_) | Serves::Everyone => {}
    }
    if spec.nice < 0 && !by.is_admin() {
        return Err(Refusal::new(RefusalKind::NotPermitted, "--nice below 0 is for admins"));
    }
    bounds::request(spec)?;
    if spec.test_run.is_some() && !policy.allow_test_run {
        return Err(Refusal::new(RefusalKind::Policy, "--test-run is not allowed here")
            .hint("[cluster] allow_test_run = true in the conf allows it"));
    }
    spec.container.as_deref().map_or(Ok(()), |image| may_be_contained(policy, image))
}

/// Whether a script may run in this image, as far as that can be told without it.
fn may_be_contained(policy: &Policy, image: &str) -> Result<(), Refusal> {
    if image.is_empty()
        || image.starts_with('-')
        || image.len() > MAX_IMAGE
        || image.contains(char::is_control)
    {
        let text = format!(
            "--container: the name of an image has 1 to {MAX_IMAGE} bytes, no control characters, and begins with no dash"
        );
        return Err(Refusal::new(RefusalKind::Usage, text));
    }
    if policy.containers {
        return Ok(());
    }
    Err(Refusal::new(RefusalKind::Policy, "--container: nothing here runs scripts in images")
        .hint("an admin says how in [container] of the conf; templates lie in conf/container"))
}

/// Whether a job can end before its deadline at all.
pub(crate) fn in_time(context: &Context, limit: Option<Seconds>, spec: &JobSpec) -> Result<(), Refusal> {
    if let (Some(least), Some(TimeAsk::Limit(limit))) = (spec.time_min, spec.time_limit)
        && least > limit
    {
        let text = format!("--time-min={least}: that is more than --time={limit}");
        return Err(Refusal::new(RefusalKind::Usage, text));
    }
    let Some(deadline) = spec.deadline else { return Ok(()) };
    let begins = spec.begin.map_or(context.now, |at| at.max(context.now));
    let least = spec.time_min.or(limit).unwrap_or(Seconds(1));
    if begins.after(least) <= deadline {
        return Ok(());
    }
    let text = format!("--deadline: with a time limit of {least} it could not end before that");
    Err(Refusal::new(RefusalKind::Policy, text).hint("a shorter --time, or --time-min"))
}

fn partition_of<'a>(policy: &'a Policy, spec: &JobSpec) -> Result<&'a Partition, Refusal> {
    let names = || access::names(policy.partitions.iter().map(|p| p.name.as_str()));
    let partition = match &spec.partition {
        None => policy.partitions.first(),
        Some(name) => policy.partition(name),
    };
    let Some(partition) = partition else {
        let name = spec.partition.as_deref().unwrap_or_default();
        let text = format!("--partition={}: there is no such partition", name.escape_debug());
        return Err(Refusal::new(RefusalKind::Policy, text).hint(format!("partitions here: {}", names())));
    };
    if partition.state.takes() {
        return Ok(partition);
    }
    let text = format!("partition {} is {}: it takes no new jobs", partition.name, partition.state.name());
    Err(Refusal::new(RefusalKind::Policy, text))
}

fn time_limit_of(
    policy: &Policy,
    partition: &Partition,
    payer: &Payer,
    spec: &JobSpec,
) -> Result<Option<Seconds>, Refusal> {
    let most = longest(policy, partition, payer);
    match (spec.time_limit, most) {
        (Some(TimeAsk::Limit(asked)), Some((most, whose))) if asked > most => {
            let text = format!("--time={asked}: {whose} allows {most} at most");
            Err(Refusal::new(RefusalKind::Policy, text))
        }
        (Some(TimeAsk::Limit(asked)), _) => Ok(Some(asked)),
        (Some(TimeAsk::Longest), most) => Ok(most.map(|(most, _)| most)),
        (None, most) => {
            let most = most.map(|(most, _)| most);
            let default = partition.default_time.map(|time| most.map_or(time, |most| time.min(most)));
            Ok(default.or(most))
        }
    }
}

/// How long a job may run at the most, and who says so; none when nobody does.
pub(crate) fn longest(policy: &Policy, partition: &Partition, payer: &Payer) -> Option<(Seconds, String)> {
    let by_partition = partition.max_time.map(|most| (most, format!("partition {}", partition.name)));
    let qos = payer.qos.as_deref().and_then(|name| policy.qos(name));
    let by_qos = qos.and_then(|qos| Some((qos.max_time?, format!("QOS {}", qos.name))));
    by_partition.into_iter().chain(by_qos).min_by_key(|(most, _)| *most)
}

fn memory_of(
    cluster: &Cluster,
    policy: &Policy,
    partition: &Partition,
    spec: &JobSpec,
) -> Result<Memory, Refusal> {
    let cpus = u64::from(spec.cpus());
    Ok(Memory::Amount(match spec.memory {
        MemoryAsk::WholeNode => return Ok(Memory::WholeNode),
        MemoryAsk::PerNode(amount) => amount,
        MemoryAsk::PerCpu(amount) => amount.saturating_mul(cpus),
        MemoryAsk::PerCard(amount) if spec.cards.count == 0 => {
            let text = format!("--mem-per-gpu={amount}: the job asks for no card");
            return Err(Refusal::new(RefusalKind::Usage, text).hint("add --gpus=N, or use --mem"));
        }
        MemoryAsk::PerCard(amount) => amount.saturating_mul(u64::from(spec.cards.count)),
        MemoryAsk::Default => default_per_cpu(cluster, policy, partition).saturating_mul(cpus),
    }))
}

/// Memory divided by cpus, the least of the partition's nodes, unless the conf says another amount.
fn default_per_cpu(cluster: &Cluster, policy: &Policy, partition: &Partition) -> MiB {
    let share = |node: &Node| MiB(node.memory.0.checked_div(u64::from(node.cpus)).unwrap_or(0));
    policy.default_mem_per_cpu.unwrap_or_else(|| {
        let known =
            cluster.nodes().filter(|node| partition.has(&node.name) && node.cpus > 0 && node.memory > MiB(0));
        known.map(|node| share(node)).min().unwrap_or_default()
    })
}
