//! Memory sizes as people write them: `512M 40G 1T 40GB 50gb`, `K` rounded up, a bare number in a unit the caller names.

use crate::MiB;
use alloc::string::{String, ToString};
use core::fmt;

/// Why a size was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeError {
    /// Not a size at all.
    Syntax,
    /// More than 8 EiB.
    TooLarge,
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => "expected a size such as 512M, 40G or 1T",
            Self::TooLarge => "larger than any memory",
        })
    }
}
impl core::error::Error for SizeError {}

/// Reads a size; a bare number is taken in mebibytes, as Slurm's `--mem`; a fraction (`1.5G`) is taken when it is whole MiB.
///
/// # Errors
/// [`SizeError`] when the text is no size, or no whole number of MiB, or too large to count.
pub fn parse_size(text: &str) -> Result<MiB, SizeError> {
    let text = text.trim();
    let digits = text.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let (number, unit) = text.split_at(digits);
    let (whole, fraction) = number.split_once('.').map_or((number, None), |(w, f)| (w, Some(f)));
    if whole.is_empty() {
        return Err(SizeError::Syntax);
    }
    let whole: u64 = whole.parse().map_err(|_| SizeError::TooLarge)?;
    let unit = unit.to_ascii_uppercase();
    let unit =
        unit.strip_suffix("IB").or_else(|| unit.strip_suffix('B').filter(|u| !u.is_empty())).unwrap_or(&unit);
    let shift = match unit {
        "K" if fraction.is_some() => return Err(SizeError::Syntax),
        "K" => None,
        "" | "M" => Some(0),
        "G" => Some(10),
        "T" => Some(20),
        "P" => Some(30),
        _ => return Err(SizeError::Syntax),
    };
    let size = match shift {
        None => whole.div_ceil(1024),
        Some(shift) => {
            let extra = fraction.map_or(Ok(0), |fraction| fraction_of(fraction, shift))?;
            let size = whole.checked_mul(1 << shift).and_then(|size| size.checked_add(extra));
            size.ok_or(SizeError::TooLarge)?
        }
    };
    if size > 1 << 43 { Err(SizeError::TooLarge) } else { Ok(MiB(size)) }
}

fn fraction_of(digits: &str, shift: u32) -> Result<u64, SizeError> {
    if digits.is_empty() || digits.len() > 6 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(SizeError::Syntax);
    }
    let value: u64 = digits.parse().map_err(|_| SizeError::Syntax)?;
    let scale = 10u64.pow(digits.len() as u32);
    let scaled = value << shift;
    if scaled.is_multiple_of(scale) { Ok(scaled / scale) } else { Err(SizeError::Syntax) }
}

pub(crate) fn write_size(mib: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match mib {
        0 => f.write_str("0"),
        m if m.is_multiple_of(1 << 20) => write!(f, "{}T", m >> 20),
        m if m.is_multiple_of(1 << 10) => write!(f, "{}G", m >> 10),
        m => write!(f, "{m}M"),
    }
}

/// Writes a size in the largest unit that says it exactly.
pub fn format_size(size: MiB) -> String {
    size.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_written_form_is_read() {
        let ok = [
            ("512M", 512),
            ("40G", 40_960),
            ("1T", 1 << 20),
            ("40GB", 40_960),
            ("50gb", 51_200),
            ("8g", 8192),
            ("512MB", 512),
            ("1885M", 1885),
            ("4000", 4000),
            ("1K", 1),
            ("1025K", 2),
            ("1.5G", 1536),
            ("0", 0),
            ("2GiB", 2048),
        ];
        for (text, mib) in ok {
            assert_eq!(parse_size(text), Ok(MiB(mib)), "{text}");
        }
        for text in ["", "G", "abc", "-1", "1X", "1.5M", "1..5G", "B", "1GG", "NaN", "1e9"] {
            assert_eq!(parse_size(text), Err(SizeError::Syntax), "{text}");
        }
        for text in ["99999999999999999999M", "18446744073709551615G", "16384P"] {
            assert_eq!(parse_size(text), Err(SizeError::TooLarge), "{text}");
        }
    }

    /// In kibibytes any number was taken.
    #[test]
    fn the_largest_size_is_the_same_in_every_unit() {
        for (unit, largest) in
            [("K", 1u64 << 53), ("M", 1 << 43), ("G", 1 << 33), ("T", 1 << 23), ("P", 1 << 13)]
        {
            assert_eq!(parse_size(&alloc::format!("{largest}{unit}")), Ok(MiB(1 << 43)), "{unit}");
            for more in [largest + 1, u64::MAX] {
                assert_eq!(
                    parse_size(&alloc::format!("{more}{unit}")),
                    Err(SizeError::TooLarge),
                    "{more}{unit}"
                );
            }
        }
    }
}
