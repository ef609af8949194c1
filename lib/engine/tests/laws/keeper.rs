//! A keeper in memory, whole or absent, and a courier with a drop box and a folder of accepted job files.

use gq_cluster::{Cluster, Event, Job, Next, Node, Purse, Spent, Stopping, Usage};
use gq_engine::{
    Answer, ClientId, Courier, Effect, Filing, Keeper, Order, Over, Record, Refusal, RefusalKind, Step,
};
use gq_model::{End, JobId, NodeName, Outcome, RunKey, Seq, Timestamp, Token, Uid};
use gq_sched::Outlook;
use std::collections::{BTreeMap, BTreeSet};

/// What is on disk.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    pub last_job: JobId,
    pub jobs: BTreeMap<JobId, String>,
    pub nodes: BTreeMap<NodeName, String>,
    pub bookings: BTreeMap<String, String>,
    pub usage: BTreeMap<(Option<String>, Uid), Usage>,
    pub spent: BTreeMap<Purse, Spent>,
    pub outbox: BTreeMap<NodeName, BTreeMap<Seq, Order>>,
    pub tokens: BTreeMap<Token, (JobId, Uid)>,
    pub events: Vec<Event>,
    /// Tasks that ended, by job.
    pub ended: BTreeMap<JobId, u64>,
    pub run_ends: BTreeMap<RunKey, (Outcome, Next)>,
}

/// Keeps rows; fails when told so.
#[derive(Debug, Default)]
pub struct Disk {
    pub rows: Rows,
    pub full: bool,
    /// Whether use of cards halves with time.
    pub decays: bool,
}

impl Disk {
    pub fn read(&self) -> Cluster {
        let jobs: Vec<Job> = self.rows.jobs.values().map(|row| serde_json::from_str(row).unwrap()).collect();
        let nodes: Vec<Node> =
            self.rows.nodes.values().map(|row| serde_json::from_str(row).unwrap()).collect();
        let bookings = self.rows.bookings.values().map(|row| serde_json::from_str(row).unwrap()).collect();
        let usage = &self.rows.usage;
        let usage = usage.iter().map(|((account, uid), usage)| (account.clone(), *uid, *usage)).collect();
        let spent = self.rows.spent.iter().map(|(purse, spent)| (purse.clone(), *spent)).collect();
        let last_job = self.rows.last_job;
        Cluster::restore(gq_cluster::Rows { last_job, jobs, nodes, bookings, usage, spent }).unwrap()
    }

    /// A job that was accepted, and whose it is.
    pub fn gone(&self, id: JobId) -> gq_engine::Gone {
        let found = self.rows.events.iter().find_map(|event| match event {
            Event::Submitted(new) if new.id == id => Some(new),
            _ => None,
        });
        let new = found.unwrap_or_else(|| panic!("job {id} was never submitted"));
        gq_engine::Gone { job: id, uid: new.uid, account: new.payer.account.clone() }
    }

    /// What became of the tasks of a job that have ended.
    pub fn past(&self, id: JobId) -> gq_engine::Past {
        let mut past = gq_engine::Past { gone: self.gone(id), ..Default::default() };
        for event in &self.rows.events {
            match event {
                Event::TasksEnded { job, tasks, .. } if *job == id => past.bad = past.bad.or(tasks),
                Event::RunEnded { key, outcome, started, next: Next::Over, .. } if key.job == id => {
                    let set = if outcome.end == End::Completed { &mut past.good } else { &mut past.bad };
                    set.insert(key.task.0);
                    past.started = past.started.max(*started);
                }
                _ => {}
            }
        }
        past
    }

    fn step(rows: &mut Rows, step: &Step) {
        match &step.event {
            Event::Submitted(new) => {
                let twin = rows.tokens.insert(new.token, (new.id, new.uid));
                assert_eq!(twin, None, "the token of job {} was a job before", new.id);
            }
            Event::TasksEnded { job, tasks, .. } => *rows.ended.entry(*job).or_default() += tasks.len(),
            Event::RunEnded { key, outcome, next, .. } => {
                let before = step.before.as_ref().unwrap_or_else(|| panic!("{key} ended without its job"));
                check_end(before, *key, outcome, *next);
                let twice = rows.run_ends.insert(*key, (outcome.clone(), *next));
                assert_eq!(twice, None, "{key} ended twice");
                if *next == Next::Over {
                    *rows.ended.entry(key.job).or_default() += 1;
                }
            }
            Event::Charged { account, uid, usage } => {
                rows.usage.insert((account.clone(), *uid), *usage);
            }
            Event::Spent { purse, spent } | Event::BudgetReached { purse, spent, .. } => {
                rows.spent.insert(purse.clone(), *spent);
            }
            Event::Booked(booking) => {
                rows.bookings.insert(booking.name.clone(), serde_json::to_string(booking).unwrap());
            }
            Event::Unbooked { name } => drop(rows.bookings.remove(name).unwrap()),
            _ => {}
        }
        rows.events.push(step.event.clone());
    }
}

/// Every run that costs anything is charged when it ends, in the very next step: for all whole seconds begun since it was given what
/// it held. Use of cards does not decay here.
fn check_charges(rows: &Rows, steps: &[Step], now: Timestamp) {
    let mut used = rows.usage.clone();
    for (at, step) in steps.iter().enumerate() {
        let (Event::RunEnded { key, .. }, Some(before)) = (&step.event, &step.before) else { continue };
        let run = &before.runs[&key.task];
        let who = (before.payer.account.clone(), before.payer.uid);
        let seconds = now.micros_since(run.allocated).div_ceil(1_000_000);
        let sum = used.get(&who).map_or(0, |usage| usage.charge) + u64::from(run.rate) * seconds;
        let charged = steps.get(at + 1).map(|step| &step.event);
        let (account, uid) = who.clone();
        let usage = Usage { charge: sum, at: now };
        assert_eq!(charged, Some(&Event::Charged { account, uid, usage }), "{key} has ended");
        used.insert(who, usage);
    }
    let ends = steps.iter().filter(|step| matches!(step.event, Event::RunEnded { .. })).count();
    let charges = steps.iter().filter(|step| matches!(step.event, Event::Charged { .. })).count();
    assert_eq!(ends, charges, "somebody pays for nothing");
}

/// A run ends as it was stopped, and nobody is cancelled whom nobody cancelled.
fn check_end(before: &Job, key: RunKey, outcome: &Outcome, next: Next) {
    let stopping = before.runs[&key.task].stopping;
    match (stopping, outcome.end) {
        (Some(Stopping::Cancel), _) => assert_eq!(next, Next::Over, "{key} was cancelled and goes on"),
        (Some(Stopping::Requeue | Stopping::RequeueHold(_)), End::Cancelled) => {
            assert_ne!(next, Next::Over, "{key} was to run again")
        }
        (Some(Stopping::Preempt { again, .. }), End::Preempted) => {
            assert_eq!(next != Next::Over, again, "{key} made room");
        }
        (Some(Stopping::Preempt { .. }), end) => {
            assert_ne!(end, End::Cancelled, "nobody cancelled {key}");
            // What only prepares the job is not its end.
            let prepares = before.runs[&key.task].stage == gq_model::Stage::Prep;
            let own = matches!(end, End::Completed | End::Timeout) && !prepares;
            assert!(!own || next == Next::Over, "{key} came to its own end");
        }
        (Some(Stopping::Idle { again }), End::Cancelled) => {
            assert_eq!(outcome.reason, gq_model::Reason::IdleCards, "{key}");
            let times = before.reclaimed.get(&key.task).copied().unwrap_or(0);
            assert!(!again || times < 3, "{key} is put back for ever");
            assert!(before.runs[&key.task].idle.is_some() && (next != Next::Over) == again, "{key} was idle");
        }
        (None, end) => assert_ne!(end, End::Cancelled, "nobody cancelled {key}"),
        _ => {}
    }
}

impl Keeper for Disk {
    type Error = &'static str;

    /// It is full, or it keeps all.
    fn is_undone(_error: &Self::Error) -> bool {
        true
    }

    fn keep(&mut self, record: &Record<'_>) -> Result<(), Self::Error> {
        if self.full {
            return Err("the disk is full");
        }
        let rows = &mut self.rows;
        if !self.decays {
            check_charges(rows, record.steps, record.at);
        }
        rows.last_job = record.cluster.last_job();
        for step in record.steps {
            Self::step(rows, step);
            if let Some(id) = step.event.job() {
                match record.cluster.job(id) {
                    Some(job) => drop(rows.jobs.insert(id, serde_json::to_string(&**job).unwrap())),
                    None => drop(rows.jobs.remove(&id)),
                }
            }
            if let Some(name) = step.event.node() {
                let node = record.cluster.node(name).unwrap();
                rows.nodes.insert(name.clone(), serde_json::to_string(&**node).unwrap());
            }
        }
        for effect in record.effects {
            if let Effect::Order { node, seq, order } = effect {
                let last = rows.outbox.entry(node.clone()).or_default();
                assert!(
                    last.last_key_value().is_none_or(|(last, _)| last.0 + 1 == seq.0),
                    "a hole before {seq}"
                );
                last.insert(*seq, order.clone());
            }
        }
        Ok(())
    }

    fn load(&mut self) -> Result<Cluster, Self::Error> {
        Ok(self.read())
    }
}

/// Moves job files, and remembers what it was told.
#[derive(Debug, Default)]
pub struct Post {
    pub drop_box: BTreeSet<String>,
    /// Accepted job files, with the name they had in the drop box.
    pub jobs: BTreeMap<String, String>,
    /// Which of the next filings fail.
    pub refusing: Vec<bool>,
    pub replies: BTreeMap<ClientId, Answer>,
    pub published: bool,
    pub orders: Vec<(NodeName, Seq, Order)>,
    pub over: BTreeMap<JobId, Outcome>,
    pub outlook: Option<Outlook>,
}

impl Courier for Post {
    fn file(&mut self, filings: &[Filing]) -> Vec<Option<Refusal>> {
        let mut fates = self.refusing.clone().into_iter().chain(std::iter::repeat(false));
        let mut file = |filing: &Filing| {
            if fates.next() == Some(true) {
                return Some(Refusal::new(RefusalKind::Policy, "the spool is full"));
            }
            assert!(self.drop_box.remove(&filing.drop_name), "{} is not there", filing.drop_name);
            let other = self.jobs.insert(filing.job_file.clone(), filing.drop_name.clone());
            assert_eq!(other, None, "{} was there before", filing.job_file);
            None
        };
        filings.iter().map(&mut file).collect()
    }

    fn settle(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn give_back(&mut self, filings: &[Filing]) {
        for filing in filings {
            assert_eq!(self.jobs.remove(&filing.job_file).as_ref(), Some(&filing.drop_name));
            self.drop_box.insert(filing.drop_name.clone());
        }
    }

    fn publish(&mut self, _: &Cluster, _: &[Step], outlook: Option<Outlook>) {
        self.published = true;
        self.outlook = outlook.or(self.outlook.take());
    }

    fn act(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Reply(client, answer) => {
                    let refused = matches!(answer, Answer::Refused(_));
                    assert!(self.published || refused, "{answer:?} left before the view was out");
                    let twice = self.replies.insert(client, answer);
                    assert_eq!(twice, None, "{client:?} was answered twice");
                }
                Effect::Order { node, seq, order } => self.orders.push((node, seq, order)),
                Effect::Discard { drop_name, .. } => drop(self.drop_box.remove(&drop_name)),
                Effect::File { .. } | Effect::Outlook(_) => {}
            }
        }
    }

    fn over(&mut self, jobs: Vec<Over>) {
        for over in jobs {
            let twice = self.over.insert(over.gone.job, over.outcome);
            assert_eq!(twice, None, "job {} was over twice", over.gone.job);
        }
    }
}
