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
