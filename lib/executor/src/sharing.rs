//! Sharing: which runs have parts of cards, whose a process on such a card is, and who uses more of its memory than he declared. Asks no
//! driver, and ends nobody.

use gq_gpu::Used;
use gq_host::{Group, Remains, is_of_run};
use gq_model::{MiB, RunKey};

/// A run that has parts of a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharer {
    /// Which run.
    pub key: RunKey,
    /// The card's UUID.
    pub uuid: String,
    /// How much of its memory the run declared.
    pub declared: MiB,
    /// How its processes are known.
    pub remains: Remains,
    /// Their control group.
    pub group: Group,
    /// The supervisor's process, when it is known.
    pub supervisor: Option<u32>,
}

impl Sharer {
    /// Whether a process is one of the run's.
    pub fn owns(&self, pid: u32) -> bool {
        is_of_run(pid, &self.remains, &self.group, self.supervisor)
    }

    /// How much of its card the run uses, when that is more than it declared.
    pub fn over(&self, used: &[Used]) -> Option<MiB> {
        let mine = used.iter().filter(|one| one.uuid == self.uuid && self.owns(one.pid));
        let sum = mine.fold(MiB(0), |sum, one| sum.saturating_add(one.memory));
        Some(sum).filter(|sum| *sum > self.declared)
    }
}
