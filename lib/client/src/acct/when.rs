//! Spans of time: from when to when, and the calendar's months and days in it.

use crate::{stat::clock::Clock, trouble::Trouble};
use gq_model::Timestamp;
use jiff::{ToSpan, ZonedDateTime, civil::Date};

/// Most spans of one question.
const MAX_PERIODS: usize = 4000;

/// When it begins if nobody says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// With everything.
    Ever,
    /// With today.
    Today,
    /// With this month.
    Month,
    /// With this year.
    Year,
}

/// The calendar's spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Period {
    Day,
    Month,
}

type Range = (Option<Timestamp>, Option<Timestamp>);

/// Reads `--start` and `--end`.
///
/// # Errors
/// What is no time, and an end that is not behind the start (exit code 2).
pub(super) fn range(
    start: Option<&str>,
    end: Option<&str>,
    clock: &Clock,
    usual: Start,
) -> Result<Range, Trouble> {
    let read = |option: &str, text: Option<&str>| text.map(|text| instant(option, text, clock)).transpose();
    let (from, until) = (read("--start", start)?, read("--end", end)?);
    let from = match (from, until) {
        (Some(from), _) => Some(from),
        (None, Some(_)) => None,
        (None, None) => begin_of(usual, clock)?,
    };
    if from.zip(until).is_some_and(|(from, until)| until <= from) {
        return Err(Trouble::usage("--end is not behind --start"));
    }
    Ok((from, until))
}

fn now(clock: &Clock) -> Result<ZonedDateTime, Trouble> {
    let now = jiff::Timestamp::from_microsecond(clock.now.0);
    now.map(|now| now.to_zoned_datetime(clock.zone.clone()))
        .map_err(|_| Trouble::usage("the clock of this machine is out of range"))
}

fn midnight(date: Date, clock: &Clock) -> Result<Timestamp, Trouble> {
    let at = date.to_zoned_datetime(clock.zone.clone());
    at.map(|at| Timestamp(at.timestamp().as_microsecond()))
        .map_err(|_| Trouble::usage(format!("{date} is out of range")))
}

fn begin_of(start: Start, clock: &Clock) -> Result<Option<Timestamp>, Trouble> {
    let today = now(clock)?.date();
    let date = match start {
        Start::Ever => return Ok(None),
        Start::Today => today,
        Start::Month => today.first_of_month(),
        Start::Year => today.first_of_year(),
    };
    midnight(date, clock).map(Some)
}

/// A point in time: as `gqsub --begin` takes it, and `yesterday` and `now-7days` besides.
fn instant(option: &str, text: &str, clock: &Clock) -> Result<Timestamp, Trouble> {
    let words = text.trim().to_ascii_lowercase();
    if words == "yesterday" {
        let date = now(clock)?.date().yesterday();
        return date
            .map_err(|_| Trouble::usage("yesterday is out of range"))
            .and_then(|date| midnight(date, clock));
    }
    let back = words.strip_prefix("now").map(str::trim).and_then(|rest| rest.strip_prefix('-'));
    let read = |text: &str| {
        gq_ask::read_instant(text, clock.now, clock.zone.clone())
            .map_err(|e| Trouble::usage(format!("{option}={text}: {e}")))
    };
    match back {
        // As far behind now as that would be ahead.
        Some(span) => {
            Ok(Timestamp(clock.now.0.saturating_mul(2).saturating_sub(read(&format!("now+{span}"))?.0)))
        }
        None => read(text),
    }
}

/// The begins of all spans from the one of `from` on, up to `until`, with their names.
///
/// # Errors
/// Too many (exit code 2).
pub(super) fn periods(
    of: Period,
    from: Timestamp,
    until: Timestamp,
    clock: &Clock,
) -> Result<Vec<(Timestamp, String)>, Trouble> {
    let out_of_range = |_| Trouble::usage("--start is out of range");
    let at = jiff::Timestamp::from_microsecond(from.0).map_err(out_of_range)?;
    let first = at.to_zoned_datetime(clock.zone.clone()).date();
    let mut date = if of == Period::Month { first.first_of_month() } else { first };
    let mut all = Vec::new();
    loop {
        let begin = midnight(date, clock)?;
        if begin >= until && !all.is_empty() {
            return Ok(all);
        }
        if all.len() >= MAX_PERIODS {
            return Err(Trouble::usage(format!("more than {MAX_PERIODS} spans of time"))
                .with_hint("a later --start, or months in place of days"));
        }
        let form = if of == Period::Month { "%Y-%m" } else { "%Y-%m-%d" };
        all.push((begin, date.strftime(form).to_string()));
        let step = if of == Period::Month { 1.month() } else { 1.day() };
        date = date.checked_add(step).map_err(out_of_range)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    fn clock() -> Clock {
        // 2027-03-28 is the day on which the clocks of Berlin go ahead.
        let zone = TimeZone::get("Europe/Berlin").unwrap_or(TimeZone::UTC);
        let now: jiff::Timestamp = "2027-03-28T15:30:00Z".parse().unwrap();
        Clock { now: Timestamp(now.as_microsecond()), zone }
    }

    #[test]
    fn times_of_the_past_are_read_as_people_write_them() {
        let clock = clock();
        let civil = |text: &str| clock.civil(instant("--start", text, &clock).unwrap()).unwrap();
        assert_eq!(civil("2027-01-31"), "2027-01-31T00:00:00");
        assert_eq!(civil("yesterday"), "2027-03-27T00:00:00");
        assert_eq!(civil("today"), "2027-03-28T00:00:00");
        let hour = instant("--start", "now-1hour", &clock).unwrap();
        assert_eq!(clock.now.micros_since(hour), 3_600_000_000);
        assert_eq!(instant("--start", "soonish", &clock).unwrap_err().code(), 2);
        assert_eq!(range(Some("today"), Some("yesterday"), &clock, Start::Ever).unwrap_err().code(), 2);
        assert_eq!(range(None, Some("today"), &clock, Start::Today).unwrap().0, None);
        let (from, _) = range(None, None, &clock, Start::Year).unwrap();
        assert_eq!(clock.civil(from.unwrap()).unwrap(), "2027-01-01T00:00:00");
    }

    #[test]
    fn days_and_months_are_the_calendars() {
        let clock = clock();
        let at = |text| instant("--start", text, &clock).unwrap();
        let names = |of, from, until| -> Vec<String> {
            periods(of, at(from), at(until), &clock).unwrap().into_iter().map(|(_, name)| name).collect()
        };
        assert_eq!(names(Period::Day, "2027-03-27T12:00", "2027-03-29"), ["2027-03-27", "2027-03-28"]);
        assert_eq!(names(Period::Month, "2026-12-31", "2027-02-01T01:00"), ["2026-12", "2027-01", "2027-02"]);
        let days = periods(Period::Day, at("2027-03-28"), at("2027-03-30"), &clock).unwrap();
        let hours = days[1].0.micros_since(days[0].0) / 3_600_000_000;
        assert!(hours == 23 || clock.zone == TimeZone::UTC, "{hours}");
        assert!(periods(Period::Day, Timestamp(0), clock.now, &clock).is_err());
    }
}
