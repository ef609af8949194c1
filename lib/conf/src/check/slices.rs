//! Lays the declared slices of a card on its grid, so that each has its place. Knows no card's grid; see `gq_model::known_grid`.

use gq_model::{Grid, Placement, Profile, Slice};

/// Why declared slices cannot lie on a card.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// The card's grid has no profile of this name.
    Unknown(String),
    /// There is no way to place them all.
    TooMany,
}

/// Gives every slice a place on the grid, the largest profiles first and each as far behind as it goes.
pub(crate) fn lay(slices: &mut [Slice], grid: &Grid) -> Result<(), NoRoom> {
    let mut wanted: Vec<(&Profile, usize)> = Vec::new();
    for (at, slice) in slices.iter().enumerate() {
        let profile = grid.profile(&slice.profile).ok_or_else(|| NoRoom::Unknown(slice.profile.clone()))?;
        wanted.push((profile, at));
    }
    wanted.sort_by(|(a, _), (b, _)| b.size.cmp(&a.size).then_with(|| a.name.cmp(&b.name)));
    let units: u32 = wanted.iter().map(|(profile, _)| u32::from(profile.size)).sum();
    let count = |profile: &Profile| wanted.iter().filter(|(other, _)| other.name == profile.name).count();
    if units > u32::from(grid.units) || wanted.iter().any(|(p, _)| count(p) > usize::from(p.most)) {
        return Err(NoRoom::TooMany);
    }
    let profiles: Vec<&Profile> = wanted.iter().map(|(profile, _)| *profile).collect();
    let mut places: Vec<Placement> = Vec::new();
    if !place(&profiles, 0, None, &mut places) {
        return Err(NoRoom::TooMany);
    }
    for ((_, at), place) in wanted.iter().zip(places) {
        if let Some(slice) = slices.get_mut(*at) {
            slice.placement = Some(place);
        }
    }
    Ok(())
}

/// Finds places for `profiles` beside the units `taken`. `before` is the profile placed last, with its place: one of the
/// same name goes before it, since the order of equal ones does not matter. As deep as there are profiles, which are no
/// more than units of the grid.
fn place(
    profiles: &[&Profile],
    taken: u16,
    before: Option<(&Profile, Placement)>,
    places: &mut Vec<Placement>,
) -> bool {
    let Some((profile, rest)) = profiles.split_first() else { return true };
    let bound = before.filter(|(other, _)| other.name == profile.name).map(|(_, place)| place.start);
    for at in profile.placements().rev() {
        if at.mask() & taken != 0 || bound.is_some_and(|bound| at.start > bound) {
            continue;
        }
        places.push(at);
        if place(rest, taken | at.mask(), Some((profile, at)), places) {
            return true;
        }
        places.pop();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use gq_model::{MiB, known_grids};
    use std::collections::BTreeSet;

    /// Every multiset of profiles (as their sorted positions in the grid) that some placed set of instances has.
    fn possible(grid: &Grid) -> BTreeSet<Vec<usize>> {
        let mut all = BTreeSet::new();
        let mut open = BTreeSet::from([Vec::<(u8, usize)>::new()]);
        while let Some(placed) = open.pop_first() {
            let mut kinds: Vec<usize> = placed.iter().map(|(_, kind)| *kind).collect();
            kinds.sort_unstable();
            all.insert(kinds.clone());
            // Instances are added from the front to the back, so that no set comes twice.
            let end = placed.last().map_or(0, |(start, kind)| start + grid.profiles[*kind].size);
            for (kind, profile) in grid.profiles.iter().enumerate() {
                let count = kinds.iter().filter(|other| **other == kind).count();
                for start in profile.starts.iter().filter(|start| **start >= end) {
                    if count < usize::from(profile.most) {
                        open.insert(placed.iter().copied().chain([(*start, kind)]).collect());
                    }
                }
            }
        }
        all
    }

    /// All sorted lists of up to `most` of the numbers below `kinds`.
    fn lists(kinds: usize, most: usize) -> Vec<Vec<usize>> {
        let mut all = vec![Vec::new()];
        let mut from = 0;
        for _ in 0..most {
            let until = all.len();
            for at in from..until {
                let least = all[at].last().copied().unwrap_or(0);
                let longer: Vec<Vec<usize>> =
                    (least..kinds).map(|kind| all[at].iter().copied().chain([kind]).collect()).collect();
                all.extend(longer);
            }
            from = until;
        }
        all
    }

    #[test]
    fn slices_find_places_exactly_when_there_are_some() {
        for (models, _, _, grid) in known_grids() {
            let possible = possible(&grid);
            for kinds in lists(grid.profiles.len(), 5) {
                let slice = |kind: &usize| Slice {
                    profile: grid.profiles[*kind].name.clone(),
                    uuid: None,
                    memory: MiB(1),
                    gpu_instance: None,
                    compute_instance: None,
                    placement: None,
                    health: gq_model::CardHealth::Good,
                };
                let mut slices: Vec<Slice> = kinds.iter().map(slice).collect();
                let names: Vec<_> = slices.iter().map(|slice| slice.profile.clone()).collect();
                assert_eq!(
                    lay(&mut slices, &grid).is_ok(),
                    possible.contains(&kinds),
                    "{models:?}: {names:?}"
                );
                let mut taken = 0;
                for (slice, kind) in slices.iter().zip(&kinds).filter(|_| possible.contains(&kinds)) {
                    let place = slice.placement.unwrap();
                    assert!(grid.profiles[*kind].placements().any(|known| known == place));
                    assert_eq!(place.mask() & taken, 0, "{models:?}: {names:?}");
                    taken |= place.mask();
                }
            }
        }
    }
}
