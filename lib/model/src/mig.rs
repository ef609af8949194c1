//! MIG words: where on a card instances of a profile may lie. A card's memory axis is cut into units (8, 4 or 12 today); an
//! instance is a run of them. Never decides who gets one.
//!
//! Source: NVIDIA MIG User Guide (profiles, placements); sizes need not be powers of two (a 1g of an RTX PRO 6000 takes 3 of 12).

use crate::MiB;
use alloc::{string::String, vec::Vec};
use serde::{Deserialize, Serialize};

/// Most units a card's grid may have.
pub const MAX_UNITS: u8 = 16;

/// Where an instance lies on its card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Placement {
    /// The first unit.
    pub start: u8,
    /// How many units.
    pub size: u8,
}

impl Placement {
    /// The units as bits, the first unit lowest. What lies past [`MAX_UNITS`] is cut off.
    pub const fn mask(self) -> u16 {
        let end =
            if self.start as u32 + self.size as u32 > 16 { 16 } else { self.start as u32 + self.size as u32 };
        if self.start >= 16 {
            return 0;
        }
        let below_end = if end == 16 { u16::MAX } else { (1u16 << end) - 1 };
        below_end & !((1u16 << self.start) - 1)
    }

    /// Whether two instances would share a unit.
    pub const fn overlaps(self, other: Self) -> bool {
        self.mask() & other.mask() != 0
    }
}

/// A kind of instance that a card can be cut into.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Profile {
    /// Its name, such as `1g.10gb`. Ids are not portable between products, so profiles are keyed by name.
    pub name: String,
    /// How many units an instance takes.
    pub size: u8,
    /// Units at which an instance may begin.
    pub starts: Vec<u8>,
    /// Most instances of it on one card.
    pub most: u8,
    /// Compute slices of an instance.
    pub compute: u8,
    /// Memory of an instance.
    pub memory: MiB,
}

impl Profile {
    /// The places an instance may take, lowest first.
    pub fn placements(&self) -> impl DoubleEndedIterator<Item = Placement> + '_ {
        self.starts.iter().map(|start| Placement { start: *start, size: self.size })
    }

    /// Whether it serves a wish for `least` memory; as lenient as [`crate::Card::offers`], and what its name says is enough too: a
    /// `1g.10gb` of 9.75 GiB serves a wish for 10G.
    pub fn offers(&self, least: MiB) -> bool {
        offers(&self.name, self.memory, least)
    }

    /// Whether a plain request may get it: a special one (`+me`, `+gfx`, `-me`) is given to who names it.
    pub fn is_plain(&self) -> bool {
        !self.name.contains(['+', '-'])
    }
}

/// Whether an instance of the profile `name` with `memory` serves a wish for `least`.
pub(crate) fn offers(name: &str, memory: MiB, least: MiB) -> bool {
    crate::cards::is_enough(memory, least) || profile_memory(name).is_some_and(|named| named >= least)
}

/// The memory that a profile's name tells, or none if it is no such name: `[Nc.]Ng.Mgb` in any case, with `+…` or `-…` behind it at
/// will, as in `1g.10gb`, `1c.3g.40gb`, `1g.24gb+me.all` and `1g.24gb-me`.
pub fn profile_memory(name: &str) -> Option<MiB> {
    let name = name.to_ascii_lowercase();
    let (plain, extra) = match name.find(['+', '-']) {
        Some(at) => (name.get(..at)?, name.get(at + 1..)),
        None => (name.as_str(), None),
    };
    if extra.is_some_and(|e| e.is_empty() || !e.bytes().all(|b| b.is_ascii_lowercase() || b == b'.')) {
        return None;
    }
    let count = |text: &str, unit: &str| {
        let digits = text.strip_suffix(unit)?;
        let good = (1..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        digits.parse::<u64>().ok().filter(|n| good && *n > 0)
    };
    let mut parts = plain.rsplit('.');
    let memory = count(parts.next()?, "gb")?;
    count(parts.next()?, "g")?;
    if let Some(compute) = parts.next() {
        count(compute, "c")?;
    }
    if parts.next().is_some() { None } else { Some(MiB(memory).saturating_mul(1024)) }
}

/// What a card in MIG mode can be cut into.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Grid {
    /// Units of the card's memory axis, at most [`MAX_UNITS`].
    pub units: u8,
    /// The profiles, in the order of the driver or the table.
    pub profiles: Vec<Profile>,
}

impl Grid {
    /// The profile of this name, in any case.
    pub fn profile(&self, name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.name.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_the_units_of_its_placement() {
        let mask = |start, size| Placement { start, size }.mask();
        assert_eq!(
            (mask(0, 1), mask(4, 4), mask(0, 8), mask(9, 3), mask(0, 12)),
            (1, 0xf0, 0xff, 0xe00, 0xfff)
        );
        assert_eq!(
            (mask(0, 16), mask(15, 1), mask(15, 9), mask(16, 1), mask(255, 255), mask(3, 0)),
            (0xffff, 0x8000, 0x8000, 0, 0, 0)
        );
        assert!(Placement { start: 0, size: 4 }.overlaps(Placement { start: 3, size: 1 }));
        assert!(!Placement { start: 0, size: 4 }.overlaps(Placement { start: 4, size: 4 }));
    }

    #[test]
    fn a_profile_offers_what_its_name_says() {
        // Name, MiB as drivers print them, GiB asked for: served, not served.
        for (name, memory, yes, no) in [
            ("1g.10gb", 9_984, 10, 11),
            ("1g.5gb+me", 4_864, 5, 6),
            ("3g.47gb", 47_488, 47, 48),
            ("1g.24gb-me", 24_192, 24, 25),
            ("1g.24gb+me.all", 24_192, 24, 25),
            ("strange", 10_240, 10, 11),
            ("1g.99999999999999999999gb", 10_240, 10, 11),
        ] {
            assert!(offers(name, MiB(memory), MiB(yes * 1024)), "{name}");
            assert!(!offers(name, MiB(memory), MiB(no * 1024)), "{name}");
        }
    }

    #[test]
    fn a_profile_is_told_from_other_words() {
        for (name, gib) in [
            ("1g.10gb", 10),
            ("1G.10GB", 10),
            ("1c.3g.40gb", 40),
            ("1g.10gb+me", 10),
            ("1g.24gb+me.all", 24),
            ("1g.24gb-me", 24),
            ("7g.141gb", 141),
        ] {
            assert_eq!(profile_memory(name), Some(MiB(gib * 1024)), "{name}");
        }
        for name in [
            "",
            "1g",
            "10gb",
            "0g.10gb",
            "1g.0gb",
            "1g.10gb+",
            "1g.10gb-1",
            "x.1g.10gb",
            "1g.10gb.1g",
            "9z.1gb",
            "1g.99999gb",
        ] {
            assert_eq!(profile_memory(name), None, "{name}");
        }
    }
}
