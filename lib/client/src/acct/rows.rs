//! Rows that are all known, printed as the options of [`super::forms`] say: as JSON, as comma-separated values, or as a table.

use super::{by::By, write_csv};
use crate::{
    out::Out,
    stat::{
        json,
        table::{Column, Table},
    },
    trouble::Trouble,
};
use clap::ArgMatches;
use serde_json::Value;

/// How rows of one kind look in each form.
pub(super) struct Forms<'s, P, R> {
    /// All of them in JSON.
    pub json: &'s dyn Fn() -> Value,
    /// The headings of the values with commas between.
    pub names: Vec<&'static str>,
    /// A row of these.
    pub line: &'s dyn Fn(&R) -> Vec<String>,
    /// The columns of the table.
    pub columns: Vec<Column<P>>,
    /// What is in one of them.
    pub cell: &'s dyn Fn(P, &R) -> String,
}

impl<P: Copy, R> Forms<'_, P, R> {
    /// Prints rows.
    pub(super) fn print(self, words: &ArgMatches, rows: &[R], out: &mut Out) -> Result<(), Trouble> {
        if words.get_flag("json") {
            json::write(out, &(self.json)()).map_err(|e| Trouble::of_output(&e))?;
            return out.put("\n");
        }
        let header = !words.get_flag("noheader");
        if words.get_flag("csv") {
            let heads = header.then(|| self.names.iter().map(|name| (*name).to_owned()).collect());
            let lines: Vec<Vec<String>> = heads.into_iter().chain(rows.iter().map(self.line)).collect();
            return write_csv(&lines, out);
        }
        let mut table = Table::new(self.columns, header);
        table.print(rows, out, |part, row, text| text.push_str(&(self.cell)(part, row)), |_, _| None)
    }
}

/// The headings of keys, as values with commas between have them.
pub(super) fn key_names(by: &[By]) -> impl Iterator<Item = &'static str> + '_ {
    by.iter().map(|(name, ..)| *name)
}

/// The columns of keys; `part` names one by its place.
pub(super) fn key_columns<P>(by: &[By], part: impl Fn(usize) -> P) -> Vec<Column<P>> {
    by.iter().enumerate().map(|(at, (.., head))| Column::new(part(at), head)).collect()
}

/// Keys as values with commas between.
pub(super) fn key_values(keys: &[Option<String>]) -> impl Iterator<Item = String> + '_ {
    keys.iter().map(|key| key.clone().unwrap_or_default())
}

/// A key in a table.
pub(super) fn key_cell(keys: &[Option<String>], at: usize) -> String {
    keys.get(at).cloned().flatten().unwrap_or_else(|| "-".to_owned())
}
