//! Reads the log of Microsoft's Philly cluster in the form of one row for each job: `timestamp,duration,num_gpus,gpu_time,cluster`.
//!
//! Rows are not in order of time; the second 0 is that of the earliest. There are no time limits and no numbers: a job's limit is
//! its run time, its number is that of its row, and its virtual cluster is its account and stands for its user.

use crate::{
    table::{Row, Table, wrong},
    trace::{Gather, Reading, Trace, TraceJob, WHOLE},
    trouble::Trouble,
};
use jiff::civil::{DateTime, date};
use std::{io::BufRead, path::Path};

/// The columns that are read.
pub(crate) const COLUMNS: [&str; 4] = ["timestamp", "duration", "num_gpus", "cluster"];

/// Reads a whole log.
///
/// # Errors
/// When it cannot be read; when a row does not parse and the reading is strict.
pub(crate) fn read(from: impl BufRead, path: &Path, reading: Reading) -> Result<Trace, Trouble> {
    let mut gather = Gather::new(path, reading);
    let mut table = Table::open(from, path, COLUMNS)?;
    let mut number = 0;
    while !gather.is_full() {
        let Some(row) = table.next()? else { break };
        number += 1;
        match row {
            Row::Malformed(line, what) => gather.malformed(line, what)?,
            Row::Cells(cells, line) => match job(cells, number, line, &mut gather) {
                Ok(job) => gather.take(job)?,
                Err(what) => gather.malformed(line, what)?,
            },
        }
    }
    let mut trace = gather.trace;
    let first = trace.jobs.iter().map(|job| job.submit).min().unwrap_or_default();
    trace.jobs.iter_mut().for_each(|job| job.submit -= first);
    trace.notes.taken_as.push("a job's time limit is its run time: the log has none".to_owned());
    Ok(trace)
}

fn job(cells: [&str; 4], id: u64, line: u64, gather: &mut Gather<'_>) -> Result<TraceJob, String> {
    let [stamp, duration, cards, cluster] = cells;
    let at: DateTime =
        stamp.parse().map_err(|_| format!("`timestamp` is no date and time: `{}`", stamp.escape_debug()))?;
    // Only differences matter: the log says no time zone.
    let at = at.duration_since(date(1970, 1, 1).at(0, 0, 0, 0)).as_secs();
    let seconds: f64 = duration.parse().map_err(|_| wrong("duration", duration))?;
    if !seconds.is_finite() {
        return Err(wrong("duration", duration));
    }
    let run = seconds.ceil() as i64;
    let names = &mut gather.trace.names;
    Ok(TraceJob {
        id,
        submit: at,
        run,
        estimate: run,
        cards: cards.parse().map_err(|_| wrong("num_gpus", cards))?,
        card_milli: WHOLE,
        user: names.of(cluster),
        account: names.of(cluster),
        line,
        ..TraceJob::default()
    })
}
