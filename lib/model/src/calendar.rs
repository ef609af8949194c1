//! The calendar: in which day, week, month, quarter or year a point in time lies, in a zone of which the shifts are handed in. Knows no clock
//! and no names of zones.

use crate::Timestamp;
use alloc::vec::Vec;

const DAY: i64 = 86_400;
/// Days of 400 years.
const CYCLE: i64 = 146_097;

/// A span of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// From midnight to midnight.
    Day,
    /// From Monday to Monday.
    Week,
    /// From the first of a month to that of the next.
    Month,
    /// Three months, from January, April, July or October on.
    Quarter,
    /// From January on.
    Year,
}

impl Period {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Day, Self::Week, Self::Month, Self::Quarter, Self::Year];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Quarter => "quarter",
            Self::Year => "year",
        }
    }
}

/// One period of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its first day, in days since 1970-01-01: the same wherever the clocks are.
    pub day: i64,
    /// When it begins.
    pub from: Timestamp,
    /// When the next one begins.
    pub until: Timestamp,
}

/// The calendar of a zone; of UTC when nothing is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calendar {
    /// Seconds that clocks are before UTC until the first shift.
    first: i64,
    /// From when on they are so many seconds before it, in order.
    shifts: Vec<(Timestamp, i64)>,
}

impl Calendar {
    /// The calendar of a zone whose clocks are `first` seconds before UTC, and others from times on.
    pub fn new(first: i64, mut shifts: Vec<(Timestamp, i64)>) -> Self {
        shifts.sort_unstable();
        Self { first, shifts }
    }

    /// The period in which a time lies.
    pub fn span(&self, period: Period, at: Timestamp) -> Span {
        let local = at.0.div_euclid(1_000_000).saturating_add(self.shift(at));
        let today = local.div_euclid(DAY);
        let (year, month) = month_of(today);
        let months = |count: i64| first_of(year, month.saturating_add(count));
        let (day, next) = match period {
            Period::Day => (today, today + 1),
            Period::Week => {
                // The first day of 1970 was a Thursday.
                let monday = today - (today + 3).rem_euclid(7);
                (monday, monday + 7)
            }
            Period::Month => (months(0), months(1)),
            Period::Quarter => (months(-(month % 3)), months(3 - month % 3)),
            Period::Year => (months(-month), months(12 - month)),
        };
        Span { day, from: self.begin(day), until: self.begin(next) }
    }

    fn shift(&self, at: Timestamp) -> i64 {
        let passed = self.shifts.partition_point(|(from, _)| *from <= at);
        let last = passed.checked_sub(1).and_then(|last| self.shifts.get(last));
        last.map_or(self.first, |(_, shift)| *shift)
    }

    /// When a day begins: at its midnight, or with the shift that leaves it none.
    fn begin(&self, day: i64) -> Timestamp {
        let midnight = day.saturating_mul(DAY);
        let mut since = Timestamp(i64::MIN);
        let mut shift = self.first;
        for (from, next) in &self.shifts {
            let at = Timestamp::from_secs(midnight.saturating_sub(shift)).max(since);
            if at < *from {
                return at;
            }
            (since, shift) = (*from, *next);
        }
        Timestamp::from_secs(midnight.saturating_sub(shift)).max(since)
    }
}

/// The calendar year of a time, in UTC.
pub fn year_of(at: Timestamp) -> i64 {
    month_of(at.0.div_euclid(86_400_000_000)).0
}

/// When a calendar year begins, in UTC.
pub fn year_begin(year: i64) -> Timestamp {
    Timestamp::from_secs(first_day(year).saturating_mul(86_400))
}

/// The days from 1970-01-01 to the first of January of a year.
fn first_day(year: i64) -> i64 {
    let leaps = |years: i64| years.div_euclid(4) - years.div_euclid(100) + years.div_euclid(400);
    (year - 1970) * 365 + leaps(year - 1) - leaps(1969)
}

/// How many days of a year are over when a month (from 0) begins.
fn days_before(year: i64, month: i64) -> i64 {
    let leap = year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0);
    let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    lengths.iter().take(usize::try_from(month).unwrap_or(0)).sum()
}

/// The year of a day, and its month from 0.
fn month_of(day: i64) -> (i64, i64) {
    let mut year = 1970 + day.saturating_mul(400).div_euclid(CYCLE);
    while first_day(year) > day {
        year -= 1;
    }
    while first_day(year + 1) <= day {
        year += 1;
    }
    let rest = day - first_day(year);
    let month = (1..12).take_while(|month| days_before(year, *month) <= rest).count();
    (year, i64::try_from(month).unwrap_or(0))
}

/// The first day of a month, which may be counted beyond the year.
fn first_of(year: i64, month: i64) -> i64 {
    let (year, month) = (year + month.div_euclid(12), month.rem_euclid(12));
    first_day(year) + days_before(year, month)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3600;

    fn day(year: i64, month: i64, day: i64) -> i64 {
        first_of(year, month - 1) + day - 1
    }

    fn noon(day: i64) -> Timestamp {
        Timestamp::from_secs(day * DAY + 12 * HOUR)
    }

    #[test]
    fn days_are_counted_as_calendars_do() {
        assert_eq!(day(1970, 1, 1), 0);
        assert_eq!((day(2000, 2, 29), day(2000, 3, 1)), (11_016, 11_017));
        assert_eq!((day(2027, 1, 1), day(1900, 3, 1)), (20_819, -25_508));
        for number in -200_000..200_000 {
            let (year, month) = month_of(number);
            let (first, next) = (first_of(year, month), first_of(year, month + 1));
            assert!(first <= number && number < next, "{number}");
            assert!((28..=31).contains(&(next - first)), "{number}");
        }
    }

    #[test]
    fn a_year_has_its_times_and_no_others() {
        for year in [1969, 1970, 2000, 2024, 2025, 2100] {
            let (begin, next) = (year_begin(year), year_begin(year + 1));
            let last = Timestamp(next.0 - 1);
            assert_eq!((year_of(begin), year_of(last), year_of(next)), (year, year, year + 1));
        }
        assert_eq!(year_begin(2026), Timestamp::from_secs(1_767_225_600));
    }

    #[test]
    fn periods_follow_each_other_without_a_gap() {
        let utc = Calendar::default();
        for period in Period::ALL {
            let mut span = utc.span(period, noon(day(2026, 12, 3)));
            for _ in 0..500 {
                assert!(span.from < span.until);
                assert_eq!(utc.span(period, span.from), span);
                assert_eq!(utc.span(period, Timestamp(span.until.0 - 1)), span);
                let next = utc.span(period, span.until);
                assert_eq!(next.from, span.until);
                span = next;
            }
        }
        let of = |period| utc.span(period, noon(day(2026, 12, 3))).day;
        assert_eq!(of(Period::Week), day(2026, 11, 30));
        assert_eq!((of(Period::Month), of(Period::Quarter)), (day(2026, 12, 1), day(2026, 10, 1)));
        assert_eq!((of(Period::Day), of(Period::Year)), (day(2026, 12, 3), day(2026, 1, 1)));
    }

    #[test]
    fn a_day_begins_at_midnight_of_its_place_whatever_the_clocks_do() {
        // As in the middle of Europe: an hour before UTC, two in summer.
        let (march, october) = (day(2027, 3, 28), day(2027, 10, 31));
        let shift = |day: i64| Timestamp::from_secs(day * DAY + HOUR);
        let zone = Calendar::new(HOUR, alloc::vec![(shift(march), 2 * HOUR), (shift(october), HOUR)]);
        let length = |day: i64| {
            let span = zone.span(Period::Day, noon(day));
            assert_eq!(span.day, day);
            span.until.micros_since(span.from) / 1_000_000
        };
        let hours = [march - 1, march, march + 1, october, october + 1].map(|day| length(day) / 3600);
        assert_eq!(hours, [24, 23, 24, 25, 24]);
        assert_eq!(
            zone.span(Period::Month, noon(day(2027, 7, 9))).from.0,
            (day(2027, 7, 1) * 24 - 2) * 3_600_000_000
        );
    }

    #[test]
    fn a_day_without_midnight_begins_with_the_shift() {
        let today = day(2027, 3, 28);
        let shift = Timestamp::from_secs(today * DAY);
        let zone = Calendar::new(0, alloc::vec![(shift, HOUR)]);
        let span = zone.span(Period::Day, Timestamp(shift.0 - 1));
        assert_eq!((span.day, span.until), (today - 1, shift));
        assert_eq!(zone.span(Period::Day, shift).from, shift);
    }
}
