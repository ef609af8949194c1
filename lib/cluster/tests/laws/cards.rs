//! Cards of the nodes of a history, and the laws of how they lie in a node's row of units.

use gq_cluster::{Layout, MAX_NODE_UNITS, Units, WHOLE_CARD, slice_place};
use gq_model::{Card, CardHealth, CardUse, MiB, Placement, Share, Slice, known_grid};
use proptest::prelude::*;

/// A whole card.
pub fn card(index: u32) -> Card {
    let text =
        format!(r#"{{"index":{index},"model":"A100","memory":{}}}"#, 40_960 * (1 + u64::from(index % 2)));
    serde_json::from_str(&text).unwrap()
}

/// A card in MIG mode that can be cut as its kind can, with these slices: profile and first unit.
pub fn cut_card(index: u32, model: &str, memory: u64, slices: &[(&str, u8)]) -> Card {
    let grid = known_grid(model, MiB(memory)).unwrap();
    let slice = |(name, start): &(&str, u8)| {
        let size = grid.profile(name).unwrap().size;
        Slice {
            profile: (*name).to_owned(),
            uuid: Some(format!("MIG-{index}-{start}-{size}")),
            memory: grid.profile(name).unwrap().memory,
            gpu_instance: None,
            compute_instance: None,
            placement: Some(Placement { start: *start, size }),
            health: CardHealth::Good,
        }
    };
    let slices = slices.iter().map(slice).collect();
    Card { model: model.to_owned(), memory: MiB(memory), mig: true, slices, grid: Some(grid), ..card(index) }
}

/// A card in MIG mode of which is only known which slices it has.
pub fn declared_card(index: u32, slices: u8) -> Card {
    let slice = Slice {
        profile: "1g.10gb".into(),
        uuid: None,
        memory: MiB(10_240),
        gpu_instance: None,
        compute_instance: None,
        placement: None,
        health: CardHealth::Good,
    };
    Card { mig: true, slices: (0..slices).map(|_| slice.clone()).collect(), ..card(index) }
}

/// The cards of a node, its cards in MIG mode cut in this or that way.
pub fn cards_of(node: u8, cut: u8) -> Vec<Card> {
    let a100 = |slices: &[(&str, u8)]| cut_card(1, "A100", 81_920, slices);
    match (node, cut % 3) {
        (0, _) => Vec::new(),
        (1, 0) => (0..2).map(card).collect(),
        (1, parts) => vec![card(0), Card { parts: 2 * parts, ..card(1) }],
        (_, 0) => vec![card(0), a100(&[]), declared_card(3, 3), cut_card(4, "A30", 24_576, &[])],
        (_, 1) => vec![
            card(0),
            a100(&[("3g.40gb", 4), ("1g.10gb", 0)]),
            declared_card(3, 3),
            cut_card(4, "A30", 24_576, &[("2g.12gb", 2)]),
        ],
        _ => vec![a100(&[("1g.10gb", 6), ("2g.20gb", 0)]), declared_card(3, 3), card(0)],
    }
}

/// Everything that could be handed out of these cards: whole cards, slices that are there, slices that could be cut.
pub fn uses_of(cards: &[Card]) -> Vec<CardUse> {
    let mut uses = Vec::new();
    for card in cards {
        let one = CardUse::whole(card.index, None);
        if !card.mig {
            uses.push(one.clone());
        }
        for part in (0..card.parts).filter(|_| card.is_shared()) {
            let share = Share { parts: 1 << part, of: card.parts, memory: MiB(1024) };
            uses.push(CardUse { share: Some(share), ..one.clone() });
        }
        for (at, slice) in card.slices.iter().enumerate() {
            let (slice, uuid) = (Some(slice.profile.clone()), slice.uuid.clone());
            uses.push(CardUse { slice, uuid, placement: slice_place(card, at), ..one.clone() });
        }
        for profile in card.grid.iter().flat_map(|grid| &grid.profiles) {
            let cut = |placement| CardUse {
                slice: Some(profile.name.clone()),
                placement: Some(placement),
                ..one.clone()
            };
            uses.extend(profile.placements().map(cut));
        }
    }
    uses
}

fn some_card() -> impl Strategy<Value = Card> {
    let kinds = prop_oneof![
        3 => Just(card(0)),
        1 => Just(cut_card(0, "A100", 81_920, &[("3g.40gb", 4), ("1g.10gb", 0)])),
        1 => Just(cut_card(0, "A30", 24_576, &[("1g.6gb", 3)])),
        1 => Just(cut_card(0, "RTX PRO 6000", 97_887, &[("1g.24gb", 9)])),
        1 => (0..20u8).prop_map(|slices| declared_card(0, slices)),
        2 => (0..20u8).prop_map(|parts| Card { parts, ..card(0) }),
    ];
    let fails = |fails: bool| if fails { CardHealth::Failed("fan".into()) } else { CardHealth::Good };
    (kinds, prop::bool::weighted(0.2), any::<u32>()).prop_map(move |(card, failed, bad)| {
        let slices = card.slices.into_iter().zip(0..);
        let slices = slices.map(|(it, at)| Slice { health: fails(bad >> at & 3 == 3), ..it }).collect();
        Card { health: fails(failed), slices, ..card }
    })
}

/// The card of this index, with names of its own.
fn named(card: Card, index: u32) -> Card {
    let name = |slice: Slice| Slice { uuid: slice.uuid.map(|uuid| format!("{uuid}-{index}")), ..slice };
    Card { index, slices: card.slices.into_iter().map(name).collect(), ..card }
}

proptest! {
    #[test]
    fn the_units_of_cards_lie_side_by_side_and_a_use_has_units_of_its_own_card(
        cards in prop::collection::vec(some_card(), 0..24),
    ) {
        let cards: Vec<Card> =
            cards.into_iter().zip(0..).map(|(card, index)| named(card, index * 3)).collect();
        let layout = Layout::of(&cards);
        let mut all: Units = 0;
        for (at, card) in cards.iter().enumerate() {
            let Some(slot) = layout.slot(at) else { continue };
            prop_assert!(slot.offset + slot.units <= MAX_NODE_UNITS);
            prop_assert_eq!(slot.mask().count_ones(), slot.units);
            prop_assert_eq!(all & slot.mask(), 0, "card {} shares units", card.index);
            all |= slot.mask();
            let mut good = if card.health == CardHealth::Good { slot.mask() } else { 0 };
            for (at, _) in card.slices.iter().enumerate().filter(|(_, slice)| !slice.health.is_good()) {
                good &= !slice_place(card, at).map_or(0, |place| slot.placed(place));
            }
            prop_assert_eq!(layout.good() & slot.mask(), good);
        }
        prop_assert_eq!(layout.good() & !all, 0);
        for one in uses_of(&cards) {
            let at = cards.iter().position(|card| card.index == one.index).unwrap();
            let units = layout.units(&cards, std::slice::from_ref(&one));
            let worth = layout.worth(units);
            let Some(slot) = layout.slot(at) else {
                prop_assert_eq!(units, 0, "{:?} has units and its card has none", one);
                continue;
            };
            prop_assert_eq!(units & !slot.mask(), 0, "{:?} has units of another card", one);
            if let Some(share) = &one.share {
                prop_assert_eq!(units >> slot.offset, Units::from(share.parts));
                prop_assert_eq!(worth, WHOLE_CARD.div_ceil(slot.units));
            } else if one.slice.is_none() {
                prop_assert_eq!((units, worth), (slot.mask(), WHOLE_CARD));
            } else {
                let placed = one.placement.map_or(0, |placement| Units::from(placement.mask()));
                prop_assert_eq!(units >> slot.offset, placed & (slot.mask() >> slot.offset));
                prop_assert!(worth <= WHOLE_CARD && worth * slot.units >= units.count_ones() * WHOLE_CARD);
            }
        }
    }
}

/// A card in MIG mode that is not cut and of unknown grid has no units, be it the last in a row that is full.
#[test]
fn a_card_without_units_is_no_trouble_wherever_it_lies() {
    let whole = MAX_NODE_UNITS - 1;
    let mut cards: Vec<Card> = (0..whole).map(card).collect();
    cards.extend([declared_card(whole, 0), card(whole + 1), declared_card(whole + 2, 0), card(whole + 3)]);
    let layout = Layout::of(&cards);
    let laid: Vec<bool> = (0..cards.len()).map(|at| layout.slot(at).is_some()).collect();
    assert_eq!(laid.iter().filter(|laid| **laid).count(), MAX_NODE_UNITS as usize);
    assert_eq!(laid[whole as usize..], [false, true, false, false]);
    assert_eq!(layout.good(), Units::MAX);
}

/// What is held of a card that is shared otherwise by now, or not at all, is all that lies over it.
#[test]
fn a_share_of_a_card_that_is_shared_otherwise_is_what_lies_over_it() {
    let held = |parts, of| CardUse {
        share: Some(Share { parts, of, memory: MiB(1024) }),
        ..CardUse::whole(0, None)
    };
    for (now, parts, of, units) in [
        (4, 0b0101, 4, 0b0101),
        (8, 0b0101, 4, 0b0011_0011),
        (2, 0b0101, 4, 0b11),
        (2, 0b1000, 4, 0b10),
        (3, 0b01, 2, 0b011),
        (3, 0b10, 2, 0b110),
        (0, 0b10, 2, 0b1),
    ] {
        let cards = [Card { parts: now, ..card(0) }];
        assert_eq!(Layout::of(&cards).units(&cards, &[held(parts, of)]), units, "{parts:b}/{of} of {now}");
    }
}

/// A node that was begun anew without one of its cards numbers the others otherwise: what runs hold is theirs still.
#[test]
fn what_is_held_is_known_by_its_name() {
    let whole = |index: u32, name: &str| Card { uuid: Some(format!("GPU-{name}")), ..card(index) };
    let cut = named(cut_card(0, "A30", 24_576, &[("1g.6gb", 3)]), 3);
    let before = vec![whole(0, "a"), whole(1, "b"), whole(2, "c"), cut.clone()];
    let slice = uses_of(&before).into_iter().find(|one| one.uuid == cut.slices[0].uuid).unwrap();
    let held = |index: u32, name: &str| CardUse::whole(index, Some(format!("GPU-{name}")));
    let after = vec![whole(0, "a"), whole(1, "c"), Card { index: 2, ..cut.clone() }];
    let layout = Layout::of(&after);
    let units = |one: CardUse| layout.units(&after, &[one]);
    let mask = |at: usize| layout.slot(at).unwrap().mask();
    assert_eq!((units(held(0, "a")), units(held(2, "c"))), (mask(0), mask(1)));
    assert_eq!(units(held(1, "b")), 0, "it is gone, and the card of its number is another");
    assert_eq!(units(slice.clone()), layout.slot(2).unwrap().placed(slice.placement.unwrap()));
    // What is left of a card that does not tell its name is known by its number.
    let nameless = vec![whole(0, "a"), card(1)];
    assert_eq!(Layout::of(&nameless).units(&nameless, &[held(1, "b")]), 2);
}
