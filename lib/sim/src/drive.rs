//! The drive: runs the engine's own turns over a log, under a virtual clock. Decides nothing: what starts is the plan's business.
//!
//! At each second in which something happens there is one turn: the reports of all runs that end in it, then all submissions of it,
//! then one planning pass. Time is whole seconds of the log.

use crate::{
    fragmentation::CardFigures,
    metrics::Fate,
    nodes::Nodes,
    policy::uid_of,
    progress::Progress,
    request::Requests,
    trace::{Trace, TraceJob},
    trouble::Trouble,
    watch::Watch,
    world::World,
};
use gq_cluster::{Cluster, Event, Policy, Role};
use gq_engine::{
    Actor, Answer, ClientId, Context, Courier, Effect, Filing, Input, Keeper, Order, Over, Record, Refusal,
    Step, Submission, Turn,
};
use gq_model::{JobId, RunKey, Timestamp, Token};
use gq_sched::{Outlook, Plan, Planner, Plans};
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    convert::Infallible,
    time::{Duration, Instant},
};

/// Where the virtual clock's zero lies on the daemons' clocks, in seconds since 1970: far from the beginning of time.
const EPOCH: i64 = 1_000_000_000;

/// A second of the log as the engine's time.
pub(crate) fn stamp(second: i64) -> Timestamp {
    Timestamp::from_secs(second.saturating_add(EPOCH))
}

/// The engine's time as a second of the log, rounded up.
fn second(at: Timestamp) -> i64 {
    at.secs_up().saturating_sub(EPOCH)
}

/// What a simulation left.
#[derive(Debug, Default)]
pub(crate) struct Driven {
    /// What became of the jobs, in the order of the log.
    pub(crate) fates: Vec<Fate>,
    /// How long each planning pass took.
    pub(crate) passes: Vec<Duration>,
    /// Why jobs were refused, each reason once, with how many.
    pub(crate) refusals: Vec<(String, u64)>,
    /// What was seen of the cards.
    pub(crate) cards: Option<CardFigures>,
}

/// Most turns of one second that nothing but the plan's own wish to look again brings.
const MOST_AGAIN: u32 = 8;

/// Keeps nothing.
struct NoKeeper;

impl Keeper for NoKeeper {
    type Error = Infallible;
    fn keep(&mut self, _record: &Record<'_>) -> Result<(), Infallible> {
        Ok(())
    }
    fn is_undone(error: &Infallible) -> bool {
        match *error {}
    }
    fn load(&mut self) -> Result<Cluster, Infallible> {
        Ok(Cluster::default())
    }
}

/// An end that is due, or an order to end.
type Due = Reverse<(i64, JobId, u32)>;

/// What is known of one job while it is simulated, and the ends that are due.
struct Book<'t> {
    jobs: &'t [TraceJob],
    /// The place in the log of each job of the engine, by id.
    places: Vec<u32>,
    fates: Vec<Fate>,
    due: BinaryHeap<Due>,
    nodes: Nodes,
    now: i64,
    refusals: Vec<(String, u64)>,
    /// When a pass could find something new although nothing happens.
    look_again: Option<i64>,
    /// How many turns of this second time alone has brought.
    again: u32,
}

impl Book<'_> {
    fn place(&self, id: JobId) -> Option<usize> {
        self.places.get(usize::try_from(id.0).ok()?).map(|place| *place as usize)
    }

    /// A job of the log was taken: its token says which.
    fn submitted(&mut self, id: JobId, token: Token) {
        let Ok(at) = usize::try_from(id.0) else { return };
        if self.places.len() <= at {
            self.places.resize(at + 1, u32::MAX);
        }
        if let Some(place) = self.places.get_mut(at) {
            *place = place_of(token);
        }
    }

    fn refused(&mut self, client: ClientId, text: String) {
        let fate = usize::try_from(client.0).ok().and_then(|place| self.fates.get_mut(place));
        if let Some(fate) = fate {
            fate.refused = true;
        }
        match self.refusals.iter_mut().find(|(known, _)| *known == text) {
            Some((_, count)) => *count += 1,
            None => self.refusals.push((text, 1)),
        }
    }

    fn promised(&mut self, id: JobId, start: Timestamp) {
        let fate = self.place(id).and_then(|place| self.fates.get_mut(place));
        if let Some(fate) = fate {
            fate.promise.get_or_insert(second(start));
        }
    }

    /// A node was told to start a run: it does so at once, and its end is due.
    fn start(&mut self, key: RunKey, node: &gq_model::NodeName) {
        let Some(place) = self.place(key.job) else { return };
        let (Some(job), Some(fate)) = (self.jobs.get(place), self.fates.get_mut(place)) else { return };
        let end = self.now.saturating_add(job.run);
        (fate.start, fate.end) = (Some(self.now), Some(end));
        self.nodes.start(key, node, self.now);
        self.due.push(Reverse((end, key.job, key.run.0)));
    }

    /// A node was told to end a run: that takes it a second.
    fn stop(&mut self, key: RunKey) {
        let end = self.now.saturating_add(1);
        if let Some(fate) = self.place(key.job).and_then(|place| self.fates.get_mut(place)) {
            fate.end = Some(end);
        }
        self.nodes.stop(key);
        self.due.push(Reverse((end, key.job, key.run.0)));
    }
}

impl Courier for Book<'_> {
    /// Nothing is moved, so that nothing is refused: an empty answer says so of all.
    fn file(&mut self, _filings: &[Filing]) -> Vec<Option<Refusal>> {
        Vec::new()
    }
    fn settle(&mut self) -> Result<(), String> {
        Ok(())
    }
    fn give_back(&mut self, _filings: &[Filing]) {}
    fn publish(&mut self, _cluster: &Cluster, steps: &[Step], outlook: Option<Outlook>) {
        for step in steps {
            if let Event::Submitted(new) = &step.event {
                self.submitted(new.id, new.token);
            } else if let Event::Promised { job, start } = &step.event {
                self.promised(*job, *start);
            }
        }
        self.look_again = outlook.and_then(|outlook| outlook.look_again).map(second);
    }
    fn act(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Reply(client, Answer::Refused(refusal)) => self.refused(client, refusal.text),
                Effect::Order { node, order, .. } => match order {
                    Order::Start(assignment) => self.start(assignment.key, &node),
                    Order::Cancel(key, _) | Order::Requeue(key, _) => self.stop(key),
                    Order::Stray(_)
                    | Order::Signal(..)
                    | Order::Warn(..)
                    | Order::Limit(..)
                    | Order::Suspend(_)
                    | Order::Resume(_) => {}
                },
                Effect::Reply(_, Answer::Submitted(_) | Answer::Tested { .. } | Answer::Done { .. })
                | Effect::File { .. }
                | Effect::Discard { .. }
                | Effect::Outlook(_) => {}
            }
        }
    }
    fn over(&mut self, _jobs: Vec<Over>) {}
}

/// The planner, with a watch.
#[derive(Default)]
struct Timed {
    planner: Planner,
    passes: Vec<Duration>,
}

impl Plans for Timed {
    fn plan(&mut self, cluster: &Cluster, policy: &Policy, now: Timestamp) -> Plan {
        let began = Instant::now();
        let plan = self.planner.plan(cluster, policy, now);
        self.passes.push(began.elapsed());
        plan
    }
    fn forget(&mut self) {
        self.planner.forget();
    }
    fn planner(&self) -> &Planner {
        &self.planner
    }
}

/// The engine, with its clock.
struct Engine<'w> {
    cluster: Cluster,
    planner: Timed,
    world: &'w World,
}

impl Engine<'_> {
    fn turn(&mut self, book: &mut Book<'_>, inputs: &[Input]) -> Result<(), Trouble> {
        let context = Context { now: stamp(book.now), shard: 0 };
        let Self { cluster, planner, world } = self;
        let done = Turn::run(cluster, &world.policy, planner, context, inputs, &mut NoKeeper, book);
        done.map_err(|error| Trouble::usage(format!("the engine stopped at second {}: {error:?}", book.now)))
    }

    /// The next second in which time alone makes something happen: a job's begin, the end of a grace, what the plan waits for.
    fn timer(&self, book: &Book<'_>) -> Option<i64> {
        let ripe = self.cluster.queue().next_ripe().map(|(at, _)| second(at));
        let ends = self.cluster.preempted().next().into_iter().chain(self.cluster.reclaims().next());
        let grace = ends.map(|(at, _)| second(*at)).min();
        let soonest = book.now.saturating_add(i64::from(book.again >= MOST_AGAIN));
        let again = book.look_again.map(|at| at.max(soonest));
        ripe.into_iter().chain(grace).chain(again).min()
    }
}

/// Drives the world over the log until all jobs have ended; when it is being filled, until all have arrived.
///
/// # Errors
/// When the engine comes to a state that it calls illegal.
pub(crate) fn drive(world: &World, trace: &Trace, filling: bool) -> Result<Driven, Trouble> {
    let mut order: Vec<u32> = (0..u32::try_from(trace.jobs.len()).unwrap_or(u32::MAX)).collect();
    let submit = |place: &u32| trace.jobs.get(*place as usize).map_or(0, |job| job.submit);
    // Stable: jobs of one second stay in the order of the log.
    order.sort_by_key(submit);
    let mut arrivals = order.iter().copied().peekable();
    let first = arrivals.peek().map_or(0, submit);
    let mut book = Book {
        jobs: &trace.jobs,
        places: Vec::with_capacity(trace.jobs.len() + 1),
        fates: vec![Fate::default(); trace.jobs.len()],
        due: BinaryHeap::new(),
        nodes: Nodes::of(&world.nodes),
        now: first.saturating_sub(1),
        refusals: Vec::new(),
        look_again: None,
        again: 0,
    };
    let mut engine = Engine { cluster: Cluster::default(), planner: Timed::default(), world };
    let mut watch = Watch::over(trace, &world.nodes, filling);
    engine.turn(&mut book, &[Input::Declared])?;
    let joined = book.nodes.join();
    engine.turn(&mut book, &joined)?;
    engine.planner.passes.clear();
    let has_cards = world.nodes.iter().any(|node| !node.cards.is_empty());
    let mut requests = Requests::new(&trace.names, &world.policy, world.counts_memory, has_cards);
    let mut progress = Progress::new(trace.jobs.len() as u64);
    let mut inputs: Vec<Input> = Vec::new();
    loop {
        let next_end = book.due.peek().map(|Reverse((at, ..))| *at);
        let times = [arrivals.peek().map(submit), next_end, engine.timer(&book)];
        let Some(now) = times.into_iter().flatten().min().map(|at| at.max(book.now)) else { break };
        if filling && arrivals.peek().is_none() {
            break;
        }
        book.again = if now > book.now { 0 } else { book.again.saturating_add(1) };
        book.now = now;
        inputs.clear();
        book.nodes.tell_starts(&mut inputs);
        while let Some(Reverse((at, job, run))) =
            book.due.peek().copied().filter(|Reverse((at, ..))| *at <= now)
        {
            book.due.pop();
            if book.nodes.end(job, run, at, &mut inputs) {
                progress.step();
            }
        }
        let mut look = false;
        while let Some(place) = arrivals.next_if(|place| submit(place) <= now) {
            let Some(job) = trace.jobs.get(place as usize) else { continue };
            inputs.push(submission(place, job, trace, &mut requests));
            look |= watch.as_mut().is_some_and(|watch| watch.arrive(job));
        }
        engine.turn(&mut book, &inputs)?;
        if let Some(watch) = watch.as_mut().filter(|_| look) {
            watch.look_at(&engine.cluster);
        }
    }
    progress.finish();
    let cards = watch.map(|watch| watch.end_at(&engine.cluster));
    Ok(Driven { fates: book.fates, passes: engine.planner.passes, refusals: book.refusals, cards })
}

/// The token of the job at this place of the log.
fn token_of(place: u32) -> Token {
    let mut token = [0; 16];
    token.iter_mut().zip(place.to_le_bytes()).for_each(|(to, from)| *to = from);
    Token(token)
}

/// The place in the log of the job with this token.
fn place_of(token: Token) -> u32 {
    let [a, b, c, d, ..] = token.0;
    u32::from_le_bytes([a, b, c, d])
}

fn submission(place: u32, job: &TraceJob, trace: &Trace, requests: &mut Requests<'_>) -> Input {
    let submission = Submission {
        // The log's jobs were let in once: what only admins may ask is not asked again.
        by: Actor { uid: uid_of(job.user), role: Role::Admin },
        user: trace.names.text(job.user).to_owned(),
        token: token_of(place),
        drop_name: String::new(),
        spec: requests.of(job),
        sha256: String::new(),
    };
    Input::Submit {
        client: Some(ClientId(u64::from(place))),
        submission: Box::new(submission),
        known: None,
        past: Vec::new(),
    }
}
