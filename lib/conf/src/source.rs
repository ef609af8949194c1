//! The text of a conf file as TOML. Where a line is none, says so, leaves it out and reads on; never says what keys mean.

use crate::mistake::{Notes, Span};
use toml_edit::{Document, TomlError};

/// Most lines that are left out before the rest is given up.
const MAX_HOLES: usize = 20;
/// Longest part of the file that is shown as it is, in bytes.
const MAX_SHOWN: usize = 60;

/// Reads the text as TOML and notes every place where it is none. Returns what can still be checked, if anything.
pub(crate) fn open(text: &str, notes: &mut Notes<'_>) -> Option<Document<String>> {
    let mut rest = text.to_string();
    for _ in 0..MAX_HOLES {
        let error = match Document::parse(rest.clone()) {
            Ok(document) => return Some(document),
            Err(error) => error,
        };
        let at = error.span().map_or(rest.len(), |s| s.start).min(rest.len());
        notes.add(&(at..at), format!("this is no TOML: {}", words(&error, &rest)), None);
        notes.has_holes = true;
        let line = line_at(&rest, at);
        if !stands_alone(&rest, &line) {
            return None;
        }
        let blank = " ".repeat(line.len());
        rest.replace_range(line, &blank);
    }
    None
}

fn words(error: &TomlError, text: &str) -> String {
    let message = error.message().lines().collect::<Vec<_>>().join(", ");
    match error.span().and_then(|at| text.get(at)) {
        Some(part) if !part.is_empty() && part.len() <= MAX_SHOWN => {
            format!("{message}; found `{}`", part.escape_debug())
        }
        _ => message,
    }
}

/// The line of the byte `at`, without its end.
fn line_at(text: &str, at: usize) -> Span {
    let start = text.get(..at).and_then(|t| t.rfind('\n')).map_or(0, |i| i + 1);
    let end = text.get(at..).and_then(|t| t.find('\n')).map_or(text.len(), |i| at + i);
    start..end
}

/// Whether the line can be left out without hurting its neighbours: it is a whole `key = value`, begun and ended on it.
fn stands_alone(text: &str, line: &Span) -> bool {
    let begun = text.get(..line.start).is_some_and(|before| Document::parse(before).is_ok());
    let Some(words) = text.get(line.clone()).map(str::trim) else { return false };
    if !begun || words.is_empty() || words.starts_with('[') || !words.contains('=') {
        return false;
    }
    let count = |c: char| words.matches(c).count();
    let many_lines = words.contains("\"\"\"") || words.contains("'''");
    !many_lines && count('[') == count(']') && count('{') == count('}')
}
