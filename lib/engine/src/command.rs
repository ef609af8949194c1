//! What users and admins ask for jobs: which ones a request means, and who may. What is done to each is `acts` or `update`.
//! One request, however many jobs: what cannot be done to one of them is said of that one alone.

use crate::{
    Actor, Answer, ClientId, Context, Decision, Effect, Failure, Gone, Past, Refusal, RefusalKind, acts::Act,
    bounds, schedule::Orders, update::Update,
};
use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use gq_cluster::{Cluster, Job, Owner, Policy};
use gq_model::{Change, IndexSet, JobId, JobRef, JobState, SignalTo, Uid};

/// Which jobs are meant. Without `jobs`, every live job that fits all the other words; several words of one kind mean "any".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// By id.
    pub jobs: Vec<JobRef>,
    /// By user.
    pub users: Vec<Uid>,
    /// By name.
    pub names: Vec<String>,
    /// By partition.
    pub partitions: Vec<String>,
    /// By state.
    pub states: Vec<JobState>,
}

impl Selection {
    /// Whether it names nothing at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it names this job by id.
    pub fn names(&self, id: JobId) -> bool {
        self.jobs.iter().any(|named| named.job == id)
    }

    /// Whether `job` fits every word but its id and state.
    pub fn fits(&self, job: &Job) -> bool {
        (self.users.is_empty() || self.users.contains(&job.uid))
            && (self.names.is_empty() || self.names.contains(&job.spec.name))
            && (self.partitions.is_empty() || self.partitions.contains(&job.shape.partition))
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// End them.
    Cancel,
    /// Send a signal to their processes.
    Signal(u8, SignalTo),
    /// Keep them from starting.
    Hold,
    /// Let them start.
    Release,
    /// End them and let them run again; held, if that is said.
    Requeue {
        /// Whether they are held then.
        hold: bool,
    },
    /// Stop them in place.
    Suspend,
    /// Let suspended ones go on.
    Continue,
    /// Say something anew of them.
    Update(Vec<Change>),
}

/// The tasks of one job that a request means.
pub(crate) struct Target<'a> {
    pub job: &'a Job,
    /// None means all.
    pub tasks: Option<IndexSet>,
}

impl Target<'_> {
    pub fn means(&self, task: u32) -> bool {
        self.tasks.as_ref().is_none_or(|set| set.contains(task))
    }
}

/// What somebody wants done, and what was looked up for it.
pub(crate) struct Asked<'a> {
    pub by: Actor,
    pub verb: &'a Verb,
    pub select: &'a Selection,
    /// Of the ids named, those of jobs that have ended.
    pub ended: &'a [Gone],
    /// What became of jobs that a new dependency names.
    pub past: &'a [Past],
}

pub(crate) fn command(
    cluster: &Cluster,
    policy: &Policy,
    context: &Context,
    client: ClientId,
    asked: &Asked<'_>,
) -> Decision {
    let Asked { by, verb, select, ended: _, past } = asked;
    if select.is_empty() {
        let refusal = Refusal::new(RefusalKind::Usage, "no job is named")
            .hint("name ids, or select by user, name, partition or state");
        return Decision::reply(client, Answer::Refused(refusal));
    }
    if let Err(refusal) = bounds::command(verb, select) {
        return Decision::reply(client, Answer::Refused(refusal));
    }
    let mut decision = Decision::default();
    let mut orders = Orders::of(cluster);
    let (mut count, mut failures) = (0u64, Vec::new());
    let meant = Meant { cluster, policy, asked };
    let (targets, over) = meant.targets(&mut failures);
    if let Verb::Update(changes) = verb
        && let Err(refusal) = bounds::update(changes, &targets)
    {
        return Decision::reply(client, Answer::Refused(refusal));
    }
    for target in targets {
        let may = policy.may_steer(by.uid, by.role, target.job.owner());
        let what = target.job.id.to_string();
        let done = match (may, verb) {
            (false, _) => Err(of_another(target.job.id, &target.job.user)),
            (true, Verb::Update(_)) if target.tasks.is_some() && target.job.array => {
                let text = format!("job {what} is changed as a whole, not task by task");
                Err(Refusal::new(RefusalKind::Policy, text).hint(format!("gqctl update {what}")))
            }
            (true, Verb::Update(changes)) => {
                let update = Update { cluster, policy, context, by: *by, past };
                update.decide(target.job, changes, &mut decision, &mut orders)
            }
            (true, _) => {
                let (decision, orders) = (&mut decision, &mut orders);
                Act { cluster, policy, context, by: *by, target, select, decision, orders }.perform(verb)
            }
        };
        match done {
            Ok(()) => count = count.saturating_add(1),
            Err(refusal) => failures.push(Failure { what, refusal }),
        }
    }
    count = count.saturating_add(over);
    decision.effects.push(Effect::Reply(client, Answer::Done { count, failures }));
    decision
}

/// Which jobs a request means.
struct Meant<'a> {
    cluster: &'a Cluster,
    policy: &'a Policy,
    asked: &'a Asked<'a>,
}

impl<'a> Meant<'a> {
    fn steers(&self, job: &Job) -> bool {
        let by = self.asked.by;
        self.policy.may_steer(by.uid, by.role, job.owner())
    }

    fn sees(&self, owner: Owner<'_>) -> bool {
        let by = self.asked.by;
        self.policy.may_see(by.uid, by.role, owner)
    }

    /// The jobs meant, each once, and how many have ended for which that is no error.
    fn targets(&self, failures: &mut Vec<Failure>) -> (Vec<Target<'a>>, u64) {
        match self.asked.select.jobs.is_empty() {
            true => (self.by_words(failures), 0),
            false => self.by_id(failures),
        }
    }

    /// Jobs of others are passed over silently when their user was not named; what he may not see of them is as if it were not there.
    fn by_words(&self, failures: &mut Vec<Failure>) -> Vec<Target<'a>> {
        let select = self.asked.select;
        let states = |job: &Job| {
            select.states.is_empty() || job_states(self.cluster, job).any(|s| select.states.contains(&s))
        };
        let fit = self.cluster.jobs().filter(|job| select.fits(job) && states(job) && self.sees(job.owner()));
        let (mine, others): (Vec<&Arc<Job>>, Vec<&Arc<Job>>) = fit.partition(|job| self.steers(job));
        failures.extend(of_others(select, &others));
        mine.into_iter().map(|job| Target { job, tasks: None }).collect()
    }

    fn by_id(&self, failures: &mut Vec<Failure>) -> (Vec<Target<'a>>, u64) {
        let Asked { select, ended, .. } = self.asked;
        let mut wanted: BTreeMap<JobId, Option<IndexSet>> = BTreeMap::new();
        for reference in &select.jobs {
            match &reference.tasks {
                None => {
                    wanted.insert(reference.job, None);
                }
                Some(tasks) => {
                    if let Some(set) =
                        wanted.entry(reference.job).or_insert_with(|| Some(IndexSet::default()))
                    {
                        *set = set.or(tasks);
                    }
                }
            }
        }
        let (mut targets, mut over) = (Vec::new(), 0u64);
        for (id, tasks) in wanted {
            let live = self.cluster.job(id).filter(|job| self.sees(job.owner()));
            let gone = ended.iter().find(|gone| gone.job == id).filter(|gone| self.sees(gone.owner()));
            let refusal = match (live, gone) {
                (Some(job), _) => {
                    targets.extend(select.fits(job).then(|| parts(job, tasks, failures)).flatten());
                    continue;
                }
                (None, Some(gone)) => match self.too_late(gone) {
                    Ok(()) => {
                        over = over.saturating_add(1);
                        continue;
                    }
                    Err(refusal) => refusal,
                },
                // Whoever may not see a job is told the same.
                (None, None) => Refusal::new(RefusalKind::NoSuchJob, format!("there is no job {id}")),
            };
            failures.push(Failure { what: id.to_string(), refusal });
        }
        (targets, over)
    }

    /// What is said of a job that has ended: to cancel it is no error.
    fn too_late(&self, gone: &Gone) -> Result<(), Refusal> {
        let (by, id) = (self.asked.by, gone.job);
        if !self.policy.may_steer(by.uid, by.role, gone.owner()) {
            return Err(of_another(id, &format!("uid {}", gone.uid)));
        }
        let refusal = Refusal::new(RefusalKind::Policy, format!("job {id} has ended"));
        match self.asked.verb {
            Verb::Cancel => Ok(()),
            Verb::Requeue { .. } => {
                Err(refusal
                    .hint(format!("gqsub --rerun-failed={id} submits what did not complete as a new job")))
            }
            Verb::Signal(..)
            | Verb::Hold
            | Verb::Release
            | Verb::Suspend
            | Verb::Continue
            | Verb::Update(_) => Err(refusal),
        }
    }
}

fn of_another(id: JobId, whom: &str) -> Refusal {
    Refusal::new(RefusalKind::NotPermitted, format!("job {id} belongs to {whom}"))
}

/// What is said of jobs of other users who were named.
fn of_others(select: &Selection, others: &[&Arc<Job>]) -> Vec<Failure> {
    let mut named: BTreeMap<Uid, (&str, u64)> = BTreeMap::new();
    for job in others.iter().filter(|job| select.users.contains(&job.uid)) {
        named.entry(job.uid).or_insert((&job.user, 0)).1 += 1;
    }
    let told = |(user, count): (&str, u64)| {
        let text = format!(
            "{count} match, and only {user}, who coordinates their account, operators and admins may do that"
        );
        Failure { what: format!("jobs of {user}"), refusal: Refusal::new(RefusalKind::NotPermitted, text) }
    };
    named.into_values().map(told).collect()
}

/// A job, or those tasks of it that are meant; tasks that it never had are said to be none.
fn parts<'a>(job: &'a Job, tasks: Option<IndexSet>, failures: &mut Vec<Failure>) -> Option<Target<'a>> {
    let Some(tasks) = tasks else { return Some(Target { job, tasks: None }) };
    let all = job.spec.tasks();
    let strange = tasks.without(&all);
    if !strange.is_empty() {
        let named = JobRef { job: job.id, tasks: Some(strange) };
        let refusal = Refusal::new(RefusalKind::NoSuchJob, format!("there is no task {named}"));
        failures.push(Failure { what: named.to_string(), refusal });
    }
    let tasks = tasks.and(&all);
    (!tasks.is_empty()).then_some(Target { job, tasks: Some(tasks) })
}

/// The states that the tasks of a job are in.
fn job_states<'a>(cluster: &'a Cluster, job: &'a Job) -> impl Iterator<Item = JobState> + 'a {
    let waiting = (!job.waiting.is_empty()).then_some(JobState::Pending);
    let running = job.runs.values().map(|run| {
        let blind = cluster.node(&run.node).is_some_and(|node| node.is_blind_to(run));
        if blind { JobState::Unknown } else { run.state() }
    });
    waiting.into_iter().chain(running)
}
