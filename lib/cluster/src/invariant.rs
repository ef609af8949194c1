//! The invariant: what holds after every event. Checked in tests and in simulation, never in the daemon's loop.

use crate::{Cluster, IllegalEvent};
use alloc::{collections::BTreeMap, format};
use gq_model::MiB;

impl Cluster {
    /// Checks that no card is held twice, nothing is over its node's capacity, what nodes say is held is what jobs hold, and the
    /// queue holds exactly the jobs that wait and may start.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn check(&self) -> Result<(), IllegalEvent> {
        let mut held: BTreeMap<(&str, u32), gq_model::JobId> = BTreeMap::new();
        let mut used: BTreeMap<&str, (u32, MiB, usize)> = BTreeMap::new();
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
                let sum = used.entry(run.node.as_str()).or_default();
                *sum = (sum.0.saturating_add(run.cpus), sum.1.saturating_add(run.memory), sum.2 + 1);
            }
        }
        for node in self.nodes() {
            let (cpus, memory, runs) = used.get(node.name.as_str()).copied().unwrap_or_default();
            if (cpus, memory, runs) != (node.cpus_used(), node.memory_used(), node.runs().len()) {
                return Err(IllegalEvent(format!("node {} counts otherwise than its jobs", node.name)));
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
