//! Use: what a run really used of what it held, as its node measured it. It judges nothing.

use crate::{MiB, Timestamp};
use alloc::{string::String, vec::Vec};
use serde::{Deserialize, Serialize};

/// Most cards of one run whose use is kept.
pub const MAX_CARDS_USED: usize = 128;

/// What a run used. What is none was not measured: there was nobody to measure it, or nothing to measure it by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// The time that its processes had on cpus, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u64>,
    /// The most memory that it had at a time: of its control group, what the kernel keeps of files for it included; where it had no group, of the
    /// largest of its processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MiB>,
    /// The cards that were looked at while it held them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cards: Vec<CardUsed>,
    /// When all that it held was free again, on the node's clock: its epilog had ended, and nobody used its cards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<Timestamp>,
}

/// What a run used of a card, a slice or a share. Parts of a whole are in thousandths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardUsed {
    /// The card's index.
    pub index: u32,
    /// UUID of the card, or of the slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// How often it was looked at, about once a second.
    #[serde(default)]
    pub looks: u32,
    /// In what part of the looks a process of the run held it.
    #[serde(default)]
    pub held: u16,
    /// How busy it was on average; none for slices and shares, of which no driver tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<u16>,
    /// How busy it was at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<u16>,
    /// The most of its memory that the run had at a look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MiB>,
    /// The energy that it took meanwhile, in joules; none for slices and shares, and for cards that do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<u64>,
}

impl CardUsed {
    /// How much of it was in use, in thousandths: how busy it was, or, where that is not told, how often it was held. None when nobody looked.
    pub fn busy(&self) -> Option<u16> {
        (self.looks > 0).then(|| self.mean.unwrap_or(self.held))
    }
}

impl Used {
    /// How much of its cards was in use, in thousandths, one like the other; none when nobody looked at any.
    pub fn busy(&self) -> Option<u16> {
        let (mut sum, mut count) = (0_u32, 0_u32);
        for busy in self.cards.iter().filter_map(CardUsed::busy) {
            (sum, count) = (sum.saturating_add(u32::from(busy)), count.saturating_add(1));
        }
        u16::try_from(sum.checked_div(count)?).ok()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_that_tells_nothing_is_in_use_while_it_is_held() {
        let card = |looks, mean, held| CardUsed { looks, mean, held, ..CardUsed::default() };
        let used = |cards| Used { cards, ..Used::default() };
        assert_eq!(used(alloc::vec![card(4, Some(500), 1000), card(4, None, 750)]).busy(), Some(625));
        assert_eq!(
            used(alloc::vec![card(0, None, 0), card(4, None, 750)]).busy(),
            Some(750),
            "nobody looked"
        );
        assert_eq!((used(alloc::vec![card(0, None, 0)]).busy(), Used::default().busy()), (None, None));
    }
}
