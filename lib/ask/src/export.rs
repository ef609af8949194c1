//! `--export`: which variables of the submitting environment go with the job. Bytes in, bytes out.

use crate::Problem;
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
};

/// Which variables go with the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Whether everything goes.
    pub all: bool,
    /// What is set besides, in order: a name with its value, or with none to take it over as it is.
    pub set: Vec<(OsString, Option<OsString>)>,
}

impl Default for Export {
    /// Everything goes.
    fn default() -> Self {
        Self { all: true, set: Vec::new() }
    }
}

impl Export {
    /// Reads `ALL`, `NONE`, or names and `NAME=value` joined by commas, `ALL` among them or not.
    ///
    /// A value that holds a comma stands in quotes: `A='x,y'`. A quote elsewhere in a value is part of it.
    pub(crate) fn read(text: &OsStr) -> Result<Self, Problem> {
        let mut export = Self { all: false, set: Vec::new() };
        let mut none = false;
        let items = split(text.as_bytes())?;
        for (name, value) in &items {
            let bad = |b: &u8| b.is_ascii_whitespace() || b.is_ascii_control() || matches!(b, b'\'' | b'"');
            if name.is_empty() || name.iter().any(bad) {
                return Err(Problem::Expected(
                    "ALL, NONE, NAME or NAME=value, joined by commas without blanks",
                ));
            }
            match value {
                None if name.eq_ignore_ascii_case(b"ALL") => export.all = true,
                None if name.eq_ignore_ascii_case(b"NONE") || name.eq_ignore_ascii_case(b"NIL") => {
                    none = true
                }
                value => export.set.push((os(name), value.map(os))),
            }
        }
        if none && items.len() > 1 {
            return Err(Problem::Other("NONE stands alone"));
        }
        Ok(export)
    }

    /// The job's environment out of the submitting one: `NAME=value` byte strings.
    pub fn choose(&self, environment: impl Iterator<Item = (OsString, OsString)>) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let mut found: Vec<(OsString, OsString)> = Vec::new();
        for (name, value) in environment {
            if self.set.iter().any(|(set, _)| *set == name) {
                found.push((name, value));
            } else if self.all {
                out.push(joined(&name, &value));
            }
        }
        for (at, (name, value)) in self.set.iter().enumerate() {
            if self.set.iter().skip(at + 1).any(|(later, _)| later == name) {
                continue;
            }
            let own = || found.iter().rev().find(|(n, _)| n == name).map(|(_, value)| value);
            if let Some(value) = value.as_ref().or_else(own) {
                out.push(joined(name, value));
            }
        }
        out
    }
}

fn os(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

fn joined(name: &OsStr, value: &OsStr) -> Vec<u8> {
    [name.as_bytes(), b"=", value.as_bytes()].concat()
}

type Item<'a> = (&'a [u8], Option<&'a [u8]>);

fn split(mut rest: &[u8]) -> Result<Vec<Item<'_>>, Problem> {
    let mut items = Vec::new();
    loop {
        let end = rest.iter().position(|b| matches!(b, b',' | b'=')).unwrap_or(rest.len());
        let (name, tail) = rest.split_at(end);
        let (value, tail) = match tail.split_first() {
            Some((b'=', tail)) => {
                let (value, tail) = split_value(tail)?;
                (Some(value), tail)
            }
            _ => (None, tail),
        };
        items.push((name, value));
        match tail.split_first() {
            None => return Ok(items),
            Some((_, tail)) => rest = tail,
        }
    }
}

/// The value at the beginning of `text`, and what follows it: nothing, or a comma and more.
fn split_value(text: &[u8]) -> Result<(&[u8], &[u8]), Problem> {
    if let Some((quote @ (b'\'' | b'"'), inner)) = text.split_first() {
        let closes = |at: &usize| {
            inner.get(*at) == Some(quote) && inner.get(at + 1).is_none_or(|after| *after == b',')
        };
        let end = (0..inner.len()).find(closes).ok_or(Problem::Other("a quote is not closed"))?;
        let (value, tail) = inner.split_at(end);
        return Ok((value, tail.get(1..).unwrap_or_default()));
    }
    Ok(text.split_at(text.iter().position(|b| *b == b',').unwrap_or(text.len())))
}
