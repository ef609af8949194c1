//! Updates: what is said anew of a job that was submitted. Checked as its submission was; what runs keeps what it holds.

use crate::{
    Actor, Context, Decision, Order, Past, Refusal, RefusalKind, admit,
    dependency::{conditions, give_up, leads_to},
    schedule::Orders,
};
use alloc::{format, sync::Arc};
use gq_cluster::{Amendment, Cluster, Event, Job, Policy, Waits};
use gq_model::{Change, JobSpec, MAX_NAME, Seconds};
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

impl Update<'_> {
    /// Decides the changes of one job; all of them or none.
    pub(crate) fn decide(
        &self,
        job: &Job,
        changes: &[Change],
        decision: &mut Decision,
        orders: &mut Orders<'_>,
    ) -> Result<(), Refusal> {
        let mut draft = Decision::default();
        let mut spec = JobSpec::clone(&job.spec);
        let (mut replan, mut relimit) = (false, None);
        for change in changes {
            match change {
                Change::TimeLimit(limit) => relimit = Some(*limit),
                Change::TimeLimitBy(seconds) => relimit = Some(by_more(job, *seconds)?),
                Change::Partition(name) => {
                    (replan, spec.partition) = (true, Some(name.clone()));
                    if !job.runs.is_empty() {
                        return Err(runs(job, "its partition cannot change"));
                    }
                }
                Change::Priority(priority) => {
                    self.admins_only("set a priority")?;
                    let now = factors(self.cluster, self.policy, self.context.now, job);
                    let own = priority.saturating_sub(now.total.saturating_sub(now.own));
                    self.amend(job, Amendment::Priority(own), &mut draft);
                }
                Change::Nice(nice) => {
                    if *nice < 0 {
                        self.admins_only("set a nice value below 0")?;
                    }
                    spec.nice = *nice;
                    self.amend(job, Amendment::Priority(0i64.saturating_sub(i64::from(*nice))), &mut draft);
                }
                Change::AtOnce(most) => {
                    if !job.array {
                        return Err(Refusal::new(RefusalKind::Policy, format!("job {} is no array", job.id)));
                    }
                    self.amend(job, Amendment::AtOnce(*most), &mut draft);
                }
                Change::Dependency(asked) => {
                    spec.dependency.clone_from(asked);
                    self.depend(job, asked.as_ref(), &mut draft)?;
                }
                Change::Name(name) => {
                    let is_bad =
                        name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control);
                    if is_bad {
                        let text = format!("a name has 1 to {MAX_NAME} bytes, and no control characters");
                        return Err(Refusal::new(RefusalKind::Usage, text));
                    }
                    spec.name.clone_from(name);
                }
                Change::Comment(text) => {
                    if text.chars().any(char::is_control) {
                        let text = "a comment has no control characters";
                        return Err(Refusal::new(RefusalKind::Usage, text));
                    }
                    spec.comment = Some(text.clone()).filter(|text| !text.is_empty());
                }
                Change::Begin(at) => {
                    spec.begin = *at;
                    self.amend(job, Amendment::NotBefore(at.filter(|at| *at > self.context.now)), &mut draft);
                }
                Change::Deadline(at) => spec.deadline = *at,
                Change::Requeue(requeue) => spec.requeue = Some(*requeue),
            }
        }
        if let Some(limit) = relimit {
            spec.time_limit = limit;
            self.limit_runs(job, limit, &mut draft, orders)?;
            replan = true;
        }
        if spec != *job.spec {
            self.amend(job, Amendment::Spec(Arc::new(spec.clone())), &mut draft);
        }
        if replan && !job.waiting.is_empty() {
            let owner = Actor { uid: job.uid, admin: self.policy.is_admin(job.uid) };
            let (shape, payer) = admit::request(self.cluster, self.policy, self.context, owner, &spec, 0)?;
            self.amend(job, Amendment::Shape(Arc::new(shape), Arc::new(payer)), &mut draft);
        }
        decision.events.append(&mut draft.events);
        decision.effects.append(&mut draft.effects);
        Ok(())
    }

    fn amend(&self, job: &Job, what: Amendment, decision: &mut Decision) {
        decision.events.push(Event::Amended { job: job.id, what, by: self.by.uid });
    }

    fn admins_only(&self, what: &str) -> Result<(), Refusal> {
        if self.by.admin {
            return Ok(());
        }
        Err(Refusal::new(RefusalKind::NotPermitted, format!("only admins may {what}"))
            .hint("gqctl update --nice=N moves a job of yours back"))
    }

    /// Changes the time limit of what runs: its user may shorten it, admins may lengthen it too.
    fn limit_runs(
        &self,
        job: &Job,
        limit: Option<Seconds>,
        decision: &mut Decision,
        orders: &mut Orders<'_>,
    ) -> Result<(), Refusal> {
        let seconds = limit.unwrap_or(gq_cluster::UNLIMITED);
        for (task, run) in &job.runs {
            let old = run.own_limit.or(job.shape.time_limit).unwrap_or(gq_cluster::UNLIMITED);
            if seconds > old {
                self.admins_only("give a job that runs more time")?;
            }
            let Some(key) = job.run_key(*task) else { continue };
            self.amend(job, Amendment::RunLimit(key, seconds), decision);
            orders.write(decision, &run.node, Order::Limit(key, limit));
        }
        Ok(())
    }

    fn depend(
        &self,
        job: &Job,
        asked: Option<&gq_model::Dependency>,
        decision: &mut Decision,
    ) -> Result<(), Refusal> {
        if job.waiting.is_empty() {
            return Err(runs(job, "it waits for nobody any more"));
        }
        let Some(asked) = asked else {
            self.amend(job, Amendment::Waits(None), decision);
            return Ok(());
        };
        let (waits, not_before): (Waits, _) =
            conditions(self.cluster, self.context, self.past, asked, (job.id, &job.waiting))?;
        if leads_to(self.cluster, &waits, job.id) {
            let text = format!("--dependency={asked}: that waits for job {} itself: a circle", job.id);
            return Err(Refusal::new(RefusalKind::Policy, text));
        }
        let gone = give_up(self.policy, self.context, job, &waits);
        self.amend(job, Amendment::Waits(Some(waits)), decision);
        if not_before.is_some() {
            self.amend(job, Amendment::NotBefore(not_before), decision);
        }
        decision.events.extend(gone);
        Ok(())
    }
}

fn runs(job: &Job, what: &str) -> Refusal {
    Refusal::new(RefusalKind::Policy, format!("job {} runs: {what}", job.id))
}

/// The time limit so many seconds longer or shorter.
fn by_more(job: &Job, seconds: i64) -> Result<Option<Seconds>, Refusal> {
    let shape = job.main.as_ref().unwrap_or(&job.shape);
    let own = job.runs.values().find_map(|run| run.own_limit);
    let Some(old) = own.or(shape.time_limit) else {
        return Err(Refusal::new(RefusalKind::Policy, format!("job {} has no time limit", job.id)));
    };
    match old.0.saturating_add_signed(seconds) {
        0 => Err(Refusal::new(RefusalKind::Usage, "nothing would be left of its time limit")),
        left => Ok(Some(Seconds(left))),
    }
}
