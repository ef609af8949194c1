//! The time limit of a run as a plan: the signal before it and the end behind it, on a clock that stands still while the run is
//! suspended. Knows no timer and sends nothing.

use gq_model::{Assignment, Seconds, SignalAsk};
use std::time::Duration;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The signal before the limit.
    Signal(SignalAsk),
    /// The end.
    End,
}

/// The time limit of one run. All times of day are of the boot clock.
#[derive(Debug)]
pub struct Limit {
    limit: Option<Duration>,
    /// What the run gets beyond it.
    grace: Duration,
    signal: Option<SignalAsk>,
    is_signalled: bool,
    /// What of it was over when the clock last went on.
    spent: Duration,
    /// When that was; none while it stands.
    since: Option<Duration>,
}

impl Limit {
    /// The limit of a run; its clock goes from `now`.
    pub fn new(assignment: &Assignment, now: Duration) -> Self {
        // Behind a deadline there is no time to give.
        let grace = if assignment.until_deadline { Seconds(0) } else { assignment.over_limit };
        Self {
            limit: assignment.time_limit.map(span),
            grace: span(grace),
            signal: assignment.signal,
            is_signalled: false,
            spent: Duration::ZERO,
            since: Some(now),
        }
    }

    /// The script begins now: so does its time.
    pub const fn restart(&mut self, now: Duration) {
        self.spent = Duration::ZERO;
        self.since = Some(now);
        self.is_signalled = false;
    }

    /// The limit is this now, counted from the same beginning. The signal comes before this limit, too, unless its moment is over and it
    /// was sent.
    pub fn change(&mut self, limit: Option<Seconds>, now: Duration) {
        self.limit = limit.map(span);
        self.is_signalled &= self.signal_at().is_none_or(|(_, at)| at <= self.spent(now));
    }

    /// Stops the clock.
    pub const fn pause(&mut self, now: Duration) {
        self.spent = self.spent(now);
        self.since = None;
    }

    /// Lets the clock go on.
    pub fn go_on(&mut self, now: Duration) {
        self.since.get_or_insert(now);
    }

    /// Takes what is due by `now`, the signal first; none when nothing (more) is.
    pub fn due(&mut self, now: Duration) -> Option<Due> {
        self.since?;
        let spent = self.spent(now);
        if let Some((ask, _)) = self.signal_at().filter(|(_, at)| *at <= spent && !self.is_signalled) {
            self.is_signalled = true;
            // Nobody is warned of an end that has come.
            if self.end_at().is_none_or(|end| spent < end) {
                return Some(Due::Signal(ask));
            }
        }
        self.end_at().filter(|at| *at <= spent).map(|_| Due::End)
    }

    /// How long from `now` something is due next; none when nothing is, or the clock stands.
    pub fn next(&self, now: Duration) -> Option<Duration> {
        self.since?;
        let signal = self.signal_at().filter(|_| !self.is_signalled).map(|(_, at)| at);
        let next = [signal, self.end_at()].into_iter().flatten().min()?;
        Some(next.saturating_sub(self.spent(now)))
    }

    const fn spent(&self, now: Duration) -> Duration {
        match self.since {
            Some(since) => self.spent.saturating_add(now.saturating_sub(since)),
            None => self.spent,
        }
    }

    /// When the signal comes. A run that is shorter than what it is told before gets half of its time first.
    fn signal_at(&self) -> Option<(SignalAsk, Duration)> {
        let (ask, limit) = (self.signal?, self.limit?);
        let at = limit.checked_sub(span(ask.before)).filter(|at| !at.is_zero());
        Some((ask, at.unwrap_or(limit / 2)))
    }

    fn end_at(&self) -> Option<Duration> {
        self.limit.map(|limit| limit.saturating_add(self.grace))
    }
}

const fn span(seconds: Seconds) -> Duration {
    Duration::from_secs(seconds.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(limit: Option<u64>, before: Option<u64>, grace: u64, until_deadline: bool) -> Limit {
        let signal = before.map(|s| SignalAsk { signal: 10, before: Seconds(s), batch: false });
        let mut plan = Limit {
            limit: limit.map(Duration::from_secs),
            grace: Duration::from_secs(if until_deadline { 0 } else { grace }),
            signal,
            is_signalled: false,
            spent: Duration::ZERO,
            since: None,
        };
        plan.restart(at(1000));
        plan
    }
    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }
    fn is_signal(due: Option<Due>) -> bool {
        matches!(due, Some(Due::Signal(_)))
    }

    #[test]
    fn the_signal_comes_before_the_limit_and_the_end_after_the_grace() {
        let mut plan = limit(Some(100), Some(30), 5, false);
        assert_eq!((plan.due(at(1069)), plan.next(at(1069))), (None, Some(at(1))));
        assert!(is_signal(plan.due(at(1070))));
        assert_eq!((plan.due(at(1070)), plan.next(at(1070))), (None, Some(at(35))));
        assert_eq!((plan.due(at(1104)), plan.due(at(1105))), (None, Some(Due::End)));
        let mut unlimited = limit(None, Some(30), 5, false);
        assert_eq!((unlimited.due(at(1 << 40)), unlimited.next(at(1001))), (None, None));
    }

    #[test]
    fn a_limit_not_longer_than_the_warning_time_gives_half_of_itself_first() {
        for before in [60, 61, 120] {
            let mut plan = limit(Some(60), Some(before), 0, false);
            assert_eq!((plan.due(at(1000)), plan.next(at(1000))), (None, Some(at(30))));
            assert!(is_signal(plan.due(at(1030))));
        }
        let mut none = limit(Some(0), Some(5), 0, false);
        assert_eq!(none.due(at(1000)), Some(Due::End));
    }

    #[test]
    fn a_changed_limit_is_counted_from_the_same_beginning_and_warned_of_again() {
        let mut plan = limit(Some(100), Some(30), 0, false);
        assert!(is_signal(plan.due(at(1070))));
        plan.change(Some(Seconds(200)), at(1080));
        assert_eq!(plan.next(at(1080)), Some(at(90)));
        assert!(is_signal(plan.due(at(1170))));
        // A little longer, and its moment was over already.
        plan.change(Some(Seconds(201)), at(1175));
        assert_eq!((plan.due(at(1175)), plan.next(at(1175))), (None, Some(at(26))));
        plan.change(None, at(1180));
        assert_eq!(plan.next(at(1180)), None);
        plan.change(Some(Seconds(150)), at(1180));
        assert_eq!(plan.due(at(1180)), Some(Due::End));
        let mut lowered = limit(Some(100), Some(30), 10, false);
        lowered.change(Some(Seconds(50)), at(1040));
        assert!(is_signal(lowered.due(at(1040))) && lowered.due(at(1040)).is_none());
        let mut lowered = limit(Some(100), Some(30), 10, false);
        lowered.change(Some(Seconds(20)), at(1040));
        assert_eq!(lowered.due(at(1040)), Some(Due::End), "nobody is warned of an end that has come");
    }

    #[test]
    fn a_clock_that_stands_brings_nothing_nearer() {
        let mut plan = limit(Some(100), Some(30), 0, false);
        plan.pause(at(1060));
        plan.pause(at(1065));
        assert_eq!((plan.due(at(9000)), plan.next(at(9000))), (None, None));
        plan.go_on(at(9000));
        plan.go_on(at(9001));
        assert_eq!(plan.next(at(9001)), Some(at(9)));
        assert!(is_signal(plan.due(at(9010))));
        assert_eq!(plan.due(at(9040)), Some(Due::End));
    }
}
