//! Units: memory, spans of time and points in time. Arithmetic saturates by name or is checked.

use core::fmt;
use serde::{Deserialize, Serialize};

/// An amount of memory in mebibytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MiB(pub u64);

impl MiB {
    /// Multiplies by a count; stays at the largest value instead of overflowing.
    pub const fn saturating_mul(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }
    /// Adds; stays at the largest value instead of overflowing.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
    /// Subtracts; stays at zero instead of going below.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// A span of time in whole seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seconds(pub u64);

/// A point in time: microseconds since 1970 (UTC), on the clock of the host that took it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The end of time: later than anything that happens.
    pub const NEVER: Self = Self(i64::MAX);
    /// Makes a point in time from whole seconds since 1970; saturates.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }
    /// Whole seconds since 1970, rounded up, as the plan looks ahead.
    pub const fn secs_up(self) -> i64 {
        let whole = self.0.div_euclid(1_000_000);
        if self.0.rem_euclid(1_000_000) == 0 { whole } else { whole.saturating_add(1) }
    }
    /// This point in time `span` later; saturates at [`Timestamp::NEVER`].
    pub const fn after(self, span: Seconds) -> Self {
        let micros =
            if span.0 > (i64::MAX as u64) / 1_000_000 { i64::MAX } else { span.0 as i64 * 1_000_000 };
        Self(self.0.saturating_add(micros))
    }
    /// This point in time `span` earlier; saturates.
    pub const fn before(self, span: Seconds) -> Self {
        Self(self.0.saturating_sub(Self(0).after(span).0))
    }
    /// Microseconds from `earlier` to this point, never negative.
    pub const fn micros_since(self, earlier: Self) -> u64 {
        let d = self.0.saturating_sub(earlier.0);
        if d < 0 { 0 } else { d as u64 }
    }
}

/// Time that cards are held: thousandths of a card times milliseconds, so that what slices and shares hold is a whole number too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CardTime(pub u64);

impl CardTime {
    /// One card for an hour.
    pub const HOUR: Self = Self(3_600_000_000);

    /// What so many thousandths of a card are for so many microseconds.
    pub fn of(cards: u64, micros: u64) -> Self {
        let time = u128::from(cards) * u128::from(micros) / 1000;
        Self(u64::try_from(time).unwrap_or(u64::MAX))
    }
    /// In card-hours.
    pub fn hours(self) -> f64 {
        self.0 as f64 / Self::HOUR.0 as f64
    }
    /// Adds; stays at the largest value instead of overflowing.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
    /// In how many microseconds so many thousandths of a card come to this much, rounded up; none when they are none.
    pub fn reached_by(self, cards: u64) -> Option<u64> {
        let micros = (u128::from(self.0) * 1000).div_ceil(u128::from(cards).max(1));
        (cards > 0).then(|| u64::try_from(micros).unwrap_or(u64::MAX))
    }
    /// How many hundredths it is of a whole, rounded down; of nothing, all of it.
    pub fn percent_of(self, whole: Self) -> u64 {
        let percent = (u128::from(self.0) * 100).checked_div(u128::from(whole.0));
        percent.map_or(100, |percent| u64::try_from(percent).unwrap_or(u64::MAX))
    }
}

/// In hours: `2`, `0.5`, `1.25`, to four digits behind the point.
impl fmt::Display for CardTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ten_thousandths = self.0 / (Self::HOUR.0 / 10_000);
        let (whole, rest) = (ten_thousandths / 10_000, ten_thousandths % 10_000);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let (mut digits, mut rest) = (4usize, rest);
        while rest % 10 == 0 {
            (digits, rest) = (digits - 1, rest / 10);
        }
        write!(f, "{whole}.{rest:0digits$}")
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::duration::write_limit(self.0, f)
    }
}

impl fmt::Display for MiB {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::size::write_size(self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn card_time_is_told_in_hours() {
        let hours = |time: CardTime| time.to_string();
        assert_eq!(hours(CardTime::of(1000, 3_600_000_000)), "1");
        assert_eq!(hours(CardTime::of(125, 3_600_000_000)), "0.125");
        assert_eq!((hours(CardTime(0)), hours(CardTime::of(2000, 5_400_000_000))), ("0".into(), "3".into()));
        assert_eq!(CardTime::of(500, 1_800_000_000).percent_of(CardTime::HOUR), 25);
        assert_eq!(CardTime(0).percent_of(CardTime(0)), 100);
        let micros = CardTime(7).reached_by(3).unwrap_or(0);
        assert!(CardTime::of(3, micros) >= CardTime(7) && CardTime::of(3, micros - 1) < CardTime(7));
        assert_eq!(CardTime(7).reached_by(0), None);
    }
}
