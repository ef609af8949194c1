//! Arrays as they are asked for: `0-99`, `1-9:2`, `1,4,7-9`, `[3,4,9]`, and `%K` for so many at a time.

use crate::IndexSet;
use alloc::{
    string::{String, ToString},
    vec::Vec,
};
use core::{fmt, str::FromStr};
use serde::{Deserialize, Serialize};

/// Most tasks an array may have, whatever a conf says: what is counted before anything is made of it.
pub const MAX_TASKS: u64 = 4_000_000;
/// Most separate ranges of indices: each costs as much as a million tasks in a row.
pub const MAX_RANGES: usize = 16_384;
/// Most separate ranges that what is held, or what waits, of an array may come to lie in: a job is written as a whole.
pub const MAX_SCATTER: usize = 4 * MAX_RANGES;
/// Longest text of an array, in bytes.
const MAX_TEXT: usize = 64 << 10;
/// Most ranges and single indices that are put together to a set, where some of them meet.
const MAX_PIECES: usize = MAX_SCATTER;

/// An array: its tasks, and how many may run at a time. Its serial form is its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayAsk {
    /// As it was said.
    text: String,
    /// The indices of its tasks; at least one.
    pub tasks: IndexSet,
    /// How many may run at a time; none means as many as fit.
    pub at_once: Option<u32>,
    /// The distance of its indices, where the text says one (`1-9:2`); else 1.
    pub step: u32,
}

/// Why a text is no array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayError {
    /// It cannot be read.
    Syntax,
    /// It has more tasks than an array may have.
    TooMany,
    /// Its indices lie in more separate ranges than an array may have.
    TooScattered,
}

impl fmt::Display for ArrayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax => f.write_str(
                "expected indices such as 0-99, 1-9:2 or 1,4,7-9, and behind % how many may run at a time",
            ),
            Self::TooMany => write!(f, "more than {MAX_TASKS} tasks"),
            Self::TooScattered => {
                write!(f, "more than {MAX_RANGES} separate ranges of indices: number the tasks in a row")
            }
        }
    }
}
impl core::error::Error for ArrayError {}

impl ArrayAsk {
    /// An array of these tasks.
    pub fn of(tasks: IndexSet, at_once: Option<u32>) -> Self {
        let limit = at_once.map_or_else(String::new, |n| alloc::format!("%{n}"));
        Self { text: alloc::format!("{tasks}{limit}"), tasks, at_once, step: 1 }
    }
}

impl IndexSet {
    /// Reads `0-99`, `1-9:2`, `1,4,7-9`, with brackets around it or not. Also returns the step, where one range says one, else 1.
    ///
    /// # Errors
    /// [`ArrayError`]; nothing large is made of what is too large.
    pub fn read(text: &str) -> Result<(Self, u32), ArrayError> {
        let inner = match text.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').ok_or(ArrayError::Syntax)?,
            None => text,
        };
        let (mut pieces, mut count, mut step_said) = (Vec::new(), 0u64, 1u32);
        for part in inner.split(',') {
            let (range, step) = match part.split_once(':') {
                Some((range, step)) => (range, number(step)?),
                None => (part, 1),
            };
            let (first, last) = match range.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None if step != 1 => return Err(ArrayError::Syntax),
                None => (number(range)?, number(range)?),
            };
            if last < first || step == 0 || (part.contains(':') && step > (last - first).max(1)) {
                return Err(ArrayError::Syntax);
            }
            step_said = step_said.max(step);
            count = count.saturating_add(u64::from((last - first) / step) + 1);
            if count > MAX_TASKS {
                return Err(ArrayError::TooMany);
            }
            if step == 1 {
                pieces.push((first, last));
            } else {
                if u64::from((last - first) / step) >= (MAX_PIECES - pieces.len()) as u64 {
                    return Err(ArrayError::TooScattered);
                }
                pieces.extend((first..=last).step_by(step as usize).map(|index| (index, index)));
            }
            if pieces.len() >= MAX_PIECES {
                return Err(ArrayError::TooScattered);
            }
        }
        let set = Self::of_ranges(pieces);
        if set.ranges().len() > MAX_RANGES {
            return Err(ArrayError::TooScattered);
        }
        Ok((set, step_said))
    }
}

fn number(text: &str) -> Result<u32, ArrayError> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(ArrayError::Syntax);
    }
    text.parse().map_err(|_| ArrayError::TooMany)
}

impl FromStr for ArrayAsk {
    type Err = ArrayError;
    fn from_str(text: &str) -> Result<Self, ArrayError> {
        if text.len() > MAX_TEXT {
            return Err(ArrayError::TooScattered);
        }
        let (indices, at_once) = match text.split_once('%') {
            Some((indices, most)) => (indices, Some(number(most)?)),
            None => (text, None),
        };
        let (tasks, step) = IndexSet::read(indices)?;
        // As in Slurm, %0 means no limit.
        Ok(Self { text: text.to_string(), tasks, at_once: at_once.filter(|n| *n > 0), step })
    }
}

impl fmt::Display for ArrayAsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for ArrayAsk {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}
impl<'de> Deserialize<'de> for ArrayAsk {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_read_as_slurm_reads_them_and_nothing_large_is_made_of_mistakes() {
        for (text, tasks, count, at_once, step) in [
            ("0", "0", 1, None, 1),
            ("0-3", "0-3", 4, None, 1),
            ("1-9:2", "1,3,5,7,9", 5, None, 2),
            ("1,4,7-9", "1,4,7-9", 5, None, 1),
            ("[3,4,9]", "3-4,9", 3, None, 1),
            ("0-99%10", "0-99", 100, Some(10), 1),
            ("[0-5]%2", "0-5", 6, Some(2), 1),
            ("0-3%0", "0-3", 4, None, 1),
            ("5,5,1-6", "1-6", 6, None, 1),
            ("0-999999", "0-999999", 1_000_000, None, 1),
        ] {
            let ask: ArrayAsk = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!((ask.tasks.to_string().as_str(), ask.tasks.len()), (tasks, count), "{text}");
            assert_eq!((ask.at_once, ask.step, ask.to_string().as_str()), (at_once, step, text));
        }
        for bad in [
            "",
            "-",
            "1-",
            "-1",
            "a",
            "1,",
            ",1",
            "3-1",
            "1-2-3",
            "[1",
            "1]",
            "1%",
            "1%x",
            "1:2",
            "1-5:0",
            "1-234/5678",
            "1-4:99999999999",
            "1-4:9",
            "0-4294967295",
            "0-4294967296",
            "1 2",
            "+1",
        ] {
            assert!(bad.parse::<ArrayAsk>().is_err(), "{bad}");
        }
        assert_eq!("0-9999999:2".parse::<ArrayAsk>(), Err(ArrayError::TooMany));
        assert_eq!("0-999999:2".parse::<ArrayAsk>(), Err(ArrayError::TooScattered));
    }

    /// Four kilobytes of these took seconds: every index was put before all others, and then between two of them.
    #[test]
    fn ranges_that_fill_each_others_holes_are_put_together_at_once_or_refused() {
        let holes = |from: u32, width: u32| {
            alloc::format!("{from}-{}:2,{}-{}:2", from + width, from + 1, from + width - 1)
        };
        let few: ArrayAsk = [holes(400, 100), holes(0, 200), holes(200, 200)].join(",").parse().unwrap();
        assert_eq!(few.tasks.ranges(), [(0, 500)]);
        let many: Vec<String> = (0..100).rev().map(|n| holes(n * 32_010, 32_000)).collect();
        assert_eq!(many.join(",").parse::<ArrayAsk>(), Err(ArrayError::TooScattered));
    }
}
