//! Idleness: whether a card that a run holds is idle, judged by looks at it. It keeps how much was used in short spans of the time that
//! is looked back on, and neither asks a driver nor ends anybody.

use gq_model::IdleRule;
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Longest span of which one sum is kept.
const MAX_SPAN: Duration = Duration::from_secs(60);
/// Longest time that counts as of late.
const MAX_RECENT: Duration = Duration::from_secs(300);
/// When nobody could look for so long, nobody knows what was used.
const MAX_GAP: Duration = Duration::from_secs(30);

/// What was used in a span of time.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// Which it is, counted from when the judge began.
    number: u128,
    /// Percents, and in how many looks there were any.
    used: (u32, u32),
}

/// Judges one card.
#[derive(Clone, Debug)]
pub struct Judge {
    rule: IdleRule,
    begun: Instant,
    last: Instant,
    spans: VecDeque<Span>,
    is_idle: bool,
}

impl Judge {
    /// Begins: what was before does not count.
    pub fn new(rule: IdleRule, now: Instant) -> Self {
        Self { rule, begun: now, last: now, spans: VecDeque::new(), is_idle: false }
    }

    /// The rule that it judges by.
    pub const fn rule(&self) -> IdleRule {
        self.rule
    }

    /// Whether the card is idle.
    pub const fn is_idle(&self) -> bool {
        self.is_idle
    }

    const fn window(&self) -> Duration {
        Duration::from_secs(self.rule.after.0)
    }

    fn span(&self) -> Duration {
        (self.window() / 4).min(MAX_SPAN).max(Duration::from_millis(1))
    }

    /// Takes in a look: so many percent of the card are in use.
    ///
    /// A card is idle when it was judged for as long as is looked back on, and the means of all that time, of late, and of this moment say so. Idle
    /// it stays until that of late says otherwise: a moment's work in an hour of nothing is no work, and whoever begins to work needs not
    /// make up for that hour.
    pub fn look(&mut self, now: Instant, percent: u8) {
        if now.saturating_duration_since(self.last) > MAX_GAP {
            *self = Self::new(self.rule, now);
        }
        self.last = now;
        let (span, age) = (self.span().as_millis(), now.saturating_duration_since(self.begun));
        let number = age.as_millis() / span;
        match self.spans.back_mut() {
            Some(last) if last.number == number => {
                let (sum, looks) = last.used;
                last.used = (sum.saturating_add(u32::from(percent)), looks.saturating_add(1));
            }
            _ => self.spans.push_back(Span { number, used: (u32::from(percent), 1) }),
        }
        let kept = self.window().as_millis().div_ceil(span);
        while self.spans.front().is_some_and(|first| first.number.saturating_add(kept) < number) {
            self.spans.pop_front();
        }
        let recent = (self.window() / 4).min(MAX_RECENT).as_millis().div_ceil(span);
        let is_quiet_of_late = self.is_below(number.saturating_sub(recent));
        let has_become_so =
            || age >= self.window() && self.is_below(0) && self.is_below(number.saturating_sub(1));
        self.is_idle = is_quiet_of_late && (self.is_idle || has_become_so());
    }

    /// Whether less was used than counts as use, on average of the spans from `first` on.
    fn is_below(&self, first: u128) -> bool {
        let spans = self.spans.iter().filter(|span| span.number >= first);
        let (sum, looks) = spans.fold((0_u64, 0_u64), |(sum, looks), span| {
            (sum.saturating_add(u64::from(span.used.0)), looks.saturating_add(u64::from(span.used.1)))
        });
        sum < looks.saturating_mul(u64::from(self.rule.below))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gq_model::Seconds;
    use proptest::prelude::*;

    fn rule(after: u64) -> IdleRule {
        IdleRule { after: Seconds(after), below: 5, memory_is_use: false }
    }

    /// A judge that has seen this, a look a second.
    fn seen(after: u64, percents: impl IntoIterator<Item = u8>) -> (Judge, Vec<bool>) {
        let begin = Instant::now();
        let mut judge = Judge::new(rule(after), begin);
        let said = (1..).zip(percents).map(|(second, percent)| {
            judge.look(begin + Duration::from_secs(second), percent);
            judge.is_idle()
        });
        let said = said.collect();
        (judge, said)
    }

    #[test]
    fn a_spike_hides_no_idle_hour_and_who_begins_to_work_is_not_idle() {
        let quiet = |seconds| std::iter::repeat_n(0, seconds);
        let (_, said) = seen(3600, quiet(3598).chain([100, 0, 0, 0]));
        assert_eq!((&said[..3599], &said[3599..]), (&[false; 3599][..], &[true; 3][..]));
        // Three seconds of work every four minutes keep nobody from being idle.
        let (_, said) = seen(3600, (0..7200_u32).map(|second| if second % 240 < 3 { 100 } else { 0 }));
        assert!(said[3599..].iter().all(|idle| *idle));
        // Whoever begins to work in earnest is busy long before it makes up for the hour before.
        let (_, said) = seen(3600, quiet(3600).chain(std::iter::repeat_n(100, 60)));
        let back = said.iter().rposition(|idle| *idle).unwrap();
        assert!((3600..3620).contains(&back), "{back}");
        // And is not found idle in the first place.
        let (judge, said) = seen(3600, quiet(3550).chain(std::iter::repeat_n(30, 3600)));
        assert!(!said.contains(&true) && !judge.is_idle());
    }

    #[test]
    fn what_nobody_looked_at_is_not_known() {
        let (mut judge, _) = seen(100, std::iter::repeat_n(0, 100));
        assert!(judge.is_idle());
        let later = judge.last + MAX_GAP + Duration::from_secs(1);
        judge.look(later, 0);
        assert!(!judge.is_idle());
        (1..100).for_each(|second| judge.look(later + Duration::from_secs(second), 0));
        assert!(!judge.is_idle());
        judge.look(later + Duration::from_secs(100), 0);
        assert!(judge.is_idle());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// Whatever is seen: nobody is idle before his time, nobody becomes so who used more on average, whoever always uses enough never is,
        /// whoever never does is from his time on, and what is kept has a bound.
        #[test]
        fn a_judge_keeps_its_rule(
            after in 1_u64..400, level in 0_u8..12, noise in 0_u8..8,
            bursts in prop::collection::vec((0_usize..1500, 1_usize..60, 0_u8..=100), 0..6),
            steps in prop::collection::vec(200_u64..3000, 1500),
        ) {
            let begin = Instant::now();
            let mut judge = Judge::new(rule(after), begin);
            let (mut now, mut was_idle) = (begin, false);
            let mut past: Vec<(Instant, u8)> = Vec::new();
            for (at, step) in steps.iter().enumerate() {
                now += Duration::from_millis(*step);
                let burst = bursts.iter().find(|(from, long, _)| (*from..from + long).contains(&at));
                let wave = u8::try_from(at % (usize::from(noise) + 1)).unwrap();
                let percent = burst.map_or(level + wave, |(.., percent)| *percent);
                past.push((now, percent));
                judge.look(now, percent);
                let age = now - begin;
                prop_assert!(!judge.is_idle() || age >= judge.window());
                if judge.is_idle() && !was_idle {
                    // The window is whole spans: up to one more than is looked back on.
                    let mean = |window: Duration| {
                        let of: Vec<u64> = past.iter().filter(|(then, _)| now - *then <= window).map(|(_, p)| u64::from(*p)).collect();
                        (of.iter().sum::<u64>(), of.len() as u64)
                    };
                    let means = (0..=40_u32).map(|part| mean(judge.window() + judge.span() * part / 20));
                    prop_assert!(means.into_iter().any(|(sum, looks)| sum < looks * 5), "it was not idle on average");
                }
                if bursts.is_empty() && level >= 5 {
                    prop_assert!(!judge.is_idle());
                }
                if bursts.is_empty() && level + noise < 5 && age >= judge.window() {
                    prop_assert!(judge.is_idle());
                }
                prop_assert!(judge.spans.len() as u128 <= judge.window().as_millis().div_ceil(judge.span().as_millis()) + 2);
                was_idle = judge.is_idle();
            }
        }
    }
}
