//! The hub: the one thread that owns the state. Takes what the other threads say, makes turns of it, and keeps time.

use crate::{
    archive::Move,
    convert,
    courier::Couriers,
    keeper::StoreKeeper,
    links::TurnedAway,
    messages::Setting,
    policy::policy_of,
    post::{Bundle, LinkId},
    program::Surroundings,
    silence::Silence,
    snapshot::Snapshot,
    start::check_ways,
    submit_hook::SubmitHook,
};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use gq_cluster::{Booking, Cluster, Policy};
use gq_engine::{
    Actor, ClientId, Context, Gone, Input, Keeper as _, NodeReport, NodeVerb, Past, Submission, Turn,
    TurnError, Verb,
};
use gq_failpoint::{Step, step};
use gq_model::{
    Beat, Change, End, Epoch, JobId, JobSpec, MAX_RANGES, NodeName, Outcome, Reason, Seconds, Seq, Timestamp,
    Uid,
};
use gq_proto::{Head, Refusal, RefusalKind, Reply, Selection, WaitedEnd};
use gq_sched::Planner;
use gq_store::{Place, StoreError};
use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

/// Words that may wait for the hub.
pub(crate) const MAX_WORDS: usize = 4096;
/// Most inputs of one turn.
const MAX_TURN: usize = 1024;
/// How long an acknowledgement may wait for an order to travel with.
const ACK_DELAY: Duration = Duration::from_millis(20);
/// How often a full disk is tried again.
const PROBE: Duration = Duration::from_secs(5);
/// How often old tokens are forgotten.
const TIDYING: Duration = Duration::from_secs(86_400);
/// How long a token is remembered after the end of its job.
const TOKEN_KEEP: Seconds = Seconds(30 * 86_400);
/// Rows that are removed of the state at a time, when they are in the file of a year.
const FORGOTTEN: u32 = 500;
/// Most ids of one request: each is looked up on disk when no such job lives.
const MOST_NAMED: usize = 16_384;
/// Longest sleep, so that a jump of the wall clock is noticed.
const NAP: Duration = Duration::from_secs(10);

/// What is on disk of a submission: the job that its token is, with its owner, and what became of jobs that it waits for.
type LookedUp = (Option<(JobId, Uid)>, Vec<Past>);

/// What a client wants of the state.
pub(crate) enum Wish {
    Submit(Box<Submission>),
    TestOnly(Box<JobSpec>),
    Wait(JobId),
    Do(Verb, Selection),
    Nodes(NodeVerb, Vec<NodeName>),
    Book { booking: Box<Booking>, replace: bool, ignore_jobs: bool },
    Unbook(String),
    Reload,
}

/// What the other threads tell the hub.
pub(crate) enum Word {
    /// A client asks.
    Ask { client: ClientId, by: Actor, wish: Wish, reply: Sender<Reply> },
    /// The scan found a job file that no client waits beside.
    Found(Box<Submission>),
    /// Whether the drop box can be trusted; else what is wrong with it.
    DropBox(Result<(), String>),
    /// A node has a link.
    NodeUp { head: Head, link: LinkId, out: Sender<Bundle>, answer: Sender<Result<Head, Refusal>> },
    /// Letters came in on a link.
    NodeLetters { node: NodeName, epoch: Epoch, ack: Seq, beat: Beat, reports: Vec<(Seq, Box<NodeReport>)> },
    /// A link is gone, or its beats stopped; and since when nothing was seen of the node.
    NodeDown { node: NodeName, link: LinkId, since: Instant },
    /// A reader wants all of the state.
    Snapshot { reply: Sender<Snapshot> },
    /// A reader wants to know when the turn that takes what he misses is over. The hub hears nothing while it is in one.
    Settled { reply: Sender<()> },
    /// Starts that the forecaster found for jobs that were promised none.
    Promises(Vec<(JobId, Timestamp)>),
    /// The archive wants something moved; it is told whether there is more of it, or why it was not done.
    Archive { what: Move, reply: Sender<Result<bool, String>> },
    /// SIGTERM, or an admin's word.
    Stop,
    /// SIGHUP.
    Reload,
}

/// The state and all that is needed to change it.
pub(crate) struct Hub {
    pub(crate) cluster: Cluster,
    pub(crate) policy: Arc<Policy>,
    /// What planning passes remember.
    pub(crate) planner: Planner,
    /// The times that were acted upon last: when the plan wanted to look again, and when a run's grace was over.
    pub(crate) looked: [Option<Timestamp>; 2],
    pub(crate) keeper: StoreKeeper,
    pub(crate) couriers: Couriers,
    pub(crate) hook: Arc<SubmitHook>,
    pub(crate) place: Place,
    pub(crate) conf: PathBuf,
    pub(crate) words: Receiver<Word>,
    /// Nodes out of sight.
    pub(crate) silent: Silence,
    pub(crate) turned_away: TurnedAway,
    pub(crate) degraded: bool,
    pub(crate) last_probe: Instant,
    pub(crate) last_tidying: Instant,
    /// Why it must stop, when something else than a turn came to nothing.
    pub(crate) broken: Option<String>,
    /// What could not be recorded of nodes for want of room.
    pub(crate) deferred: Vec<Input>,
}

impl Hub {
    /// The first turn, before anybody is answered: nodes are out of sight until they come. Returns why it must stop, as [`Self::run`] does.
    pub(crate) fn begin(&mut self) -> Result<(), String> {
        self.take_turn(&[Input::Declared, Input::Restarted])?;
        self.silent = Silence::after_start(&self.cluster, Instant::now());
        Ok(())
    }

    /// Runs until it is told to stop. Returns why it must stop otherwise; nothing may be done with it then, see [`Self::fall_silent`].
    pub(crate) fn run(&mut self) -> Result<(), String> {
        loop {
            let mut inputs = Vec::new();
            match self.words.recv_timeout(self.nap()) {
                Ok(word) => {
                    if !self.hear(word, &mut inputs) {
                        return Ok(());
                    }
                    while inputs.len() < MAX_TURN
                        && let Ok(word) = self.words.try_recv()
                    {
                        if !self.hear(word, &mut inputs) {
                            return Ok(());
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.couriers.post.send_acks(),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if let Some(why) = self.broken.take() {
                return Err(why);
            }
            self.notice_time(&mut inputs);
            if !inputs.is_empty() {
                // What came first is recorded first: a node that is back by now must not be out of sight again.
                inputs.splice(0..0, std::mem::take(&mut self.deferred));
                self.take_turn(&inputs)?;
            }
        }
    }

    /// Keeps whoever waits for an answer from being told that there is none, and the disk from being written, until the process is gone: what became
    /// of the last turn is for the next life to say.
    pub(crate) fn fall_silent(self) {
        std::mem::forget(self);
    }

    /// How long nothing is to be done if nobody says anything.
    fn nap(&self) -> Duration {
        let now = gq_daemon::now();
        let ripe =
            self.cluster.queue().next_ripe().map(|(at, _)| Duration::from_micros(at.micros_since(now)));
        let plan =
            self.look_again().into_iter().flatten().map(|at| Duration::from_micros(at.micros_since(now)));
        let acks = self.couriers.post.owes_acks().then_some(ACK_DELAY);
        let probe = self.degraded.then_some(PROBE);
        let lost = self.silent.nap(self.policy.lost_after, Instant::now());
        ripe.into_iter().chain(plan).chain(acks).chain(probe).chain(lost).fold(NAP, Duration::min)
    }

    /// When the plan wants to look again although nothing happens, or there is something to tell of a budget; and when the grace of a run that
    /// makes room or has idle cards is over, or a job that waits has waited too long. A time that was acted upon is not told again.
    fn look_again(&self) -> [Option<Timestamp>; 2] {
        let outlook = Arc::clone(&self.couriers.wall.look().outlook);
        let plan = outlook.look_again.into_iter().chain(outlook.tell_again).min();
        let grace = self.cluster.preempted().next().map(|(due, _)| *due);
        let idle = self.cluster.reclaims().next().map(|(due, _)| *due);
        let alarm = self.cluster.alarms().next().map(|(due, _)| *due);
        let grace = grace.into_iter().chain(idle).chain(alarm).min();
        let [looked, ended] = self.looked;
        [plan.filter(|at| Some(*at) != looked), grace.filter(|at| Some(*at) != ended)]
    }

    /// What time alone brings: jobs whose time has come, nodes silent for too long, a full disk to be tried again.
    fn notice_time(&mut self, inputs: &mut Vec<Input>) {
        let now = gq_daemon::now();
        let [plan, grace] = self.look_again().map(|at| at.filter(|at| *at <= now));
        self.looked = [plan.or(self.looked[0]), grace.or(self.looked[1])];
        let ripe = self.cluster.queue().next_ripe().is_some_and(|(at, _)| at <= now);
        if ripe || plan.is_some() || grace.is_some() {
            inputs.push(Input::Schedule);
        }
        inputs.extend(
            self.silent.lost(self.policy.lost_after, Instant::now()).map(|node| Input::NodeLost { node }),
        );
        // What cannot be recorded is found again: it is not put off, since it would not hold of a node that is back by then.
        if !self.degraded {
            inputs.extend(self.silent.leases_over(&self.cluster, Instant::now()));
        }
        if self.last_tidying.elapsed() >= TIDYING {
            self.last_tidying = Instant::now();
            let forget = || self.keeper.store.forget_tokens(ago(now, TOKEN_KEEP));
            if let Err(error) = step(Step::StateTokens, forget) {
                log::warn!("old tokens are not forgotten: {error}");
            }
        }
        if self.degraded && self.last_probe.elapsed() >= PROBE {
            self.last_probe = Instant::now();
            if self.keeper.store.probe().is_ok() && self.place.fill_ballast() {
                log::info!("there is room again: new jobs are taken");
                self.set_degraded(None);
                inputs.push(Input::Schedule);
            }
        }
    }

    fn set_degraded(&mut self, why: Option<String>) {
        self.degraded = why.is_some();
        self.couriers.wall.change(|board| board.degraded = why);
    }

    /// Hears one word; inputs for the engine are added. False: stop.
    fn hear(&mut self, word: Word, inputs: &mut Vec<Input>) -> bool {
        match word {
            Word::Ask { client, by, wish, reply } => {
                return self.hear_client(client, by, wish, reply, inputs);
            }
            Word::Found(submission) => match self.looked_up(&submission) {
                Ok((known, past)) => inputs.push(Input::Submit { client: None, submission, known, past }),
                // It stays in the drop box.
                Err(error) => log::error!("a job file is not taken up: {error}"),
            },
            Word::DropBox(is_good) => self.couriers.wall.change(|board| board.shut = is_good.err()),
            Word::NodeUp { head, link, out, answer } => {
                let welcome = self.take_link(&head, link, out);
                if welcome.is_ok() {
                    inputs.push(Input::NodeHeard { node: head.node, epoch: head.epoch });
                }
                let _ = answer.try_send(welcome);
            }
            Word::NodeLetters { node, epoch, ack, beat, reports } => {
                if self.couriers.post.linked(&node) != Some(epoch) {
                    return true;
                }
                if beat > Beat(0) {
                    self.couriers.post.beat(&node, beat);
                }
                if self.couriers.post.acknowledged(&node, ack) {
                    self.keeper.acknowledged.push((node.clone(), ack));
                }
                let report = |(seq, body)| Input::Report { node: node.clone(), epoch, seq, body };
                step(Step::ReportTake, || inputs.extend(reports.into_iter().map(report)));
            }
            Word::NodeDown { node, link, since } => {
                if self.couriers.post.disconnect(&node, link) {
                    self.silent.fell_silent(&node, since);
                    inputs.push(Input::NodeSilent { node });
                }
            }
            Word::Snapshot { reply } => {
                let _ = reply.try_send(Snapshot::of(&self.cluster, &self.policy, &self.planner));
            }
            Word::Settled { reply } => {
                let _ = reply.try_send(());
            }
            // A disk without room is not asked for more than it must hold.
            Word::Promises(_) if self.degraded => {}
            Word::Promises(starts) => inputs.push(Input::Promise { starts }),
            Word::Archive { what, reply } => drop(reply.try_send(self.archive(what))),
            Word::Stop => return false,
            Word::Reload => {
                if let Err(text) = self.reload(inputs) {
                    log::error!("the conf stays as it was: {text}");
                }
            }
        }
        true
    }

    fn hear_client(
        &mut self,
        client: ClientId,
        by: Actor,
        wish: Wish,
        reply: Sender<Reply>,
        inputs: &mut Vec<Input>,
    ) -> bool {
        let answer = match wish {
            Wish::Submit(submission) => match self.looked_up(&submission) {
                Ok((known, past)) => {
                    self.couriers.clients.insert(client, reply);
                    inputs.push(Input::Submit { client: Some(client), submission, known, past });
                    return true;
                }
                Err(error) => refused(RefusalKind::Policy, error.to_string()),
            },
            Wish::TestOnly(spec) => {
                self.couriers.clients.insert(client, reply);
                inputs.push(Input::TestOnly { client, by, spec });
                return true;
            }
            Wish::Do(_, select) if select.jobs.len() > MOST_NAMED => refused(
                RefusalKind::Usage,
                format!("{} ids at once: {MOST_NAMED} at most", select.jobs.len()),
            ),
            Wish::Do(_, select) if pieces(&select) > MAX_RANGES => refused(
                RefusalKind::Usage,
                format!("more than {MAX_RANGES} separate ranges of tasks at once: ask in several parts"),
            ),
            Wish::Do(verb, select) => match self.meant(&verb, &select) {
                Ok((ended, past)) => {
                    self.couriers.clients.insert(client, reply);
                    let select = convert::selection(select);
                    inputs.push(Input::Command { client, by, verb, select, ended, past });
                    return true;
                }
                Err(error) => refused(RefusalKind::Policy, error.to_string()),
            },
            Wish::Nodes(verb, nodes) => {
                self.couriers.clients.insert(client, reply);
                inputs.push(Input::Nodes { client, by, verb, nodes });
                return true;
            }
            Wish::Book { booking, replace, ignore_jobs } => {
                self.couriers.clients.insert(client, reply);
                inputs.push(Input::Book { client, by, booking, replace, ignore_jobs });
                return true;
            }
            Wish::Unbook(name) => {
                self.couriers.clients.insert(client, reply);
                inputs.push(Input::Unbook { client, by, name });
                return true;
            }
            Wish::Wait(job) => match self.cluster.job(job) {
                Some(_) => {
                    self.couriers.waiters.entry(job).or_default().push(reply);
                    return true;
                }
                None => self.waited(job),
            },
            Wish::Reload if by.is_admin() => match self.reload(inputs) {
                Ok(()) => Reply::Done { count: 1, failures: Vec::new() },
                Err(text) => refused(RefusalKind::Usage, format!("the conf stays as it was:\n{text}")),
            },
            Wish::Reload => refused(RefusalKind::NotPermitted, "only admins may do this".into()),
        };
        let _ = reply.try_send(answer);
        true
    }

    /// Does what the archive wants. What leaves open what is on disk ends this life.
    fn archive(&mut self, what: Move) -> Result<bool, String> {
        let done = match what {
            Move::Part(parting) => self.keeper.store.part(&parting).map(|()| true),
            Move::Forget => self.keeper.store.forget_parted(FORGOTTEN),
        };
        done.map_err(|error| {
            if !StoreKeeper::is_undone(&error) {
                self.broken = Some(error.to_string());
            }
            error.to_string()
        })
    }

    /// How a job ended that lives no more.
    fn waited(&self, job: JobId) -> Reply {
        match self.keeper.store.was_job(job) {
            Ok(true) => match self.keeper.store.worst_outcome(job) {
                Ok(outcome) => {
                    let unknown = Outcome::without_exit(End::Failed, Reason::None, "");
                    let end = outcome.as_ref().unwrap_or(&unknown).end;
                    Reply::Waited(WaitedEnd { job, end, outcome })
                }
                Err(error) => refused(RefusalKind::Policy, error.to_string()),
            },
            Ok(false) => refused(RefusalKind::NoSuchJob, format!("there is no job {job}")),
            Err(error) => refused(RefusalKind::Policy, error.to_string()),
        }
    }

    /// What is on disk of a submission: the job that its token is, and what became of those that it waits for.
    fn looked_up(&self, submission: &Submission) -> Result<LookedUp, StoreError> {
        let known = self.keeper.store.token(submission.token)?;
        Ok((known, self.keeper.past(&self.cluster, submission.spec.dependency.as_ref(), false)?))
    }

    /// What is on disk of the jobs that a command means: which of them have ended, and what became of those that it names.
    fn meant(&self, verb: &Verb, select: &Selection) -> Result<(Vec<Gone>, Vec<Past>), StoreError> {
        let named = select.jobs.iter().map(|j| j.job).filter(|id| self.cluster.job(*id).is_none());
        let mut ended = Vec::new();
        for id in named {
            ended.extend(self.keeper.gone(id)?);
        }
        let mut past = Vec::new();
        if let Verb::Update(changes) = verb {
            for change in changes {
                if let Change::Dependency(Some(asked)) = change {
                    past.extend(self.keeper.past(&self.cluster, Some(asked), true)?);
                }
            }
        }
        Ok((ended, past))
    }

    fn reload(&mut self, inputs: &mut Vec<Input>) -> Result<(), String> {
        let config = gq_conf::read(&self.conf).map_err(|errors| errors.to_string())?;
        check_ways(&self.conf, &config, Uid(nix::unistd::geteuid().as_raw()))?;
        self.policy = Arc::new(policy_of(&config, self.policy.serves));
        self.planner.forget();
        let around = Surroundings::new(&self.conf, &config.cluster.name);
        self.hook.change(&config.hooks, &around);
        self.couriers.herald.change(Setting::new(&config.hooks, &config.cluster.name, &around));
        let policy = Arc::clone(&self.policy);
        self.couriers.wall.change(|board| board.policy = policy);
        inputs.push(Input::Declared);
        let conf = self.conf.display();
        log::info!("{conf}: read again; folders, names and sockets count from the next start on");
        Ok(())
    }

    /// Runs a turn and lets nodes know what of theirs it took.
    fn take_turn(&mut self, inputs: &[Input]) -> Result<(), String> {
        self.one_turn(inputs)?;
        self.note_taken(inputs);
        Ok(())
    }

    fn one_turn(&mut self, inputs: &[Input]) -> Result<(), String> {
        // 4,096 ids in a row share a folder of job files, so that a turn syncs one folder, or two.
        let [_, low, high, ..] = self.cluster.last_job().0.to_le_bytes();
        let context = Context { now: gq_daemon::now(), shard: (high << 4) | (low >> 4) };
        match self.run_turn(context, inputs) {
            Ok(()) => Ok(()),
            Err(TurnError::NotKept(StoreError::Full(error))) => {
                let why = format!("{}: {error}", self.place.database().display());
                self.no_room(inputs, context, &why)
            }
            Err(TurnError::NotKept(error)) => Err(error.to_string()),
            Err(TurnError::Broken(why)) => Err(why),
        }
    }

    fn run_turn(&mut self, context: Context, inputs: &[Input]) -> Result<(), TurnError<StoreError>> {
        let policy = Arc::clone(&self.policy);
        let Self { cluster, planner, keeper, couriers, .. } = self;
        let begun = Instant::now();
        let turned = Turn::run(cluster, &policy, planner, context, inputs, keeper, couriers);
        self.couriers.meters.turn(begun.elapsed(), self.keeper.took.take());
        turned
    }

    /// There is no room: new jobs are refused, and what running jobs report is recorded in the room of the ballast.
    fn no_room(&mut self, inputs: &[Input], context: Context, why: &str) -> Result<(), String> {
        if !self.degraded {
            log::error!("DEGRADED: {why}: no new jobs are taken until there is room");
            self.set_degraded(Some(why.to_owned()));
        }
        self.last_probe = Instant::now();
        self.place.drop_ballast();
        // Clients were told that nothing came of it; what nodes say, and what is seen of them, must not be lost.
        let of_nodes: Vec<Input> = inputs.iter().filter(|input| input.is_of_nodes()).cloned().collect();
        let retried = self.run_turn(context, &of_nodes);
        let cluster = &self.cluster;
        match retried {
            Ok(()) => {}
            Err(TurnError::NotKept(StoreError::Full(_))) => {
                // Reports come again on the next link; the rest waits for room here.
                self.couriers.post.cut_all();
                self.deferred
                    .extend(of_nodes.into_iter().filter(|input| !matches!(input, Input::Report { .. })));
            }
            Err(TurnError::NotKept(error)) => return Err(error.to_string()),
            Err(TurnError::Broken(why)) => return Err(why),
        }
        // The board shows what is on disk, not what was hoped for.
        self.couriers.wall.change(|board| {
            let mut fresh = crate::board::Board::of(cluster, Arc::clone(&board.policy), board.cluster_id);
            (fresh.outlook, fresh.degraded) = (Arc::clone(&board.outlook), board.degraded.clone());
            fresh.shut.clone_from(&board.shut);
            fresh.pulse = board.pulse.clone();
            *board = fresh;
        });
        Ok(())
    }

    /// Lets nodes know which of their reports are on disk.
    fn note_taken(&mut self, inputs: &[Input]) {
        for input in inputs {
            if let Input::Report { node, epoch, .. } = input
                && let Some(state) = self.cluster.node(node).filter(|state| state.epoch == *epoch)
            {
                self.couriers.post.taken(node, *epoch, state.last_report);
            }
        }
    }
}

/// How many ranges of tasks are named.
fn pieces(select: &Selection) -> usize {
    select.jobs.iter().filter_map(|named| named.tasks.as_ref()).map(|tasks| tasks.ranges().len()).sum()
}

fn refused(kind: RefusalKind, text: String) -> Reply {
    Reply::Refused(Refusal { kind, text, hint: None })
}

/// The time now, for threads that only need to compare.
pub(crate) fn ago(now: Timestamp, span: Seconds) -> Timestamp {
    let micros = i64::try_from(span.0.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
    Timestamp(now.0.saturating_sub(micros))
}
