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
