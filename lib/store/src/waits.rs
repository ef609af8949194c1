//! Waits: how long jobs waited, how far promised starts were off, and how long it took until all that a run held was free again, as
//! distributions of runs that have something in common. Read of the index `run_sums` alone.

use crate::{By, Fits, History, StoreError, load::unsigned};
use gq_model::Timestamp;
use rusqlite::Row;
use std::collections::BTreeMap;

/// Spans of time, told apart to one part in 32.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// All together, in microseconds.
    pub sum: u128,
    /// The longest.
    pub most: u64,
    /// How many lie below each bound that was given and above the one before; the last, above all of them.
    pub counts: Vec<u64>,
    buckets: BTreeMap<u16, u64>,
}

/// How many bits of a span tell it apart, beside the first.
const BITS: u32 = 5;

fn bucket(micros: u64) -> u16 {
    let shift = (u64::BITS - micros.leading_zeros()).saturating_sub(BITS + 1);
    let bucket = (u64::from(shift) << BITS) + (micros >> shift);
    u16::try_from(bucket).unwrap_or(u16::MAX)
}

/// The longest span of a bucket.
fn top_of(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    let shift = (bucket >> BITS).saturating_sub(1);
    let first = (bucket - (shift << BITS)) << shift;
    first + ((1 << shift) - 1)
}

impl Spread {
    fn add(&mut self, micros: u64, bounds: &[u64]) {
        self.count += 1;
        self.sum += u128::from(micros);
        self.most = self.most.max(micros);
        *self.buckets.entry(bucket(micros)).or_default() += 1;
        self.counts.resize(bounds.len() + 1, 0);
        let place = bounds.partition_point(|bound| *bound <= micros);
        if let Some(count) = self.counts.get_mut(place) {
            *count += 1;
        }
    }

    /// The span that so many percent do not exceed; 0 when there is none.
    pub fn percentile(&self, percent: u64) -> u64 {
        let wanted = (self.count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (bucket, count) in &self.buckets {
            seen += count;
            if seen >= wanted {
                return top_of(*bucket).min(self.most);
            }
        }
        self.most
    }
}

/// How runs that have something in common waited, were promised and left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// As in [`crate::Sums`].
    pub keys: Vec<Option<String>>,
    /// From submission to the first time that a task was given its resources.
    pub wait: Spread,
    /// By how much later it was than promised first, of those that were promised a start; those that came in time count as 0.
    pub late: Spread,
    /// From the end of a run to all that it held being free.
    pub release: Spread,
}

const WAITED: &str = "SELECT ended, uid, account, partition, node, state, name, run, submitted, coalesce(allocated, started), first_promise, \
     released FROM run INDEXED BY run_sums WHERE node IS NOT NULL AND ";

impl History {
    /// How runs that fit waited, by what they have in common. `bounds`: in microseconds, in order. None when there would be more than
    /// [`MAX_SUMS`](crate::MAX_SUMS).
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn waits(
        &self,
        fits: &Fits,
        grouped: (&[By], &[Timestamp]),
        bounds: &[u64],
    ) -> Result<Option<Vec<Waits>>, StoreError> {
        let waits = |keys| Waits { keys, ..Waits::default() };
        self.folded(WAITED, fits, grouped, waits, |waits, row| waits.add(row, bounds))
    }
}

impl Waits {
    fn add(&mut self, row: &Row<'_>, bounds: &[u64]) -> Result<(), StoreError> {
        let between = |from: i64, to: i64| unsigned(to.saturating_sub(from));
        let given: Option<i64> = row.get(9)?;
        // What waits for a second attempt waits for other reasons than its turn.
        if let (Some(given), 1) = (given, row.get::<_, i64>(7)?) {
            self.wait.add(between(row.get(8)?, given), bounds);
            if let Some(promise) = row.get::<_, Option<i64>>(10)? {
                self.late.add(between(promise, given), bounds);
            }
        }
        if let Some(released) = row.get::<_, Option<i64>>(11)? {
            self.release.add(between(row.get(0)?, released), bounds);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_one_part_in_32() {
        let mut spread = Spread::default();
        for micros in 1..=10_000_u64 {
            spread.add(micros * 1000, &[1_000_000, 5_000_000]);
        }
        for (percent, exact) in [(1, 100_000), (50, 5_000_000), (90, 9_000_000), (99, 9_900_000)] {
            let found = spread.percentile(percent);
            assert!((exact..=exact + exact / 32 + 1).contains(&found), "{percent}: {found}");
        }
        assert_eq!((spread.percentile(100), spread.most), (10_000_000, 10_000_000));
        assert_eq!(spread.counts, [999, 4000, 5001]);
        assert_eq!(Spread::default().percentile(50), 0);
    }

    #[test]
    fn a_bucket_holds_what_is_put_into_it_at_any_size() {
        for micros in (0..64).map(|bit| 1_u64 << bit).flat_map(|n| [n - 1, n, n + n / 3]).chain([u64::MAX]) {
            let top = top_of(bucket(micros));
            assert!(top >= micros && top - micros <= micros / 32, "{micros} {top}");
        }
    }
}
