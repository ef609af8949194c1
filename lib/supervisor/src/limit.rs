//! The time limit and the deadline of a run as a plan: the signal before them and the end behind. The clock of the limit stands still while
//! the run is suspended, that of the deadline never. Knows no timer and sends nothing.

use gq_model::{Assignment, Seconds, SignalAsk};
use std::time::Duration;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The signal before the end.
    Signal(SignalAsk),
    /// The end, by the limit.
    End,
    /// The end, by the deadline.
    Deadline,
}

/// The time limit of one run, and its deadline. All times of day are of the boot clock.
#[derive(Debug)]
pub struct Limit {
    limit: Option<Duration>,
    /// What the run gets beyond its limit; behind a deadline there is no time to give.
    grace: Duration,
    deadline: Option<Duration>,
    signal: Option<SignalAsk>,
    is_signalled: bool,
    /// When its time began.
    begun: Duration,
    /// What of the limit was over when its clock last went on.
    spent: Duration,
    /// When that was; none while it stands.
    since: Option<Duration>,
}

impl Limit {
    /// The limit of a run; its clock goes from `now`. `taken`: when the supervisor took the run over, from which its deadline counts.
    pub fn new(assignment: &Assignment, taken: Duration, now: Duration) -> Self {
        Self {
            limit: assignment.time_limit.map(span),
            grace: span(assignment.over_limit),
            deadline: assignment.deadline.map(|left| taken.saturating_add(span(left))),
            signal: assignment.signal,
            is_signalled: false,
            begun: now,
            spent: Duration::ZERO,
            since: Some(now),
        }
    }

    /// The script begins now: so does its time.
    pub const fn restart(&mut self, now: Duration) {
        self.begun = now;
        self.spent = Duration::ZERO;
        self.since = Some(now);
        self.is_signalled = false;
    }

    /// The limit is this now, counted from the same beginning. The signal comes before this limit, too, unless its moment is over and it
    /// was sent.
    pub fn change(&mut self, limit: Option<Seconds>, now: Duration) {
        self.limit = limit.map(span);
        self.is_signalled &= self.signal_in(now).is_none_or(|(_, rest)| rest.is_zero());
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

    /// Takes what is due by `now`, the signal first; none when nothing (more) is. Who stands still is not warned: he could do nothing.
    pub fn due(&mut self, now: Duration) -> Option<Due> {
        if self.deadline.is_some_and(|at| at <= now) {
            return Some(Due::Deadline);
        }
        self.since?;
        let is_over = self.end_in(now).is_some_and(|rest| rest.is_zero());
        if let Some((ask, _)) = self.signal_in(now).filter(|(_, rest)| rest.is_zero() && !self.is_signalled) {
            self.is_signalled = true;
            // Nobody is warned of an end that has come.
            if !is_over {
                return Some(Due::Signal(ask));
            }
        }
        is_over.then_some(Due::End)
    }

    /// How long from `now` something is due next; none when nothing is.
    pub fn next(&self, now: Duration) -> Option<Duration> {
        let goes = self.since.is_some();
        let signal = self.signal_in(now).filter(|_| goes && !self.is_signalled).map(|(_, rest)| rest);
        let end = self.end_in(now).filter(|_| goes);
        let deadline = self.deadline.map(|at| at.saturating_sub(now));
        [signal, end, deadline].into_iter().flatten().min()
    }

    const fn spent(&self, now: Duration) -> Duration {
        match self.since {
            Some(since) => self.spent.saturating_add(now.saturating_sub(since)),
            None => self.spent,
        }
    }

    /// How long until the signal, while the clock goes: it comes before the limit and before the deadline, whichever is first.
    fn signal_in(&self, now: Duration) -> Option<(SignalAsk, Duration)> {
        let ask = self.signal?;
        let by_limit = self.limit.map(|limit| warning(limit, ask).saturating_sub(self.spent(now)));
        let by_deadline = self.deadline.map(|at| {
            let at = self.begun.saturating_add(warning(at.saturating_sub(self.begun), ask));
            at.saturating_sub(now)
        });
        Some((ask, by_limit.into_iter().chain(by_deadline).min()?))
    }

    /// How long until the end by the limit, while the clock goes.
    fn end_in(&self, now: Duration) -> Option<Duration> {
        self.limit.map(|limit| limit.saturating_add(self.grace).saturating_sub(self.spent(now)))
    }
}

/// When the signal comes to who has so much time. A run that is shorter than what it is told before gets half of its time first.
fn warning(time: Duration, ask: SignalAsk) -> Duration {
    time.checked_sub(span(ask.before)).filter(|at| !at.is_zero()).unwrap_or(time / 2)
}

const fn span(seconds: Seconds) -> Duration {
    Duration::from_secs(seconds.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(limit: Option<u64>, before: Option<u64>, grace: u64) -> Limit {
        let signal = before.map(|s| SignalAsk { signal: 10, before: Seconds(s), batch: false });
        let mut plan = Limit {
            limit: limit.map(Duration::from_secs),
            grace: Duration::from_secs(grace),
            deadline: None,
            signal,
            is_signalled: false,
            begun: Duration::ZERO,
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
        let mut plan = limit(Some(100), Some(30), 5);
        assert_eq!((plan.due(at(1069)), plan.next(at(1069))), (None, Some(at(1))));
        assert!(is_signal(plan.due(at(1070))));
        assert_eq!((plan.due(at(1070)), plan.next(at(1070))), (None, Some(at(35))));
        assert_eq!((plan.due(at(1104)), plan.due(at(1105))), (None, Some(Due::End)));
        let mut unlimited = limit(None, Some(30), 5);
        assert_eq!((unlimited.due(at(1 << 40)), unlimited.next(at(1001))), (None, None));
    }

    #[test]
    fn a_limit_not_longer_than_the_warning_time_gives_half_of_itself_first() {
        for before in [60, 61, 120] {
            let mut plan = limit(Some(60), Some(before), 0);
            assert_eq!((plan.due(at(1000)), plan.next(at(1000))), (None, Some(at(30))));
            assert!(is_signal(plan.due(at(1030))));
        }
        let mut none = limit(Some(0), Some(5), 0);
        assert_eq!(none.due(at(1000)), Some(Due::End));
    }

    #[test]
    fn a_changed_limit_is_counted_from_the_same_beginning_and_warned_of_again() {
        let mut plan = limit(Some(100), Some(30), 0);
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
        let mut lowered = limit(Some(100), Some(30), 10);
        lowered.change(Some(Seconds(50)), at(1040));
        assert!(is_signal(lowered.due(at(1040))) && lowered.due(at(1040)).is_none());
        let mut lowered = limit(Some(100), Some(30), 10);
        lowered.change(Some(Seconds(20)), at(1040));
        assert_eq!(lowered.due(at(1040)), Some(Due::End), "nobody is warned of an end that has come");
    }

    #[test]
    fn a_clock_that_stands_brings_nothing_nearer() {
        let mut plan = limit(Some(100), Some(30), 0);
        plan.pause(at(1060));
        plan.pause(at(1065));
        assert_eq!((plan.due(at(9000)), plan.next(at(9000))), (None, None));
        plan.go_on(at(9000));
        plan.go_on(at(9001));
        assert_eq!(plan.next(at(9001)), Some(at(9)));
        assert!(is_signal(plan.due(at(9010))));
        assert_eq!(plan.due(at(9040)), Some(Due::End));
    }

    #[test]
    fn a_deadline_stands_still_for_nobody_and_has_no_grace() {
        let until = |deadline: u64, plan: Limit| Limit { deadline: Some(at(deadline)), ..plan };
        let mut plan = until(1100, limit(Some(100), None, 60));
        assert_eq!((plan.due(at(1099)), plan.next(at(1099))), (None, Some(at(1))));
        assert_eq!(plan.due(at(1100)), Some(Due::Deadline));
        // Its limit would have stood still.
        let mut plan = until(1200, limit(Some(100), None, 0));
        plan.pause(at(1050));
        assert_eq!((plan.due(at(1199)), plan.next(at(1199))), (None, Some(at(1))));
        assert_eq!((plan.due(at(1200)), plan.next(at(1200))), (Some(Due::Deadline), Some(at(0))));
        let mut plan = until(1200, limit(Some(100), None, 0));
        plan.pause(at(1050));
        plan.go_on(at(1120));
        assert_eq!((plan.next(at(1120)), plan.due(at(1170))), (Some(at(50)), Some(Due::End)));
        // A limit said anew does not move it.
        let mut plan = until(1200, limit(Some(100), None, 0));
        plan.change(None, at(1010));
        assert_eq!((plan.next(at(1010)), plan.due(at(1200))), (Some(at(190)), Some(Due::Deadline)));
    }

    #[test]
    fn the_signal_comes_before_the_deadline_too_if_that_is_nearer() {
        let until = |deadline: u64, plan: Limit| Limit { deadline: Some(at(deadline)), ..plan };
        let mut plan = until(1050, limit(Some(100), Some(30), 0));
        assert_eq!((plan.due(at(1019)), plan.next(at(1019))), (None, Some(at(1))));
        assert!(is_signal(plan.due(at(1020))));
        assert_eq!((plan.due(at(1049)), plan.due(at(1050))), (None, Some(Due::Deadline)));
        let mut short = until(1020, limit(None, Some(30), 0));
        assert_eq!((short.due(at(1009)), short.next(at(1009))), (None, Some(at(1))));
        assert!(is_signal(short.due(at(1010))));
        // Who stands still is told when he goes on, if there is time.
        let mut plan = until(1050, limit(Some(100), Some(30), 0));
        plan.pause(at(1010));
        assert_eq!((plan.due(at(1030)), plan.next(at(1030))), (None, Some(at(20))));
        plan.go_on(at(1040));
        assert!(is_signal(plan.due(at(1040))));
    }
}
