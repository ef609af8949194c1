//! Durations as people write them: `90s 30m 4h 2d`, and Slurm's `minutes`, `M:SS`, `H:MM:SS`, `D-H`, `D-H:MM[:SS]`.
//! Nothing is ever rounded: what cannot be said in whole seconds is an error.

use crate::Seconds;
use alloc::string::{String, ToString};
use core::fmt;

/// Longest duration taken: a century. Larger numbers are typing mistakes (and made other schedulers hang).
const MAX_SECONDS: u64 = 100 * 366 * 86_400;

/// Why a duration was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurationError {
    /// Not a duration at all.
    Syntax,
    /// More than a hundred years.
    TooLong,
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => {
                "expected a duration such as 90s, 30m, 4h, 2d, 30 (minutes), 5:30 (min:s), 4:00:00 or 1-12:00"
            }
            Self::TooLong => "a duration may be a hundred years at most",
        })
    }
}
impl core::error::Error for DurationError {}

/// Reads a duration; a bare number means minutes, as in Slurm.
///
/// # Errors
/// [`DurationError`] when the text is no duration or longer than a century.
pub fn parse_duration(text: &str) -> Result<Seconds, DurationError> {
    let text = text.trim();
    let total = match text.as_bytes().last() {
        Some(b's' | b'm' | b'h' | b'd' | b'S' | b'M' | b'H' | b'D') => {
            let (number, unit) = text.split_at(text.len() - 1);
            let scale = match unit {
                "s" | "S" => 1,
                "m" | "M" => 60,
                "h" | "H" => 3600,
                _ => 86_400,
            };
            number_of(number)?.checked_mul(scale)
        }
        _ => slurm(text)?,
    };
    match total {
        Some(s) if s <= MAX_SECONDS => Ok(Seconds(s)),
        _ => Err(DurationError::TooLong),
    }
}

/// Reads a time limit: a duration, or `None` for `UNLIMITED`, `INFINITE` and 0, which all mean "as the partition allows".
///
/// # Errors
/// As [`parse_duration`].
pub fn parse_limit(text: &str) -> Result<Option<Seconds>, DurationError> {
    if text.eq_ignore_ascii_case("unlimited") || text.eq_ignore_ascii_case("infinite") {
        return Ok(None);
    }
    Ok(Some(parse_duration(text)?).filter(|s| s.0 > 0))
}

fn slurm(text: &str) -> Result<Option<u64>, DurationError> {
    let (days, rest) = match text.split_once('-') {
        Some((d, rest)) => (Some(number_of(d)?), rest),
        None => (None, text),
    };
    let mut parts = [0u64; 3];
    let mut count = 0;
    for part in rest.split(':') {
        let slot = parts.get_mut(count).ok_or(DurationError::Syntax)?;
        *slot = number_of(part)?;
        count += 1;
    }
    let [a, b, c] = parts;
    let (hours, minutes, seconds) = match (days.is_some(), count) {
        (true, _) => (a, b, c),
        (false, 1) => (0, a, 0),
        (false, 2) => (0, a, b),
        (false, _) => (a, b, c),
    };
    let clock = |h: u64, m: u64, s: u64| h.checked_mul(3600)?.checked_add(m.checked_mul(60)?)?.checked_add(s);
    Ok(days
        .unwrap_or(0)
        .checked_mul(86_400)
        .and_then(|d| clock(hours, minutes, seconds).and_then(|t| t.checked_add(d))))
}

fn number_of(text: &str) -> Result<u64, DurationError> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(DurationError::Syntax);
    }
    text.parse().map_err(|_| DurationError::TooLong)
}

pub(crate) fn write_limit(total: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (days, hours, minutes, seconds) = (total / 86_400, total / 3600 % 24, total / 60 % 60, total % 60);
    match (days, hours) {
        (0, 0) => write!(f, "{minutes}:{seconds:02}"),
        (0, _) => write!(f, "{hours}:{minutes:02}:{seconds:02}"),
        _ => write!(f, "{days}-{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

/// Writes a time limit the way Slurm's listings do: `M:SS`, `H:MM:SS`, `D-HH:MM:SS`, or `UNLIMITED`.
pub fn format_limit(limit: Option<Seconds>) -> String {
    limit.map_or_else(|| "UNLIMITED".to_string(), |s| s.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_written_form_means_what_slurm_says_it_means() {
        let ok = [
            ("90s", 90),
            ("30m", 1800),
            ("4h", 14_400),
            ("2d", 172_800),
            ("30", 1800),
            ("5:30", 330),
            ("4:00:00", 14_400),
            ("1-12", 129_600),
            ("1-12:30", 131_400),
            ("1-12:30:15", 131_415),
            ("0:0:7", 7),
            ("90:00", 5400),
        ];
        for (text, secs) in ok {
            assert_eq!(parse_duration(text), Ok(Seconds(secs)), "{text}");
        }
        for text in ["", "-", "1-", "-1", "1:2:3:4", "1.5h", "h", "ten", "1 h", "+3", "1--2", ":", "5:"] {
            assert_eq!(parse_duration(text), Err(DurationError::Syntax), "{text}");
        }
        for text in
            ["99999999999999999999", "9223372036854775807", "99999999999", "40000d", "18446744073709551615d"]
        {
            assert_eq!(parse_duration(text), Err(DurationError::TooLong), "{text}");
        }
        assert_eq!(parse_limit("UNLIMITED"), Ok(None));
        assert_eq!(parse_limit("0"), Ok(None));
    }

    #[test]
    fn what_is_written_reads_back() {
        for secs in [0, 1, 59, 60, 3599, 3600, 86_399, 86_400, 1_000_000] {
            let text = Seconds(secs).to_string();
            assert_eq!(parse_duration(&text), Ok(Seconds(secs)), "{text}");
        }
    }
}
