//! Admission: is a request taken, and as what: partition, time limit, memory and priority are fixed here. A request is refused
//! as impossible only when no declared or ever-seen node could meet it.

use crate::{Actor, Answer, ClientId, Context, Decision, Effect, Refusal, RefusalKind, Submission};
use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};
use gq_cluster::{Cluster, Demand, Event, HeldBy, Memory, NewJob, Node, Partition, Policy, Serves, Shape};
use gq_model::{IndexSet, JobId, JobSpec, MAX_NAME, MemoryAsk, MiB, Uid};
use gq_sched::{could_ever, eligible_by_name, estimate};

pub(crate) fn submit(
    cluster: &Cluster,
    policy: &Policy,
    context: &Context,
    client: Option<ClientId>,
    submission: &Submission,
    known: Option<(JobId, Uid)>,
) -> Decision {
    let answer = match known {
        Some((job, owner)) if owner == submission.by.uid => Answer::Submitted(job),
        Some(_) => Answer::Refused(
            Refusal::new(RefusalKind::NotPermitted, "this token belongs to another user")
                .hint("submit again with a new token"),
        ),
        None => match admit(cluster, policy, context, submission) {
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
    decision.effects.push(Effect::Discard { drop_name: submission.drop_name.clone(), why });
    decision
}

pub(crate) fn test_only(
    cluster: &Cluster,
    policy: &Policy,
    context: &Context,
    client: ClientId,
    by: Actor,
    spec: &JobSpec,
) -> Decision {
    let answer = match shape_of(cluster, policy, by, spec) {
        Ok(shape) => Answer::Tested {
            start: estimate(cluster, policy, context.now, &shape),
            cpus: shape.demand.cpus,
            partition: shape.partition,
        },
        Err(refusal) => Answer::Refused(refusal),
    };
    Decision::reply(client, answer)
}

fn admit(
    cluster: &Cluster,
    policy: &Policy,
    context: &Context,
    submission: &Submission,
) -> Result<NewJob, Refusal> {
    let spec = &submission.spec;
    let shape = shape_of(cluster, policy, submission.by, spec)?;
    if cluster.job_count() as u64 >= policy.max_job_count {
        let text = format!("the queue is full: {} jobs live, no more are taken", cluster.job_count());
        return Err(Refusal::new(RefusalKind::Policy, text).hint("[scheduler] max_job_count bounds them"));
    }
    let partition_priority = policy.partition(&shape.partition).map_or(0, |p| p.priority);
    let id = JobId(cluster.last_job().0.saturating_add(1));
    Ok(NewJob {
        id,
        uid: submission.by.uid,
        user: submission.user.clone(),
        token: submission.token,
        spec: shared_spec(cluster, &shape, spec),
        job_file: format!("jobs/{:02x}/{id}.job", context.shard),
        sha256: submission.sha256.clone(),
        at: context.now,
        shape: interned(cluster, shape),
        priority: partition_priority.saturating_sub(i64::from(spec.nice)),
        held: spec.hold.then_some(HeldBy::User),
        not_before: spec.begin.filter(|at| *at > context.now),
        array: false,
        tasks: IndexSet::range(0, 0),
    })
}

/// The request of the last job in line of this shape, when it is the same word for word: a script submitted in a loop is kept once.
fn shared_spec(cluster: &Cluster, shape: &Shape, spec: &Arc<JobSpec>) -> Arc<JobSpec> {
    let last = cluster.queue().last(shape).and_then(|id| cluster.job(id));
    Arc::clone(last.map(|job| &job.spec).filter(|last| *last == spec).unwrap_or(spec))
}

/// The shape that waiting jobs share already, when there is one: ten thousand jobs of one shape keep one.
fn interned(cluster: &Cluster, shape: Shape) -> Arc<Shape> {
    cluster.queue().shared(&shape).unwrap_or_else(|| Arc::new(shape))
}

fn shape_of(cluster: &Cluster, policy: &Policy, by: Actor, spec: &JobSpec) -> Result<Shape, Refusal> {
    may_submit(policy, by, spec)?;
    let partition = partition_of(policy, spec)?;
    let time_limit = time_limit_of(partition, spec)?;
    let cpus = spec.cpus();
    let memory = memory_of(cluster, policy, partition, spec)?;
    let demand = Demand { cpus, memory, cards: spec.cards.clone(), exclusive: spec.exclusive };
    let shape = Shape {
        partition: partition.name.clone(),
        demand,
        time_limit,
        features: spec.features.clone(),
        nodelist: spec.nodelist.clone(),
        exclude: spec.exclude.clone(),
    };
    possible(cluster, policy, &shape)?;
    Ok(shape)
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
    if spec.nice < 0 && !by.admin {
        return Err(Refusal::new(RefusalKind::NotPermitted, "--nice below 0 is for admins"));
    }
    let bad = |c: char| c.is_control();
    if spec.name.len() > MAX_NAME
        || spec.name.chars().any(bad)
        || spec.comment.as_ref().is_some_and(|c| c.chars().any(bad))
    {
        let text = format!(
            "a job's name has at most {MAX_NAME} bytes, and no control characters; a comment neither"
        );
        return Err(Refusal::new(RefusalKind::Usage, text));
    }
    if !spec.work_dir.starts_with('/') {
        return Err(Refusal::new(RefusalKind::Usage, "the working directory is not an absolute path"));
    }
    if spec.test_run.is_some() && !policy.allow_test_run {
        return Err(Refusal::new(RefusalKind::Policy, "--test-run is not allowed here")
            .hint("[cluster] allow_test_run = true in the conf allows it"));
    }
    Ok(())
}

fn partition_of<'a>(policy: &'a Policy, spec: &JobSpec) -> Result<&'a Partition, Refusal> {
    let names = || policy.partitions.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(" ");
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

fn time_limit_of(partition: &Partition, spec: &JobSpec) -> Result<Option<gq_model::Seconds>, Refusal> {
    let asked = spec.time_limit;
    if let (Some(asked), Some(most)) = (asked, partition.max_time)
        && asked > most
    {
        let text = format!("--time={asked}: partition {} allows {most} at most", partition.name);
        return Err(Refusal::new(RefusalKind::Policy, text));
    }
    Ok(asked.or(partition.default_time).or(partition.max_time))
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

/// Whether some declared or ever-seen node could meet it; if none could, says what there is. A partition none of whose nodes is
/// known yet refuses nothing.
fn possible(cluster: &Cluster, policy: &Policy, shape: &Shape) -> Result<(), Refusal> {
    let in_partition = |node: &Node| policy.partition(&shape.partition).is_some_and(|p| p.has(&node.name));
    let nodes: Vec<&Node> = cluster.nodes().map(|node| &**node).filter(|node| in_partition(node)).collect();
    // A node that is declared without its size, and was never seen, may have anything.
    let unknown = |node: &&Node| node.boot.is_none() && (node.cpus == 0 || node.memory == MiB(0));
    if nodes.is_empty() || nodes.iter().any(|node| unknown(node) && eligible_by_name(shape, node, policy)) {
        return Ok(());
    }
    let fits = |node: &&Node| {
        eligible_by_name(shape, node, policy) && could_ever(shape, node.cpus, node.memory, &node.cards)
    };
    if nodes.iter().any(fits) {
        return Ok(());
    }
    let text = format!("no node of partition {} could ever run this: {}", shape.partition, wish(shape));
    Err(Refusal::new(RefusalKind::Policy, text).hint(format!("what there is: {}", offer(&nodes))))
}

fn wish(shape: &Shape) -> String {
    let demand = &shape.demand;
    let mut parts = alloc::vec![counted(demand.cpus, "cpu")];
    if let Memory::Amount(amount) = demand.memory {
        parts.push(format!("{amount} of memory"));
    }
    if demand.cards.count > 0 {
        let model =
            demand.cards.model.as_deref().map(|m| format!(" {}", m.escape_debug())).unwrap_or_default();
        let least = demand.cards.memory.map(|m| format!(" with at least {m}")).unwrap_or_default();
        let cards = counted(demand.cards.count, &format!("whole{model} card"));
        parts.push(format!("{cards}{least}"));
    }
    if !shape.features.is_empty() {
        parts.push(format!("features {}", shape.features.join("&").escape_debug()));
    }
    if !shape.nodelist.is_empty() {
        parts.push(format!("on {}", gq_model::compress_hosts(&shape.nodelist)));
    }
    if !shape.exclude.is_empty() {
        parts.push(format!("not on {}", gq_model::compress_hosts(&shape.exclude)));
    }
    format!("{} on one node", parts.join(", "))
}

/// `1 cpu`, `2 cpus`.
fn counted(count: u32, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// What nodes have, each kind once: `ws[1-2]: 32 cpus, 256G, 2 A100-SXM4-80GB (80G)`.
fn offer(nodes: &[&Node]) -> String {
    let mut kinds: Vec<(String, Vec<&gq_model::NodeName>)> = Vec::new();
    for node in nodes {
        let mut cards: Vec<(String, u32)> = Vec::new();
        for card in node.cards.iter().filter(|card| !card.mig) {
            let kind = format!("{} ({})", card.model.escape_debug(), card.memory);
            match cards.iter_mut().find(|(k, _)| *k == kind) {
                Some((_, count)) => *count = count.saturating_add(1),
                None => cards.push((kind, 1)),
            }
        }
        let mut words = format!("{}, {}", counted(node.cpus, "cpu"), node.memory);
        for (kind, count) in cards {
            words.push_str(&format!(", {count} {kind}"));
        }
        if !node.features.is_empty() {
            words.push_str(&format!(", features {}", node.features.join(" ").escape_debug()));
        }
        match kinds.iter_mut().find(|(k, _)| *k == words) {
            Some((_, names)) => names.push(&node.name),
            None => kinds.push((words, alloc::vec![&node.name])),
        }
    }
    let lines = kinds.into_iter().take(8);
    lines
        .map(|(words, names)| format!("{}: {words}", gq_model::compress_hosts(names)))
        .collect::<Vec<_>>()
        .join("; ")
}
