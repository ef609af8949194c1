//! Decay: use of cards counts half after every half-life. Fixed point from a table, no floats.

use gq_cluster::Usage;
use gq_model::{Seconds, Timestamp};

/// 2^(-i/64) in parts of 2^32, for i from 0 to 64.
const HALVES: [u64; 65] = table();

/// Builds the table from the 64th root of one half, which is 2^64 × 2^(-1/64) rounded to 64 bits.
const fn table() -> [u64; 65] {
    const ROOT: u128 = 18_248_035_989_933_441_396;
    let mut values = [0u64; 65];
    let mut value: u128 = 1 << 64;
    let mut i = 0;
    while i <= 64 {
        values[i] = ((value + (1 << 31)) >> 32) as u64;
        value = (value * ROOT) >> 64;
        i += 1;
    }
    values[64] = 1 << 31;
    values
}

/// The use as of `now`. A half-life of 0 keeps everything for ever; time that runs backwards changes nothing.
pub fn decay(usage: Usage, now: Timestamp, half_life: Seconds) -> Usage {
    let passed = now.micros_since(usage.at) / 1_000_000;
    if half_life.0 == 0 || passed == 0 || usage.charge == 0 {
        return Usage {
            charge: usage.charge,
            at: if half_life.0 == 0 { now.max(usage.at) } else { usage.at },
        };
    }
    let (halves, rest) = (passed / half_life.0, passed % half_life.0);
    // What is left of a second counts the next time.
    let at = usage.at.after(Seconds(passed));
    if halves >= 64 {
        return Usage { charge: 0, at };
    }
    // Between two entries of the table the curve is all but straight.
    let scaled = (u128::from(rest) << 16) * 64 / u128::from(half_life.0);
    let (index, part) = ((scaled >> 16) as usize, (scaled & 0xffff) as u64);
    let entry = |at: usize| HALVES.get(at.min(64)).copied().unwrap_or(1 << 31);
    let (high, low) = (entry(index), entry(index + 1));
    let factor = high - (high.saturating_sub(low)).saturating_mul(part) / 65_536;
    let whole = u128::from(usage.charge >> halves);
    let charge = u64::try_from((whole * u128::from(factor)) >> 32).unwrap_or(u64::MAX);
    Usage { charge, at }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(charge: u64, secs: i64) -> Usage {
        Usage { charge, at: Timestamp::from_secs(secs) }
    }

    #[test]
    fn use_counts_half_after_a_half_life() {
        let week = Seconds(604_800);
        let after = |secs| decay(of(1_000_000_000, 0), Timestamp::from_secs(secs), week).charge;
        assert_eq!((after(604_800), after(1_209_600)), (500_000_000, 250_000_000));
        let half_a_week = after(302_400);
        assert!((707_106_000..707_108_000).contains(&half_a_week), "{half_a_week}");
        assert_eq!(after(604_800 * 64), 0);
    }

    #[test]
    fn the_curve_only_falls_and_is_close_to_the_true_one() {
        let half_life = Seconds(1000);
        let mut last = u64::MAX;
        for secs in 0..5000 {
            let value = decay(of(1 << 40, 0), Timestamp::from_secs(secs), half_life).charge;
            assert!(value <= last);
            let exact = (1u64 << 40) as f64 * (-(secs as f64) / 1000.0).exp2();
            assert!((value as f64 - exact).abs() / exact < 2e-4, "{secs}: {value} {exact}");
            last = value;
        }
    }

    #[test]
    fn without_half_life_or_with_time_running_backwards_nothing_is_lost() {
        assert_eq!(decay(of(7, 100), Timestamp::from_secs(9000), Seconds(0)).charge, 7);
        assert_eq!(decay(of(7, 100), Timestamp::from_secs(50), Seconds(10)), of(7, 100));
    }
}
