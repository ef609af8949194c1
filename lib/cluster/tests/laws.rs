//! Laws of the state, over random legal histories: it never contradicts itself, it can be had again from its rows and from its
//! events, and an event that it does not allow is refused.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

use gq_cluster::{
    Cluster, Demand, Event, HeldBy, Job, Link, Memory, NewJob, Next, Node, Place, Shape, Stopping,
};
use gq_model::{
    BootId, Card, CardAsk, CardUse, End, Epoch, IndexSet, JobId, JobSpec, MiB, NodeName, Outcome, Reason,
    RunKey, RunNumber, Seconds, Seq, TaskIndex, Timestamp, Token, Uid,
};
use proptest::prelude::*;
use std::sync::Arc;

const NODES: u8 = 3;

/// What happens next; `pick` chooses among what it can happen to.
#[derive(Clone, Debug)]
enum Move {
    Submit { tasks: u32, shape: u8, held: bool, later: bool },
    Allocate { pick: u8, node: u8, cpus: u32, cards: usize, exclusive: bool },
    Start { pick: u8 },
    Exit { pick: u8 },
    Stop { pick: u8, requeue: bool },
    EndRun { pick: u8, again: bool, site: bool, code: u8 },
    EndTasks { pick: u8, most: usize },
    Hold { pick: u8, admin: bool },
    Release { pick: u8 },
    Ripen { pick: u8 },
    Find { node: u8, cpus: u32 },
    See { node: u8, link: u8 },
    Drain { node: u8, on: bool },
    Order { node: u8 },
    Report { node: u8, new_life: bool },
}

fn a_move() -> impl Strategy<Value = Move> {
    use any as a;
    prop_oneof![
        4 => (1..5u32, 0..4u8, a::<bool>(), a::<bool>())
            .prop_map(|(tasks, shape, h, l)| Move::Submit { tasks, shape, held: h && l, later: l && !h }),
        8 => (a::<u8>(), 0..NODES, 0..5u32, 0..3usize, prop::bool::weighted(0.1))
            .prop_map(|(pick, node, cpus, cards, exclusive)| Move::Allocate { pick, node, cpus, cards, exclusive }),
        4 => a::<u8>().prop_map(|pick| Move::Start { pick }),
        2 => a::<u8>().prop_map(|pick| Move::Exit { pick }),
        2 => (a::<u8>(), a::<bool>()).prop_map(|(pick, requeue)| Move::Stop { pick, requeue }),
        4 => (a::<u8>(), a::<bool>(), a::<bool>(), 0..3u8)
            .prop_map(|(pick, again, site, code)| Move::EndRun { pick, again, site, code }),
        1 => (a::<u8>(), 1..4usize).prop_map(|(pick, most)| Move::EndTasks { pick, most }),
        1 => (a::<u8>(), a::<bool>()).prop_map(|(pick, admin)| Move::Hold { pick, admin }),
        2 => a::<u8>().prop_map(|pick| Move::Release { pick }),
        2 => a::<u8>().prop_map(|pick| Move::Ripen { pick }),
        3 => (0..NODES, 1..17u32).prop_map(|(node, cpus)| Move::Find { node, cpus }),
        3 => (0..NODES, 0..5u8).prop_map(|(node, link)| Move::See { node, link }),
        1 => (0..NODES, a::<bool>()).prop_map(|(node, on)| Move::Drain { node, on }),
        2 => (0..NODES).prop_map(|node| Move::Order { node }),
        2 => (0..NODES, a::<bool>()).prop_map(|(node, new_life)| Move::Report { node, new_life }),
    ]
}

fn spec() -> Arc<JobSpec> {
    serde_json::from_str(r#"{"name":"sim","work_dir":"/","umask":18}"#).unwrap()
}

fn name(node: u8) -> NodeName {
    format!("ws{node}").parse().unwrap()
}

fn card(index: u32) -> Card {
    let text =
        format!(r#"{{"index":{index},"model":"A100","memory":{}}}"#, 40_960 * (1 + u64::from(index % 2)));
    serde_json::from_str(&text).unwrap()
}

fn shape(kind: u8) -> Arc<Shape> {
    let demand = Demand {
        cpus: u32::from(kind) + 1,
        memory: Memory::Amount(MiB(64)),
        cards: CardAsk::default(),
        exclusive: false,
    };
    let time_limit = Some(Seconds(60));
    let (features, nodelist, exclude) = (Vec::new(), Vec::new(), Vec::new());
    Arc::new(Shape { partition: "main".into(), demand, time_limit, features, nodelist, exclude })
}

fn picked<T>(all: Vec<T>, pick: u8) -> Option<T> {
    let at = usize::from(pick).checked_rem(all.len())?;
    all.into_iter().nth(at)
}

fn live_runs(cluster: &Cluster) -> Vec<RunKey> {
    cluster.jobs().flat_map(|job| job.runs.keys().filter_map(|task| job.run_key(*task))).collect()
}

fn some_job(cluster: &Cluster, pick: u8, fits: impl Fn(&Job) -> bool) -> Option<JobId> {
    picked(cluster.jobs().filter(|job| fits(job)).map(|job| job.id).collect(), pick)
}

fn outcome(code: u8) -> Outcome {
    let end = if code == 0 { End::Completed } else { End::Failed };
    Outcome { end, reason: Reason::None, exit_code: Some(code), signal: None, detail: String::new() }
}

/// A history in the making: the state, its events, the time.
#[derive(Default)]
struct History {
    cluster: Cluster,
    events: Vec<Event>,
    clock: i64,
}

impl History {
    /// The legal event that `step` makes of the state; none when it can happen to nothing.
    fn event(&self, step: &Move) -> Option<Event> {
        let (cluster, at) = (&self.cluster, Timestamp(self.clock));
        let waits = |job: &Job| !job.waiting.is_empty();
        Some(match *step {
            Move::Submit { tasks, shape: kind, held, later } => Event::Submitted(Box::new(NewJob {
                id: JobId(cluster.last_job().0 + 1 + u64::from(kind == 3)),
                uid: Uid(1000),
                user: "ann".into(),
                token: Token([kind; 16]),
                spec: spec(),
                job_file: "jobs/00/1.job".into(),
                sha256: "00".into(),
                at,
                shape: shape(kind),
                priority: i64::from(kind % 2),
                held: held.then_some(HeldBy::User),
                not_before: later.then(|| at.after(Seconds(5))),
                array: tasks > 1,
                tasks: IndexSet::range(0, tasks - 1),
            })),
            Move::Allocate { pick, node, cpus, cards, exclusive } => {
                let id = some_job(cluster, pick, Job::is_eligible)?;
                let job = cluster.job(id)?;
                let task = TaskIndex(job.waiting.first()?);
                let node = cluster.node(&name(node)).filter(|node| node.is_open())?;
                let alone = node.held_alone_by().is_some() || (exclusive && !node.runs().is_empty());
                let free: Vec<CardUse> = (node.cards.iter().filter(|c| node.holder(c.index).is_none()))
                    .map(|c| CardUse { index: c.index, uuid: None, slice: None, placement: None })
                    .take(cards)
                    .collect();
                if alone || cpus > node.cpus_free() {
                    return None;
                }
                let key = RunKey { job: id, task, run: job.next_run(task) };
                let (node, boot) = (node.name.clone(), node.boot?);
                Event::Allocated { key, node, boot, cpus, memory: MiB(64), cards: free, exclusive, at }
            }
            Move::Start { pick } => Event::Started { key: picked(live_runs(cluster), pick)?, at },
            Move::Exit { pick } => Event::Exited { key: picked(live_runs(cluster), pick)?, at },
            Move::Stop { pick, requeue } => {
                let why = if requeue { Stopping::Requeue } else { Stopping::Cancel };
                Event::Stopped { key: picked(live_runs(cluster), pick)?, why, by: Uid(1000) }
            }
            Move::EndRun { pick, again, site, code } => {
                let not_before = site.then(|| at.after(Seconds(2)));
                let held = (code == 2).then_some(HeldBy::Admin);
                let next =
                    if again { Next::Again { not_before, site_fault: site, held } } else { Next::Over };
                let key = picked(live_runs(cluster), pick)?;
                Event::RunEnded { key, outcome: outcome(code), started: None, at, next }
            }
            Move::EndTasks { pick, most } => {
                let job = some_job(cluster, pick, waits)?;
                let tasks = cluster.job(job)?.waiting.iter().take(most).collect();
                Event::TasksEnded { job, tasks, outcome: outcome(1), at }
            }
            Move::Hold { pick, admin } => {
                let by = if admin { HeldBy::Admin } else { HeldBy::User };
                Event::Held { job: some_job(cluster, pick, |_| true)?, by }
            }
            Move::Release { pick } => Event::Released { job: some_job(cluster, pick, |_| true)? },
            Move::Ripen { pick } => Event::Ripened { job: some_job(cluster, pick, |_| true)? },
            Move::Find { node, cpus } => Event::NodeFound {
                node: name(node),
                boot: (cpus != 7).then_some(BootId([node; 16])),
                cpus,
                memory: MiB(65_536),
                features: Vec::new(),
                cards: (0..u32::from(node) * 2).map(card).collect(),
            },
            Move::See { node, link } => {
                let node = cluster.node(&name(node)).filter(|node| node.boot.is_some())?.name.clone();
                let link = match link {
                    0 => Link::Suspect { since: at },
                    1 => Link::Lost { since: at },
                    _ => Link::Up,
                };
                Event::NodeSeen { node, link }
            }
            Move::Drain { node, on } => {
                let node = cluster.node(&name(node))?.name.clone();
                if on {
                    Event::NodeDrained { node, reason: "fan".into() }
                } else {
                    Event::NodeResumed { node }
                }
            }
            Move::Order { node } => {
                let node = cluster.node(&name(node))?;
                Event::Ordered { node: node.name.clone(), seq: Seq(node.last_order.0 + 1) }
            }
            Move::Report { node, new_life } => {
                let node = cluster.node(&name(node))?;
                let (epoch, seq) = match new_life {
                    true => (Epoch(node.epoch.0 + 1), Seq(1)),
                    false => (node.epoch, Seq(node.last_report.0 + 1)),
                };
                Event::Reported { node: node.name.clone(), epoch, seq }
            }
        })
    }

    fn of(moves: &[Move]) -> Result<Self, TestCaseError> {
        let mut history = Self::default();
        for step in moves {
            history.clock += 1_000_000;
            let Some(event) = history.event(step) else { continue };
            let applied = history.cluster.apply(&event);
            prop_assert!(applied.is_ok(), "{applied:?} of {event:?}");
            let checked = history.cluster.check();
            prop_assert!(checked.is_ok(), "{checked:?} after {event:?}");
            history.events.push(event);
        }
        Ok(history)
    }
}

type Queued = (Vec<(Shape, Vec<Place>)>, usize, Option<(Timestamp, JobId)>, Vec<JobId>);

fn queued(cluster: &Cluster) -> Queued {
    let queue = cluster.queue();
    let shapes = queue.shapes().map(|(shape, places)| ((**shape).clone(), places.iter().copied().collect()));
    (shapes.collect(), queue.len(), queue.next_ripe(), queue.ripe(Timestamp::NEVER).collect())
}

fn assert_same(a: &Cluster, b: &Cluster) -> Result<(), TestCaseError> {
    prop_assert!(a.jobs().eq(b.jobs()), "the jobs differ");
    prop_assert!(a.nodes().eq(b.nodes()), "the nodes, or what is held of them, differ");
    prop_assert_eq!(queued(a), queued(b));
    prop_assert_eq!(a.last_job(), b.last_job());
    Ok(())
}

/// Through the words that are kept on disk, and back.
fn on_disk<T: serde::Serialize + serde::de::DeserializeOwned>(row: &T) -> T {
    serde_json::from_str(&serde_json::to_string(row).unwrap()).unwrap()
}

proptest! {
    #[test]
    fn the_state_is_had_again_from_its_rows_and_from_its_events(moves in prop::collection::vec(a_move(), 1..160)) {
        let history = History::of(&moves)?;
        let live = &history.cluster;

        let jobs: Vec<Job> = live.jobs().map(|job| on_disk(&**job)).collect();
        let nodes: Vec<Node> = live.nodes().map(|node| on_disk(&**node)).collect();
        let restored = Cluster::restore(live.last_job(), jobs, nodes);
        prop_assert!(restored.is_ok(), "{restored:?}");
        assert_same(live, &restored.unwrap())?;

        let mut folded = Cluster::default();
        for event in &history.events {
            prop_assert!(folded.apply(&on_disk(event)).is_ok());
        }
        assert_same(live, &folded)?;
    }

    #[test]
    fn the_events_of_a_job_give_its_row(moves in prop::collection::vec(a_move(), 1..120)) {
        let history = History::of(&moves)?;
        for job in history.cluster.jobs() {
            let mut alone = Cluster::default();
            let its_own = |event: &&Event| event.job().is_none_or(|id| id == job.id);
            for event in history.events.iter().filter(its_own) {
                prop_assert!(alone.apply(event).is_ok());
            }
            prop_assert_eq!(alone.job(job.id), Some(job));
        }
    }

    #[test]
    fn what_the_state_does_not_allow_is_refused(moves in prop::collection::vec(a_move(), 1..120)) {
        let history = History::of(&moves)?;
        for event in illegal(&history.cluster) {
            let mut cluster = history.cluster.clone();
            prop_assert!(cluster.apply(&event).is_err(), "{event:?} was let through");
        }
        // What has happened does not happen again.
        for event in &history.events {
            let once = matches!(
                event,
                Event::Submitted(_) | Event::Allocated { .. } | Event::RunEnded { .. } | Event::TasksEnded { .. }
                    | Event::Ordered { .. } | Event::Reported { .. }
            );
            if once {
                let mut cluster = history.cluster.clone();
                prop_assert!(cluster.apply(event).is_err(), "{event:?} happened twice");
            }
        }
    }
}

/// Events that contradict the state, one of each kind that it has something to contradict.
fn illegal(cluster: &Cluster) -> Vec<Event> {
    let at = Timestamp(0);
    let nobody = JobId(cluster.last_job().0 + 1);
    let mut events = vec![
        Event::Held { job: nobody, by: HeldBy::User },
        Event::Released { job: nobody },
        Event::Ripened { job: nobody },
        Event::TasksEnded { job: nobody, tasks: IndexSet::range(0, 0), outcome: outcome(0), at },
        Event::NodeSeen { node: name(99), link: Link::Up },
        Event::Ordered { node: name(99), seq: Seq(1) },
    ];
    for key in live_runs(cluster) {
        let later = RunKey { run: RunNumber(key.run.0 + 1), ..key };
        let tasks = IndexSet::range(key.task.0, key.task.0);
        events.push(Event::Started { key: later, at });
        events.push(Event::Exited { key: later, at });
        events.push(Event::Stopped { key: later, why: Stopping::Cancel, by: Uid(0) });
        events.push(Event::RunEnded { key: later, outcome: outcome(0), started: None, at, next: Next::Over });
        events.push(Event::TasksEnded { job: key.job, tasks, outcome: outcome(0), at });
    }
    for job in cluster.jobs() {
        let Some(task) = job.waiting.first().map(TaskIndex) else { continue };
        let key = RunKey { job: job.id, task, run: job.next_run(task) };
        for node in cluster.nodes() {
            let give = |key: RunKey, exclusive: bool, cards: Vec<CardUse>| Event::Allocated {
                key,
                node: node.name.clone(),
                boot: BootId([0; 16]),
                cpus: 0,
                memory: MiB(0),
                cards,
                exclusive,
                at,
            };
            events.push(give(RunKey { run: RunNumber(key.run.0 + 1), ..key }, false, Vec::new()));
            events.push(give(RunKey { run: RunNumber(0), ..key }, false, Vec::new()));
            events.push(give(RunKey { task: TaskIndex(77), ..key }, false, Vec::new()));
            let held = node.cards.iter().find(|card| node.holder(card.index).is_some());
            if let Some(card) = held {
                let held = CardUse { index: card.index, uuid: None, slice: None, placement: None };
                events.push(give(key, false, vec![held]));
            }
            if !node.runs().is_empty() {
                events.push(give(key, true, Vec::new()));
            }
            if node.link == Link::Absent || node.held_alone_by().is_some() {
                events.push(give(key, false, Vec::new()));
            }
        }
    }
    for node in cluster.nodes() {
        events.push(Event::Ordered { node: node.name.clone(), seq: Seq(node.last_order.0 + 2) });
        events.push(Event::Ordered { node: node.name.clone(), seq: node.last_order });
        let (node, epoch, seq) = (node.name.clone(), node.epoch, node.last_report);
        events.push(Event::Reported { node, epoch, seq });
    }
    events
}
