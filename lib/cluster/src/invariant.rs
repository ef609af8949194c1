//! The invariant: what holds after every event. Checked in tests and in simulation, never in the daemon's loop.

use crate::{Cluster, IllegalEvent};
use alloc::{collections::BTreeMap, format};
use gq_model::MiB;

/// What jobs hold of one node.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Held {
    cpus: u32,
    memory: MiB,
    units: crate::Units,
    runs: usize,
    alone: bool,
}

impl Cluster {
    /// Checks that no card is held twice, a job that wants a node alone is alone there, what nodes say is held is what jobs hold,
    /// and the queue holds exactly the jobs that wait and may start.
    ///
    /// That nothing is given above a node's capacity is a law of the plan, not of the state: a node may come back with less
    /// than is held there.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn check(&self) -> Result<(), IllegalEvent> {
        let mut used: BTreeMap<&str, Held> = BTreeMap::new();
        for job in self.jobs() {
            if job.is_over() {
                return Err(IllegalEvent(format!("job {} is over and still here", job.id)));
            }
            for (task, run) in &job.runs {
                if job.waiting.contains(task.0) {
                    return Err(IllegalEvent(format!("{}_{task} waits and runs", job.id)));
                }
                let known =
                    self.node(&run.node).ok_or_else(|| IllegalEvent(format!("no node {}", run.node)))?;
                // Less than its cards have when they were cut otherwise under it, and never more.
                let most = known.layout().units(&known.cards, &run.cards);
                let hold = known.hold_of(job.id, *task);
                let hold = hold.filter(|h| h.units & !most == 0 && h.until == crate::until(&job.shape, run));
                let Some(units) = hold.map(|hold| hold.units) else {
                    let text = format!("node {} knows not what {}_{task} holds", run.node, job.id);
                    return Err(IllegalEvent(text));
                };
                let sum = used.entry(run.node.as_str()).or_default();
                sum.cpus = sum.cpus.saturating_add(run.cpus);
                sum.memory = sum.memory.saturating_add(run.memory);
                if sum.units & units != 0 {
                    return Err(IllegalEvent(format!("a card of {} is held twice", run.node)));
                }
                sum.runs += 1;
                sum.units |= units;
                sum.alone |= run.exclusive;
            }
        }
        for node in self.nodes() {
            let held = used.get(node.name.as_str()).copied().unwrap_or_default();
            let says = Held {
                cpus: node.cpus_used(),
                memory: node.memory_used(),
                units: node.used().units,
                runs: node.runs().len(),
                alone: node.held_alone_by().is_some(),
            };
            if held != says {
                return Err(IllegalEvent(format!("node {} counts otherwise than its jobs", node.name)));
            }
            if held.alone && held.runs > 1 {
                return Err(IllegalEvent(format!("a job is not alone on node {}", node.name)));
            }
        }
        let eligible = self.jobs().filter(|job| job.is_eligible()).count();
        let queued: usize = self.queue().groups().map(|(_, group)| group.jobs.len()).sum();
        if eligible != queued || queued != self.queue().len() {
            return Err(IllegalEvent(format!("{eligible} jobs may start and {queued} are in the queue")));
        }
        let alarms: alloc::collections::BTreeSet<_> =
            self.jobs().filter_map(|job| Some((job.alarm()?, job.id))).collect();
        if !self.alarms().eq(&alarms) {
            return Err(IllegalEvent(
                "not every job that something is to be done about has its alarm".into(),
            ));
        }
        self.check_reclaims()?;
        self.check_ledger()
    }

    /// Something is to be done about the idle cards of those runs alone that run, and that nobody ends.
    fn check_reclaims(&self) -> Result<(), IllegalEvent> {
        let due = self.jobs().flat_map(|job| {
            job.runs.iter().filter_map(|(task, run)| Some((run.reclaim_due()?, job.run_key(*task)?)))
        });
        if self.reclaims().eq(&due.collect::<alloc::collections::BTreeSet<_>>()) {
            return Ok(());
        }
        Err(IllegalEvent("the runs whose idle cards are to be taken are not those that are marked".into()))
    }

    /// What the ledger says is what jobs and runs add up to.
    fn check_ledger(&self) -> Result<(), IllegalEvent> {
        let mut fresh = crate::Ledger::default();
        for job in self.jobs() {
            fresh.enter(&job.payer, job.live_tasks());
            for (task, run) in &job.runs {
                fresh.hold((job.id, *task), run, job);
            }
        }
        let same = fresh.payers().eq(self.ledger().payers())
            && fresh.licence_ends().eq(self.ledger().licence_ends())
            && self
                .jobs()
                .flat_map(|job| &job.shape.licences)
                .all(|ask| fresh.licences_used(&ask.name) == self.ledger().licences_used(&ask.name));
        if same { Ok(()) } else { Err(IllegalEvent("the ledger counts otherwise than the jobs".into())) }
    }
}
