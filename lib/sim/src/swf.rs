//! Reads the Standard Workload Format (SWF): a line of 18 numbers for each job, -1 for what is not known, `;` before a comment.
//!
//! Source: the Parallel Workloads Archive's definition of the format, version 2.2.

use crate::{
    trace::{Gather, Reading, Trace, TraceJob, next_line},
    trouble::Trouble,
};
use gq_model::MiB;
use std::{io::BufRead, path::Path};

/// Numbers in a line.
const FIELDS: usize = 18;

/// Reads a whole log.
///
/// # Errors
/// When it cannot be read; when a line does not parse and the reading is strict.
pub(crate) fn read(mut from: impl BufRead, path: &Path, reading: Reading) -> Result<Trace, Trouble> {
    let mut gather = Gather::new(path, reading);
    let mut line = Vec::with_capacity(256);
    let mut number = 0;
    while !gather.is_full() && next_line(&mut from, &mut line, path)? {
        number += 1;
        let text = match std::str::from_utf8(&line) {
            Ok(text) => text.trim(),
            Err(_) if line.trim_ascii_start().starts_with(b";") => continue,
            Err(_) => {
                gather.malformed(number, "is no text")?;
                continue;
            }
        };
        if text.is_empty() || text.starts_with(';') {
            continue;
        }
        match job(text, number, &mut gather) {
            Ok(job) => gather.take(job)?,
            Err(what) => gather.malformed(number, what)?,
        }
    }
    Ok(gather.trace)
}

/// The job of one line.
fn job(text: &str, line: u64, gather: &mut Gather<'_>) -> Result<TraceJob, String> {
    let mut words = [""; FIELDS];
    let mut count = 0;
    for word in text.split_ascii_whitespace() {
        if let Some(place) = words.get_mut(count) {
            *place = word;
        }
        count += 1;
    }
    if count != FIELDS {
        return Err(format!("has {count} numbers; a job of SWF has {FIELDS}"));
    }
    let field = |at: usize| -> Result<i64, String> {
        let word = words.get(at - 1).copied().unwrap_or_default();
        let decimal = || word.parse::<f64>().ok().filter(|n| n.is_finite()).map(|n| n as i64);
        word.parse().ok().or_else(decimal).ok_or_else(|| format!("number {at} is none: `{word}`"))
    };
    let id = u64::try_from(field(1)?).map_err(|_| "the job's number is negative".to_owned())?;
    let procs = if field(8)? > 0 { field(8)? } else { field(5)? };
    let run = field(4)?;
    let estimate = if field(9)? > 0 { field(9)? } else { run };
    // In KiB for each processor.
    let memory = u64::try_from(field(10)?.max(0)).unwrap_or(0).saturating_mul(procs.max(0).unsigned_abs());
    let names = &mut gather.trace.names;
    let mut name = |at: usize, what: &str| {
        let word = words.get(at - 1).copied().unwrap_or_default();
        if word.starts_with('-') { names.of("") } else { names.of(&format!("{what}{word}")) }
    };
    Ok(TraceJob {
        id,
        submit: field(2)?,
        run,
        estimate,
        cpus: u32::try_from(procs.max(0)).unwrap_or(u32::MAX),
        memory: MiB(memory.div_ceil(1024)),
        user: name(12, "u"),
        account: name(13, "g"),
        partition: name(16, "p"),
        line,
        ..TraceJob::default()
    })
}
