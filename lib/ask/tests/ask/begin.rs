//! Points in time.

use crate::{NOW, Try};
use std::ffi::OsString;

fn begin_at(text: &str, now: i64, zone: &str) -> Result<String, String> {
    let argv = ["--begin", text, "s.sh"].map(OsString::from).to_vec();
    let begin = Try { argv, now, zone, ..Try::default() }.submit()?.spec.begin.unwrap();
    Ok(jiff::Timestamp::from_microsecond(begin.0).unwrap().to_string())
}

#[test]
fn points_in_time_are_read_as_people_write_them() {
    // Now is 2026-12-01 20:00:00 UTC, which is London's winter time.
    for (text, want) in [
        ("now", "2026-12-01T20:00:00Z"),
        ("now+60", "2026-12-01T20:01:00Z"),
        ("now+90seconds", "2026-12-01T20:01:30Z"),
        ("now+1minute", "2026-12-01T20:01:00Z"),
        ("now + 2 hours", "2026-12-01T22:00:00Z"),
        ("now+1day", "2026-12-02T20:00:00Z"),
        ("NOW+2weeks", "2026-12-15T20:00:00Z"),
        ("21:30", "2026-12-01T21:30:00Z"),
        ("21:30:15", "2026-12-01T21:30:15Z"),
        ("09:30", "2026-12-02T09:30:00Z"),
        ("20:00", "2026-12-02T20:00:00Z"),
        ("9:30pm", "2026-12-01T21:30:00Z"),
        ("9 PM", "2026-12-01T21:00:00Z"),
        ("12:05am", "2026-12-02T00:05:00Z"),
        ("midnight", "2026-12-02T00:00:00Z"),
        ("noon", "2026-12-02T12:00:00Z"),
        ("teatime", "2026-12-02T16:00:00Z"),
        ("today", "2026-12-01T00:00:00Z"),
        ("tomorrow", "2026-12-02T00:00:00Z"),
        ("tomorrow 16:00", "2026-12-02T16:00:00Z"),
        ("16:00 tomorrow", "2026-12-02T16:00:00Z"),
        ("noon today", "2026-12-01T12:00:00Z"),
        ("2027-01-31", "2027-01-31T00:00:00Z"),
        ("2027-01-31T16:00", "2027-01-31T16:00:00Z"),
        ("2027-01-31T16:00:59", "2027-01-31T16:00:59Z"),
        ("2027-07-01T16:00", "2027-07-01T15:00:00Z"),
        ("2020-01-01", "2020-01-01T00:00:00Z"),
        ("01/31", "2027-01-31T00:00:00Z"),
        ("12/01", "2026-12-01T00:00:00Z"),
        ("2/29", "2028-02-29T00:00:00Z"),
        ("01/31/27", "2027-01-31T00:00:00Z"),
        ("013127", "2027-01-31T00:00:00Z"),
        ("01.31.27", "2027-01-31T00:00:00Z"),
        ("16:00 01/31/2027", "2027-01-31T16:00:00Z"),
    ] {
        assert_eq!(begin_at(text, NOW, "Europe/London").as_deref(), Ok(want), "{text}");
    }
}

#[test]
fn what_is_no_point_in_time_is_refused() {
    for text in [
        "",
        "soon",
        "25:00",
        "12:60",
        "12:00:60",
        "13pm",
        "0am",
        "12",
        "1:2",
        "now+",
        "now-1hour",
        "now+1fortnight",
        "now+-1",
        "+1hour",
        "2027-02-30",
        "2027-1",
        "13/01",
        "2/30",
        "01/31/027",
        "0131",
        "1:00 2:00",
        "today tomorrow",
        "2027-01-31T",
        "2027-01-31T16:00Z",
        "noonish",
        "1:00:00:00",
        "16:00T",
        "-1",
    ] {
        let error = begin_at(text, NOW, "Europe/London").unwrap_err();
        assert!(error.contains("expected"), "{text}: {error}");
    }
    for text in
        ["now+101years", "now+36600days", "2127-01-01", "now+99999999999999999999", "now+4294967296weeks"]
    {
        begin_at(text, NOW, "Europe/London").unwrap_err();
    }
    begin_at("2126-11-30", NOW, "Europe/London").unwrap();
}

/// B171: what was to begin in the hour that comes twice never began. B173: days were counted as so many seconds.
#[test]
fn a_change_of_the_clocks_neither_loses_nor_repeats_a_start() {
    // London's clocks go back on 2026-10-25 at 02:00 (01:00 UTC) and forward on 2027-03-28 at 01:00.
    let saturday = 1_792_836_000;
    let eleven = jiff::Timestamp::from_second(saturday).unwrap();
    let now = eleven.to_zoned_datetime(jiff::tz::TimeZone::get("Europe/London").unwrap());
    assert_eq!(now.to_string(), "2026-10-24T11:00:00+01:00[Europe/London]", "the test's own arithmetic");
    let at = |text| begin_at(text, saturday, "Europe/London").unwrap();
    assert_eq!(at("01:30"), "2026-10-25T00:30:00Z", "the first of the two");
    assert_eq!(at("now+1day"), "2026-10-25T11:00:00Z", "the same time of day");
    assert_eq!(at("now+24hours"), "2026-10-25T10:00:00Z", "hours are hours");
    assert_eq!(at("2027-03-28T01:30"), "2027-03-28T01:30:00Z", "skipped: as far behind the gap");
}
