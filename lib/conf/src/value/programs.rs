//! Readers of what the site has run: programs, their arguments, and how long they may take.

use super::{MAX_PATH, kill_wait, list, some_duration, span_of, text};
use crate::mistake::{Notes, Span};
use gq_model::Seconds;
use toml_edit::Value;

/// Most words of a program's argument vector, and the longest of them, in bytes.
const MAX_WORDS: usize = 64;
const MAX_WORD: usize = 4096;
/// Most arguments of a command.
const MAX_ARGUMENTS: usize = 256;
/// Longest time that a program of the site may take.
const MAX_HOOK_TIME: Seconds = Seconds(600);

/// A program as an argument vector, whose first word is an absolute path; an empty list is none.
pub(crate) fn program(value: &Value, notes: &mut Notes<'_>) -> Option<Vec<String>> {
    let what = "a list of words, such as [\"/usr/sbin/sendmail\", \"-t\"]";
    let words = list(value, notes, what, |value, notes| {
        let word = text(value, notes, "a word in quotes")?;
        if word.len() <= MAX_WORD && !word.contains('\0') {
            return Some(word.to_string());
        }
        notes.add(&span_of(value), format!("expected a word of at most {MAX_WORD} bytes without NUL"), None);
        None
    })?;
    if let Some((first, at)) = words.first().filter(|(first, _)| !first.starts_with('/')) {
        let wrong = format!("expected the absolute path of a program, found `{}`", first.escape_debug());
        notes.add(at, wrong, None);
        return None;
    }
    if words.len() > MAX_WORDS {
        notes.add(&span_of(value), format!("expected {MAX_WORDS} words at most"), None);
        return None;
    }
    Some(words.into_iter().map(|(word, _)| word).collect())
}

/// How long a program of the site may take.
pub(crate) fn hook_time(value: &Value, notes: &mut Notes<'_>) -> Option<Seconds> {
    let span = some_duration(value, notes)?;
    if span <= MAX_HOOK_TIME {
        return Some(span);
    }
    notes.add(&span_of(value), format!("expected 10 minutes at most, found {span}"), None);
    None
}

/// How long the programs of a folder may take.
pub(crate) fn folder_time(value: &Value, notes: &mut Notes<'_>) -> Option<Seconds> {
    some_duration(value, notes)?;
    kill_wait(value, notes)
}

/// Arguments of a command, each with its place.
pub(crate) type Arguments = Vec<(String, Span)>;

/// The arguments of a command; empty ones, and words of any kind, may be among them.
pub(crate) fn arguments(value: &Value, notes: &mut Notes<'_>) -> Option<Arguments> {
    let arguments = list(value, notes, "a list of arguments, such as [\"apptainer\", \"exec\"]", argument)?;
    if arguments.len() > MAX_ARGUMENTS {
        let words = format!("a command may have {MAX_ARGUMENTS} arguments at most");
        notes.add(&span_of(value), words, None);
        return None;
    }
    Some(arguments)
}

fn argument(value: &Value, notes: &mut Notes<'_>) -> Option<String> {
    let argument = text(value, notes, "an argument in quotes")?;
    if argument.len() <= MAX_PATH && !argument.contains('\0') {
        return Some(argument.to_string());
    }
    notes.add(&span_of(value), format!("expected an argument of at most {MAX_PATH} bytes without NUL"), None);
    None
}
