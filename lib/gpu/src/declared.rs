//! Declared cards: how they stand to the found ones. Asks no driver.

use gq_model::{Card, CardHealth, Slice};

/// The cards of a node by what was `found` on it and what its conf has `declared`.
///
/// - Nothing declared: the found cards.
/// - Else exactly the declared cards, numbered from 0 in their order, with the model and memory declared. A declared card
///   whose model fits the found card of the same index *is* that card: it takes its UUID, minor number, health and the NVLink
///   peers that are declared too, and each declared slice takes UUID, ids, place and health of the next found slice of its profile. What the
///   driver says it can be cut into wins, and if it is declared in MIG mode without slices, it has those that were found. A found
///   card that never told its model fits. Every other declared card stands for itself and has none of these.
///
/// A declared card that is a found one but cut otherwise is failed, with the reason: handing it out would give the job a
/// device that does not work.
pub fn merge(found: Vec<Card>, declared: &[Card]) -> Vec<Card> {
    if declared.is_empty() {
        return found;
    }
    let mut cards: Vec<Card> =
        declared.iter().zip(0..).map(|(card, index)| Card { index, ..card.clone() }).collect();
    let is = |card: &Card, real: &Card| real.model.is_empty() || real.is_model(&card.model);
    let real = |card: &Card| found.iter().find(|real| real.index == card.index).filter(|real| is(card, real));
    let standing: Vec<u32> =
        cards.iter().filter(|card| real(card).is_some()).map(|card| card.index).collect();
    for card in &mut cards {
        match real(card) {
            Some(real) => {
                adopt(card, real);
                card.nvlink.retain(|(peer, _)| standing.contains(peer));
            }
            None => stand_alone(card),
        }
    }
    cards
}

/// A declared card that is no found one: nothing of NVML.
fn stand_alone(card: &mut Card) {
    card.uuid = None;
    card.minor = None;
    card.nvlink.clear();
    card.mig |= !card.slices.is_empty();
    for slice in &mut card.slices {
        *slice = Slice { uuid: None, gpu_instance: None, compute_instance: None, ..slice.clone() };
    }
}

/// Gives the declared `card` what the found card `real` has.
fn adopt(card: &mut Card, real: &Card) {
    stand_alone(card);
    card.uuid.clone_from(&real.uuid);
    card.minor = real.minor;
    card.nvlink.clone_from(&real.nvlink);
    card.health = real.health.clone();
    if card.mig && real.grid.is_some() {
        card.grid.clone_from(&real.grid);
    }
    if card.mig && card.slices.is_empty() {
        card.slices.clone_from(&real.slices);
    }
    let mut left: Vec<&Slice> = real.slices.iter().collect();
    let mut missing = None;
    for slice in &mut card.slices {
        match left.iter().position(|found| found.profile.eq_ignore_ascii_case(&slice.profile)) {
            Some(at) => {
                let found = left.remove(at);
                slice.uuid.clone_from(&found.uuid);
                slice.gpu_instance = found.gpu_instance;
                slice.compute_instance = found.compute_instance;
                slice.placement = found.placement;
                slice.health = found.health.clone();
            }
            None => missing = Some(slice.profile.clone()),
        }
    }
    if real.health != CardHealth::Good {
        return;
    }
    let wrong = match (card.mig, real.mig, missing) {
        (false, true, _) => "declared whole, but it is in MIG mode".to_string(),
        (true, false, _) => "declared in MIG mode or cut in slices, but it is not in MIG mode".to_string(),
        (true, true, Some(profile)) => format!("declared with more slices {profile} than it has"),
        (false, false, _) | (true, true, None) => return,
    };
    card.health = CardHealth::Failed(format!("{wrong}: change [[node.gpu]], or leave it out"));
}
