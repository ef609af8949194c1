//! Filling: a workload without ends, drawn from a log, that asks for more and more cards. It shows how many a rule of placement hands out
//! before nothing fits any more.

use crate::trace::{Trace, TraceJob, UNLIMITED};

/// Most jobs that are drawn.
const MAX_DRAWN: usize = 10_000_000;

/// A source of random numbers: the same seed gives the same numbers (splitmix64).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `count`, which is not 0.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        let product = u128::from(self.next()) * count as u128;
        usize::try_from(product >> 64).unwrap_or_default()
    }
}

/// Draws the jobs of the log in a random order, all of them again and again, until they ask for `milli` thousandths of cards. One
/// arrives each second and none ends.
pub(crate) fn draw(trace: &Trace, milli: u64, seed: u64) -> Vec<TraceJob> {
    let mut dice = Dice::new(seed);
    let mut drawn: Vec<TraceJob> = Vec::new();
    let mut asked = 0u64;
    if trace.jobs.iter().all(|job| job.cards == 0) {
        return drawn;
    }
    while asked < milli && drawn.len() < MAX_DRAWN {
        let mut round: Vec<&TraceJob> = trace.jobs.iter().collect();
        for last in (1..round.len()).rev() {
            round.swap(last, dice.below(last + 1));
        }
        for job in round {
            if asked >= milli {
                break;
            }
            asked = asked.saturating_add(job.milli());
            let submit = i64::try_from(drawn.len()).unwrap_or(i64::MAX);
            drawn.push(TraceJob { submit, run: UNLIMITED, estimate: UNLIMITED, ..job.clone() });
        }
    }
    drawn
}
