//! Options: how many instances of each profile a card could still take, weighed by what jobs ask for. What a choice loses of them is
//! what it costs, so that large profiles stay possible.
//!
//! Source: the fragmentation gradient of Weng et al., "Beware of Fragmentation" (ATC 2023), with the placements of MIG profiles as the
//! workload that is hoped for.

use alloc::{collections::BTreeMap, string::String, vec::Vec};
use gq_model::Grid;

/// The worth of every set of free units of one grid, as a table: 256 entries for 8 units, 4,096 for 12.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    grid: Grid,
    worth: Vec<u32>,
}

impl Options {
    /// `demand`: how many waiting tasks name each profile.
    pub(crate) fn of(grid: &Grid, demand: &BTreeMap<String, u64>) -> Self {
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

    pub(crate) fn is_of(&self, grid: &Grid) -> bool {
        self.grid == *grid
    }

    /// What is lost of the options when `taken` of `free` is taken.
    pub(crate) fn lost(&self, free: u16, taken: u16) -> u32 {
        let worth = |free: u16| self.worth.get(usize::from(free)).copied().unwrap_or(0);
        worth(free).saturating_sub(worth(free & !taken))
    }
}
