//! Fragmentation: how much of the free cards cannot serve what jobs ask for.
//!
//! Definition, after "Beware of Fragmentation" (ATC'23): for a request drawn from the log's mix of card requests, a free part of a card is
//! stranded when that request could not use it: the whole free part of a node that cannot take the request at all, else of the cards on
//! which no such slice, or no whole card, can be had. The figure is the mean over the mix, as a share of all free parts.

use crate::{report::percent, spread::share, trace::WHOLE};
use gq_model::{Grid, MiB, Placement};
use serde::Serialize;
use std::sync::Arc;

/// What a job may ask of a node, and how often that is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) cpus: u32,
    pub(crate) memory: MiB,
    /// Cards or slices.
    pub(crate) count: u32,
    /// The profile of the slices; none for whole cards.
    pub(crate) profile: Option<Arc<str>>,
    /// How many jobs of the log ask so.
    pub(crate) weight: u64,
}

/// A card with what is taken of it.
#[derive(Clone, Debug)]
pub(crate) struct CardState {
    /// What it can be cut into; none for a card that is handed out whole.
    pub(crate) grid: Option<Arc<Grid>>,
    /// The units taken, lowest first; any bit for a whole card that is taken.
    pub(crate) taken: u16,
}

impl CardState {
    /// Thousandths that are free.
    pub(crate) fn free(&self) -> u32 {
        match &self.grid {
            None if self.taken == 0 => WHOLE,
            None => 0,
            Some(grid) => {
                let units = u32::from(grid.units).max(1);
                let all = Placement { start: 0, size: grid.units }.mask();
                let taken = (self.taken & all).count_ones();
                (units - taken.min(units)) * WHOLE / units
            }
        }
    }

    /// Where an instance of the profile could lie now; the whole of a card that is free when no profile is named.
    pub(crate) fn places<'c>(&'c self, profile: Option<&str>) -> impl Iterator<Item = Placement> + use<'c> {
        let whole = match (&self.grid, profile) {
            // A card in MIG mode serves a wish for a whole card when nothing of it is taken.
            (Some(grid), None) => Some(Placement { start: 0, size: grid.units }),
            (None, None) => Some(Placement { start: 0, size: 1 }),
            (_, Some(_)) => None,
        };
        let cut = self.grid.as_deref().zip(profile).and_then(|(grid, name)| grid.profile(name));
        let taken = self.taken;
        cut.into_iter()
            .flat_map(gq_model::Profile::placements)
            .filter(move |place| taken & place.mask() == 0)
            .chain(whole.filter(move |_| taken == 0))
    }

    /// How many instances of the profile could be had of it (a greedy count), or 1 for a whole free card.
    fn room(&self, profile: Option<&str>) -> u32 {
        let mut taken = self.taken;
        let mut count = 0;
        for place in self.places(profile).filter(|place| place.size > 0) {
            if taken & place.mask() == 0 {
                taken |= place.mask();
                count += 1;
            }
        }
        count
    }
}

/// What is free of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeState {
    pub(crate) cpus_free: u32,
    pub(crate) memory_free: MiB,
    pub(crate) cards: Vec<CardState>,
}

impl NodeState {
    /// Thousandths of cards that are free.
    pub(crate) fn free(&self) -> u64 {
        self.cards.iter().map(|card| u64::from(card.free())).sum()
    }

    /// Whether it could take a job that wishes this.
    pub(crate) fn takes(&self, wish: &Wish) -> bool {
        let room = || self.cards.iter().map(|card| card.room(wish.profile.as_deref())).sum::<u32>();
        self.cpus_free >= wish.cpus
            && self.memory_free >= wish.memory
            && (wish.count == 0 || room() >= wish.count)
    }

    /// Thousandths of free cards that are stranded for this wish.
    fn stranded(&self, wish: &Wish) -> u64 {
        if !self.takes(wish) {
            return self.free();
        }
        let closed = |card: &&CardState| card.places(wish.profile.as_deref()).next().is_none();
        self.cards.iter().filter(closed).map(|card| u64::from(card.free())).sum()
    }
}

/// The share of free cards that is stranded, on the mean over the mix of wishes; 0 when nothing is free.
pub(crate) fn fragmentation(nodes: &[NodeState], mix: &[Wish]) -> f64 {
    let free: u64 = nodes.iter().map(NodeState::free).sum();
    let weights: u64 = mix.iter().map(|wish| wish.weight).sum();
    let stranded: f64 = mix
        .iter()
        .map(|wish| wish.weight as f64 * nodes.iter().map(|node| node.stranded(wish)).sum::<u64>() as f64)
        .sum();
    share(share(stranded, weights as f64), free as f64)
}

/// Figures of the cards at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct CardMoment {
    /// What the jobs that had arrived ask for, as a share of all cards; with `--fill` only.
    pub(crate) arrived: f64,
    /// What was held, as a share of all cards.
    pub(crate) allocated: f64,
    /// Of the free cards, the share that is stranded.
    pub(crate) fragmentation: f64,
    /// Stranded cards as a share of all cards.
    pub(crate) stranded: f64,
}

impl CardMoment {
    /// The figures of these nodes.
    pub(crate) fn of(nodes: &[NodeState], mix: &[Wish], arrived_milli: u64) -> Self {
        let there = nodes.iter().map(|node| node.cards.len() as u64).sum::<u64>() as f64 * f64::from(WHOLE);
        let free = nodes.iter().map(NodeState::free).sum::<u64>() as f64;
        let fragmentation = fragmentation(nodes, mix);
        Self {
            arrived: share(arrived_milli as f64, there),
            allocated: share(there - free, there),
            fragmentation,
            stranded: share(fragmentation * free, there),
        }
    }
}

/// Figures of the cards over a simulation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct CardFigures {
    /// When the jobs that had arrived asked for all cards once; with `--fill` only.
    pub(crate) at_full: Option<CardMoment>,
    /// At the end with `--fill`; else the mean over the moments at which jobs arrived.
    pub(crate) overall: CardMoment,
    /// The most that was held at one of these moments.
    pub(crate) allocated_max: f64,
}

impl CardFigures {
    pub(crate) fn words(&self) -> String {
        let moment = |m: &CardMoment| {
            format!("{} ({} of the free stranded)", percent(m.allocated), percent(m.fragmentation))
        };
        match &self.at_full {
            Some(full) => format!(
                "{} when {} were asked for, {} at {}",
                moment(full),
                percent(full.arrived),
                moment(&self.overall),
                percent(self.overall.arrived)
            ),
            None => format!("{} on the mean, {} at most", moment(&self.overall), percent(self.allocated_max)),
        }
    }
}
