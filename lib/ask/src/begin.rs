//! `--begin`: points in time as people write them, taken on the calendar and clock of the submitting user.
//!
//! Days are calendar days: `now+1day` is this time of day tomorrow, also across a change of the clocks. A time of day that
//! a change of the clocks skips means the instant as far behind the gap; one that comes twice means the first.

use crate::Problem;
use gq_model::Timestamp;
use jiff::{
    Span, ToSpan, ZonedDateTime,
    civil::{Date, Time},
    tz::TimeZone,
};

const WHAT: &str =
    "a point in time such as 16:00, noon, tomorrow, now+2hours, 2027-01-31 or 2027-01-31T16:00";
const FAR: Problem = Problem::Other("more than a hundred years ahead");

/// Reads a point in time as `--begin` takes it, said at `now` in `zone`.
///
/// # Errors
/// What is none, or more than a hundred years ahead.
pub fn read_instant(text: &str, now: Timestamp, zone: TimeZone) -> Result<Timestamp, Problem> {
    Begin::read(text)?.instant(now, zone)
}

/// A point in time as it was written: what it means depends on the clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// So many units from now on.
    In(i64, Unit),
    /// At a time of day, on a day.
    At(Option<Day>, Option<Time>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Minutes,
    Hours,
    Days,
    Weeks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Day {
    Today,
    Tomorrow,
    Date(Date),
    /// Month and day; the next one there is.
    Yearly(i8, i8),
}

impl Begin {
    /// Reads a point in time.
    pub fn read(text: &str) -> Result<Self, Problem> {
        let lower = text.trim().to_ascii_lowercase();
        if let Some(rest) = lower.strip_prefix("now") {
            return read_delta(rest.trim());
        }
        let (mut day, mut time) = (None, None);
        let joined = lower.replace(" am", "am").replace(" pm", "pm");
        for word in joined.split_whitespace().flat_map(split_at_t) {
            let is_first = if let Some(found) = read_time(word) {
                time.replace(found).is_none()
            } else if let Some(found) = read_day(word) {
                day.replace(found).is_none()
            } else {
                false
            };
            if !is_first {
                return Err(Problem::Expected(WHAT));
            }
        }
        if day.is_none() && time.is_none() { Err(Problem::Expected(WHAT)) } else { Ok(Self::At(day, time)) }
    }

    /// The instant it means to somebody who says it at `now` in `zone`.
    pub fn instant(&self, now: Timestamp, zone: TimeZone) -> Result<Timestamp, Problem> {
        let now = jiff::Timestamp::from_microsecond(now.0)
            .map_err(|_| Problem::Other("the clock of this machine is out of range"))?
            .to_zoned_datetime(zone);
        let then = match self {
            Self::In(count, unit) => now.checked_add(span(*count, *unit)?).map_err(|_| FAR)?,
            Self::At(day, time) => at(&now, *day, *time)?,
        };
        let century = now.checked_add(100.years()).map_err(|_| FAR)?;
        if then > century { Err(FAR) } else { Ok(Timestamp(then.timestamp().as_microsecond())) }
    }
}

fn span(count: i64, unit: Unit) -> Result<Span, Problem> {
    let span = Span::new();
    match unit {
        Unit::Seconds => span.try_seconds(count),
        Unit::Minutes => span.try_minutes(count),
        Unit::Hours => span.try_hours(count),
        Unit::Days => span.try_days(count),
        Unit::Weeks => span.try_weeks(count),
    }
    .map_err(|_| FAR)
}

fn at(now: &ZonedDateTime, day: Option<Day>, time: Option<Time>) -> Result<ZonedDateTime, Problem> {
    let on = |date: Date| {
        date.to_datetime(time.unwrap_or(Time::midnight()))
            .to_zoned_datetime(now.time_zone().clone())
            .map_err(|_| FAR)
    };
    let today = now.date();
    match day {
        Some(Day::Today) => on(today),
        Some(Day::Tomorrow) => on(today.tomorrow().map_err(|_| FAR)?),
        Some(Day::Date(date)) => on(date),
        Some(Day::Yearly(month, day)) => {
            let years = today.year()..today.year().saturating_add(9);
            let next = years.filter_map(|year| Date::new(year, month, day).ok()).find(|date| *date >= today);
            on(next.ok_or(Problem::Expected(WHAT))?)
        }
        None => {
            let first = on(today)?;
            if first > *now { Ok(first) } else { on(today.tomorrow().map_err(|_| FAR)?) }
        }
    }
}

/// Behind `now`: nothing, or `+N` and a unit.
fn read_delta(rest: &str) -> Result<Begin, Problem> {
    if rest.is_empty() {
        return Ok(Begin::In(0, Unit::Seconds));
    }
    let wrong =
        Problem::Expected("now+NUMBER and seconds, minutes, hours, days or weeks, such as now+2hours");
    let Some(rest) = rest.strip_prefix('+') else { return Err(wrong) };
    let rest = rest.trim_start();
    let (number, unit) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
    if number.is_empty() {
        return Err(wrong);
    }
    let units = [
        ("seconds", Unit::Seconds),
        ("minutes", Unit::Minutes),
        ("hours", Unit::Hours),
        ("days", Unit::Days),
        ("weeks", Unit::Weeks),
    ];
    let unit = unit.trim();
    let Some((_, unit)) = units.into_iter().find(|(name, _)| name.starts_with(unit)) else {
        return Err(wrong);
    };
    number.parse().map(|count| Begin::In(count, unit)).map_err(|_| FAR)
}

/// Cuts `2027-01-31t16:00` at its `t`; other words stay whole.
fn split_at_t(word: &str) -> impl Iterator<Item = &str> {
    let cut =
        word.find('t').filter(|at| *at > 0 && word.as_bytes().get(at - 1).is_some_and(u8::is_ascii_digit));
    let (day, time) = cut.map_or((word, None), |at| (word.get(..at).unwrap_or_default(), word.get(at + 1..)));
    [Some(day), time].into_iter().flatten()
}

fn two_digits(text: &str) -> Option<i8> {
    let good = matches!(text.len(), 1 | 2) && text.bytes().all(|b| b.is_ascii_digit());
    if good { text.parse().ok() } else { None }
}

fn read_time(word: &str) -> Option<Time> {
    let hour = |hour| Time::new(hour, 0, 0, 0).ok();
    match word {
        "midnight" => return hour(0),
        "elevenses" => return hour(11),
        "noon" => return hour(12),
        "fika" => return hour(15),
        "teatime" => return hour(16),
        _ => {}
    }
    let (clock, half) = match (word.strip_suffix("am"), word.strip_suffix("pm")) {
        (Some(clock), _) => (clock, Some(0)),
        (_, Some(clock)) => (clock, Some(12)),
        _ => (word, None),
    };
    let mut parts = clock.split(':');
    let (hour, minute) = (two_digits(parts.next()?)?, parts.next().filter(|m| m.len() == 2));
    let second = parts.next();
    if parts.next().is_some() || (minute.is_none() && (half.is_none() || clock.contains(':'))) {
        return None;
    }
    let hour = match half {
        None => hour,
        Some(half) if (1..=12).contains(&hour) => hour % 12 + half,
        Some(_) => return None,
    };
    let second = match second {
        None => 0,
        Some(s) if s.len() == 2 => two_digits(s)?,
        Some(_) => return None,
    };
    Time::new(hour, two_digits(minute.unwrap_or("00"))?, second.min(59), 0).ok().filter(|_| second < 60)
}

fn read_day(word: &str) -> Option<Day> {
    match word {
        "today" => return Some(Day::Today),
        "tomorrow" => return Some(Day::Tomorrow),
        _ => {}
    }
    let date = |year: i16, month, day| Date::new(year, month, day).ok().map(Day::Date);
    let year_of = |text: &str| match text.len() {
        2 => two_digits(text).map(|y| 2000 + i16::from(y)),
        4 if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    };
    if word.len() == 6 && word.bytes().all(|b| b.is_ascii_digit()) {
        let (month, rest) = word.split_at(2);
        let (day, year) = rest.split_at(2);
        return date(year_of(year)?, two_digits(month)?, two_digits(day)?);
    }
    let parts = |separator: char| word.split(separator).collect::<Vec<_>>();
    if let [year, month, day] = parts('-')[..] {
        return (year.len() == 4)
            .then_some(())
            .and_then(|()| date(year_of(year)?, two_digits(month)?, two_digits(day)?));
    }
    let slashed = if word.contains('/') { parts('/') } else { parts('.') };
    match slashed[..] {
        [month, day] => {
            let (month, day) = (two_digits(month)?, two_digits(day)?);
            // 2024 was a leap year: every day that any year has.
            Date::new(2024, month, day).ok().map(|_| Day::Yearly(month, day))
        }
        [month, day, year] => date(year_of(year)?, two_digits(month)?, two_digits(day)?),
        _ => None,
    }
}
