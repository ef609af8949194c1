//! Cards: whole GPUs and the slices (MIG instances) cut from them, as a node reports them and as a run holds them.

use crate::{Grid, MiB, Placement};
use alloc::{string::String, vec::Vec};
use serde::{Deserialize, Serialize};

/// Whether a card can be handed out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CardHealth {
    /// It answers.
    #[default]
    Good,
    /// It does not answer as it should; the words say how.
    Failed(String),
    /// Somebody uses it who holds nothing of it; the words say who.
    Used(String),
}

impl CardHealth {
    /// Whether it can be handed out.
    pub fn is_good(&self) -> bool {
        self.trouble().is_none()
    }

    /// Why it cannot be handed out.
    pub fn trouble(&self) -> Option<&str> {
        match self {
            Self::Good => None,
            Self::Failed(words) | Self::Used(words) => Some(words),
        }
    }
}

/// A slice of a card: one MIG instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// The profile's name, such as `1g.10gb`.
    pub profile: String,
    /// Its MIG UUID (`MIG-…`); none for a declared slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Its memory.
    pub memory: MiB,
    /// The GPU-instance id on its card; none for a declared slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_instance: Option<u32>,
    /// The compute-instance id within its GPU instance; none for a declared slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_instance: Option<u32>,
    /// Where it lies on its card; none when that is not known (a declared slice of an unknown model).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Whether it can be handed out, as long as its card can.
    #[serde(default, skip_serializing_if = "CardHealth::is_good")]
    pub health: CardHealth,
}

impl Slice {
    /// Whether it serves a wish for `least` memory; as [`crate::Profile::offers`].
    pub fn offers(&self, least: MiB) -> bool {
        crate::mig::offers(&self.profile, self.memory, least)
    }
}

/// A card of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// Its index on the node: as NVML counts, or from 0 in the order of the conf on a node that declares its cards (which then
    /// are all it has).
    pub index: u32,
    /// Its UUID (`GPU-…`); none for a declared card that is no found one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// The model as the driver or the conf names it, such as `NVIDIA A100-SXM4-80GB`.
    pub model: String,
    /// Its memory.
    pub memory: MiB,
    /// Device minor number of `/dev/nvidia<minor>`; none for a declared card that is no found one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minor: Option<u32>,
    /// Indices of the cards it reaches by NVLink, each with the number of links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nvlink: Vec<(u32, u32)>,
    /// Whether it is in MIG mode; then it is never handed out whole.
    #[serde(default)]
    pub mig: bool,
    /// Its slices, when it is in MIG mode.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<Slice>,
    /// What it can be cut into, when it is in MIG mode and that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grid: Option<Grid>,
    /// Whether its slices are as the conf declares them, and stay: it is never cut anew.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub fixed: bool,
    /// Into how many equal parts of its memory it may be shared; 0 means that it is only handed out whole.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub parts: u8,
    /// Whether it can be handed out.
    #[serde(default)]
    pub health: CardHealth,
}

fn is_zero(parts: &u8) -> bool {
    *parts == 0
}

impl Card {
    /// A whole card in good health of which nothing more is known.
    pub fn whole(index: u32, model: impl Into<String>, memory: MiB) -> Self {
        Self {
            index,
            uuid: None,
            model: model.into(),
            memory,
            minor: None,
            nvlink: Vec::new(),
            mig: false,
            slices: Vec::new(),
            grid: None,
            fixed: false,
            parts: 0,
            health: CardHealth::Good,
        }
    }

    /// Whether it serves a wish for `least` memory. Drivers keep one or two per cent back for themselves, and people ask for what a
    /// card is sold with (80G of a card that reports 81,559 MiB): a fiftieth less than asked, and a gibibyte at most, counts as enough.
    pub fn offers(&self, least: MiB) -> bool {
        is_enough(self.memory, least)
    }

    /// Whether it can be handed out in parts.
    pub fn is_shared(&self) -> bool {
        !self.mig && (MIN_PARTS..=MAX_PARTS).contains(&self.parts)
    }

    /// How many of its parts hold `memory`, with the slack of [`Card::offers`]; none when it is not shared, or all of them are too few.
    pub fn parts_for(&self, memory: MiB) -> Option<u8> {
        let is_held = |count: &u8| {
            let held = self.memory.0.saturating_mul(u64::from(*count)) / u64::from(self.parts.max(1));
            is_enough(MiB(held), memory)
        };
        if self.is_shared() { (1..=self.parts).find(is_held) } else { None }
    }

    /// Whether `wanted` names this card's model: equal without regard to case, or one of the parts of the model's name
    /// between blanks, `-` and `_` (so `a100` fits `NVIDIA A100-SXM4-80GB`), or several such parts in a row.
    pub fn is_model(&self, wanted: &str) -> bool {
        names_model(&self.model, wanted)
    }
}

/// Whether `wanted` names `model`, as [`Card::is_model`] says.
pub(crate) fn names_model(model: &str, wanted: &str) -> bool {
    let same = |a: char, b: char| a.eq_ignore_ascii_case(&b) || (is_joint(a) && is_joint(b));
    let (model, wanted): (Vec<char>, Vec<char>) = (model.chars().collect(), wanted.chars().collect());
    !wanted.is_empty()
        && model.windows(wanted.len()).enumerate().any(|(at, window)| {
            let starts = at == 0 || model.get(at - 1).is_some_and(|c| is_joint(*c));
            let ends = model.get(at + wanted.len()).is_none_or(|c| is_joint(*c));
            starts && ends && window.iter().zip(&wanted).all(|(a, b)| same(*a, *b))
        })
}

/// Whether `memory` serves a wish for `least`, with the slack of [`Card::offers`].
pub(crate) fn is_enough(memory: MiB, least: MiB) -> bool {
    memory.saturating_add(MiB((least.0 / 50).min(1024))) >= least
}

fn is_joint(c: char) -> bool {
    matches!(c, ' ' | '-' | '_')
}

/// Fewest parts a card is shared in.
pub const MIN_PARTS: u8 = 2;
/// Most parts a card is shared in.
pub const MAX_PARTS: u8 = 16;

/// Most parts the cards of one node have together: of more cards each has fewer.
const MAX_PARTS_TOGETHER: usize = 128;

/// Lets the cards of a node be shared in so many parts each, but for those that are in MIG mode; 0 means that none are.
pub fn share_in(cards: &mut [Card], parts: u8) {
    let most = u8::try_from(MAX_PARTS_TOGETHER / cards.len().max(1)).unwrap_or(u8::MAX);
    let parts = Some(parts.min(most)).filter(|parts| *parts >= MIN_PARTS).unwrap_or(0);
    cards.iter_mut().for_each(|card| card.parts = if card.mig { 0 } else { parts });
}

/// Some of the parts of a card that is shared: the run sees the whole card, and has said how much of its memory it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Which parts: one bit each.
    pub parts: u16,
    /// Of how many.
    pub of: u8,
    /// The memory that was declared.
    pub memory: MiB,
}

/// One card (or slice or share of one) that a run holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardUse {
    /// The card's index on its node.
    pub index: u32,
    /// UUID of the card, or of the slice when one is held; none for declared cards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// The profile of the slice; none for a card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<String>,
    /// Where the slice lies on its card, when that is known. A slice with a place and without UUID is not cut yet: the node cuts
    /// it before it launches the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// The parts of the card that are held, when it is shared; none for a whole card and for a slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
}

impl CardUse {
    /// A card as a whole, by its index and UUID.
    pub const fn whole(index: u32, uuid: Option<String>) -> Self {
        Self { index, uuid, slice: None, placement: None, share: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_offers_what_it_is_sold_with() {
        let card = |mib| Card::whole(0, "x", MiB(mib));
        // As NVML reports an H100 of 80 GB, an A100 of 40 GB and an A30 of 24 GB.
        for (reported, sold) in [(81_559, 80), (40_448, 40), (24_258, 24)] {
            assert!(card(reported).offers(MiB(sold * 1024)), "{sold} GB");
            assert!(!card(reported).offers(MiB((sold + 1) * 1024)), "{sold} GB is not {} GB", sold + 1);
        }
        assert!(card(0).offers(MiB(0)) && !card(0).offers(MiB(1024)));
    }

    #[test]
    fn a_share_has_as_many_parts_as_hold_its_memory() {
        let card = |mib, parts| Card { parts, ..Card::whole(0, "x", MiB(mib)) };
        let h100 = card(81_559, 8);
        for (gib, parts) in [(1, 1), (10, 1), (11, 2), (20, 2), (40, 4), (79, 8), (80, 8)] {
            assert_eq!(h100.parts_for(MiB(gib * 1024)), Some(parts), "{gib}G");
        }
        assert_eq!(h100.parts_for(MiB(81 * 1024)), None);
        assert_eq!(card(81_559, 0).parts_for(MiB(1)), None, "not shared");
        let cut = Card { mig: true, ..h100.clone() };
        assert_eq!(cut.parts_for(MiB(1)), None, "cut into slices");
        let shared = |count, parts| {
            let mut cards = alloc::vec![h100.clone(); count];
            cards[0].mig = true;
            share_in(&mut cards, parts);
            cards.iter().map(|card| card.parts).collect::<Vec<_>>()
        };
        assert_eq!((shared(2, 16), shared(2, 1)), (alloc::vec![0, 16], alloc::vec![0, 0]));
        assert_eq!((shared(12, 16)[1], shared(65, 16)[1]), (10, 0), "many cards have fewer parts");
    }

    #[test]
    fn a_model_is_named_by_whole_parts_of_its_name() {
        let card = Card::whole(0, "NVIDIA A100-SXM4-80GB", MiB(81_920));
        for good in
            ["a100", "A100", "nvidia_a100", "A100-SXM4", "a100-sxm4-80gb", "80GB", "NVIDIA A100-SXM4-80GB"]
        {
            assert!(card.is_model(good), "{good}");
        }
        for bad in ["", "a10", "100", "h100", "a100-80gb", "sxm"] {
            assert!(!card.is_model(bad), "{bad}");
        }
    }
}
