//! Options: how many instances of each profile a card could still take, weighed by what jobs ask for. What a choice loses of them is
//! what it costs, so that large profiles stay possible.
//!
//! Source: the fragmentation gradient of Weng et al., "Beware of Fragmentation" (ATC 2023), with the placements of MIG profiles as the
//! workload that is hoped for.

use alloc::{collections::BTreeMap, string::String, vec::Vec};
use gq_cluster::Queue;
use gq_model::Grid;

/// What could still be had, weighed by what jobs ask for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    grids: Vec<OfGrid>,
    /// Of several whole cards on one node.
    pub(crate) wide: Wide,
    demand: Demand,
}

/// How many waiting tasks ask for what, rounded up so that a few more or less change nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Demand {
    /// By profile.
    slices: BTreeMap<String, u64>,
    /// By number of whole cards.
    cards: BTreeMap<u32, u64>,
}

impl Options {
    /// Weighs them anew if what waits is another mixture than before, or there are other grids.
    pub(crate) fn refresh(&mut self, queue: &Queue, grids: &[Grid]) {
        let demand = Demand::of(queue);
        if demand == self.demand
            && grids.len() == self.grids.len()
            && grids.iter().zip(&self.grids).all(|(grid, known)| known.grid == *grid)
        {
            return;
        }
        self.grids = grids.iter().map(|grid| OfGrid::of(grid, &demand.slices)).collect();
        self.wide = Wide::of(&demand.cards);
        self.demand = demand;
    }

    /// Of the grid of a card of this cluster. Every grid there is was given to `refresh`, so that one that differs from all others at a glance
    /// need not be compared in full.
    pub(crate) fn of_grid(&self, grid: &Grid) -> Option<&OfGrid> {
        let is_like = |other: &&OfGrid| {
            let first = |grid: &Grid| grid.profiles.first().map(|p| (p.size, p.memory));
            (other.grid.units, other.grid.profiles.len(), first(&other.grid))
                == (grid.units, grid.profiles.len(), first(grid))
        };
        let mut like = self.grids.iter().filter(is_like);
        match (like.next(), like.next()) {
            (only, None) => only,
            _ => self.grids.iter().find(|options| options.grid == *grid),
        }
    }
}

impl Demand {
    fn wide(&mut self, cards: u32, count: u64) {
        let sum = self.cards.entry(cards).or_default();
        *sum = sum.saturating_add(count);
    }

    fn of(queue: &Queue) -> Self {
        let mut demand = Self::default();
        for (_, group) in queue.groups() {
            let ask = &group.shape.demand.cards;
            let count = group.jobs.len() as u64;
            match &ask.profile {
                Some(profile) => {
                    let sum = demand.slices.entry(profile.clone()).or_default();
                    *sum = sum.saturating_add(count);
                    if ask.count > 1 {
                        demand.wide(ask.count, count);
                    }
                }
                None if ask.count > 1 => demand.wide(ask.count, count),
                None => {}
            }
        }
        demand.slices.values_mut().for_each(|count| *count = count.next_power_of_two());
        demand.cards.values_mut().for_each(|count| *count = count.next_power_of_two());
        demand
    }
}

/// The worth of every set of free units of one grid, as a table: 256 entries for 8 units, 4,096 for 12.
#[derive(Clone, Debug)]
pub(crate) struct OfGrid {
    grid: Grid,
    worth: Vec<u32>,
}

impl OfGrid {
    /// `demand`: how many waiting tasks name each profile.
    fn of(grid: &Grid, demand: &BTreeMap<String, u64>) -> Self {
        let total: u64 = grid.profiles.iter().filter_map(|p| demand.get(&p.name)).sum();
        // Everybody keeps a floor of one part in eight, so that what nobody asks for at the moment stays possible.
        let weight = |name: &String| {
            let share = demand.get(name).map_or(0, |count| count.saturating_mul(64) / total.max(1));
            8 + u32::try_from(share).unwrap_or(64)
        };
        let kinds: Vec<(u32, Vec<u16>)> = grid
            .profiles
            .iter()
            .filter(|profile| profile.is_plain())
            .map(|p| (weight(&p.name) * u32::from(p.size), p.placements().map(|at| at.mask()).collect()))
            .collect();
        let count = 1usize << grid.units.min(gq_model::MAX_UNITS);
        let worth_of = |free: usize| {
            let free = u16::try_from(free).unwrap_or(u16::MAX);
            let open = |masks: &Vec<u16>| masks.iter().filter(|mask| *mask & !free == 0).count();
            kinds.iter().map(|(weight, masks)| weight * u32::try_from(open(masks)).unwrap_or(0)).sum()
        };
        Self { grid: grid.clone(), worth: (0..count).map(worth_of).collect() }
    }

    /// What is lost of the options when `taken` of `free` is taken.
    pub(crate) fn lost(&self, free: u16, taken: u16) -> u32 {
        let worth = |free: u16| self.worth.get(usize::from(free)).copied().unwrap_or(0);
        worth(free).saturating_sub(worth(free & !taken))
    }
}

/// What it costs to leave no room on a node for jobs of several whole cards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wide {
    /// What waits for so many cards weighs so much.
    weights: [(u32, u32); 3],
}

impl Wide {
    /// `demand`: how many waiting tasks ask for how many whole cards.
    fn of(demand: &BTreeMap<u32, u64>) -> Self {
        let total: u64 = demand.values().sum();
        let weight = |cards: u32| {
            let asked = demand.range(cards / 2 + 1..=cards).map(|(_, count)| *count).sum::<u64>();
            let share = asked.saturating_mul(64) / total.max(1);
            (cards, 8 + u32::try_from(share).unwrap_or(64))
        };
        Self { weights: [2, 4, 8].map(weight) }
    }

    /// What is lost when of `before` idle cards of a node `after` are left.
    pub(crate) fn lost(&self, before: u32, after: u32) -> u32 {
        let of = |(cards, weight): &(u32, u32)| match cards {
            0 => 0,
            cards => (before / cards).saturating_sub(after / cards) * cards * 8 * weight,
        };
        self.weights.iter().map(of).sum()
    }
}
