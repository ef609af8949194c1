//! Cuts: what can still be had of a card in MIG mode, for people to read. Who gets what is the plan's to say.

use gq_cluster::{Node, Units};
use gq_model::{Card, Grid, Profile, Slice};

/// What is free of a card: units, and sets of slices that fit together in them.
pub(crate) struct Free {
    pub(crate) units: Option<u32>,
    pub(crate) sets: Vec<String>,
}

/// What is free of the card at this position of the node's list. With `recut` idle slices may be destroyed and others cut; without it
/// only those that are there and idle can be had.
pub(crate) fn free(node: &Node, position: usize, recut: bool) -> Free {
    let nothing = Free { units: None, sets: Vec::new() };
    let Some((card, slot)) = node.cards.get(position).zip(node.layout().slot(position)) else {
        return nothing;
    };
    if !card.mig || !card.health.is_good() {
        return nothing;
    }
    let taken = ((node.used().units | !node.layout().good()) & slot.mask()) >> slot.offset;
    match &card.grid {
        Some(grid) => {
            let free = grid_mask(grid) & !low_bits(taken);
            let sets = if recut && !card.fixed { sets(grid, free) } else { idle(node, card) };
            Free { units: Some(free.count_ones()), sets }
        }
        None => Free { units: None, sets: idle(node, card) },
    }
}

fn low_bits(units: Units) -> u16 {
    u16::try_from(units & Units::from(u16::MAX)).unwrap_or(u16::MAX)
}

fn grid_mask(grid: &Grid) -> u16 {
    gq_model::Placement { start: 0, size: grid.units }.mask()
}

/// The slices that are there and that nobody holds, as one set.
fn idle(node: &Node, card: &Card) -> Vec<String> {
    let is_idle = |at: usize, slice: &Slice| slice.health.is_good() && node.slice_holder(card, at).is_none();
    let idle = card.slices.iter().enumerate().filter(|(at, slice)| is_idle(*at, slice));
    let names: Vec<&str> = idle.map(|(_, slice)| slice.profile.as_str()).collect();
    if names.is_empty() { Vec::new() } else { vec![told(&names)] }
}

/// `2g.20gb+3x1g.10gb`.
fn told(names: &[&str]) -> String {
    let mut counts: Vec<(&str, u32)> = Vec::new();
    for name in names {
        match counts.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let one =
        |(name, count): (&str, u32)| if count == 1 { name.to_owned() } else { format!("{count}x{name}") };
    counts.into_iter().map(one).collect::<Vec<_>>().join("+")
}

/// Sets of slices that fit together into the free units: for each profile that fits at all one in which none is larger.
fn sets(grid: &Grid, free: u16) -> Vec<String> {
    let mut plain: Vec<&Profile> = grid.profiles.iter().filter(|profile| profile.is_plain()).collect();
    // The more compute the better; of equal compute the one that takes least.
    plain.sort_by_key(|p| (std::cmp::Reverse(p.compute), p.size));
    let mut largest = plain.clone();
    largest.sort_by_key(|p| (std::cmp::Reverse(p.size), std::cmp::Reverse(p.compute)));
    let mut all: Vec<String> = Vec::new();
    for top in largest {
        let mut left = free;
        let mut names = Vec::new();
        if !take(&plain, top, &mut left) {
            continue;
        }
        names.push(top.name.as_str());
        for profile in plain.iter().filter(|p| p.size <= top.size && p.compute <= top.compute) {
            let mut count = u8::from(profile.name == top.name);
            while count < profile.most && take(&plain, profile, &mut left) {
                names.push(&profile.name);
                count += 1;
            }
        }
        let set = told(&names);
        if !all.contains(&set) {
            all.push(set);
        }
    }
    all
}

/// Takes the units of an instance where the most others stay possible; false when there is no room.
fn take(plain: &[&Profile], profile: &Profile, left: &mut u16) -> bool {
    let open = |free: u16| -> usize {
        plain.iter().flat_map(|p| p.placements()).filter(|place| place.mask() & !free == 0).count()
    };
    let fits = profile.placements().map(gq_model::Placement::mask).filter(|mask| mask & !*left == 0);
    let Some(mask) = fits.max_by_key(|mask| open(*left & !mask)) else { return false };
    *left &= !mask;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(model: &str, gib: u64) -> Grid {
        gq_model::known_grid(model, gq_model::MiB(gib << 10)).unwrap()
    }

    #[test]
    fn what_fits_is_told_the_largest_first() {
        let a100 = grid("NVIDIA A100-SXM4-80GB", 80);
        assert_eq!(sets(&a100, 0), Vec::<String>::new());
        let half = sets(&a100, 0xf0);
        assert_eq!(half[..2], ["3g.40gb", "2g.20gb+1g.10gb"], "{half:?}");
        assert!(half.contains(&"3x1g.10gb".to_owned()), "{half:?}");
        let whole = sets(&a100, 0xff);
        assert_eq!(whole[..3], ["7g.80gb", "4g.40gb+3g.40gb", "2x3g.40gb"], "{whole:?}");
        assert!(whole.contains(&"7x1g.10gb".to_owned()), "{whole:?}");
    }

    #[test]
    fn free_units_in_the_wrong_places_are_worth_little() {
        let a100 = grid("NVIDIA A100-SXM4-80GB", 80);
        // Units 1, 3, 5: no two side by side.
        assert_eq!(sets(&a100, 0b0010_1010), ["3x1g.10gb"]);
    }

    #[test]
    fn sizes_need_not_be_powers_of_two() {
        let sets = sets(&grid("NVIDIA RTX PRO 6000 Blackwell Server Edition", 96), 0b1111_1100_0000);
        assert_eq!(sets, ["2g.48gb", "2x1g.24gb"]);
    }
}
