//! The progress of an array in a line: a bar, counts, how fast it goes, and when it will be done.

use crate::stat::{clock::Clock, table::cut};
use gq_model::{End, JobState};
use gq_proto::ArrayView;
use std::fmt::Write;

/// Places of the bar, without its ends.
const BAR: u64 = 20;

/// Writes the line, at most `width` places long.
pub(crate) fn line(array: &ArrayView, clock: &Clock, width: usize) -> String {
    let done: u64 = array.ended.iter().map(|(_, count)| count).sum();
    let full = (u128::from(done) * u128::from(BAR) / u128::from(array.tasks.max(1))).min(BAR.into()) as usize;
    let mut text = format!("[{:.<1$}]", "#".repeat(full), BAR as usize);
    let completed = JobState::Ended(End::Completed).name();
    // Writing to a string does not fail.
    let _ = write!(text, " {done}/{}", array.tasks);
    for (state, count) in array.ended.iter().filter(|(state, _)| state != completed) {
        let _ = write!(text, ", {count} {}", state.to_ascii_lowercase().replace('_', " "));
    }
    for (count, what) in [(array.running, "running"), (array.waiting, "waiting")] {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    if let Some(most) = array.at_once.filter(|_| array.waiting > 0) {
        let _ = write!(text, " ({most} at a time)");
    }
    if let Some(rate) = array.rate.filter(|_| done < array.tasks) {
        let _ = write!(text, ", {}", speed(rate));
    }
    if let Some(end) = array.expected_end.and_then(|at| clock.civil(at)) {
        let _ = write!(text, ", end expected {end}");
    }
    cut(&text, width, Some('\u{2026}')).into_owned()
}

/// So many tasks in a thousand seconds, in the unit that gives a number above 1.
fn speed(rate: u64) -> String {
    let (per_thousand, unit) = match rate {
        1000.. => (1, "s"),
        17.. => (60, "min"),
        _ => (3600, "h"),
    };
    let tenths = u128::from(rate) * per_thousand / 100;
    format!("{}.{}/{unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gq_model::{JobId, Timestamp};

    fn array() -> ArrayView {
        ArrayView {
            id: JobId(17),
            tasks: 100,
            waiting: 36,
            running: 5,
            ended: vec![("COMPLETED".into(), 56), ("FAILED".into(), 2), ("OUT_OF_MEMORY".into(), 1)],
            at_once: Some(8),
            started: None,
            rate: Some(205),
            expected_end: Some(Timestamp::from_secs(1_000_000)),
        }
    }

    fn shown(array: &ArrayView, width: usize) -> String {
        line(array, &Clock { now: Timestamp(0), zone: jiff::tz::TimeZone::UTC }, width)
    }

    #[test]
    fn a_line_says_how_far_how_fast_and_until_when() {
        assert_eq!(
            shown(&array(), 200),
            "[###########.........] 59/100, 2 failed, 1 out of memory, 5 running, 36 waiting (8 at a time), \
             12.3/min, end expected 1970-01-12T13:46:40"
        );
        let over = ArrayView {
            running: 0,
            waiting: 0,
            ended: vec![("COMPLETED".into(), 100)],
            expected_end: None,
            ..array()
        };
        assert_eq!(shown(&over, 200), "[####################] 100/100");
        assert_eq!(shown(&over, 20), "[##################…");
        let large =
            ArrayView { tasks: u64::MAX, ended: vec![("COMPLETED".into(), u64::MAX)], ..over.clone() };
        assert!(shown(&large, 200).starts_with("[####################] 18446744073709551615/"));
        let none = ArrayView { tasks: 0, ended: vec![], rate: None, ..over };
        assert_eq!(shown(&none, 200), "[....................] 0/0");
        for (rate, text) in [
            (2500, "2.5/s"),
            (1000, "1.0/s"),
            (999, "59.9/min"),
            (17, "1.0/min"),
            (16, "57.6/h"),
            (0, "0.0/h"),
        ] {
            assert_eq!(speed(rate), text);
        }
    }
}
