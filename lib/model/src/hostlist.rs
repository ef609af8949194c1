//! Host lists: `ws[1-4,7]`, `a,b`, `n[001-128]`, written out and written together again.

use crate::NodeName;
use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

/// Most names one list may stand for.
pub const MAX_HOSTS: usize = 65_536;

/// Why a host list was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostListError {
    /// A bracket is missing or nested, or a range is none.
    Syntax(String),
    /// A name that no node can have.
    BadName(String),
    /// More than [`MAX_HOSTS`] names.
    TooMany,
}

impl fmt::Display for HostListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(part) => write!(
                f,
                "`{}` is no host list: expected names such as ws1 or ws[1-4,7]",
                part.escape_debug()
            ),
            Self::BadName(name) => {
                write!(f, "`{}` is no node name: at most 63 letters, digits, - _ .", name.escape_debug())
            }
            Self::TooMany => write!(f, "more than {MAX_HOSTS} names"),
        }
    }
}
impl core::error::Error for HostListError {}

/// Writes a host list out: each name once, in the order written.
///
/// # Errors
/// [`HostListError`] when it is no list of node names.
pub fn expand_hosts(list: &str) -> Result<Vec<NodeName>, HostListError> {
    let mut names = Vec::new();
    for part in split_outside_brackets(list)? {
        let part = part.trim();
        if part.is_empty() {
            return Err(HostListError::Syntax(list.to_string()));
        }
        expand_part(part, String::new(), &mut names)?;
    }
    let mut seen = alloc::collections::BTreeSet::new();
    names.retain(|n: &NodeName| seen.insert(n.clone()));
    Ok(names)
}

fn split_outside_brackets(list: &str) -> Result<Vec<&str>, HostListError> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0u32, 0);
    for (at, c) in list.char_indices() {
        match c {
            '[' if depth == 0 => depth = 1,
            ']' if depth == 1 => depth = 0,
            '[' | ']' => return Err(HostListError::Syntax(list.to_string())),
            ',' if depth == 0 => {
                parts.push(list.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    if depth != 0 {
        return Err(HostListError::Syntax(list.to_string()));
    }
    parts.push(list.get(start..).unwrap_or_default());
    Ok(parts)
}

fn expand_part(rest: &str, prefix: String, names: &mut Vec<NodeName>) -> Result<(), HostListError> {
    let Some((before, after)) = rest.split_once('[') else {
        let name = prefix + rest;
        if names.len() >= MAX_HOSTS {
            return Err(HostListError::TooMany);
        }
        names.push(name.parse().map_err(|_| HostListError::BadName(name))?);
        return Ok(());
    };
    let syntax = || HostListError::Syntax(rest.to_string());
    let (ranges, after) = after.split_once(']').ok_or_else(syntax)?;
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let digits = |s: &str| !s.is_empty() && s.len() <= 9 && s.bytes().all(|b| b.is_ascii_digit());
        if !digits(first) || !digits(last) {
            return Err(syntax());
        }
        let width = first.len();
        let (a, b): (u32, u32) = (first.parse().map_err(|_| syntax())?, last.parse().map_err(|_| syntax())?);
        if b < a {
            return Err(syntax());
        }
        if (b - a) as usize >= MAX_HOSTS {
            return Err(HostListError::TooMany);
        }
        for number in a..=b {
            expand_part(after, format!("{prefix}{before}{number:0width$}"), names)?;
        }
    }
    Ok(())
}

/// Writes names together: `ws[1-4,7]`; names without a number stand alone, in order.
pub fn compress_hosts<'a>(names: impl IntoIterator<Item = &'a NodeName>) -> String {
    let mut groups: BTreeMap<(&str, usize), crate::IndexSet> = BTreeMap::new();
    let mut alone: Vec<&str> = Vec::new();
    let mut parts: Vec<(&str, &str)> = Vec::new();
    for name in names {
        let name = name.as_str();
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        if digits == 0 || digits > 9 {
            alone.push(name)
        } else {
            parts.push(name.split_at(name.len() - digits))
        }
    }
    let is_padded = |number: &str| number.len() > 1 && number.starts_with('0');
    let padded: alloc::collections::BTreeSet<(&str, usize)> =
        parts.iter().filter(|(_, n)| is_padded(n)).map(|(stem, n)| (*stem, n.len())).collect();
    for (stem, number) in parts {
        let width = if padded.contains(&(stem, number.len())) { number.len() } else { 0 };
        if let Ok(n) = number.parse() {
            groups.entry((stem, width)).or_default().insert(n);
        }
    }
    let mut out: Vec<String> = alone.into_iter().map(ToString::to_string).collect();
    for ((stem, width), set) in groups {
        let ranges: Vec<String> = set
            .ranges()
            .iter()
            .map(|(a, b)| if a == b { format!("{a:0width$}") } else { format!("{a:0width$}-{b:0width$}") })
            .collect();
        let single = set.len() == 1;
        let inner = ranges.join(",");
        out.push(if single { format!("{stem}{inner}") } else { format!("{stem}[{inner}]") });
    }
    out.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Result<Vec<String>, HostListError> {
        expand_hosts(list).map(|v| v.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn lists_are_written_out_and_together_again() {
        assert_eq!(names("ws[1-3,7],gpu").unwrap(), ["ws1", "ws2", "ws3", "ws7", "gpu"]);
        assert_eq!(names("n[08-11]").unwrap(), ["n08", "n09", "n10", "n11"]);
        assert_eq!(names("r[1-2]n[1-2]").unwrap(), ["r1n1", "r1n2", "r2n1", "r2n2"]);
        assert_eq!(names("a,a").unwrap(), ["a"]);
        for (list, short) in [("ws[1-3,7],gpu", "gpu,ws[1-3,7]"), ("n[08-11]", "n[08-11]"), ("x5", "x5")] {
            assert_eq!(compress_hosts(&expand_hosts(list).unwrap()), short);
            assert_eq!(
                expand_hosts(&compress_hosts(&expand_hosts(list).unwrap())).unwrap().len(),
                expand_hosts(list).unwrap().len()
            );
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for bad in [
            "",
            "a,,b",
            "ws[1-",
            "ws]1[",
            "ws[[1]]",
            "ws[3-1]",
            "ws[a-b]",
            "a b",
            "-x",
            "ws[]",
            "ws[1-4294967295]",
        ] {
            assert!(expand_hosts(bad).is_err(), "{bad}");
        }
        assert_eq!(expand_hosts("a[1-60000]b[1-60000]"), Err(HostListError::TooMany));
    }
}
