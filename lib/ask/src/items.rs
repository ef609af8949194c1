//! `--each`: a file of which every line is what one task of an array is for.

use crate::Problem;
use gq_model::{MAX_ITEM, MAX_JOB_FILE, MAX_TASKS};

/// Largest file of lines, in bytes: it has to fit into the job file.
pub(crate) const MAX_ITEMS: usize = MAX_JOB_FILE;

/// Cuts a file into lines. Every line is a task, empty ones too; the last one may lack its end.
///
/// # Errors
/// The line, from 1, and what is wrong with it; line 0 is the whole file.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Vec<u8>>, (usize, Problem)> {
    if bytes.is_empty() {
        return Err((0, Problem::Other("the file is empty: an array has at least one task")));
    }
    if bytes.len() > MAX_ITEMS {
        return Err((0, Problem::TooLong(bytes.len(), MAX_ITEMS)));
    }
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let mut items = Vec::new();
    for (item, line) in body.split(|b| *b == b'\n').zip(1..) {
        if item.ends_with(b"\r") {
            return Err((line, Problem::Other("the line ends in CR LF, as on Windows")));
        }
        if item.contains(&0) {
            return Err((line, Problem::Other("a NUL byte: no variable can hold it")));
        }
        if item.len() > MAX_ITEM {
            return Err((line, Problem::TooLong(item.len(), MAX_ITEM)));
        }
        items.push(item.to_vec());
    }
    if items.len() as u64 > MAX_TASKS { Err((0, Problem::Other("too many lines"))) } else { Ok(items) }
}
