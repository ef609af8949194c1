//! Nodes: what each has, who holds what of it, and whether it is in sight. Never decides who gets it.

use crate::{IllegalEvent, Layout, Run, Units};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec::Vec,
};
use gq_model::{
    BootId, Bound, Card, CardHealth, CardUse, Epoch, JobId, MiB, NodeId, NodeName, RunKey, Seq, TaskIndex,
    Timestamp,
};
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
    /// An admin had it forgotten: it is not listed until it comes again. What is known of it is kept for then.
    Forgotten,
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
    /// Which node it is: another one of its name has lost the memory of this one's runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<NodeId>,
    /// Whether it is in sight.
    #[serde(default)]
    pub link: Link,
    /// Why nothing new is started there, when an admin or trouble said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained: Option<String>,
    /// What runs are not bounded in there, as it says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unbound: Vec<Bound>,
    /// Why it can start nothing at present, as it says itself: it says so when it can again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Jobs whose start failed there by the site's fault, since the last start that went well.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub failed_starts: BTreeSet<JobId>,
    /// Runs that may live there and that nobody here waits for any more: until it has said that they are gone it gets no other.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub strays: BTreeSet<RunKey>,
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
    layout: Layout,
    #[serde(skip)]
    used: Used,
    #[serde(skip)]
    holds: BTreeMap<(JobId, TaskIndex), Timestamp>,
    #[serde(skip)]
    ends: BTreeMap<(Timestamp, JobId, TaskIndex), Hold>,
    #[serde(skip)]
    alone: Option<(JobId, TaskIndex)>,
    /// Whether runs may lie over each other, since cards were cut otherwise under them.
    #[serde(skip)]
    is_crowded: bool,
    #[serde(skip)]
    opened: u64,
    #[serde(skip)]
    fitted: u64,
    #[serde(skip)]
    place: u32,
}

/// How a card fails, if it does by itself.
fn failed(health: &CardHealth) -> Option<&str> {
    match health {
        CardHealth::Failed(words) => Some(words),
        CardHealth::Good | CardHealth::Used(_) => None,
    }
}

/// What one run holds of a node, and until when at the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// When its time limit passes, on the controller's clock.
    pub until: Timestamp,
    /// Cpus.
    pub cpus: u32,
    /// Memory.
    pub memory: MiB,
    /// Units of cards.
    pub units: Units,
    /// Those that it would hold if no other run did: more, where cards were cut otherwise under both.
    pub wanted: Units,
    /// Whether it holds the node alone.
    pub alone: bool,
}

/// What all runs hold of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Cpus.
    pub cpus: u32,
    /// Memory.
    pub memory: MiB,
    /// Units of cards.
    pub units: Units,
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
            id: None,
            link: Link::Absent,
            drained: None,
            unbound: Vec::new(),
            trouble: None,
            failed_starts: BTreeSet::new(),
            strays: BTreeSet::new(),
            last_order: Seq(0),
            epoch: Epoch(0),
            last_report: Seq(0),
            layout: Layout::default(),
            used: Used::default(),
            holds: BTreeMap::new(),
            ends: BTreeMap::new(),
            alone: None,
            is_crowded: false,
            opened: 0,
            fitted: 0,
            place: 0,
        }
    }

    /// Cpus in use.
    pub fn cpus_used(&self) -> u32 {
        self.used.cpus
    }
    /// Memory in use.
    pub fn memory_used(&self) -> MiB {
        self.used.memory
    }
    /// What is in use of it.
    pub fn used(&self) -> Used {
        self.used
    }
    /// How its cards lie in its row of units.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
    /// Its place in the order in which nodes became known.
    pub fn place(&self) -> u32 {
        self.place
    }
    /// A number that grows whenever there may be more room than before: something was released, or it came in sight or changed.
    pub fn opened(&self) -> u64 {
        self.opened
    }
    /// A number that grows whenever what it has changes, or whether it is there at all.
    pub fn fitted(&self) -> u64 {
        self.fitted
    }
    /// Who holds one of these units.
    pub fn holder_of(&self, units: Units) -> Option<(JobId, TaskIndex)> {
        if self.used.units & units == 0 {
            return None;
        }
        self.ends.iter().find(|(_, hold)| hold.units & units != 0).map(|((_, job, task), _)| (*job, *task))
    }
    /// Who holds the card of this index, or some of it.
    pub fn holder(&self, card: u32) -> Option<(JobId, TaskIndex)> {
        let position = self.cards.iter().position(|c| c.index == card)?;
        self.holder_of(self.layout.slot(position)?.mask())
    }
    /// Who holds the slice at this position of the card's list.
    pub fn slice_holder(&self, card: &Card, position: usize) -> Option<(JobId, TaskIndex)> {
        let slot = self.layout.slot(self.cards.iter().position(|c| c.index == card.index)?)?;
        self.holder_of(slot.placed(crate::layout::slice_place(card, position)?))
    }
    /// Which of these cards and slices fail, and how: the card's index, and words.
    pub fn failing<'a>(&'a self, held: &'a [CardUse]) -> impl Iterator<Item = (u32, &'a str)> {
        held.iter().filter_map(|one| {
            let card = self.cards.get(crate::position_of(&self.cards, one)?)?;
            let slice =
                card.slices.iter().find(|it| one.slice.is_some() && it.uuid.is_some() && it.uuid == one.uuid);
            let of_slice = slice.and_then(|it| failed(&it.health));
            Some((card.index, failed(&card.health).or(of_slice)?))
        })
    }
    /// Who holds the whole node, when a job wanted it alone.
    pub fn held_alone_by(&self) -> Option<(JobId, TaskIndex)> {
        self.alone
    }
    /// Tasks that hold something of it.
    pub fn runs(&self) -> impl ExactSizeIterator<Item = (JobId, TaskIndex)> + '_ {
        self.holds.keys().copied()
    }
    /// What a task holds of it.
    pub fn hold_of(&self, job: JobId, task: TaskIndex) -> Option<&Hold> {
        self.ends.get(&(*self.holds.get(&(job, task))?, job, task))
    }
    /// What tasks hold of it, the one whose time limit passes first in front.
    pub fn ends(&self) -> impl DoubleEndedIterator<Item = (&(Timestamp, JobId, TaskIndex), &Hold)> {
        self.ends.iter()
    }
    /// Whether new jobs may be started there now.
    pub fn is_open(&self) -> bool {
        self.link == Link::Up && self.closed_for().is_none() && self.strays.is_empty()
    }
    /// Why nothing new is started there though it is in sight: an admin's word or trouble found there, or its own word.
    pub fn closed_for(&self) -> Option<&str> {
        self.drained.as_deref().or(self.trouble.as_deref())
    }
    /// Whether it would know if a run of its own had ended: it is the node that the run was given to, or has booted since.
    pub fn vouches_for(&self, run: &Run) -> bool {
        run.node_id.is_none() || run.node_id == self.id || self.boot != Some(run.boot)
    }
    /// Whether nobody knows of a run of its own if it lives.
    pub fn is_blind_to(&self, run: &Run) -> bool {
        matches!(self.link, Link::Lost { .. }) || !self.vouches_for(run)
    }
    /// There may be more room than before.
    pub(crate) fn open(&mut self) {
        self.opened = self.opened.wrapping_add(1);
    }
    pub(crate) fn settle_at(&mut self, place: u32) {
        self.place = place;
    }

    /// It came in sight, fell silent, is lost or forgotten; what holds something of it is not forgotten.
    pub(crate) fn be_seen(&mut self, link: Link) -> Result<(), IllegalEvent> {
        if link == Link::Forgotten && !self.holds.is_empty() {
            return Err(IllegalEvent(format!(
                "node {} is forgotten, and runs hold something of it",
                self.name
            )));
        }
        if (link == Link::Forgotten) != (self.link == Link::Forgotten) {
            self.fitted = self.fitted.wrapping_add(1);
        }
        self.link = link;
        self.open();
        Ok(())
    }

    /// Takes what it has. What runs hold has to be said anew: units may lie elsewhere now.
    pub(crate) fn refit(&mut self, has: (u32, MiB, &[String], &[Card])) {
        let (cpus, memory, features, cards) = has;
        (self.cpus, self.memory) = (cpus, memory);
        self.features = features.to_vec();
        self.cards = cards.to_vec();
        self.fitted = self.fitted.wrapping_add(1);
        self.open();
        self.forget_holdings();
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
        self.layout = Layout::of(&self.cards);
        self.used = Used::default();
        self.holds.clear();
        self.ends.clear();
        self.alone = None;
        self.is_crowded = false;
    }

    /// Gives a task what its run holds.
    pub(crate) fn hold(
        &mut self,
        who: (JobId, TaskIndex),
        run: &Run,
        until: Timestamp,
    ) -> Result<(), IllegalEvent> {
        let units = self.units_of(run);
        if let Some(other) = self.holder_of(units) {
            return Err(IllegalEvent(format!(
                "a card of {} is held by {}_{} and {}_{}",
                self.name, other.0, other.1, who.0, who.1
            )));
        }
        self.hold_units(who, run, until, (units, units))
    }

    /// Says anew what a run holds, of cards that may have been cut otherwise under it: a card that was put into MIG mode, slices that went
    /// and left others in their place of the list. What lies over what another holds counts for nothing: whatever a node reports
    /// of its cards is no contradiction.
    pub(crate) fn hold_again(
        &mut self,
        who: (JobId, TaskIndex),
        run: &Run,
        until: Timestamp,
    ) -> Result<(), IllegalEvent> {
        let wanted = self.units_of(run);
        self.hold_units(who, run, until, (wanted & !self.used.units, wanted))
    }

    /// Gives units that a run held to those that lie over them and had to do without.
    fn regain(&mut self, mut free: Units) {
        for (who, until) in &self.holds {
            if free == 0 {
                return;
            }
            let Some(hold) = self.ends.get_mut(&(*until, who.0, who.1)) else { continue };
            let more = hold.wanted & free;
            hold.units |= more;
            self.used.units |= more;
            free &= !more;
        }
    }

    fn units_of(&self, run: &Run) -> Units {
        if run.cards.is_empty() { 0 } else { self.layout.units(&self.cards, &run.cards) }
    }

    fn hold_units(
        &mut self,
        who: (JobId, TaskIndex),
        run: &Run,
        until: Timestamp,
        (units, wanted): (Units, Units),
    ) -> Result<(), IllegalEvent> {
        let (cpus, memory) = (run.cpus, run.memory);
        self.is_crowded |= wanted != units;
        let hold = Hold { until, cpus, memory, units, wanted, alone: run.exclusive };
        if self.alone.is_some() || (run.exclusive && !self.holds.is_empty()) {
            let text = format!("{}_{} is not alone on node {}", who.0, who.1, self.name);
            return Err(IllegalEvent(text));
        }
        if self.holds.insert(who, until).is_some() {
            return Err(IllegalEvent(format!("{}_{} holds node {} twice", who.0, who.1, self.name)));
        }
        self.ends.insert((until, who.0, who.1), hold);
        self.used.cpus = self.used.cpus.saturating_add(run.cpus);
        self.used.memory = self.used.memory.saturating_add(run.memory);
        self.used.units |= units;
        if run.exclusive {
            self.alone = Some(who);
        }
        Ok(())
    }

    /// Says anew until when a task may hold what it holds.
    pub(crate) fn hold_until(&mut self, who: (JobId, TaskIndex), until: Timestamp) {
        let Some(before) = self.holds.get_mut(&who) else { return };
        let hold = self.ends.remove(&(*before, who.0, who.1));
        if until < *before {
            self.opened = self.opened.wrapping_add(1);
        }
        *before = until;
        if let Some(hold) = hold {
            self.ends.insert((until, who.0, who.1), Hold { until, ..hold });
        }
    }

    pub(crate) fn release(&mut self, who: (JobId, TaskIndex)) -> Result<(), IllegalEvent> {
        let until = self.holds.remove(&who);
        let hold = until.and_then(|until| self.ends.remove(&(until, who.0, who.1)));
        let Some(hold) = hold else {
            return Err(IllegalEvent(format!("{}_{} holds nothing of {}", who.0, who.1, self.name)));
        };
        self.open();
        self.used.cpus = self.used.cpus.saturating_sub(hold.cpus);
        self.used.memory = self.used.memory.saturating_sub(hold.memory);
        self.used.units &= !hold.units;
        if self.is_crowded {
            self.regain(hold.units);
        }
        if self.alone == Some(who) {
            self.alone = None;
        }
        Ok(())
    }
}
