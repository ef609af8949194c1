//! The forecast: plays the plan forward from the state as it is, every run to its time limit and nobody new, so that every waiting job has
//! an expected start, also far down the queue. The very planner decides; nothing here does.
//!
//! Cost: a pass for every moment at which something ends; with many jobs, moments far away are taken together.

use crate::{
    keep::earliest,
    limits::More,
    memo::learn,
    pass::{FORESEEN, Pass},
    planner::Planner,
};
use alloc::{
    boxed::Box,
    collections::{BTreeMap, BinaryHeap},
    string::String,
    sync::Arc,
};
use core::cmp::Reverse;
use gq_cluster::{Cluster, Event, NewJob, Next, Payer, Policy, Shape, Stopping};
use gq_model::{
    BootId, End, IndexSet, JobId, JobSpec, NodeName, Outcome, Reason, RunKey, Seconds, TaskIndex, Timestamp,
    Token,
};

/// Further than this nothing is foreseen.
const HORIZON: Seconds = Seconds(20 * 365 * 86_400);
/// Most moments that are looked at.
const MOST_MOMENTS: u32 = 4_000_000;
/// Most starts that are foreseen: of an array of a million tasks not all are.
const MOST_STARTS: u32 = 200_000;
/// Most passes at one moment.
const MOST_AT_ONCE: u32 = 16;

/// When and where waiting jobs are expected to start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// As of when.
    pub at: Timestamp,
    /// The first task of each job that is expected to start at all: when and where.
    pub starts: BTreeMap<JobId, (Timestamp, NodeName)>,
}

/// When a run is over.
type Ending = Reverse<(Timestamp, RunKey)>;

/// With more jobs waiting, a start is estimated without playing the plan forward.
const FEW: usize = 500;
/// With more jobs waiting, ends that are far away are taken together.
const MANY: usize = 5_000;

/// How exactly ends are foreseen.
#[derive(Clone, Copy)]
struct Sight {
    now: Timestamp,
    exact: bool,
}

impl Sight {
    /// When a run that is over at `end` is taken to be: with many jobs the nearest of 32 moments in every doubling of the time from now,
    /// one part in 64 away at most. What comes near is seen more exactly.
    fn of(self, end: Timestamp) -> Timestamp {
        let away = end.micros_since(self.now).div_ceil(1_000_000).max(1);
        if self.exact {
            return end.max(self.now.after(Seconds(1)));
        }
        let step = 1u64 << away.ilog2().saturating_sub(5);
        self.now.after(Seconds((away + step / 2) / step * step))
    }
}

/// Plays the plan forward until nothing waits any more, or nothing more can start.
///
/// `planner`: the one that plans for the cluster, so that the reservations it has made stay.
pub fn forecast(cluster: &Cluster, policy: &Policy, planner: &Planner, now: Timestamp) -> Forecast {
    play(cluster.clone(), policy, planner.clone(), now, None)
}

/// `until`: nothing is played beyond the start of this job.
fn play(
    mut world: Cluster,
    policy: &Policy,
    mut planner: Planner,
    now: Timestamp,
    until: Option<JobId>,
) -> Forecast {
    let mut found = Forecast { at: now, ..Forecast::default() };
    let sight = Sight { now, exact: world.queue().len() <= MANY };
    let run = |job: JobId, task: TaskIndex| world.job(job)?.run_key(task);
    let ends = world.nodes().flat_map(|node| node.ends());
    let mut endings: BinaryHeap<Ending> =
        ends.filter_map(|((end, job, task), _)| Some(Reverse((sight.of(*end), run(*job, *task)?)))).collect();
    let (mut time, mut again_at_once, mut begun) = (now, 0, 0u32);
    for _ in 0..MOST_MOMENTS {
        let ripe: alloc::vec::Vec<JobId> = world.queue().ripe(time).collect();
        for job in ripe {
            let _ = world.apply(&Event::Ripened { job, at: time });
        }
        let plan = planner.plan(&world, policy, time);
        for start in plan.starts {
            let Some(ending) = begin(&mut world, start, time, sight, &mut found) else { return found };
            endings.push(ending);
            begun += 1;
        }
        if begun > MOST_STARTS {
            break;
        }
        for victim in plan.preempt {
            let due = time.after(victim.grace);
            let why = Stopping::Preempt { again: victim.again, due, ordered: true };
            if world.apply(&Event::Stopped { key: victim.key, why, by: None }).is_ok() {
                endings.push(Reverse((due.max(time.after(Seconds(1))), victim.key)));
            }
        }
        if until.is_some_and(|job| found.starts.contains_key(&job)) {
            break;
        }
        // What the plan wants to look at again at once is looked at again; not for ever.
        if plan.outlook.look_again.is_some_and(|at| at <= time) && again_at_once < MOST_AT_ONCE {
            again_at_once += 1;
            continue;
        }
        again_at_once = 0;
        if world.queue().is_empty() && world.queue().next_ripe().is_none() {
            break;
        }
        let ending = endings.peek().map(|Reverse((at, _))| *at);
        let ripe = world.queue().next_ripe().map(|(at, _)| at);
        let again = plan.outlook.look_again.filter(|at| *at > time);
        let Some(next) = ending.into_iter().chain(ripe).chain(again).min() else { break };
        if next > now.after(HORIZON) {
            break;
        }
        time = next.max(time);
        while let Some(Reverse((at, key))) = endings.peek().copied()
            && at <= time
        {
            endings.pop();
            end(&mut world, key, time);
        }
    }
    found
}

/// Starts a task in the world that is played. None when the world is not as the plan saw it: then nothing more can be foreseen.
fn begin(
    world: &mut Cluster,
    start: crate::Start,
    time: Timestamp,
    sight: Sight,
    found: &mut Forecast,
) -> Option<Ending> {
    let job = world.job(start.job)?;
    let key = RunKey { job: start.job, task: start.task, run: job.next_run(start.task) };
    let boot = world.node(&start.node)?.boot.unwrap_or(BootId::default());
    if time < found.at.after(FORESEEN) {
        found.starts.entry(start.job).or_insert_with(|| (time, start.node.clone()));
    }
    let event = Event::Allocated {
        key,
        node: start.node,
        boot,
        node_id: None,
        lease: None,
        cpus: start.cpus,
        memory: start.memory,
        cards: start.cards,
        exclusive: start.exclusive,
        rate: start.rate,
        price: None,
        promised: None,
        own_limit: start.limit,
        at: time,
    };
    world.apply(&event).ok()?;
    let run = world.job(start.job)?.runs.get(&start.task)?;
    let until = world.node(&run.node)?.hold_of(start.job, start.task)?.until;
    Some(Reverse((sight.of(until).max(time.after(Seconds(1))), key)))
}

/// Ends a run in the world that is played, as if it had run to its limit; nothing if it is over already.
fn end(world: &mut Cluster, key: RunKey, time: Timestamp) {
    let Some(run) = world.job(key.job).and_then(|job| job.runs.get(&key.task)) else { return };
    if run.number != key.run {
        return;
    }
    let again = run.stopping.is_some_and(|why| match why {
        Stopping::Requeue | Stopping::RequeueHold(_) => true,
        Stopping::Preempt { again, .. } | Stopping::Idle { again } => again,
        Stopping::Cancel => false,
    });
    let next = if again {
        Next::Again { not_before: None, site_fault: false, retry: false, held: None }
    } else {
        Next::Over
    };
    let outcome = Outcome::without_exit(End::Completed, Reason::None, String::new());
    let _ = world.apply(&Event::RunEnded { key, outcome, started: None, at: time, next });
}

/// When and where a job of this shape would start if it were submitted now, behind what runs, starts and is reserved for.
///
/// `planner`: the one that plans for the cluster. `not_before`: its begin time. With few jobs waiting the plan is played forward until it starts; with many it is looked where it would be
/// reserved for. Returns `None` when that is not known: its nodes are away, a limit keeps it from starting, or nothing there ever ends.
pub fn estimate(
    cluster: &Cluster,
    policy: &Policy,
    planner: &Planner,
    now: Timestamp,
    (shape, payer): (&Shape, &Payer),
    not_before: Option<Timestamp>,
) -> Option<(NodeName, Timestamp)> {
    if cluster.queue().len() <= FEW {
        let id = JobId(cluster.last_job().0.saturating_add(1));
        let mut world = cluster.clone();
        world.apply(&Event::Submitted(Box::new(imagined(id, shape, payer, now, not_before)))).ok()?;
        let (at, node) = play(world, policy, planner.clone(), now, Some(id)).starts.remove(&id)?;
        return (at < now.after(FORESEEN)).then_some((node, at));
    }
    let mut planner = planner.clone();
    planner.catch_up(cluster, policy, now);
    let mut pass = Pass::begin(&mut planner, cluster, policy, now);
    pass.walk();
    if pass.bounds.reached(payer, More::of(shape)).is_some() {
        return None;
    }
    let known = learn(pass.ground.seats, cluster, policy, shape);
    let (at, spot) = earliest(&mut pass.ground, &pass.licences, &known, shape)?;
    let seat = pass.ground.seats.get(spot.seat)?;
    let at = not_before.map_or(at, |begin| at.max(begin));
    (at < now.after(FORESEEN)).then_some((pass.ground.node(seat)?.name.clone(), at))
}

/// A job that is only thought of.
fn imagined(
    id: JobId,
    shape: &Shape,
    payer: &Payer,
    now: Timestamp,
    not_before: Option<Timestamp>,
) -> NewJob {
    NewJob {
        id,
        uid: payer.uid,
        user: String::new(),
        token: Token::default(),
        spec: Arc::new(JobSpec::default()),
        job_file: String::new(),
        sha256: String::new(),
        at: now,
        shape: Arc::new(shape.clone()),
        payer: Arc::new(payer.clone()),
        priority: 0,
        held: None,
        not_before: not_before.filter(|at| *at > now),
        array: false,
        at_once: None,
        waits: None,
        main: None,
        tasks: IndexSet::range(0, 0),
    }
}
