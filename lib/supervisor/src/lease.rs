//! The lease of a run as a plan: until when it may live without a word that the controller sees its node, and the warning before. All
//! times are of the boot clock, which counts while the machine is suspended. Knows no timer and ends nothing.

use gq_model::Seconds;
use std::time::Duration;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The gentle signal: from now on no word prolongs it.
    Warning,
    /// The end: nothing of the run may live any more.
    End,
}

/// The lease of one run.
#[derive(Debug)]
pub struct Lease {
    until: Duration,
    /// How long before its end the gentle signal comes.
    warning: Duration,
    is_warned: bool,
    is_over: bool,
}

impl Lease {
    /// A lease of `span` that goes until then; a run gets `kill_wait` from the gentle signal to its end, but never more than a tenth of it.
    pub fn new(span: Seconds, until: Seconds, kill_wait: Seconds) -> Self {
        let warning = Duration::from_secs(kill_wait.0).min(Duration::from_secs(span.0) / 10);
        Self { until: Duration::from_secs(until.0), warning, is_warned: false, is_over: false }
    }

    /// It goes until then. What has begun to end goes on ending, and a word that comes late shortens nothing.
    pub fn renew(&mut self, until: u32, now: Duration) {
        if !self.is_warned && now < self.ends_gently() {
            self.until = self.until.max(Duration::from_secs(until.into()));
        }
    }

    /// Takes what is due by `now`, the latter before the former; none when nothing (more) is.
    pub fn due(&mut self, now: Duration) -> Option<Due> {
        if now >= self.until && !self.is_over {
            (self.is_warned, self.is_over) = (true, true);
            return Some(Due::End);
        }
        if now >= self.ends_gently() && !self.is_warned {
            self.is_warned = true;
            return Some(Due::Warning);
        }
        None
    }

    /// How long after `now` something is due next; none when all was.
    pub fn next(&self, now: Duration) -> Option<Duration> {
        let next = if self.is_warned { self.until } else { self.ends_gently() };
        (!self.is_over).then(|| next.saturating_sub(now))
    }

    fn ends_gently(&self) -> Duration {
        self.until.saturating_sub(self.warning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }
    fn lease(kill_wait: u64) -> Lease {
        Lease::new(Seconds(600), Seconds(1600), Seconds(kill_wait))
    }

    #[test]
    fn it_warns_and_ends_and_is_not_renewed_after_the_warning() {
        let mut lease = lease(30);
        assert_eq!((lease.due(at(1569)), lease.next(at(1569))), (None, Some(at(1))));
        lease.renew(1700, at(1569));
        assert_eq!((lease.due(at(1600)), lease.next(at(1600))), (None, Some(at(70))));
        assert_eq!(lease.due(at(1670)), Some(Due::Warning));
        lease.renew(9000, at(1671));
        assert_eq!((lease.due(at(1699)), lease.next(at(1699))), (None, Some(at(1))));
        assert_eq!((lease.due(at(1700)), lease.due(at(1701))), (Some(Due::End), None));
        assert_eq!(lease.next(at(1701)), None);
    }

    #[test]
    fn a_word_that_is_read_after_its_end_renews_nothing() {
        // It was stopped, or the machine slept, and words and timer wait together.
        let mut lease = lease(30);
        lease.renew(9000, at(5000));
        assert_eq!((lease.due(at(5000)), lease.due(at(5000))), (Some(Due::End), None));
        let mut other = self::lease(0);
        other.renew(1200, at(1000));
        assert_eq!(other.due(at(1599)), None, "a word that comes late shortens nothing");
        assert_eq!(other.due(at(1600)), Some(Due::End), "without a warning");
    }

    #[test]
    fn the_warning_takes_no_more_than_a_tenth() {
        let mut lease = lease(3600);
        assert_eq!((lease.due(at(1539)), lease.due(at(1540))), (None, Some(Due::Warning)));
    }
}
