//! Reads tables of comma-separated values by the names of their columns. Knows no log.

use crate::trouble::Trouble;
use csv::{ErrorKind, Reader, ReaderBuilder, StringRecord};
use std::{io::BufRead, path::Path};

/// A table with some columns that its reader wants, `N` of them.
pub(crate) struct Table<'a, const N: usize> {
    rows: Reader<Box<dyn BufRead + 'a>>,
    row: StringRecord,
    places: [usize; N],
    width: usize,
    path: &'a Path,
}

/// What stands in the next row.
pub(crate) enum Row<'r, const N: usize> {
    /// The wanted cells, in the order of the columns that were named, and the line.
    Cells([&'r str; N], u64),
    /// Something that is no row of this table, with the line.
    Malformed(u64, String),
}

impl<'a, const N: usize> Table<'a, N> {
    /// Reads the head of a table.
    pub(crate) fn open(
        from: impl BufRead + 'a,
        path: &'a Path,
        columns: [&'static str; N],
    ) -> Result<Self, Trouble> {
        let from: Box<dyn BufRead + 'a> = Box::new(from);
        let mut rows = ReaderBuilder::new().flexible(true).from_reader(from);
        let head = rows.headers().map_err(|e| Trouble::unread(path, &e))?;
        let mut places = [0; N];
        for (column, place) in columns.iter().zip(&mut places) {
            *place = head.iter().position(|name| name.trim() == *column).ok_or_else(|| {
                let text = format!("{}:1: there is no column `{column}`", path.display());
                Trouble::usage(text).hint(format!("the first line names columns: {}", columns.join(",")))
            })?;
        }
        let width = head.len();
        Ok(Self { rows, row: StringRecord::new(), places, width, path })
    }

    /// The next row, if there is one.
    pub(crate) fn next(&mut self) -> Result<Option<Row<'_, N>>, Trouble> {
        let there = match self.rows.read_record(&mut self.row) {
            Ok(there) => there,
            Err(error) => {
                let line = error.position().map_or(0, csv::Position::line);
                return match error.kind() {
                    ErrorKind::Utf8 { .. } => Ok(Some(Row::Malformed(line, "is no text".to_owned()))),
                    _ => Err(Trouble::unread(self.path, &error)),
                };
            }
        };
        if !there {
            return Ok(None);
        }
        let line = self.row.position().map_or(0, csv::Position::line);
        if self.row.len() != self.width {
            let what = format!("has {} cells, the first line {}", self.row.len(), self.width);
            return Ok(Some(Row::Malformed(line, what)));
        }
        Ok(Some(Row::Cells(self.places.map(|place| self.row.get(place).unwrap_or_default().trim()), line)))
    }
}

/// What is wrong with a cell that should be a number.
pub(crate) fn wrong(column: &str, cell: &str) -> String {
    format!("`{column}` is no number: `{}`", cell.escape_debug())
}
