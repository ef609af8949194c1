//! Updates: what is said anew of a job that was submitted. Checked as its submission was; what runs keeps what it holds.

use crate::{
    Actor, Context, Decision, Order, Past, Refusal, RefusalKind, admit,
    dependency::{conditions, give_up, is_circle},
    idle,
    schedule::Orders,
};
use alloc::{format, string::String, sync::Arc};
use gq_cluster::{Amendment, Cluster, Event, Job, Policy, Run, UNLIMITED, Waits};
use gq_model::{Change, JobSpec, MAX_COMMENT, MAX_NAME, Seconds, TimeAsk};
use gq_sched::factors;

/// What an update sees.
pub(crate) struct Update<'a> {
    pub cluster: &'a Cluster,
    pub policy: &'a Policy,
    pub context: &'a Context,
    pub by: Actor,
    /// What became of jobs that it names and that have ended.
    pub past: &'a [Past],
}

/// Changes of one job in the making.
struct Draft {
    spec: JobSpec,
    /// Its new time limit, if it gets one.
    limit: Option<TimeAsk>,
    /// Whether it goes to another partition.
    moved: bool,
    /// What it waits for from now on.
    waits: Option<Waits>,
    decision: Decision,
}

/// A job's name.
fn named(name: &str) -> Result<String, Refusal> {
    if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
        let text = format!("a name has 1 to {MAX_NAME} bytes, and no control characters");
        return Err(Refusal::new(RefusalKind::Usage, text));
    }
    Ok(name.into())
}

/// A comment; an empty one is none.
fn commented(text: &str) -> Result<Option<String>, Refusal> {
    if text.len() > MAX_COMMENT || text.chars().any(char::is_control) {
        let text = format!("a comment has at most {MAX_COMMENT} bytes, and no control characters");
        return Err(Refusal::new(RefusalKind::Usage, text));
    }
    Ok(Some(String::from(text)).filter(|text| !text.is_empty()))
}

/// Why cards may be idle; an empty reason is none.
fn excused(text: &str) -> Result<Option<String>, Refusal> {
    if text.len() > MAX_NAME || text.chars().any(char::is_control) {
        let text = format!("a reason has at most {MAX_NAME} bytes, and no control characters");
        return Err(Refusal::new(RefusalKind::Usage, text));
    }
    Ok(Some(String::from(text)).filter(|text| !text.is_empty()))
}

impl Update<'_> {
    /// Decides the changes of one job; all of them or none.
    pub(crate) fn decide(
        &self,
        job: &Job,
        changes: &[Change],
        decision: &mut Decision,
        orders: &mut Orders<'_>,
    ) -> Result<(), Refusal> {
        let mut draft = Draft {
            spec: JobSpec::clone(&job.spec),
            limit: None,
            moved: false,
            waits: job.waits.clone(),
            decision: Decision::default(),
        };
        for change in changes {
            match change {
                Change::TimeLimit(limit) => draft.limit = Some(*limit),
                Change::TimeLimitBy(seconds) => draft.limit = Some(TimeAsk::Limit(by_more(job, *seconds)?)),
                Change::Partition(_) if !job.runs.is_empty() => {
                    return Err(runs(job, "its partition cannot change"));
                }
                Change::Partition(name) => (draft.moved, draft.spec.partition) = (true, Some(name.clone())),
                Change::Priority(priority) => self.prioritise(job, *priority, &mut draft)?,
                Change::Nice(nice) => self.be_nice(job, *nice, &mut draft)?,
                Change::AtOnce(_) if !job.array => {
                    return Err(Refusal::new(RefusalKind::Policy, format!("job {} is no array", job.id)));
                }
                Change::AtOnce(most) => self.amend(job, Amendment::AtOnce(*most), &mut draft.decision),
                Change::Dependency(asked) => {
                    draft.spec.dependency.clone_from(asked);
                    draft.waits = self.depend(job, asked.as_ref(), &mut draft.decision)?;
                }
                Change::Name(name) => draft.spec.name = named(name)?,
                Change::Comment(text) => draft.spec.comment = commented(text)?,
                Change::IdleOk(excuse) => {
                    draft.spec.idle_ok = excused(excuse)?;
                    let partition = self.policy.partition(&job.shape.partition);
                    partition.map_or(Ok(()), |partition| admit::may_be_idle(partition, &draft.spec))?;
                }
                Change::Begin(at) => {
                    draft.spec.begin = *at;
                    let later = at.filter(|at| *at > self.context.now);
                    self.amend(job, Amendment::NotBefore(later), &mut draft.decision);
                }
                Change::Deadline(_) if !job.runs.is_empty() => {
                    return Err(runs(job, "its deadline cannot change"));
                }
                Change::Deadline(at) => draft.spec.deadline = *at,
                Change::Requeue(requeue) => draft.spec.requeue = Some(*requeue),
            }
        }
        self.settle(job, draft, decision, orders)
    }

    /// What follows from all changes together.
    fn settle(
        &self,
        job: &Job,
        draft: Draft,
        decision: &mut Decision,
        orders: &mut Orders<'_>,
    ) -> Result<(), Refusal> {
        let Draft { mut spec, limit: asked, moved, waits, decision: mut drafted } = draft;
        let (waits_anew, named_anew) = (waits != job.waits, spec.name != job.spec.name);
        if (waits_anew || named_anew)
            && waits.is_some_and(|waits| is_circle(self.cluster, job, &waits, &spec.name))
        {
            let asked = spec.dependency.as_ref().filter(|_| waits_anew);
            let said = asked
                .map_or_else(|| format!("--name={}", spec.name), |asked| format!("--dependency={asked}"));
            let text = format!("{said}: job {} would wait for itself: a circle", job.id);
            return Err(Refusal::new(RefusalKind::Policy, text));
        }
        spec.time_limit = asked.or(spec.time_limit);
        let limit = asked.map(|asked| self.meant(job, asked));
        if let Some(limit) = limit {
            self.may_limit(job, limit)?;
        }
        if spec != *job.spec {
            self.amend(job, Amendment::Spec(Arc::new(spec.clone())), &mut drafted);
            drafted.events.extend(idle::counted_anew(self.policy, self.context, job, &spec));
        }
        let other_times = (spec.deadline, spec.begin) != (job.spec.deadline, job.spec.begin);
        if (moved || limit.is_some()) && !job.waiting.is_empty() {
            let owner = Actor { uid: job.uid, role: self.policy.role(job.uid) };
            // Whether its place may be better than others' was asked when that was said, maybe of an admin.
            let asked = JobSpec { nice: spec.nice.max(0), ..spec.clone() };
            let (shape, payer) = admit::request(self.cluster, self.policy, self.context, owner, &asked, 0)?;
            self.amend(job, Amendment::Shape(Arc::new(shape), Arc::new(payer)), &mut drafted);
        } else if other_times && !job.waiting.is_empty() {
            admit::in_time(self.context, job.shape.time_limit, &spec)?;
        }
        // Orders are numbered: they are written when nothing can be refused any more.
        if let Some(limit) = limit {
            self.limit_runs(job, limit, &mut drafted, orders);
        }
        decision.events.append(&mut drafted.events);
        decision.effects.append(&mut drafted.effects);
        Ok(())
    }

    fn prioritise(&self, job: &Job, priority: i64, draft: &mut Draft) -> Result<(), Refusal> {
        let hint = "gqctl update --nice=N moves a job of yours back";
        self.admins_only("set a priority").map_err(|refusal| refusal.hint(hint))?;
        let now = factors(self.cluster, self.policy, self.context.now, job);
        let own = priority.saturating_sub(now.total.saturating_sub(now.own));
        self.amend(job, Amendment::Priority(own), &mut draft.decision);
        Ok(())
    }

    fn be_nice(&self, job: &Job, nice: i32, draft: &mut Draft) -> Result<(), Refusal> {
        let hint = "gqctl update --nice=N, with N from 0 up, moves a job of yours back";
        if nice < 0 {
            self.admins_only("set a nice value below 0").map_err(|refusal| refusal.hint(hint))?;
        }
        // What it is otherwise an admin has said, or it has waited longer than its user wanted it to.
        if job.priority != 0i64.saturating_sub(i64::from(job.spec.nice)) {
            self.admins_only("change a priority that was set")?;
        }
        draft.spec.nice = nice;
        self.amend(job, Amendment::Priority(0i64.saturating_sub(i64::from(nice))), &mut draft.decision);
        Ok(())
    }

    fn amend(&self, job: &Job, what: Amendment, decision: &mut Decision) {
        decision.events.push(Event::Amended { job: job.id, what, by: self.by.uid });
    }

    fn admins_only(&self, what: &str) -> Result<(), Refusal> {
        if self.by.is_admin() {
            return Ok(());
        }
        Err(Refusal::new(RefusalKind::NotPermitted, format!("only admins may {what}")))
    }

    /// The time limit that what runs would have; none means unlimited.
    fn meant(&self, job: &Job, asked: TimeAsk) -> Option<Seconds> {
        match asked {
            TimeAsk::Limit(limit) => Some(limit),
            TimeAsk::Longest => {
                let partition = self.policy.partition(&job.shape.partition)?;
                admit::longest(self.policy, partition, &job.payer).map(|(most, _)| most)
            }
        }
    }

    /// Whether what runs may have this time limit: its user may shorten it, admins may lengthen it too.
    fn may_limit(&self, job: &Job, limit: Option<Seconds>) -> Result<(), Refusal> {
        let old = |run: &Run| run.own_limit.or(job.shape.time_limit).unwrap_or(UNLIMITED);
        if job.runs.values().any(|run| limit.unwrap_or(UNLIMITED) > old(run)) {
            self.admins_only("give a job that runs more time")?;
        }
        Ok(())
    }

    fn limit_runs(
        &self,
        job: &Job,
        limit: Option<Seconds>,
        decision: &mut Decision,
        orders: &mut Orders<'_>,
    ) {
        for (task, run) in &job.runs {
            let Some(key) = job.run_key(*task) else { continue };
            self.amend(job, Amendment::RunLimit(key, limit.unwrap_or(UNLIMITED)), decision);
            orders.write(decision, &run.node, Order::Limit(key, limit));
        }
    }

    fn depend(
        &self,
        job: &Job,
        asked: Option<&gq_model::Dependency>,
        decision: &mut Decision,
    ) -> Result<Option<Waits>, Refusal> {
        if job.waiting.is_empty() {
            return Err(runs(job, "it waits for nobody any more"));
        }
        let Some(asked) = asked else {
            self.amend(job, Amendment::Waits(None), decision);
            return Ok(None);
        };
        let (waits, not_before): (Waits, _) = conditions(
            (self.cluster, self.policy, self.context),
            self.by,
            self.past,
            asked,
            (job.id, &job.waiting, job.array),
        )?;
        let gone = give_up(self.policy, self.context, job, &waits);
        self.amend(job, Amendment::Waits(Some(waits.clone())), decision);
        if not_before.is_some() {
            self.amend(job, Amendment::NotBefore(not_before), decision);
        }
        decision.events.extend(gone);
        Ok(Some(waits))
    }
}

fn runs(job: &Job, what: &str) -> Refusal {
    Refusal::new(RefusalKind::Policy, format!("job {} runs: {what}", job.id))
}

/// The time limit so many seconds longer or shorter.
fn by_more(job: &Job, seconds: i64) -> Result<Seconds, Refusal> {
    let shape = job.main.as_ref().unwrap_or(&job.shape);
    let own = job.runs.values().find_map(|run| run.own_limit);
    let Some(old) = own.or(shape.time_limit) else {
        return Err(Refusal::new(RefusalKind::Policy, format!("job {} has no time limit", job.id)));
    };
    match old.0.saturating_add_signed(seconds) {
        0 => Err(Refusal::new(RefusalKind::Usage, "nothing would be left of its time limit")),
        left => Ok(Seconds(left)),
    }
}
