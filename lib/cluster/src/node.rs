//! Nodes: what each has, who holds what of it, and whether it is in sight. Never decides who gets it.

use crate::{IllegalEvent, Run};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec::Vec,
};
use gq_model::{BootId, Card, CardHealth, Epoch, JobId, MiB, NodeName, Seq, TaskIndex, Timestamp};
use serde::{Deserialize, Serialize};

/// Whether a node is in sight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Link {
    /// It was never seen.
    #[default]
    Absent,
    /// It answers.
    Up,
    /// It fell silent; nothing new is started there.
    Suspect {
        /// Since when.
        since: Timestamp,
    },
    /// It has been silent for too long: its jobs are `UNKNOWN`, their resources stay reserved.
    Lost {
        /// Since when it is silent.
        since: Timestamp,
    },
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: NodeName,
    /// Cpus it has: declared, else found.
    pub cpus: u32,
    /// Memory it has: declared, else found.
    pub memory: MiB,
    /// Its features.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// Its cards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cards: Vec<Card>,
    /// The boot it is in; none while it was never seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<BootId>,
    /// Whether it is in sight.
    #[serde(default)]
    pub link: Link,
    /// Why nothing new is started there, when an admin or trouble said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained: Option<String>,
    /// Jobs whose start failed there by the site's fault, since the last start that went well.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub failed_starts: BTreeSet<JobId>,
    /// Number of the last order written to it.
    #[serde(default)]
    pub last_order: Seq,
    /// The life of the node that wrote the last report taken.
    #[serde(default)]
    pub epoch: Epoch,
    /// Number of the last report taken in that life.
    #[serde(default)]
    pub last_report: Seq,
    #[serde(skip)]
    cpus_used: u32,
    #[serde(skip)]
    memory_used: MiB,
    #[serde(skip)]
    holders: BTreeMap<u32, (JobId, TaskIndex)>,
    #[serde(skip)]
    runs: BTreeSet<(JobId, TaskIndex)>,
    #[serde(skip)]
    alone: Option<(JobId, TaskIndex)>,
}

impl Node {
    /// A node that is known by name only.
    pub fn new(name: NodeName) -> Self {
        Self {
            name,
            cpus: 0,
            memory: MiB(0),
            features: Vec::new(),
            cards: Vec::new(),
            boot: None,
            link: Link::Absent,
            drained: None,
            failed_starts: BTreeSet::new(),
            last_order: Seq(0),
            epoch: Epoch(0),
            last_report: Seq(0),
            cpus_used: 0,
            memory_used: MiB(0),
            holders: BTreeMap::new(),
            runs: BTreeSet::new(),
            alone: None,
        }
    }

    /// Cpus in use.
    pub fn cpus_used(&self) -> u32 {
        self.cpus_used
    }
    /// Cpus free.
    pub fn cpus_free(&self) -> u32 {
        self.cpus.saturating_sub(self.cpus_used)
    }
    /// Memory in use.
    pub fn memory_used(&self) -> MiB {
        self.memory_used
    }
    /// Memory free.
    pub fn memory_free(&self) -> MiB {
        self.memory.saturating_sub(self.memory_used)
    }
    /// Who holds the card of this index.
    pub fn holder(&self, card: u32) -> Option<(JobId, TaskIndex)> {
        self.holders.get(&card).copied()
    }
    /// Who holds the whole node, when a job wanted it alone.
    pub fn held_alone_by(&self) -> Option<(JobId, TaskIndex)> {
        self.alone
    }
    /// Tasks that hold something of it.
    pub fn runs(&self) -> &BTreeSet<(JobId, TaskIndex)> {
        &self.runs
    }
    /// Whether new jobs may be started there now.
    pub fn is_open(&self) -> bool {
        self.link == Link::Up && self.drained.is_none()
    }
    /// Cards that could be handed out whole if nobody held them.
    pub fn whole_cards(&self) -> impl Iterator<Item = &Card> {
        self.cards.iter().filter(|c| !c.mig && c.health == CardHealth::Good)
    }

    /// How many cards are held.
    pub(crate) fn cards_held(&self) -> usize {
        self.holders.len()
    }

    /// Orders are numbered without holes: the node waits for the one that comes next.
    pub(crate) fn count_order(&mut self, seq: Seq) -> Result<(), IllegalEvent> {
        if self.last_order.0.checked_add(1) != Some(seq.0) {
            let last = self.last_order;
            return Err(IllegalEvent(format!("order {seq} to {} comes after order {last}", self.name)));
        }
        self.last_order = seq;
        Ok(())
    }

    /// A report is taken once, and never after a later one.
    pub(crate) fn count_report(&mut self, epoch: Epoch, seq: Seq) -> Result<(), IllegalEvent> {
        if (epoch, seq) <= (self.epoch, self.last_report) {
            return Err(IllegalEvent(format!("report {seq} of life {epoch} of {} comes late", self.name)));
        }
        (self.epoch, self.last_report) = (epoch, seq);
        Ok(())
    }

    pub(crate) fn forget_holdings(&mut self) {
        self.cpus_used = 0;
        self.memory_used = MiB(0);
        self.holders.clear();
        self.runs.clear();
        self.alone = None;
    }

    pub(crate) fn hold(&mut self, who: (JobId, TaskIndex), run: &Run) -> Result<(), IllegalEvent> {
        if !self.runs.insert(who) {
            return Err(IllegalEvent(format!("{}_{} holds node {} twice", who.0, who.1, self.name)));
        }
        if self.alone.is_some() || (run.exclusive && self.runs.len() > 1) {
            let text = format!("{}_{} is not alone on node {}", who.0, who.1, self.name);
            return Err(IllegalEvent(text));
        }
        for card in &run.cards {
            if let Some(other) = self.holders.insert(card.index, who) {
                return Err(IllegalEvent(format!(
                    "card {} of {} is held by {}_{} and {}_{}",
                    card.index, self.name, other.0, other.1, who.0, who.1
                )));
            }
        }
        self.cpus_used = self.cpus_used.saturating_add(run.cpus);
        self.memory_used = self.memory_used.saturating_add(run.memory);
        if run.exclusive {
            self.alone = Some(who);
        }
        Ok(())
    }

    pub(crate) fn release(&mut self, who: (JobId, TaskIndex), run: &Run) -> Result<(), IllegalEvent> {
        if !self.runs.remove(&who) {
            return Err(IllegalEvent(format!("{}_{} holds nothing of {}", who.0, who.1, self.name)));
        }
        for card in &run.cards {
            self.holders.remove(&card.index);
        }
        self.cpus_used = self.cpus_used.saturating_sub(run.cpus);
        self.memory_used = self.memory_used.saturating_sub(run.memory);
        if self.alone == Some(who) {
            self.alone = None;
        }
        Ok(())
    }
}
