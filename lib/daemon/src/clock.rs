//! The two clocks of a daemon. What is measured is measured on the boot clock; the wall clock is only shown and kept.

use gq_model::Timestamp;
use nix::time::{ClockId, clock_gettime};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Reads the wall clock.
pub fn now() -> Timestamp {
    let micros = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_micros()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |m| -m),
    };
    Timestamp(micros)
}

/// Reads the boot clock: time since the machine was started, sleep included; nobody can set it.
pub fn boot_clock() -> Duration {
    // Linux has had this clock since 2.6.39; the second is for a sandbox that forbids the first.
    clock_gettime(ClockId::CLOCK_BOOTTIME)
        .or_else(|_| clock_gettime(ClockId::CLOCK_MONOTONIC))
        .map(Duration::from)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_clock_goes_forward_and_the_wall_clock_is_of_this_century() {
        let first = boot_clock();
        assert!(first > Duration::ZERO && boot_clock() >= first);
        assert!(now() > Timestamp::from_secs(1_600_000_000));
    }
}
