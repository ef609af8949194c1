//! Layout: the units of all cards of a node as one row of bits, so that what is free of cards and slices is one number.
//! A whole card is one unit, and one that is shared has a unit for each of its parts; a card in MIG mode has the units of its grid, or one for each slice when its grid is not known.

use alloc::vec::Vec;
use gq_model::{Card, CardUse, Placement, Share};

/// Units of the cards of a node, one bit each; bit 0 is the first unit of the first card.
pub type Units = u128;

/// Most units the cards of one node may have together; cards beyond are not handed out.
pub const MAX_NODE_UNITS: u32 = Units::BITS;

/// What a whole card is worth in usage and limits, in thousandths of a card.
pub const WHOLE_CARD: u32 = 1000;

/// Where a card's units lie in the node's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The first unit.
    pub offset: u32,
    /// How many.
    pub units: u32,
}

impl Slot {
    /// All units of the card.
    pub const fn mask(self) -> Units {
        ones(self.units) << self.offset
    }
    /// The units of an instance that lies there.
    pub const fn placed(self, placement: Placement) -> Units {
        (placement.mask() as Units & ones(self.units)) << self.offset
    }
    /// The units of a share. Of a card that has other units by now, since it is shared otherwise or not at all: all that lie over its parts.
    pub fn shared(self, share: &Share) -> Units {
        let (of, units) = (u32::from(share.of).max(1), self.units);
        let has = |part: &u32| share.parts.checked_shr(*part).is_some_and(|rest| rest & 1 == 1);
        (0..of).filter(has).fold(0, |sum, part| {
            let (first, past) = (part * units / of, ((part + 1) * units).div_ceil(of));
            sum | (ones(past.min(units)) & !ones(first)) << self.offset
        })
    }
}

const fn ones(count: u32) -> Units {
    if count >= Units::BITS { Units::MAX } else { (1 << count) - 1 }
}

/// The layout of a node's cards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// One for each card, in their order; none where a card has no units (it is in MIG mode, not cut and of unknown grid), or the row has no
    /// room left.
    slots: Vec<Option<Slot>>,
    /// Units of cards that answer as they should, but for those of slices that do not.
    good: Units,
}

impl Layout {
    /// Lays out `cards`.
    pub fn of(cards: &[Card]) -> Self {
        let mut next = 0;
        let mut layout = Self::default();
        for card in cards {
            let units = units_of(card);
            let slot = (units > 0 && next + units <= MAX_NODE_UNITS).then_some(Slot { offset: next, units });
            if let Some(slot) = slot {
                next += units;
                if card.health.is_good() {
                    layout.good |= slot.mask() & !failing(card, slot);
                }
            }
            layout.slots.push(slot);
        }
        layout
    }

    /// The slot of the card at this position in the node's list.
    pub fn slot(&self, position: usize) -> Option<Slot> {
        self.slots.get(position).copied().flatten()
    }
    /// The units of cards that can be handed out.
    pub fn good(&self) -> Units {
        self.good
    }

    /// The units that `held` are, on a node with `cards`; what is no longer there counts for nothing.
    pub fn units(&self, cards: &[Card], held: &[CardUse]) -> Units {
        held.iter().fold(0, |sum, one| sum | self.units_of_use(cards, one))
    }

    fn units_of_use(&self, cards: &[Card], held: &CardUse) -> Units {
        let Some(position) = position_of(cards, held) else { return 0 };
        let (Some(card), Some(slot)) = (cards.get(position), self.slot(position)) else { return 0 };
        if held.slice.is_none() {
            return held.share.as_ref().map_or(slot.mask(), |share| slot.shared(share));
        }
        let named = held.uuid.as_ref().and_then(|uuid| {
            let at = card.slices.iter().position(|slice| slice.uuid.as_ref() == Some(uuid))?;
            slice_place(card, at)
        });
        named.or(held.placement).map_or(0, |placement| slot.placed(placement))
    }

    /// What these units are worth, in thousandths of a card: of each card what is taken of its units, rounded up.
    pub fn worth(&self, units: Units) -> u32 {
        self.slots.iter().flatten().fold(0u32, |sum, slot| {
            let taken = (units & slot.mask()).count_ones();
            sum.saturating_add((taken * WHOLE_CARD).div_ceil(slot.units))
        })
    }
}

/// Where the card that is held, or of which a slice is, stands in the list: by its name, or by its slice's, since a node that was begun anew without
/// one of its cards may number the others otherwise. A slice that is gone, and what has no name, is looked for by number.
pub fn position_of(cards: &[Card], held: &CardUse) -> Option<usize> {
    let is_named = |card: &Card| match (&held.uuid, &held.slice) {
        (None, _) => false,
        (uuid, None) => card.uuid == *uuid,
        (uuid, Some(_)) => card.slices.iter().any(|slice| slice.uuid == *uuid),
    };
    let is_numbered = |card: &Card| {
        card.index == held.index && (held.slice.is_some() || held.uuid.is_none() || card.uuid.is_none())
    };
    cards.iter().position(is_named).or_else(|| cards.iter().position(is_numbered))
}

/// The units of slices that cannot be handed out.
fn failing(card: &Card, slot: Slot) -> Units {
    let failing = card.slices.iter().enumerate().filter(|(_, slice)| !slice.health.is_good());
    failing.filter_map(|(at, _)| slice_place(card, at)).fold(0, |sum, place| sum | slot.placed(place))
}

fn units_of(card: &Card) -> u32 {
    if !card.mig {
        return if card.is_shared() { u32::from(card.parts) } else { 1 };
    }
    match &card.grid {
        Some(grid) => u32::from(grid.units.min(gq_model::MAX_UNITS)),
        None => u32::try_from(card.slices.len()).unwrap_or(u32::MAX).min(u32::from(gq_model::MAX_UNITS)),
    }
}

/// Where the slice at this position of the card's list lies: as the driver says; on a card of unknown grid each has a unit of its own.
pub fn slice_place(card: &Card, position: usize) -> Option<Placement> {
    match card.grid {
        Some(_) => card.slices.get(position)?.placement,
        None => Some(Placement { start: u8::try_from(position).ok()?, size: 1 }),
    }
}
