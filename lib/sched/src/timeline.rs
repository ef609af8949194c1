//! Timeline: what is in use of one node from now on, as steps sorted by time: running jobs until their limits, and reservations.
//! Never decides who gets anything.

use alloc::vec::Vec;
use gq_cluster::{Hold, Node, Units};
use gq_model::{Seconds, Timestamp};

/// What is in use of a node at one moment, or at most within a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// Units of cards.
    pub(crate) units: Units,
    /// Memory in mebibytes.
    pub(crate) memory: u64,
    /// Cpus.
    pub(crate) cpus: u32,
    /// How many hold something.
    pub(crate) holders: u32,
    /// How many of them want to be alone.
    pub(crate) alone: u32,
}

impl Load {
    /// What runs hold of a node now.
    pub(crate) fn now(node: &Node) -> Self {
        let used = node.used();
        Self {
            units: used.units,
            memory: used.memory.0,
            cpus: used.cpus,
            holders: u32::try_from(node.runs().len()).unwrap_or(u32::MAX),
            alone: u32::from(node.held_alone_by().is_some()),
        }
    }

    /// What one run holds.
    pub(crate) fn of(hold: &Hold) -> Self {
        Self {
            units: hold.units,
            memory: hold.memory.0,
            cpus: hold.cpus,
            holders: 1,
            alone: u32::from(hold.alone),
        }
    }

    pub(crate) fn plus(self, other: &Self) -> Self {
        Self {
            units: self.units | other.units,
            memory: self.memory.saturating_add(other.memory),
            cpus: self.cpus.saturating_add(other.cpus),
            holders: self.holders.saturating_add(other.holders),
            alone: self.alone.saturating_add(other.alone),
        }
    }

    pub(crate) fn minus(self, other: &Self) -> Self {
        Self {
            units: self.units & !other.units,
            memory: self.memory.saturating_sub(other.memory),
            cpus: self.cpus.saturating_sub(other.cpus),
            holders: self.holders.saturating_sub(other.holders),
            alone: self.alone.saturating_sub(other.alone),
        }
    }

    /// The most of both at any moment: units that either uses are in use.
    pub(crate) fn or(self, other: &Self) -> Self {
        Self {
            units: self.units | other.units,
            memory: self.memory.max(other.memory),
            cpus: self.cpus.max(other.cpus),
            holders: self.holders.max(other.holders),
            alone: self.alone.max(other.alone),
        }
    }
}

/// What one task takes, from when and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
    pub(crate) load: Load,
}

/// The steps of one node's load.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    /// Each step's begin; the last one lasts for ever.
    steps: Vec<(Timestamp, Load)>,
    /// Begins of claims in the future: nowhere else does the load grow.
    rises: Vec<Timestamp>,
}

impl Timeline {
    /// The load of a node if nothing were started any more. A run past its limit is being ended: it may be gone in the next second,
    /// and is not gone now.
    pub(crate) fn of(node: &Node, now: Timestamp) -> Self {
        let soonest = now.after(Seconds(1));
        let mut load = Load::now(node);
        let mut steps = Vec::with_capacity(node.runs().len() + 4);
        steps.push((now, load));
        for ((until, ..), hold) in node.ends() {
            let at = (*until).max(soonest);
            load = load.minus(&Load::of(hold));
            match steps.last_mut() {
                Some((last, there)) if *last == at => *there = load,
                _ => steps.push((at, load)),
            }
        }
        Self { steps, rises: Vec::new() }
    }

    /// Index of the step that holds at `at`.
    pub(crate) fn step_at(&self, at: Timestamp) -> usize {
        self.steps.partition_point(|(begin, _)| *begin <= at).saturating_sub(1)
    }
    /// A step.
    pub(crate) fn step(&self, index: usize) -> Option<&(Timestamp, Load)> {
        self.steps.get(index)
    }

    /// Makes a step begin at `at`; returns its index.
    fn cut(&mut self, at: Timestamp) -> usize {
        let index = self.step_at(at);
        match self.steps.get(index) {
            Some((begin, load)) if *begin < at => {
                let load = *load;
                self.steps.insert(index + 1, (at, load));
                index + 1
            }
            _ => index,
        }
    }

    /// Adds a claim.
    pub(crate) fn claim(&mut self, claim: &Claim) {
        self.change(claim, Load::plus);
        if self.steps.first().is_some_and(|(now, _)| claim.from > *now) {
            self.rises.push(claim.from);
        }
    }

    /// Takes a claim back that was added.
    pub(crate) fn unclaim(&mut self, claim: &Claim) {
        self.change(claim, Load::minus);
        if let Some(at) = self.rises.iter().position(|rise| *rise == claim.from) {
            self.rises.swap_remove(at);
        }
    }

    fn change(&mut self, claim: &Claim, change: impl Fn(Load, &Load) -> Load) {
        if claim.from >= claim.until {
            return;
        }
        let first = self.cut(claim.from);
        let past = if claim.until == Timestamp::NEVER { self.steps.len() } else { self.cut(claim.until) };
        for (_, load) in self.steps.iter_mut().take(past).skip(first) {
            *load = change(*load, &claim.load);
        }
    }

    /// The most that is in use between now and `until`.
    pub(crate) fn peak_from_now(&self, until: Timestamp) -> Load {
        let now = self.steps.first().map_or(Load::default(), |(_, load)| *load);
        let at = |rise: &Timestamp| self.steps.get(self.step_at(*rise)).map(|(_, load)| load);
        self.rises.iter().filter(|rise| **rise < until).filter_map(at).fold(now, |peak, load| peak.or(load))
    }

    /// The most that is in use from `from` until `until`.
    pub(crate) fn peak(&self, from: Timestamp, until: Timestamp) -> Load {
        let steps = self.steps.iter().skip(self.step_at(from)).take_while(|(begin, _)| *begin < until);
        steps.fold(Load::default(), |peak, (_, load)| peak.or(load))
    }
}
