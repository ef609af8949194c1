//! The invariant: what holds after every event. Checked in tests and in simulation, never in the daemon's loop.

use crate::{Cluster, IllegalEvent};
use alloc::{collections::BTreeMap, format};
use gq_model::MiB;

/// What jobs hold of one node.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Held {
    cpus: u32,
    memory: MiB,
    runs: usize,
    cards: usize,
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
        let mut held: BTreeMap<(&str, u32), gq_model::JobId> = BTreeMap::new();
        let mut used: BTreeMap<&str, Held> = BTreeMap::new();
        for job in self.jobs() {
            if job.is_over() {
                return Err(IllegalEvent(format!("job {} is over and still here", job.id)));
            }
            for (task, run) in &job.runs {
                if job.waiting.contains(task.0) {
                    return Err(IllegalEvent(format!("{}_{task} waits and runs", job.id)));
                }
                for card in &run.cards {
                    if let Some(other) = held.insert((run.node.as_str(), card.index), job.id) {
                        return Err(IllegalEvent(format!(
                            "card {} of {} is held by {other} and {}",
                            card.index, run.node, job.id
                        )));
                    }
                }
                let known =
                    self.node(&run.node).ok_or_else(|| IllegalEvent(format!("no node {}", run.node)))?;
                if let Some(card) =
                    run.cards.iter().find(|card| known.holder(card.index) != Some((job.id, *task)))
                {
                    let text = format!("node {} knows not who holds its card {}", run.node, card.index);
                    return Err(IllegalEvent(text));
                }
                let sum = used.entry(run.node.as_str()).or_default();
                sum.cpus = sum.cpus.saturating_add(run.cpus);
                sum.memory = sum.memory.saturating_add(run.memory);
                sum.runs += 1;
                sum.cards += run.cards.len();
                sum.alone |= run.exclusive;
            }
        }
        for node in self.nodes() {
            let held = used.get(node.name.as_str()).copied().unwrap_or_default();
            let says = Held {
                cpus: node.cpus_used(),
                memory: node.memory_used(),
                runs: node.runs().len(),
                cards: node.cards_held(),
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
        let queued: usize = self.queue().shapes().map(|(_, jobs)| jobs.len()).sum();
        if eligible == queued && queued == self.queue().len() {
            Ok(())
        } else {
            Err(IllegalEvent(format!("{eligible} jobs may start and {queued} are in the queue")))
        }
    }
}
