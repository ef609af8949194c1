//! Dependencies: what the conditions of a job mean when it is submitted, and what an end or a start of another job means for them.
//! Jobs that ended count, however old: the household looks up what became of them ([`Past`]).

use crate::{Actor, Context, Gone, Refusal, RefusalKind};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    sync::Arc,
    vec::Vec,
};
use gq_cluster::{Cluster, Condition, Event, Fate, Job, Next, Owner, Phase, Policy, Waits};
use gq_model::{
    Dependency, End, IndexSet, JobId, JobRef, Outcome, Reason, Seconds, TaskIndex, Term, Timestamp, Uid, When,
};

/// What became of the tasks of a job that have ended, as it is on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// Which job, and whose.
    pub gone: Gone,
    /// Tasks that COMPLETED.
    pub good: IndexSet,
    /// Tasks that ended otherwise.
    pub bad: IndexSet,
    /// The latest start of any of them.
    pub started: Option<Timestamp>,
}

impl Past {
    /// Adds what an event says of the job's tasks that have ended for good.
    pub(crate) fn add(&mut self, event: &Event) {
        match event {
            Event::RunEnded { key, outcome, started, next: Next::Over, .. } => {
                let set = if outcome.end == End::Completed { &mut self.good } else { &mut self.bad };
                set.insert(key.task.0);
                self.started = self.started.max(*started);
            }
            Event::TasksEnded { tasks, .. } => self.bad = self.bad.or(tasks),
            _ => {}
        }
    }
}

/// What is known of a job that another one names.
struct Known<'a> {
    live: Option<&'a Arc<Job>>,
    past: Past,
}

impl Known<'_> {
    fn owner(&self) -> Owner<'_> {
        self.live.map_or_else(|| self.past.gone.owner(), |job| job.owner())
    }
    fn all(&self) -> IndexSet {
        self.open().or(&self.past.good).or(&self.past.bad)
    }
    /// Tasks that have not ended.
    fn open(&self) -> IndexSet {
        let Some(job) = self.live else { return IndexSet::default() };
        job.waiting.or(&job.runs.keys().map(|task| task.0).collect())
    }
    /// Tasks that have not begun.
    fn unbegun(&self) -> IndexSet {
        self.live.map(|job| unbegun(job)).unwrap_or_default()
    }
    fn last_start(&self) -> Option<Timestamp> {
        let runs = self.live.iter().flat_map(|job| job.runs.values()).filter_map(|run| run.started());
        runs.chain(self.past.started).max()
    }
}

/// Tasks of a job whose script has not begun.
fn unbegun(job: &Job) -> IndexSet {
    let starting = job.runs.iter().filter(|(_, run)| run.phase == Phase::Starting);
    job.waiting.or(&starting.map(|(task, _)| task.0).collect())
}

/// What a request's dependency means as things stand: its conditions, and before when the job may not start. `id`: the job's; `own`: its tasks;
/// `array`: whether it is one. Anybody may wait for any job as a whole; of a job that he may not see he knows no tasks.
///
/// # Errors
/// When it names a job or task that never was, or the job itself.
pub(crate) fn conditions(
    (cluster, policy, context): (&Cluster, &Policy, &Context),
    by: Actor,
    past: &[Past],
    asked: &Dependency,
    (id, own, array): (JobId, &IndexSet, bool),
) -> Result<(Waits, Option<Timestamp>), Refusal> {
    let refused = |term: &Term, what: &str| {
        Err(Refusal::new(RefusalKind::Policy, format!("--dependency={term}: {what}")))
    };
    let (mut conditions, mut not_before) = (Vec::with_capacity(asked.terms.len()), None);
    for term in &asked.terms {
        let mut condition = Condition::new(term.clone());
        if let Term::Job { when, on } = term {
            let live = cluster.job(on.job);
            // A job that is being submitted has no id yet that anybody could know.
            if on.job == id && live.is_some() {
                return refused(term, "a job cannot wait for itself");
            }
            let told = past.iter().find(|past| past.gone.job == on.job);
            let known = match (live, told) {
                (None, None) => {
                    let refused = refused(term, "there is no such job")
                        .map_err(|r: Refusal| Refusal { kind: RefusalKind::NoSuchJob, ..r });
                    return refused;
                }
                (live, told) => Known { live, past: told.cloned().unwrap_or_default() },
            };
            let all = known.all();
            let is_known = policy.may_see(by.uid, by.role, known.owner());
            if on.tasks.as_ref().is_some_and(|tasks| !is_known || !tasks.without(&all).is_empty()) {
                return refused(term, "the job has no such task");
            }
            // Task by task goes from array to array: a plain job waits, or is waited for, as a whole.
            let is_plain = !array || all == IndexSet::range(0, 0);
            let when = if *when == When::AfterCorr && is_plain { When::AfterOk } else { *when };
            if when == When::AfterCorr && asked.any {
                return refused(term, "task by task goes with no other condition behind ?");
            }
            condition.term = Term::Job { when, on: on.clone() };
            let later = begin(&mut condition, when, on, &known, own, context.now);
            not_before = not_before.max(later);
        }
        conditions.push(condition);
    }
    let mut waits = Waits { any: asked.any, conditions };
    let name = |job: &Job| (job.uid, job.spec.name.clone());
    if let Some(job) = cluster.job(id) {
        settle_singleton(cluster, &mut waits, id, &name(job));
    }
    Ok((waits, not_before))
}

/// Whether no job of the same user and name that was submitted before lives: closes the condition if it is met.
pub(crate) fn settle_singleton(
    cluster: &Cluster,
    waits: &mut Waits,
    id: JobId,
    (uid, name): &(Uid, alloc::string::String),
) {
    let is_first = cluster.alike(*uid, name).all(|other| other.id >= id);
    for condition in waits.conditions.iter_mut().filter(|condition| condition.term == Term::Singleton) {
        condition.fate = if is_first { Fate::Met } else { Fate::Open };
    }
}

/// Puts a condition where it stands now; returns before when its job may not start.
fn begin(
    condition: &mut Condition,
    when: When,
    on: &JobRef,
    known: &Known<'_>,
    own: &IndexSet,
    now: Timestamp,
) -> Option<Timestamp> {
    let tasks = on.tasks.clone().unwrap_or_else(|| known.all());
    let open = tasks.and(&known.open());
    let is_spoilt = on.tasks.is_none() && known.live.is_some_and(|job| !job.tally.is_good());
    let has_failed = is_spoilt || !tasks.and(&known.past.bad).is_empty();
    let fate = match when {
        When::After(minutes) => {
            let left = tasks.and(&known.unbegun());
            let is_met = left.is_empty();
            condition.left = if on.tasks.is_some() { left } else { IndexSet::default() };
            condition.fate = if is_met { Fate::Met } else { Fate::Open };
            let begun = known.last_start().unwrap_or(now);
            return Some(begun.after(minutes_of(minutes))).filter(|at| is_met && *at > now);
        }
        When::AfterAny => closed(open.is_empty(), Fate::Met),
        When::AfterOk if has_failed => Fate::Never,
        When::AfterOk => closed(open.is_empty(), Fate::Met),
        When::AfterNotOk => closed(open.is_empty(), if has_failed { Fate::Met } else { Fate::Never }),
        When::AfterCorr => {
            // A task without a twin has none that could complete.
            condition.left = own.and(&open);
            condition.never = own.without(&known.past.good).without(&open);
            condition.fate = by_task(condition);
            return None;
        }
    };
    condition.failed = has_failed;
    condition.left = if on.tasks.is_some() { open } else { IndexSet::default() };
    condition.fate = fate;
    None
}

const fn minutes_of(minutes: u32) -> Seconds {
    Seconds(minutes as u64 * 60)
}

fn closed(is_closed: bool, fate: Fate) -> Fate {
    if is_closed { fate } else { Fate::Open }
}

/// What became of a condition task by task.
fn by_task(condition: &Condition) -> Fate {
    let fate = if condition.never.is_empty() { Fate::Met } else { Fate::Never };
    closed(condition.left.is_empty(), fate)
}

/// What happened to tasks of a job, as far as others may wait for it.
struct News<'a> {
    /// The job before it happened.
    before: &'a Job,
    tasks: IndexSet,
    /// Whether they have begun only; else they have ended.
    begun: bool,
    good: bool,
}

impl News<'_> {
    fn of<'a>(event: &Event, before: &'a Job) -> Option<News<'a>> {
        let one = |task: TaskIndex| IndexSet::range(task.0, task.0);
        Some(match event {
            Event::RunEnded { key, outcome, next: Next::Over, .. } => {
                News { before, tasks: one(key.task), begun: false, good: outcome.end == End::Completed }
            }
            Event::TasksEnded { tasks, .. } => {
                News { before, tasks: tasks.clone(), begun: false, good: false }
            }
            Event::Started { key, .. } => News { before, tasks: one(key.task), begun: true, good: true },
            _ => return None,
        })
    }
    /// Whether nothing of the job lives any more.
    fn is_last(&self) -> bool {
        let lives = |set: &IndexSet| !set.without(&self.tasks).is_empty();
        !self.begun
            && !lives(&self.before.waiting)
            && !self.before.runs.keys().any(|task| !self.tasks.contains(task.0))
    }
}

/// Whether an event may mean something to jobs that wait for this one: then the job as it was before is kept for [`follow`].
pub(crate) fn concerns(cluster: &Cluster, event: &Event) -> bool {
    match event {
        Event::RunEnded { key, .. } | Event::Started { key, .. } => {
            cluster.dependents(key.job).next().is_some()
        }
        Event::TasksEnded { job, .. } => cluster.dependents(*job).next().is_some(),
        _ => false,
    }
}

/// What an event that has been folded in means for the jobs that wait for its job: `before` is that job before it.
pub(crate) fn follow(
    cluster: &Cluster,
    policy: &Policy,
    context: &Context,
    event: &Event,
    before: &Job,
) -> Vec<Event> {
    let mut events = Vec::new();
    if let Some(news) = News::of(event, before) {
        for job in cluster.dependents(before.id) {
            heard(policy, context, job, &news, &mut events);
        }
    }
    let now = cluster.job(before.id);
    if now.is_none_or(|now| now.spec.name != before.spec.name) {
        events.extend(next_singleton(cluster, before));
        // Who has another name now may be the first of that.
        events.extend(now.and_then(|now| next_singleton(cluster, now)));
    }
    events
}

/// The first of the jobs of a user and name: it waits for nobody of that name.
fn next_singleton(cluster: &Cluster, one: &Job) -> Option<Event> {
    let first = cluster.alike(one.uid, &one.spec.name).next()?;
    let conditions = &first.waits.as_ref()?.conditions;
    let is_it = |condition: &Condition| condition.term == Term::Singleton && condition.fate == Fate::Open;
    let at = conditions.iter().position(is_it)?;
    Some(Event::Heard {
        job: first.id,
        condition: u32::try_from(at).unwrap_or(u32::MAX),
        fate: Fate::Met,
        done: IndexSet::default(),
        never: IndexSet::default(),
        failed: false,
        not_before: None,
    })
}

/// Tells a waiting job the news.
fn heard(policy: &Policy, context: &Context, job: &Job, news: &News<'_>, events: &mut Vec<Event>) {
    let Some(mut waits) = job.waits.clone() else { return };
    let mut changed = false;
    for (at, condition) in waits.conditions.iter_mut().enumerate() {
        let Term::Job { when, on } = &condition.term else { continue };
        if on.job != news.before.id || condition.fate != Fate::Open {
            continue;
        }
        let Some((fate, done, never, failed)) = told(condition, *when, on, news) else { continue };
        let not_before = match when {
            When::After(minutes) if fate == Fate::Met && *minutes > 0 => {
                Some(context.now.after(minutes_of(*minutes)))
            }
            _ => None,
        };
        condition.fate = fate;
        condition.left = condition.left.without(&done).without(&never);
        condition.never = condition.never.or(&never);
        changed = true;
        let condition = u32::try_from(at).unwrap_or(u32::MAX);
        events.push(Event::Heard { job: job.id, condition, fate, done, never, failed, not_before });
    }
    if changed {
        events.extend(give_up(policy, context, job, &waits));
    }
}

/// What a condition is after the news; none when they say nothing to it. Besides: what has come of its `left`, for which of the job's own
/// tasks it can no longer be met, whether something did not complete.
fn told(
    condition: &Condition,
    when: When,
    on: &JobRef,
    news: &News<'_>,
) -> Option<(Fate, IndexSet, IndexSet, bool)> {
    let none = IndexSet::default;
    if when == When::AfterCorr {
        let hit = condition.left.and(&news.tasks);
        if news.begun || hit.is_empty() {
            return None;
        }
        let (done, never) = if news.good { (hit, none()) } else { (none(), hit) };
        let mut after = condition.clone();
        after.left = after.left.without(&news.tasks);
        after.never = after.never.or(&never);
        return Some((by_task(&after), done, never, !news.good));
    }
    if news.begun && !matches!(when, When::After(_)) {
        return None;
    }
    // Of a whole job only its end says enough (or that a task of it did not complete); of some tasks each of them counts.
    let (hit, is_done) = match &on.tasks {
        Some(_) => {
            let hit = condition.left.and(&news.tasks);
            if hit.is_empty() {
                return None;
            }
            let is_done = condition.left.without(&hit).is_empty();
            (hit, is_done)
        }
        None if matches!(when, When::After(_)) => {
            (none(), unbegun(news.before).without(&news.tasks).is_empty())
        }
        None => (none(), news.is_last()),
    };
    let failed = condition.failed || !news.good || (on.tasks.is_none() && !news.before.tally.is_good());
    let fate = match when {
        When::After(_) | When::AfterAny => closed(is_done, Fate::Met),
        When::AfterOk if failed => Fate::Never,
        When::AfterOk => closed(is_done, Fate::Met),
        When::AfterNotOk => closed(is_done, if failed { Fate::Met } else { Fate::Never }),
        When::AfterCorr => return None,
    };
    (fate != Fate::Open || !hit.is_empty()).then(|| (fate, hit, none(), failed && !news.begun))
}

/// The end of what waits for something that can no longer come, where that is wanted: of the job, or of its tasks that it concerns. What
/// runs is left alone.
pub(crate) fn give_up(policy: &Policy, context: &Context, job: &Job, waits: &Waits) -> Option<Event> {
    if !job.spec.kill_on_invalid_dep.unwrap_or(policy.kill_on_invalid_dep) {
        return None;
    }
    let tasks = match waits.fate() {
        Fate::Never => job.waiting.clone(),
        Fate::Met | Fate::Open => waits.never().and(&job.waiting),
    };
    let outcome = Outcome::without_exit(End::Cancelled, Reason::DependencyNeverSatisfied, "");
    if tasks.is_empty() {
        return None;
    }
    Some(Event::TasksEnded { job: job.id, tasks, outcome, at: context.now })
}

/// Whether `job` would wait for itself, through whatever others, with these conditions and this name.
pub(crate) fn is_circle(cluster: &Cluster, job: &Job, waits: &Waits, name: &str) -> bool {
    let mut search = Search { cluster, renamed: (job, name), todo: Vec::new(), passed: BTreeMap::new() };
    let mut seen = BTreeSet::new();
    search.add(job, waits);
    while let Some(id) = search.todo.pop() {
        if id == job.id {
            return true;
        }
        if seen.insert(id)
            && let Some(other) = cluster.job(id)
            && let Some(waits) = &other.waits
        {
            search.add(other, waits);
        }
    }
    false
}

/// A search for what a job waits for.
struct Search<'a> {
    cluster: &'a Cluster,
    /// A job, and the name that it is to have.
    renamed: (&'a Job, &'a str),
    todo: Vec<JobId>,
    /// Up to which job all of a user and name are found.
    passed: BTreeMap<(Uid, &'a str), JobId>,
}

impl<'a> Search<'a> {
    /// Adds what a job waits for that has these conditions.
    fn add(&mut self, job: &'a Job, waits: &Waits) {
        for condition in waits.conditions.iter().filter(|condition| condition.fate == Fate::Open) {
            match &condition.term {
                Term::Job { on, .. } => self.todo.push(on.job),
                Term::Singleton => self.add_earlier(job),
            }
        }
    }

    /// Adds all of its user and name that came before a job.
    fn add_earlier(&mut self, job: &'a Job) {
        let (renamed, name) = self.renamed;
        let named =
            |job: &'a Job| (job.uid, if job.id == renamed.id { name } else { job.spec.name.as_str() });
        let key = named(job);
        if self.passed.get(&key).is_some_and(|passed| *passed >= job.id) {
            return;
        }
        self.passed.insert(key, job.id);
        let earlier = self.cluster.alike(key.0, key.1).map(|other| other.id).take_while(|id| *id < job.id);
        self.todo.extend(earlier.filter(|id| *id != renamed.id));
        self.todo.extend((renamed.id < job.id && named(renamed) == key).then_some(renamed.id));
    }
}
