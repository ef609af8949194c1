//! Sets of task indices kept as ranges: a million tasks in a row cost as much as one.

use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

/// A set of task indices, kept as sorted, disjoint, non-adjacent inclusive ranges.
///
/// Ranges that are not so are no set when they are read: others count on it, and anybody may have written them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct IndexSet(Vec<(u32, u32)>);

impl IndexSet {
    /// The set of `first..=last`; empty when `last < first`.
    pub fn range(first: u32, last: u32) -> Self {
        if last < first { Self::default() } else { Self(alloc::vec![(first, last)]) }
    }
    /// The set of all these ranges, `first` before `last` in each, in any order: sorted once, however many there are.
    pub(crate) fn of_ranges(mut ranges: Vec<(u32, u32)>) -> Self {
        // Mostly two rows that are in order each, which this sort joins as one would by hand.
        ranges.sort();
        let mut set: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match set.last_mut().filter(|(_, end)| first <= end.saturating_add(1)) {
                Some((_, end)) => *end = last.max(*end),
                None => set.push((first, last)),
            }
        }
        set.shrink_to_fit();
        Self(set)
    }
    /// Reads a set as it was written ([`Display`](fmt::Display)), whatever its size; none when it was not written so.
    pub fn of_written(text: &str) -> Option<Self> {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            let is_next = ranges
                .last()
                .is_none_or(|(_, end): &(u32, u32)| end.checked_add(1).is_some_and(|end| end < first));
            if last < first || !is_next {
                return None;
            }
            ranges.push((first, last));
        }
        Some(Self(ranges))
    }
    /// How many indices the set has.
    pub fn len(&self) -> u64 {
        self.0.iter().map(|(a, b)| u64::from(b - a) + 1).sum()
    }
    /// Whether the set has no index.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// The smallest index.
    pub fn first(&self) -> Option<u32> {
        self.0.first().map(|(a, _)| *a)
    }
    /// The ranges, in order.
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }
    /// Whether `index` is in the set.
    pub fn contains(&self, index: u32) -> bool {
        let at = self.0.partition_point(|(_, b)| *b < index);
        self.0.get(at).is_some_and(|(a, _)| *a <= index)
    }
    /// Puts `index` in; false when it was there already.
    pub fn insert(&mut self, index: u32) -> bool {
        let at = self.0.partition_point(|(_, b)| *b < index);
        if self.0.get(at).is_some_and(|(a, _)| *a <= index) {
            return false;
        }
        let joins_left = at > 0 && self.0.get(at - 1).is_some_and(|(_, b)| b.checked_add(1) == Some(index));
        let joins_right = self.0.get(at).is_some_and(|(a, _)| index.checked_add(1) == Some(*a));
        match (joins_left, joins_right) {
            (true, true) => {
                let (_, end) = self.0.remove(at);
                if let Some(left) = self.0.get_mut(at - 1) {
                    left.1 = end;
                }
            }
            (true, false) => {
                if let Some(left) = self.0.get_mut(at - 1) {
                    left.1 = index;
                }
            }
            (false, true) => {
                if let Some(right) = self.0.get_mut(at) {
                    right.0 = index;
                }
            }
            (false, false) => self.0.insert(at, (index, index)),
        }
        true
    }
    /// Puts `first..=last` in; nothing when `last < first`.
    pub fn insert_range(&mut self, first: u32, last: u32) {
        if last < first {
            return;
        }
        // Every range that overlaps or touches it becomes one with it.
        let from = self.0.partition_point(|(_, b)| b.saturating_add(1) < first);
        let to = self.0.partition_point(|(a, _)| *a <= last.saturating_add(1));
        let touched = self.0.get(from..to).unwrap_or_default();
        let whole = (
            touched.first().map_or(first, |(a, _)| first.min(*a)),
            touched.last().map_or(last, |(_, b)| last.max(*b)),
        );
        self.0.splice(from..to.max(from), [whole]);
    }
    /// The highest index.
    pub fn last(&self) -> Option<u32> {
        self.0.last().map(|(_, b)| *b)
    }
    /// The indices that are in both.
    pub fn and(&self, other: &Self) -> Self {
        let (mut both, mut left, mut right) =
            (Vec::new(), self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some((a, b)), Some((c, d))) = (left.peek(), right.peek()) {
            let (first, last) = ((*a).max(*c), (*b).min(*d));
            if first <= last {
                both.push((first, last));
            }
            if b < d {
                left.next()
            } else {
                right.next()
            };
        }
        Self(both)
    }
    /// The indices that are in this one and not in the other.
    pub fn without(&self, other: &Self) -> Self {
        let mut rest = Vec::new();
        let mut holes = other.0.iter().peekable();
        for (a, b) in &self.0 {
            let mut from = Some(*a);
            while let Some((c, d)) = holes.peek() {
                let Some(first) = from.filter(|first| *first <= *b && *c <= *b) else { break };
                if *d >= first {
                    if *c > first {
                        rest.push((first, *c - 1));
                    }
                    from = d.checked_add(1);
                }
                // A hole that reaches behind this range may cut the next one, too.
                if *d > *b {
                    break;
                }
                holes.next();
            }
            if let Some(first) = from.filter(|first| first <= b) {
                rest.push((first, *b));
            }
        }
        Self(rest)
    }
    /// The indices that are in either.
    pub fn or(&self, other: &Self) -> Self {
        let mut all = Vec::with_capacity(self.0.len() + other.0.len());
        all.extend_from_slice(&self.0);
        all.extend_from_slice(&other.0);
        Self::of_ranges(all)
    }
    /// Takes `index` out; false when it was not there.
    pub fn remove(&mut self, index: u32) -> bool {
        let at = self.0.partition_point(|(_, b)| *b < index);
        let Some(&(a, b)) = self.0.get(at).filter(|(a, _)| *a <= index) else { return false };
        let mut rest = Vec::with_capacity(2);
        if a < index {
            rest.push((a, index - 1));
        }
        if index < b {
            rest.push((index + 1, b));
        }
        self.0.splice(at..=at, rest);
        true
    }
    /// All indices, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().flat_map(|(a, b)| *a..=*b)
    }
}

impl FromIterator<u32> for IndexSet {
    fn from_iter<I: IntoIterator<Item = u32>>(iter: I) -> Self {
        let mut set = Self::default();
        for i in iter {
            set.insert(i);
        }
        set
    }
}

impl<'de> Deserialize<'de> for IndexSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ranges = Vec::<(u32, u32)>::deserialize(deserializer)?;
        let apart =
            |(one, next): (&(u32, u32), &(u32, u32))| one.1.checked_add(1).is_some_and(|end| end < next.0);
        let is_normal = ranges.iter().all(|(first, last)| first <= last)
            && ranges.iter().zip(ranges.iter().skip(1)).all(apart);
        match is_normal {
            true => Ok(Self(ranges)),
            false => Err(D::Error::custom("ranges of indices are to be in order, with room between them")),
        }
    }
}

impl fmt::Display for IndexSet {
    /// Writes the set as Slurm does: `0-9,12,15-20`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (a, b)) in self.0.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            if a == b { write!(f, "{comma}{a}")? } else { write!(f, "{comma}{a}-{b}")? }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{collections::BTreeSet, string::ToString};

    #[test]
    fn it_is_a_set_whatever_the_order_of_inserts_and_removes() {
        let mut seed = 0x9e37_79b9_u32;
        for round in 0..50u32 {
            let (mut set, mut plain) = (IndexSet::default(), BTreeSet::new());
            for _ in 0..200 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let index = (seed >> 16) % 40;
                if seed & 3 == 0 {
                    assert_eq!(set.remove(index), plain.remove(&index), "round {round}");
                } else {
                    assert_eq!(set.insert(index), plain.insert(index), "round {round}");
                }
                assert!(set.iter().eq(plain.iter().copied()), "round {round}: {set} is not {plain:?}");
                assert_eq!(set.len(), plain.len() as u64);
                assert!(set.ranges().windows(2).all(|w| w[0].1 + 1 < w[1].0), "ranges are not normal: {set}");
            }
        }
        for round in 0..2000u32 {
            let mut some = || {
                let (mut set, mut plain) = (IndexSet::default(), BTreeSet::new());
                for _ in 0..6 {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let (first, width) = ((seed >> 16) % 30, (seed >> 8) % 6);
                    set.insert_range(first, first + width);
                    plain.extend(first..=first + width);
                }
                assert!(set.iter().eq(plain.iter().copied()), "round {round}: {set} is not {plain:?}");
                assert!(set.ranges().windows(2).all(|w| w[0].1 + 1 < w[1].0), "ranges are not normal: {set}");
                (set, plain)
            };
            let ((a, plain_a), (b, plain_b)) = (some(), some());
            assert!(
                a.and(&b).iter().eq(plain_a.intersection(&plain_b).copied()),
                "round {round}: {a} and {b}"
            );
            assert!(
                a.without(&b).iter().eq(plain_a.difference(&plain_b).copied()),
                "round {round}: {a} - {b}"
            );
            assert_eq!(IndexSet::of_written(&a.to_string()), Some(a.clone()));
            assert!(a.or(&b).iter().eq(plain_a.union(&plain_b).copied()), "round {round}: {a} or {b}");
        }
        let mut to_the_end = IndexSet::range(3, u32::MAX);
        to_the_end.insert_range(0, 2);
        assert_eq!(to_the_end.ranges(), [(0, u32::MAX)]);
        assert_eq!(to_the_end.without(&IndexSet::range(5, u32::MAX)).ranges(), [(0, 4)]);
        assert_eq!([0, 1, 2, 5, 7, 8].into_iter().collect::<IndexSet>().to_string(), "0-2,5,7-8");
        assert!(IndexSet::range(0, u32::MAX).contains(u32::MAX));
        for text in ["1-", "-", ",", "2,1", "1,2", "3-2", "1 ", "x", "1,,3", "4294967296"] {
            assert_eq!(IndexSet::of_written(text), None, "{text:?}");
        }
        let scattered: IndexSet = (0..200_000).map(|index| index * 2).collect();
        assert_eq!(IndexSet::of_written(&scattered.to_string()), Some(scattered));
    }
}
