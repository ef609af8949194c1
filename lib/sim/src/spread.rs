//! Spreads: mean and ranks of many numbers. Floats are for people to read here; nothing is decided by them.

use serde::Serialize;

/// Mean and ranks of some numbers; all 0 when there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// The mean.
    pub(crate) mean: f64,
    /// The smallest number that half of them do not exceed.
    pub(crate) p50: f64,
    /// The smallest number that 95 of 100 do not exceed.
    pub(crate) p95: f64,
    /// The smallest number that 99 of 100 do not exceed.
    pub(crate) p99: f64,
    /// The largest.
    pub(crate) max: f64,
}

impl Spread {
    /// The spread of `numbers`, which are sorted on the way.
    pub(crate) fn of(numbers: &mut [f64]) -> Self {
        // Sorted before they are summed: equal jobs in another order give the same figures to the last digit.
        numbers.sort_unstable_by(f64::total_cmp);
        Self {
            mean: mean(numbers),
            p50: rank(numbers, 50),
            p95: rank(numbers, 95),
            p99: rank(numbers, 99),
            max: numbers.last().copied().unwrap_or_default(),
        }
    }
}

/// The mean of some numbers; 0 when there are none.
pub(crate) fn mean(numbers: &[f64]) -> f64 {
    if numbers.is_empty() { 0.0 } else { numbers.iter().sum::<f64>() / numbers.len() as f64 }
}

/// The smallest of the sorted `numbers` that `percent` of 100 of them do not exceed.
fn rank(numbers: &[f64], percent: usize) -> f64 {
    let place = (numbers.len() * percent).div_ceil(100);
    numbers.get(place.saturating_sub(1)).copied().unwrap_or_default()
}

/// A share of a whole; 0 when there is no whole.
pub(crate) fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Jain's index of fairness: 1 when all numbers are equal, 1/n when one has everything; 1 when there are none.
pub(crate) fn jain(numbers: &[f64]) -> f64 {
    let sum: f64 = numbers.iter().sum();
    let squares: f64 = numbers.iter().map(|n| n * n).sum();
    if squares > 0.0 { sum * sum / (numbers.len() as f64 * squares) } else { 1.0 }
}
