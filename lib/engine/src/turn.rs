//! The turn: inputs that arrived together are decided one after the other, each on what the ones before it left; then all of it
//! is made durable (job files first, then one transaction), and only then do replies and orders leave.
//!
//! The store and the courier are handed in, so that the daemon and the simulator run this very code.

use crate::{
    Answer, Context, Decision, Effect, Gone, Input, Past, Refusal, RefusalKind, admit, charge, decide,
    dependency, schedule,
};
use alloc::{
    collections::{BTreeMap, VecDeque},
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use gq_cluster::{Cluster, Event, IllegalEvent, Job, Policy};
use gq_model::{End, JobId, Outcome, Timestamp, Token, Uid};
use gq_sched::{Outlook, Plans};

/// An event with what its record needs of the state before it.
#[derive(Clone, Debug)]
pub struct Step {
    /// What happened.
    pub event: Event,
    /// The job before the event, for events that end something of it.
    pub before: Option<Arc<Job>>,
}

/// A job file on its way from the drop box to its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filing {
    /// Its name in the drop box.
    pub drop_name: String,
    /// Where it goes, relative to the spool directory.
    pub job_file: String,
}

/// What a turn makes durable, whole or not at all.
#[derive(Debug)]
pub struct Record<'a> {
    /// The time of the turn.
    pub at: Timestamp,
    /// What happened, in order.
    pub steps: &'a [Step],
    /// The state after it.
    pub cluster: &'a Cluster,
    /// What is to be done; its orders are to be kept.
    pub effects: &'a [Effect],
}

/// A job that ended in this turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Over {
    /// Which, and whose.
    pub gone: Gone,
    /// Its end: that of the worst task.
    pub outcome: Outcome,
}

/// Keeps turns: a transaction each.
pub trait Keeper {
    /// Why a turn was not kept.
    type Error;
    /// Makes a turn durable, whole or not at all.
    ///
    /// # Errors
    /// When it is not durable.
    fn keep(&mut self, record: &Record<'_>) -> Result<(), Self::Error>;
    /// Whether nothing is left of a turn that ended in this error. If not, only the next start can tell: a sync that failed may have kept
    /// all of it or nothing.
    fn is_undone(error: &Self::Error) -> bool;
    /// Loads the state from its rows.
    ///
    /// # Errors
    /// When they cannot be read.
    fn load(&mut self) -> Result<Cluster, Self::Error>;
}

/// Carries out what a turn decided.
pub trait Courier {
    /// Moves job files to their places and begins to make the moves durable. Returns, for each, why it was not done, if it was not.
    fn file(&mut self, filings: &[Filing]) -> Vec<Option<Refusal>>;
    /// Waits until the moves are durable; before anything leaves.
    ///
    /// # Errors
    /// When that cannot be had: the daemon must stop, and the next start puts files and records in step again.
    fn settle(&mut self) -> Result<(), String>;
    /// Moves job files back into the drop box, after a turn that was not kept.
    fn give_back(&mut self, filings: &[Filing]);
    /// Shows the new state; before any reply leaves.
    fn publish(&mut self, cluster: &Cluster, steps: &[Step], outlook: Option<Outlook>);
    /// Replies and orders, in order.
    fn act(&mut self, effects: Vec<Effect>);
    /// Jobs that ended in this turn.
    fn over(&mut self, jobs: Vec<Over>);
}

/// Why a turn came to nothing.
#[derive(Debug)]
pub enum TurnError<E> {
    /// The store did not keep it; the state was loaded anew and clients were told.
    NotKept(E),
    /// It is not known what the store kept, or the state became illegal: the daemon must stop. Clients were told nothing, unless it is known that
    /// nothing came of it.
    Broken(String),
}

/// A turn in the making.
pub struct Turn<'a, P> {
    cluster: &'a mut Cluster,
    policy: &'a Policy,
    planner: &'a mut P,
    context: Context,
    steps: Vec<Step>,
    effects: Vec<Effect>,
    over: Vec<Over>,
    outlook: Option<Outlook>,
    filed: Vec<Filing>,
}

/// A submission, decided and applied; its job file is not moved yet.
struct Taken {
    decision: Decision,
    /// The submission of this very turn, by its place, whose job this one is told to be.
    twin: Option<usize>,
}

impl<'a, P: Plans> Turn<'a, P> {
    /// Runs one turn over `inputs`; what time has brought and a planning pass come last. `planner` is what the passes before
    /// remember of this cluster; it forgets when the turn is not kept.
    ///
    /// Job files are moved before anything else is decided: a job whose file cannot be moved is refused, and nobody is told its id.
    ///
    /// # Errors
    /// [`TurnError`]. After `NotKept` the state is what the rows say, and every client of the turn has been refused.
    pub fn run<K: Keeper, C: Courier>(
        cluster: &'a mut Cluster,
        policy: &'a Policy,
        planner: &'a mut P,
        context: Context,
        inputs: &[Input],
        keeper: &mut K,
        courier: &mut C,
    ) -> Result<(), TurnError<K::Error>>
    where
        K::Error: ToString,
    {
        let mut turn = Turn {
            cluster,
            policy,
            planner,
            context,
            steps: Vec::new(),
            effects: Vec::new(),
            over: Vec::new(),
            outlook: None,
            filed: Vec::new(),
        };
        if let Err(illegal) = turn.take_all(inputs, courier) {
            return turn.undo_illegal(inputs, illegal, keeper, courier);
        }
        if turn.steps.is_empty() {
            turn.finish(courier);
            return Ok(());
        }
        let record =
            Record { at: context.now, steps: &turn.steps, cluster: turn.cluster, effects: &turn.effects };
        // The moves are synced while the transaction is: both must be done before anybody is told. If only the record outlives a
        // crash, the next start finds the file in the drop box and moves it again.
        match keeper.keep(&record) {
            Ok(()) => {
                courier.settle().map_err(TurnError::Broken)?;
                turn.finish(courier);
                Ok(())
            }
            // Nobody is told anything, and the files stay where they are: whoever asks again is told by the next life what became of it.
            Err(error) if !K::is_undone(&error) => Err(TurnError::Broken(error.to_string())),
            Err(error) => {
                courier.give_back(&turn.filed);
                refuse_all(inputs, &error.to_string(), courier);
                turn.planner.forget();
                *turn.cluster = keeper.load().map_err(|e| TurnError::Broken(e.to_string()))?;
                Err(TurnError::NotKept(error))
            }
        }
    }

    /// Decides and applies all inputs, and moves the job files.
    fn take_all<C: Courier>(&mut self, inputs: &[Input], courier: &mut C) -> Result<(), IllegalEvent> {
        let (submits, others): (Vec<&Input>, Vec<&Input>) =
            inputs.iter().partition(|i| matches!(i, Input::Submit { .. }));
        let taken = self.take_submissions(&submits)?;
        self.move_files(taken, courier)?;
        let new = self.steps.iter().filter_map(|step| match &step.event {
            Event::Submitted(new) if new.waits.is_some() => self.cluster.job(new.id),
            _ => None,
        });
        let in_vain =
            new.filter_map(|job| dependency::give_up(self.policy, &self.context, job, job.waits.as_ref()?));
        let decision = Decision { events: in_vain.collect(), ..Decision::default() };
        self.take(decision)?;
        for input in others {
            let decision = match input {
                // What the household looked up is what was on disk before this turn.
                Input::Command { client, by, verb, select, ended, past } if !self.over.is_empty() => {
                    let over = self.over.iter().map(|over| &over.gone);
                    let ended = ended.iter().chain(over).filter(|gone| select.names(gone.job));
                    let ended = ended.cloned().collect();
                    let (client, by, verb, select) = (*client, *by, verb.clone(), select.clone());
                    let past = self.past_by_now(past);
                    let input = Input::Command { client, by, verb, select, ended, past };
                    decide(self.cluster, self.policy, &self.context, &input)
                }
                Input::TestOnly { client, by, spec } => {
                    let planner = self.planner.planner();
                    admit::test_only(self.cluster, self.policy, &self.context, *client, *by, spec, planner)
                }
                input => decide(self.cluster, self.policy, &self.context, input),
            };
            self.take(decision)?;
        }
        let decision = schedule::due(self.cluster, self.policy, &self.context);
        self.take(decision)?;
        let decision = schedule::plan(self.planner, self.cluster, self.policy, &self.context);
        self.take(decision)
    }

    /// What became of jobs, with what has ended of them in this turn.
    fn past_by_now(&self, looked_up: &[Past]) -> Vec<Past> {
        let mut all = looked_up.to_vec();
        for event in self.steps.iter().map(|step| &step.event) {
            let past = event.job().and_then(|job| all.iter_mut().find(|past| past.gone.job == job));
            if let Some(past) = past {
                past.add(event);
            }
        }
        all
    }

    /// Decides submissions, each on what the ones before it left: their jobs are in the state while the next is decided.
    fn take_submissions(&mut self, submits: &[&Input]) -> Result<Vec<Taken>, IllegalEvent> {
        let mut taken: Vec<Taken> = Vec::with_capacity(submits.len());
        let mut tokens: BTreeMap<Token, (usize, JobId, Uid)> = BTreeMap::new();
        for input in submits {
            let Input::Submit { client, submission, known, .. } = input else { continue };
            let twin = tokens.get(&submission.token).filter(|_| known.is_none());
            let decision = match twin {
                Some((_, job, owner)) => decide(
                    self.cluster,
                    self.policy,
                    &self.context,
                    &Input::Submit {
                        client: *client,
                        submission: submission.clone(),
                        known: Some((*job, *owner)),
                        past: Vec::new(),
                    },
                ),
                None => decide(self.cluster, self.policy, &self.context, input),
            };
            let twin = twin.map(|(at, _, _)| *at);
            for event in &decision.events {
                self.cluster.apply(event)?;
                if let Event::Submitted(new) = event {
                    tokens.insert(new.token, (taken.len(), new.id, new.uid));
                }
            }
            taken.push(Taken { decision, twin });
        }
        Ok(taken)
    }

    /// Moves the job files of submissions; one whose file stays behind, and whoever was told to be the same job, is refused.
    fn move_files<C: Courier>(&mut self, taken: Vec<Taken>, courier: &mut C) -> Result<(), IllegalEvent> {
        let filings: Vec<Filing> =
            taken.iter().flat_map(|t| &t.decision.effects).filter_map(filing).collect();
        let fates = if filings.is_empty() { Vec::new() } else { courier.file(&filings) };
        let mut fates = filings.into_iter().zip(fates.into_iter().chain(core::iter::repeat(None)));
        let mut refused: BTreeMap<usize, Refusal> = BTreeMap::new();
        let mut never_were = Vec::new();
        for (at, Taken { decision, twin }) in taken.into_iter().enumerate() {
            let fate = if decision.effects.iter().any(|e| filing(e).is_some()) { fates.next() } else { None };
            let refusal = match (fate, twin) {
                (Some((_, Some(refusal))), _) => Some(refusal),
                (Some((moved, None)), _) => {
                    self.filed.push(moved);
                    None
                }
                (None, Some(first)) => refused.get(&first).cloned(),
                (None, None) => None,
            };
            match refusal {
                Some(refusal) => {
                    refused.insert(at, refusal.clone());
                    never_were.push((decision, refusal));
                }
                None => self.record(decision),
            }
        }
        let mut ends = Vec::new();
        for (decision, refusal) in never_were {
            self.take_back(decision, refusal, &mut ends)?;
        }
        // Whoever came with them and waits for them waits for what never was.
        for (end, before) in ends {
            let events = dependency::follow(self.cluster, self.policy, &self.context, &end, &before);
            self.take(Decision { events, ..Decision::default() })?;
        }
        Ok(())
    }

    /// A job that was taken in and whose file could not be moved: it never was.
    fn take_back(
        &mut self,
        decision: Decision,
        refusal: Refusal,
        ends: &mut Vec<(Event, Arc<Job>)>,
    ) -> Result<(), IllegalEvent> {
        for event in &decision.events {
            let Event::Submitted(new) = event else { continue };
            let Some(before) = self.cluster.job(new.id).map(Arc::clone) else { continue };
            let outcome =
                Outcome::without_exit(End::Cancelled, gq_model::Reason::Cancelled, "never accepted");
            let (tasks, at) = (new.tasks.clone(), self.context.now);
            let end = Event::TasksEnded { job: new.id, tasks, outcome, at };
            self.cluster.apply(&end)?;
            ends.push((end, before));
        }
        for effect in decision.effects {
            if let Effect::Reply(client, _) = effect {
                self.effects.push(Effect::Reply(client, Answer::Refused(refusal.clone())));
            }
        }
        Ok(())
    }

    /// Records a decision whose events are applied already.
    fn record(&mut self, decision: Decision) {
        self.steps.extend(decision.events.into_iter().map(|event| Step { event, before: None }));
        self.effects.extend(decision.effects);
    }

    fn take(&mut self, decision: Decision) -> Result<(), IllegalEvent> {
        for effect in decision.effects {
            match effect {
                Effect::Outlook(outlook) => self.outlook = Some(outlook),
                effect => self.effects.push(effect),
            }
        }
        let first = self.steps.len();
        // What follows for jobs that wait for others is decided once all of the decision is folded in, one thing after the other.
        let mut news = VecDeque::new();
        let mut events = decision.events;
        loop {
            for event in events {
                if let Some(before) = self.fold(event)? {
                    news.push_back((self.steps.len() - 1, before));
                }
            }
            let Some((at, before)) = news.pop_front() else { return self.spend(first) };
            events = match self.steps.get(at) {
                Some(step) => {
                    dependency::follow(self.cluster, self.policy, &self.context, &step.event, &before)
                }
                None => Vec::new(),
            };
        }
    }

    /// Takes what the runs held that have ended since a step of the budgets of those who pay for them.
    fn spend(&mut self, first: usize) -> Result<(), IllegalEvent> {
        for at in first..self.steps.len() {
            let Some(Step { event: Event::RunEnded { key, outcome, at, .. }, before: Some(job) }) =
                self.steps.get(at)
            else {
                continue;
            };
            let ended = (&**job, *key, outcome, *at);
            for event in charge::spent(self.cluster, self.policy, &self.context, ended) {
                self.fold(event)?;
            }
        }
        Ok(())
    }

    /// Folds an event in. Returns the job before it, when others may wait for what happened.
    fn fold(&mut self, event: Event) -> Result<Option<Arc<Job>>, IllegalEvent> {
        let id = event.job();
        let ends = matches!(event, Event::RunEnded { .. } | Event::TasksEnded { .. });
        let renames = matches!(event, Event::Amended { .. });
        let concerns = renames || dependency::concerns(self.cluster, &event);
        let before = id.filter(|_| ends || concerns).and_then(|id| self.cluster.job(id)).map(Arc::clone);
        self.cluster.apply(&event)?;
        let mut is_over = false;
        if let (true, Some(before), Some(id)) = (ends, &before, id)
            && self.cluster.job(id).is_none()
        {
            self.over.push(over(before, &event));
            is_over = true;
        }
        self.steps.push(Step { event, before: before.clone().filter(|_| ends) });
        Ok(before.filter(|_| concerns || is_over))
    }

    fn finish<C: Courier>(self, courier: &mut C) {
        courier.publish(self.cluster, &self.steps, self.outlook);
        courier.act(self.effects);
        if !self.over.is_empty() {
            courier.over(self.over);
        }
    }

    fn undo_illegal<K: Keeper, C: Courier>(
        self,
        inputs: &[Input],
        illegal: IllegalEvent,
        keeper: &mut K,
        courier: &mut C,
    ) -> Result<(), TurnError<K::Error>>
    where
        K::Error: ToString,
    {
        courier.give_back(&self.filed);
        refuse_all(inputs, &illegal.to_string(), courier);
        self.planner.forget();
        *self.cluster = keeper.load().map_err(|e| TurnError::Broken(e.to_string()))?;
        Err(TurnError::Broken(illegal.to_string()))
    }
}

fn filing(effect: &Effect) -> Option<Filing> {
    match effect {
        Effect::File { drop_name, job_file } => {
            Some(Filing { drop_name: drop_name.clone(), job_file: job_file.clone() })
        }
        _ => None,
    }
}

/// How a job ended whose last task ended by `event`.
fn over(before: &Job, event: &Event) -> Over {
    let last = match event {
        Event::RunEnded { outcome, .. } | Event::TasksEnded { outcome, .. } => Some(outcome),
        _ => None,
    };
    let rest = before.tally.worst.iter().chain(last);
    let worst =
        rest.reduce(|worst, next| if next.client_code() > worst.client_code() { next } else { worst });
    let unknown = || Outcome::without_exit(End::Failed, gq_model::Reason::None, "");
    Over { gone: Gone::of(before), outcome: worst.cloned().unwrap_or_else(unknown) }
}

/// Tells every client of a turn that came to nothing.
fn refuse_all<C: Courier>(inputs: &[Input], why: &str, courier: &mut C) {
    let refusal = Refusal::new(RefusalKind::Policy, format!("not recorded: {why}"));
    let client = |input: &Input| match input {
        Input::Submit { client, .. } => *client,
        Input::TestOnly { client, .. }
        | Input::Command { client, .. }
        | Input::Nodes { client, .. }
        | Input::Book { client, .. }
        | Input::Unbook { client, .. } => Some(*client),
        Input::Promise { .. }
        | Input::Report { .. }
        | Input::NodeHeard { .. }
        | Input::NodeSilent { .. }
        | Input::NodeLost { .. }
        | Input::LeaseOver { .. }
        | Input::Declared
        | Input::Restarted
        | Input::Schedule => None,
    };
    let replies =
        inputs.iter().filter_map(client).map(|c| Effect::Reply(c, Answer::Refused(refusal.clone())));
    courier.act(replies.collect());
}
