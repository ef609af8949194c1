//! What holds after every turn: the checks of the world, and whether two states are the same.

use crate::{budgets::Taken, world::World};
use gq_cluster::{Cluster, Event, Fate, Ledger, Payer, Place, Shape};
use gq_engine::{Answer, Input, Keeper};
use gq_model::{JobId, RunNumber, TaskIndex, Timestamp, Uid};
use std::collections::BTreeMap;

impl World {
    /// Everybody is answered once, and whoever has an id has a job that is his.
    pub fn check_answers(&mut self, inputs: &[Input]) {
        let mut asked = 0;
        for input in inputs {
            let client = match input {
                Input::Submit { client: Some(client), .. }
                | Input::TestOnly { client, .. }
                | Input::Command { client, .. }
                | Input::Nodes { client, .. }
                | Input::Book { client, .. }
                | Input::Unbook { client, .. } => client,
                _ => continue,
            };
            asked += 1;
            let answer = self.post.replies.get(client).unwrap_or_else(|| panic!("{client:?} waits for ever"));
            if let (Input::Submit { submission, .. }, Answer::Submitted(id)) = (input, answer) {
                let owner = (submission.token, submission.by.uid);
                let token = self.disk.rows.tokens.get(&submission.token);
                assert_eq!(token, Some(&(*id, submission.by.uid)), "job {id} is not on disk as told");
                let file = format!("jobs/07/{id}.job");
                assert!(self.post.jobs.contains_key(&file), "job {id} was told and has no job file");
                assert_eq!(*self.told.entry(*id).or_insert(owner), owner, "job {id} is two");
            }
        }
        assert_eq!(asked, self.post.replies.len());
    }

    /// The state is sound, is what is on disk, is what happened; jobs live or have ended once.
    pub fn check_state(&mut self) {
        self.cluster.check().unwrap();
        assert_same(&self.cluster, &self.disk.load().unwrap());
        let (mut folded, mut runs) = (Cluster::default(), BTreeMap::<(JobId, TaskIndex), RunNumber>::new());
        let mut taken = Taken::default();
        for event in &self.disk.rows.events {
            taken.note(&self.policy, &folded, event);
            folded.apply(event).unwrap();
            if let Event::Allocated { key, .. } = event {
                let last = runs.insert((key.job, key.task), key.run);
                assert_eq!(last.map_or(0, |run| run.0) + 1, key.run.0, "{key} is not the next run");
            }
        }
        assert_same(&self.cluster, &folded);
        taken.check(&self.policy, &self.cluster);
        for event in &self.disk.rows.events {
            let Event::Submitted(new) = event else { continue };
            let (job, tasks) = (new.id, new.tasks.len());
            let ended = self.disk.rows.ended.get(&job).copied().unwrap_or(0);
            let live = self.cluster.job(job);
            let lives = live.map_or(0, |job| job.waiting.len() + job.runs.len() as u64);
            assert_eq!(lives + ended, tasks, "each task of job {job} lives, or has ended once, and not both");
            assert_eq!(
                live.is_some(),
                !self.post.over.contains_key(&job),
                "the end of job {job} was not told"
            );
            let counted = live.map_or(ended, |job| job.tally.count());
            assert_eq!(counted, ended, "job {job} counts otherwise how many tasks ended");
        }
        self.check_waits();
        assert_eq!(self.post.jobs.len(), self.disk.rows.tokens.len(), "a job file without a job");
    }

    /// Who waits for others waits as long as these say, and no longer; nobody has more tasks at once than he said.
    fn check_waits(&self) {
        for job in self.cluster.jobs() {
            assert!(
                job.at_once
                    .is_none_or(|most| job.runs.len() <= most as usize || self.throttled.contains(&job.id))
            );
            for condition in job.waits.iter().flat_map(|waits| &waits.conditions) {
                let gq_model::Term::Job { when, on } = &condition.term else { continue };
                // Nobody was told the id of a job that was never accepted.
                if !self.disk.rows.tokens.values().any(|(id, _)| *id == on.job) {
                    continue;
                }
                let past = self.disk.past(on.job);
                let tasks = on.tasks.clone().unwrap_or_else(|| past.good.or(&past.bad));
                let lives = |task: u32| {
                    self.cluster.job(on.job).is_some_and(|job| {
                        job.waiting.contains(task) || job.runs.contains_key(&TaskIndex(task))
                    })
                };
                let whole_lives = self.cluster.job(on.job).is_some();
                let open = if on.tasks.is_some() { tasks.iter().any(lives) } else { whole_lives };
                let spoilt = !tasks.and(&past.bad).is_empty();
                let right = match when {
                    gq_model::When::AfterAny => open == (condition.fate == Fate::Open),
                    gq_model::When::AfterOk if spoilt => condition.fate == Fate::Never,
                    gq_model::When::AfterOk => (condition.fate == Fate::Open) == open,
                    gq_model::When::AfterNotOk if open => condition.fate == Fate::Open,
                    gq_model::When::AfterNotOk => {
                        condition.fate == if spoilt { Fate::Met } else { Fate::Never }
                    }
                    gq_model::When::AfterCorr => {
                        let is_in_vain = |task| !lives(task) && !past.good.contains(task);
                        condition.left.iter().all(lives) && condition.never.iter().all(is_in_vain)
                    }
                    gq_model::When::After(_) => {
                        let unbegun = |task: u32| {
                            self.cluster.job(on.job).is_some_and(|job| {
                                job.waiting.contains(task)
                                    || job
                                        .runs
                                        .get(&TaskIndex(task))
                                        .is_some_and(|run| run.started().is_none())
                            })
                        };
                        // Once met it stays so, though a task may wait again.
                        condition.fate == Fate::Met || tasks.iter().any(unbegun) || on.tasks.is_none()
                    }
                };
                assert!(right, "job {} waits for {}: {condition:?}, {past:?}", job.id, condition.term);
            }
        }
    }

    /// Nobody has more than the cluster or his limits let him.
    pub fn check_limits(&self) {
        let (mut licences, mut quick, mut cards) = (0, BTreeMap::<Uid, u64>::new(), 0);
        for job in self.cluster.jobs() {
            for run in job.runs.values() {
                licences += job.shape.licences.iter().map(|ask| ask.count).sum::<u32>();
                if job.payer.qos.is_some() {
                    *quick.entry(job.uid).or_default() += 1;
                }
                if job.payer.account.as_deref() == Some("optics") {
                    cards += run.worth;
                }
            }
        }
        assert!(licences <= 2, "{licences} licences of 2 are in use");
        assert_eq!(licences, self.cluster.ledger().licences_used("matlab"));
        assert!(quick.values().all(|running| *running <= 1), "more than one runs in this QOS");
        assert!(cards <= 2500, "account optics has {cards} thousandths of a card");
    }

    /// Nothing starts where it would run into what is kept for others; whoever makes room has his grace.
    pub fn check_starts(&self, events: &[Event]) {
        for event in events {
            match event {
                Event::Allocated { key, node, cards, at, .. } => {
                    let Some(job) = self.cluster.job(key.job) else { continue };
                    let run = job.runs.get(&key.task).filter(|run| run.number == key.run);
                    let limit = run.and_then(|run| run.own_limit).or(job.shape.time_limit);
                    let until = at.after(limit.unwrap_or(gq_cluster::UNLIMITED));
                    let mine = job.shape.reservation.as_deref();
                    assert!(
                        mine.is_none_or(|name| self.cluster.booking(name).is_some_and(|b| b.start <= *at))
                    );
                    for booking in self.cluster.bookings().filter(|b| Some(b.name.as_str()) != mine) {
                        let booked =
                            booking.of_node(node).filter(|_| booking.start < until && *at < booking.end);
                        let Some(booked) = booked else { continue };
                        let kept = booked
                            .cards
                            .as_ref()
                            .is_none_or(|kept| cards.iter().any(|c| kept.contains(&c.index)));
                        assert!(!kept, "{key} runs into {booking:?}");
                    }
                }
                Event::Stopped {
                    why: gq_cluster::Stopping::Preempt { due, ordered: true, .. }, key, ..
                } => {
                    assert!(*due <= self.now, "{key} is ended before its grace is over");
                }
                _ => {}
            }
        }
    }

    /// What time has brought is done.
    pub fn check_due(&self) {
        let late = self.cluster.preempted().find(|(due, _)| *due <= self.now);
        assert_eq!(late, None, "its grace is over and it is not ended");
        let late = self.cluster.reclaims().find(|(due, _)| *due <= self.now);
        assert_eq!(late, None, "its cards stayed idle and nothing is done");
        let late = self.cluster.alarms().find(|(at, _)| *at <= self.now);
        assert_eq!(late, None, "it waits too long and nothing is done");
        let over = self.cluster.bookings().find(|booking| booking.end <= self.now);
        assert_eq!(over, None, "a reservation is over and still there");
        assert_eq!(
            self.cluster.queue().ripe(self.now).count(),
            0,
            "a job's time has come and it does not wait"
        );
    }
}

type Queued = (BTreeMap<(Shape, Payer), Vec<Place>>, usize, Option<(Timestamp, JobId)>);

fn queued(cluster: &Cluster) -> Queued {
    let queue = cluster.queue();
    let groups = queue.groups().map(|(_, group)| {
        (((*group.shape).clone(), (*group.payer).clone()), group.jobs.iter().copied().collect())
    });
    (groups.collect(), queue.len(), queue.next_ripe())
}

fn assert_same_ledger(a: &Ledger, b: &Ledger) {
    assert!(a.payers().eq(b.payers()), "holdings differ");
    assert!(a.usage().eq(b.usage()), "usage differs");
    assert!(a.spent().eq(b.spent()), "budgets differ");
    assert!(a.licence_ends().eq(b.licence_ends()), "licences differ");
}

/// The same jobs, nodes, holdings, reservations and queue.
pub fn assert_same(a: &Cluster, b: &Cluster) {
    let jobs = |cluster: &Cluster| -> Vec<String> {
        cluster.jobs().map(|job| serde_json::to_string(&**job).unwrap()).collect()
    };
    let nodes = |cluster: &Cluster| -> Vec<String> {
        cluster.nodes().map(|node| serde_json::to_string(&**node).unwrap()).collect()
    };
    for (a, b) in [(jobs(a), jobs(b)), (nodes(a), nodes(b))] {
        assert_eq!(a.len(), b.len(), "{a:?} {b:?}");
        a.iter().zip(&b).for_each(|(a, b)| assert_eq!(a, b));
    }
    for (a, b) in a.nodes().zip(b.nodes()) {
        assert_eq!((a.used(), a.held_alone_by()), (b.used(), b.held_alone_by()));
        assert!(a.ends().eq(b.ends()), "what is held of {} differs", a.name);
    }
    assert!(a.bookings().eq(b.bookings()), "reservations differ");
    assert!(a.preempted().eq(b.preempted()), "who makes room differs");
    assert!(a.reclaims().eq(b.reclaims()), "whose idle cards are taken differs");
    assert!(a.alarms().eq(b.alarms()), "what is to be done in time differs");
    for job in a.jobs() {
        let ids =
            |cluster: &Cluster| -> Vec<JobId> { cluster.dependents(job.id).map(|job| job.id).collect() };
        assert_eq!(ids(a), ids(b), "who waits for job {} differs", job.id);
        let alike = |cluster: &Cluster| -> Vec<JobId> {
            cluster.alike(job.uid, &job.spec.name).map(|job| job.id).collect()
        };
        assert_eq!(alike(a), alike(b), "who has the name of job {} differs", job.id);
    }
    assert_same_ledger(a.ledger(), b.ledger());
    assert_eq!(queued(a), queued(b));
}
