//! Random legal histories: moves, and the event that each makes of the state it meets.

use crate::cards::{cards_of, uses_of};
use gq_cluster::{
    Booked, Booking, Cluster, Demand, Event, HeldBy, Job, Link, Memory, NewJob, Next, Node, Payer, Shape,
    Stopping, Usage,
};
use gq_model::{
    BootId, CardAsk, CardUse, End, Epoch, IndexSet, JobId, JobSpec, LicenceAsk, MiB, NodeName, Outcome,
    Reason, RunKey, RunNumber, Seconds, Seq, TaskIndex, Timestamp, Token, Uid,
};
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

const NODES: u8 = 3;
pub const LICENCES: [&str; 2] = ["ansys", "matlab"];

/// What happens next; `pick` chooses among what it can happen to.
#[derive(Clone, Debug)]
pub enum Move {
    Submit { tasks: u32, shape: u8, payer: u8, held: bool, later: bool },
    Allocate { pick: u8, node: u8, cpus: u32, cards: usize, first: u8, exclusive: bool },
    Start { pick: u8, late: u8 },
    Exit { pick: u8 },
    Stop { pick: u8, how: u8 },
    Idle { pick: u8, how: u8 },
    EndRun { pick: u8, again: bool, site: bool, code: u8 },
    EndTasks { pick: u8, most: usize },
    Hold { pick: u8, admin: bool },
    Release { pick: u8 },
    Ripen { pick: u8 },
    Promise { pick: u8, wait: u8 },
    Charge { payer: u8, charge: u8 },
    Book { name: u8, node: u8, whole: bool },
    Unbook { pick: u8 },
    Find { node: u8, cpus: u32, cut: u8 },
    See { node: u8, link: u8 },
    Stray { node: u8, run: u32, gone: bool },
    Drain { node: u8, on: bool },
    Order { node: u8 },
    Report { node: u8, new_life: bool },
}

pub fn a_move() -> impl Strategy<Value = Move> {
    use any as a;
    let of_jobs = prop_oneof![
        6 => (1..5u32, 0..6u8, 0..4u8, a::<bool>(), a::<bool>()).prop_map(|(tasks, shape, payer, h, l)| {
            Move::Submit { tasks, shape, payer, held: h && l, later: l && !h }
        }),
        12 => (a::<u8>(), 0..NODES, 0..5u32, 0..4usize, a::<u8>(), prop::bool::weighted(0.1)).prop_map(
            |(pick, node, cpus, cards, first, exclusive)| {
                Move::Allocate { pick, node, cpus, cards, first, exclusive }
            },
        ),
        6 => (a::<u8>(), 0..4u8).prop_map(|(pick, late)| Move::Start { pick, late }),
        2 => a::<u8>().prop_map(|pick| Move::Exit { pick }),
        4 => (a::<u8>(), 0..4u8).prop_map(|(pick, how)| Move::Stop { pick, how }),
        4 => (a::<u8>(), 0..5u8).prop_map(|(pick, how)| Move::Idle { pick, how }),
        6 => (a::<u8>(), a::<bool>(), a::<bool>(), 0..3u8)
            .prop_map(|(pick, again, site, code)| Move::EndRun { pick, again, site, code }),
        1 => (a::<u8>(), 1..4usize).prop_map(|(pick, most)| Move::EndTasks { pick, most }),
        1 => (a::<u8>(), a::<bool>()).prop_map(|(pick, admin)| Move::Hold { pick, admin }),
        2 => a::<u8>().prop_map(|pick| Move::Release { pick }),
        2 => a::<u8>().prop_map(|pick| Move::Ripen { pick }),
        2 => (a::<u8>(), a::<u8>()).prop_map(|(pick, wait)| Move::Promise { pick, wait }),
    ];
    let of_others = prop_oneof![
        2 => (0..4u8, 0..3u8).prop_map(|(payer, charge)| Move::Charge { payer, charge }),
        1 => (0..3u8, 0..NODES, a::<bool>()).prop_map(|(name, node, whole)| Move::Book { name, node, whole }),
        1 => a::<u8>().prop_map(|pick| Move::Unbook { pick }),
        6 => (0..NODES, 1..17u32, 0..3u8).prop_map(|(node, cpus, cut)| Move::Find { node, cpus, cut }),
        5 => (0..NODES, 0..7u8).prop_map(|(node, link)| Move::See { node, link }),
        1 => (0..NODES, 1..3u32, a::<bool>()).prop_map(|(node, run, gone)| Move::Stray { node, run, gone }),
        1 => (0..NODES, a::<bool>()).prop_map(|(node, on)| Move::Drain { node, on }),
        2 => (0..NODES).prop_map(|node| Move::Order { node }),
        2 => (0..NODES, a::<bool>()).prop_map(|(node, new_life)| Move::Report { node, new_life }),
    ];
    prop_oneof![5 => of_jobs, 2 => of_others]
}

fn spec() -> Arc<JobSpec> {
    serde_json::from_str(r#"{"name":"sim","work_dir":"/","umask":18}"#).unwrap()
}

pub fn name(node: u8) -> NodeName {
    format!("ws{node}").parse().unwrap()
}

/// Shapes above 3 hold licences.
pub fn shape(kind: u8) -> Arc<Shape> {
    let demand = Demand {
        cpus: u32::from(kind) + 1,
        memory: Memory::Amount(MiB(64)),
        cards: CardAsk::default(),
        exclusive: false,
    };
    let licence = |at: usize| LicenceAsk { name: LICENCES[at].into(), count: 1 + u32::from(kind % 2) };
    Arc::new(Shape {
        partition: "main".into(),
        demand,
        time_limit: (kind != 2).then_some(Seconds(60)),
        time_min: None,
        features: Vec::new(),
        nodelist: Vec::new(),
        exclude: Vec::new(),
        licences: (0..usize::from(kind.saturating_sub(3))).map(licence).collect(),
        reservation: None,
        slices_by_memory: false,
    })
}

pub fn payer(kind: u8) -> Arc<Payer> {
    Arc::new(Payer {
        uid: Uid(1000 + u32::from(kind % 2)),
        partition: "main".into(),
        account: (kind > 1).then(|| "physics".into()),
        qos: (kind == 3).then(|| "debug".into()),
    })
}

fn picked<T>(all: Vec<T>, pick: u8) -> Option<T> {
    let at = usize::from(pick).checked_rem(all.len())?;
    all.into_iter().nth(at)
}

pub fn live_runs(cluster: &Cluster) -> Vec<RunKey> {
    cluster.jobs().flat_map(|job| job.runs.keys().filter_map(|task| job.run_key(*task))).collect()
}

fn some_job(cluster: &Cluster, pick: u8, fits: impl Fn(&Job) -> bool) -> Option<JobId> {
    picked(cluster.jobs().filter(|job| fits(job)).map(|job| job.id).collect(), pick)
}

pub fn outcome(code: u8) -> Outcome {
    let end = if code == 0 { End::Completed } else { End::Failed };
    Outcome { exit_code: Some(code), ..Outcome::without_exit(end, Reason::None, "") }
}

/// Some of what is free of a node's cards, whole or in slices, from a random first one.
pub fn free_uses(node: &Node, first: u8, most: usize) -> Vec<CardUse> {
    let mut all = uses_of(&node.cards);
    let turn = usize::from(first).checked_rem(all.len()).unwrap_or(0);
    all.rotate_left(turn);
    let (mut taken, mut chosen) = (node.used().units, Vec::new());
    for one in all {
        let units = node.layout().units(&node.cards, std::slice::from_ref(&one));
        if chosen.len() < most && units != 0 && units & taken == 0 {
            taken |= units;
            chosen.push(one);
        }
    }
    chosen
}

/// A history in the making: the state, its events, the time.
#[derive(Default)]
pub struct History {
    pub cluster: Cluster,
    pub events: Vec<Event>,
    pub clock: i64,
}

impl History {
    /// The legal event that `step` makes of the state; none when it can happen to nothing.
    fn event(&self, step: &Move) -> Option<Event> {
        match step {
            Move::Submit { .. } | Move::EndTasks { .. } | Move::Hold { .. } | Move::Release { .. } => {
                self.of_job(step)
            }
            Move::Ripen { .. } | Move::Promise { .. } => self.of_job(step),
            Move::Allocate { .. } | Move::Start { .. } | Move::Exit { .. } => self.of_run(step),
            Move::Stop { .. } | Move::Idle { .. } | Move::EndRun { .. } => self.of_run(step),
            Move::Charge { .. } | Move::Book { .. } | Move::Unbook { .. } => self.of_books(step),
            Move::Find { .. } | Move::See { .. } | Move::Drain { .. } => self.of_node(step),
            Move::Stray { .. } | Move::Order { .. } | Move::Report { .. } => self.of_node(step),
        }
    }

    fn of_job(&self, step: &Move) -> Option<Event> {
        let (cluster, at) = (&self.cluster, Timestamp(self.clock));
        let waits = |job: &Job| !job.waiting.is_empty();
        Some(match *step {
            Move::Submit { tasks, shape: kind, payer: whose, held, later } => {
                Event::Submitted(Box::new(NewJob {
                    id: JobId(cluster.last_job().0 + 1 + u64::from(kind == 3)),
                    uid: payer(whose).uid,
                    user: "ann".into(),
                    token: Token([kind; 16]),
                    spec: spec(),
                    job_file: "jobs/00/1.job".into(),
                    sha256: "00".into(),
                    at,
                    shape: shape(kind),
                    payer: payer(whose),
                    priority: i64::from(kind % 2),
                    held: held.then_some(HeldBy::User),
                    not_before: later.then(|| at.after(Seconds(5))),
                    array: tasks > 1,
                    at_once: None,
                    waits: None,
                    main: None,
                    tasks: IndexSet::range(0, tasks - 1),
                }))
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
            Move::Ripen { pick } => {
                Event::Ripened { job: some_job(cluster, pick, |_| true)?, at: Timestamp::NEVER }
            }
            Move::Promise { pick, wait } => {
                let start = at.after(Seconds(wait.into()));
                Event::Promised { job: some_job(cluster, pick, waits)?, start }
            }
            _ => return None,
        })
    }

    fn of_run(&self, step: &Move) -> Option<Event> {
        let (cluster, at) = (&self.cluster, Timestamp(self.clock));
        Some(match *step {
            Move::Allocate { pick, node, cpus, cards, first, exclusive } => {
                let id = some_job(cluster, pick, Job::is_eligible)?;
                let job = cluster.job(id)?;
                let task = TaskIndex(job.waiting.first()?);
                let node = cluster.node(&name(node)).filter(|node| node.is_open())?;
                let alone = node.held_alone_by().is_some() || (exclusive && node.runs().len() > 0);
                if alone || node.cpus_used() + cpus > node.cpus {
                    return None;
                }
                let key = RunKey { job: id, task, run: job.next_run(task) };
                let (memory, cards) = (MiB(64), free_uses(node, first, cards));
                let rate = node.layout().worth(node.layout().units(&node.cards, &cards)) + 10 * cpus;
                let (node, boot) = (node.name.clone(), node.boot?);
                let promised = (pick % 2 == 0).then_some(at);
                Event::Allocated {
                    key,
                    node,
                    boot,
                    node_id: None,
                    lease: None,
                    cpus,
                    memory,
                    cards,
                    exclusive,
                    rate,
                    price: None,
                    promised,
                    own_limit: None,
                    at,
                }
            }
            Move::Start { pick, late } => {
                let counted = Timestamp(self.clock - 1_000_000 * i64::from(late));
                Event::Started { key: picked(live_runs(cluster), pick)?, at, counted }
            }
            Move::Exit { pick } => Event::Exited { key: picked(live_runs(cluster), pick)?, at },
            Move::Stop { pick, how } => {
                let key = picked(live_runs(cluster), pick)?;
                let due = at.after(Seconds(u64::from(pick) % 70));
                let stopping = cluster.job(key.job)?.runs.get(&key.task)?.stopping;
                let (why, by) = match (how, stopping) {
                    (0, _) => (Stopping::Cancel, Some(Uid(1000))),
                    (1, _) => (Stopping::Requeue, Some(Uid(0))),
                    // Who is being stopped is not asked to make room; who has, is ended in the end.
                    (_, None) => (Stopping::Preempt { again: pick % 2 == 0, due, ordered: how == 3 }, None),
                    (_, Some(Stopping::Preempt { again, due, ordered: false })) => {
                        (Stopping::Preempt { again, due, ordered: true }, None)
                    }
                    (_, Some(_)) => return None,
                };
                Event::Stopped { key, why, by }
            }
            Move::Idle { pick, how } => {
                let key = picked(live_runs(cluster), pick)?;
                let run = cluster.job(key.job)?.runs.get(&key.task)?;
                let due = (how != 1).then(|| at.after(Seconds(u64::from(pick) % 70)));
                match (how, run.idle) {
                    (0 | 1, None) => Event::IdleFound { key, since: at, due, again: how == 0 },
                    (0 | 1, Some(_)) => Event::IdleDue { key, due },
                    (2, Some(_)) => Event::IdleOver { key },
                    (3, _) => Event::Suspended { key, at },
                    (4, _) if run.stopping.is_none() && run.idle.is_some() => {
                        Event::Stopped { key, why: Stopping::Idle { again: pick % 2 == 0 }, by: None }
                    }
                    _ => return None,
                }
            }
            Move::EndRun { pick, again, site, code } => {
                let not_before = site.then(|| at.after(Seconds(2)));
                let held = (code == 2).then_some(HeldBy::Admin);
                let next = if again {
                    Next::Again { not_before, site_fault: site, retry: false, held }
                } else {
                    Next::Over
                };
                let key = picked(live_runs(cluster), pick)?;
                Event::RunEnded { key, outcome: outcome(code), started: None, at, next }
            }
            _ => return None,
        })
    }

    fn of_books(&self, step: &Move) -> Option<Event> {
        let at = Timestamp(self.clock);
        Some(match *step {
            Move::Charge { payer: whose, charge } => {
                let payer = payer(whose);
                let usage = Usage { charge: u64::from(charge) * 1000, at };
                Event::Charged { account: payer.account.clone(), uid: payer.uid, usage }
            }
            Move::Book { name: which, node, whole } => Event::Booked(Box::new(Booking {
                name: format!("course{which}"),
                start: at.after(Seconds(10)),
                end: at.after(Seconds(20)),
                takes: vec![Booked { node: name(node), cards: (!whole).then(|| vec![0]) }],
                users: vec![Uid(1000)],
                accounts: Vec::new(),
                maintenance: whole,
            })),
            Move::Unbook { pick } => {
                let names = self.cluster.bookings().map(|booking| booking.name.clone()).collect();
                Event::Unbooked { name: picked(names, pick)? }
            }
            _ => return None,
        })
    }

    fn of_node(&self, step: &Move) -> Option<Event> {
        let (cluster, at) = (&self.cluster, Timestamp(self.clock));
        Some(match *step {
            Move::Find { node, cpus, cut } => Event::NodeFound {
                node: name(node),
                boot: (cpus != 7).then_some(BootId([node; 16])),
                id: None,
                cpus,
                memory: MiB(65_536),
                features: Vec::new(),
                cards: cards_of(node, cut),
            },
            Move::See { node, link } => {
                let node = cluster.node(&name(node)).filter(|node| node.boot.is_some())?;
                let link = match link {
                    0 => Link::Suspect { since: at },
                    1 => Link::Lost { since: at },
                    2 if node.runs().len() == 0 => Link::Forgotten,
                    _ => Link::Up,
                };
                Event::NodeSeen { node: node.name.clone(), link }
            }
            Move::Stray { node, run, gone } => {
                let node = cluster.node(&name(node))?.name.clone();
                let key = RunKey { job: JobId(1), task: TaskIndex(0), run: RunNumber(run) };
                if gone { Event::StrayGone { node, key } } else { Event::Strayed { node, key } }
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
            _ => return None,
        })
    }

    /// The history that `moves` make; after every event the state agrees with itself.
    pub fn of(moves: &[Move]) -> Result<Self, TestCaseError> {
        let mut history = Self::default();
        let mut promises: BTreeMap<JobId, Timestamp> = BTreeMap::new();
        for step in moves {
            history.clock += 1_000_000;
            let Some(event) = history.event(step) else { continue };
            let applied = history.cluster.apply(&event);
            prop_assert!(applied.is_ok(), "{applied:?} of {event:?}");
            let checked = history.cluster.check();
            prop_assert!(checked.is_ok(), "{checked:?} after {event:?}");
            if let Event::Promised { job, start } = &event {
                promises.entry(*job).or_insert(*start);
            }
            history.agrees(&promises)?;
            history.events.push(event);
        }
        Ok(history)
    }

    /// What else agrees after every event: who makes room until when, first promises, what runs have cost so far.
    fn agrees(&self, promises: &BTreeMap<JobId, Timestamp>) -> Result<(), TestCaseError> {
        let (mut due, mut accrued, mut said) = (BTreeSet::new(), 0, 0);
        let now = Timestamp(self.clock);
        for job in self.cluster.jobs() {
            prop_assert_eq!(job.first_promise, promises.get(&job.id).copied(), "promised once, kept");
            for (task, run) in &job.runs {
                if let Some(Stopping::Preempt { due: at, ordered: false, .. }) = run.stopping {
                    due.insert((at, job.run_key(*task).unwrap()));
                }
                accrued += u64::from(run.rate) * (now.0 - run.allocated.0).unsigned_abs() / 1_000_000;
                let node = self.cluster.node(&run.node).unwrap();
                let hold = node.hold_of(job.id, *task).unwrap();
                if let Some(Stopping::Preempt { due, .. }) = run.stopping {
                    prop_assert!(hold.until <= due, "the plan counts on it longer than its grace");
                }
            }
        }
        prop_assert!(self.cluster.preempted().copied().eq(due), "who makes room is not who is said to");
        for (_, holdings) in self.cluster.ledger().payers() {
            said += holdings.accrued(now);
        }
        prop_assert_eq!(said, accrued);
        Ok(())
    }
}
