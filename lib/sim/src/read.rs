//! Reads a log of any known form. Tells the form by the content when nobody says it.

use crate::{
    alibaba, history, philly, swf,
    trace::{Reading, Trace, open},
    trouble::Trouble,
};
use std::path::Path;

/// How a database of SQLite begins.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// The form of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The Standard Workload Format.
    Swf,
    /// Microsoft's Philly cluster.
    Philly,
    /// Alibaba's GPU cluster of 2023.
    Alibaba,
    /// A `gq.db`.
    History,
}

impl Format {
    /// All forms.
    pub(crate) const ALL: [Self; 4] = [Self::Swf, Self::Philly, Self::Alibaba, Self::History];

    /// Its name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Swf => "swf",
            Self::Philly => "philly",
            Self::Alibaba => "alibaba",
            Self::History => "history",
        }
    }

    /// The form of a log that begins with `head`.
    fn of(head: &[u8]) -> Self {
        let first = head.split(|b| *b == b'\n').next().unwrap_or_default();
        let names =
            |column: &str| first.split(|b| *b == b',').any(|cell| cell.trim_ascii() == column.as_bytes());
        if head.starts_with(SQLITE) {
            Self::History
        } else if philly::COLUMNS.iter().all(|column| names(column)) {
            Self::Philly
        } else if alibaba::COLUMNS.iter().all(|column| names(column)) {
            Self::Alibaba
        } else {
            Self::Swf
        }
    }
}

/// Reads the log at `path`; returns the form it was read as, too.
///
/// # Errors
/// When it cannot be read; when a line does not parse and the reading is strict; when no line is a job.
pub(crate) fn read(
    path: &Path,
    format: Option<Format>,
    reading: Reading,
) -> Result<(Format, Trace), Trouble> {
    let mut from = open(path)?;
    let head = from.fill_buf().map_err(|e| Trouble::unread(path, &e))?;
    let format = format.unwrap_or_else(|| Format::of(head));
    if alibaba::NODE_COLUMNS.join(",").as_bytes() == head.split(|b| *b == b'\n').next().unwrap_or_default() {
        let text = format!("{}: is a list of nodes, not a log", path.display());
        return Err(Trouble::usage(text).hint(format!("gqsim LOG --nodes {}", path.display())));
    }
    let trace = match format {
        Format::Swf => swf::read(from, path, reading),
        Format::Philly => philly::read(from, path, reading),
        Format::Alibaba => alibaba::read(from, path, reading),
        Format::History => history::read(path, reading),
    }?;
    if trace.jobs.is_empty() {
        let notes = &trace.notes;
        let mut text = format!("{}: no job in it, read as {}", path.display(), format.name());
        if let Some(first) = notes.kept.first() {
            text.push_str(&format!("; {} lines do not parse, the first: {first}", notes.malformed));
        } else if notes.dropped.total() > 0 {
            text.push_str(&format!("; {} jobs were left out", notes.dropped.total()));
        }
        let hint = match format {
            Format::History => history::WHOLE_COPY,
            _ => "--format swf|philly|alibaba|history says what it is",
        };
        return Err(Trouble::usage(text).hint(hint));
    }
    Ok((format, trace))
}
