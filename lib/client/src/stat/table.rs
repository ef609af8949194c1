//! Tables that are printed as their rows arrive: the first rows decide how wide the columns are. Nothing is cut unless a
//! terminal is too narrow or a width was asked for.

use crate::{escape::shown, out::Out, trouble::Trouble};
use anstyle::Style;
use std::borrow::Cow;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What stands at the end of a text that was cut for a terminal.
const MORE: char = '…';

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column<T> {
    /// What is in it.
    pub of: T,
    /// Its heading.
    pub head: &'static str,
    /// Whether it is read from the right.
    pub right: bool,
    /// Its exact width, when one was asked for.
    pub fixed: Option<usize>,
    /// How wide it is at least, so that rows that come later still fit.
    pub roomy: usize,
    /// To how few places it may be cut on a narrow terminal; none means never.
    pub least: Option<usize>,
}

impl<T> Column<T> {
    /// A column as wide as what is in it.
    pub(crate) fn new(of: T, head: &'static str) -> Self {
        Self { of, head, right: false, fixed: None, roomy: 1, least: None }
    }
}

/// A table on its way out.
pub(crate) struct Table<T> {
    columns: Vec<Column<T>>,
    widths: Vec<usize>,
    header: bool,
}

/// How many places a text takes.
pub(crate) fn places(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

/// Cuts a text to `width` places, with `end` in the last one when something is cut.
pub(crate) fn cut(text: &str, width: usize, end: Option<char>) -> Cow<'_, str> {
    if places(text) <= width {
        return Cow::Borrowed(text);
    }
    let room = width.saturating_sub(usize::from(end.is_some()));
    let (mut taken, mut used) = (0, 0);
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > room {
            break;
        }
        taken += c.len_utf8();
    }
    let start = text.get(..taken).unwrap_or_default();
    match end {
        Some(end) if width > 0 => Cow::Owned(format!("{start}{end}")),
        _ => Cow::Borrowed(start),
    }
}

/// Writes `text` behind `line`, filled up to `width` places.
pub(crate) fn pad(line: &mut String, text: &str, width: usize, right: bool) {
    let fill = width.saturating_sub(places(text));
    if right {
        line.extend(std::iter::repeat_n(' ', fill));
    }
    line.push_str(text);
    if !right {
        line.extend(std::iter::repeat_n(' ', fill));
    }
}

impl<T: Copy> Table<T> {
    /// A table with these columns; its header is printed before the first rows.
    pub(crate) fn new(columns: Vec<Column<T>>, header: bool) -> Self {
        Self { columns, widths: Vec::new(), header }
    }

    /// Prints rows. `write` writes what column `of` says of a row, unescaped; `style` gives its colours.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn print<R>(
        &mut self,
        rows: &[R],
        out: &mut Out,
        write: impl Fn(T, &R, &mut String),
        style: impl Fn(T, &R) -> Option<Style>,
    ) -> Result<(), Trouble> {
        let mut cells: Vec<String> = Vec::with_capacity(rows.len() * self.columns.len());
        for row in rows {
            for column in &self.columns {
                let mut cell = String::new();
                write(column.of, row, &mut cell);
                cells.push(match shown(&cell) {
                    Cow::Borrowed(_) => cell,
                    Cow::Owned(escaped) => escaped,
                });
            }
        }
        let mut line = String::new();
        if self.widths.is_empty() {
            self.widths = self.measure(&cells, out.width);
            if self.header {
                let heads: Vec<String> = self.columns.iter().map(|c| c.head.to_owned()).collect();
                let bold = out.colour.then(|| Style::new().bold());
                self.line(&mut line, &heads, out.width, |_| bold);
                out.put(&line)?;
            }
        }
        for (row, cells) in rows.iter().zip(cells.chunks(self.columns.len().max(1))) {
            line.clear();
            self.line(&mut line, cells, out.width, |of| if out.colour { style(of, row) } else { None });
            out.put(&line)?;
        }
        Ok(())
    }

    fn measure(&self, cells: &[String], terminal: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> =
            self.columns.iter().map(|c| if self.header { places(c.head) } else { 0 }.max(c.roomy)).collect();
        for row in cells.chunks(self.columns.len().max(1)) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(places(cell));
            }
        }
        for (width, column) in widths.iter_mut().zip(&self.columns) {
            *width = column.fixed.unwrap_or(*width);
        }
        if let Some(terminal) = terminal {
            self.squeeze(&mut widths, terminal);
        }
        widths
    }

    /// Makes the columns that may be cut narrower, the widest first, until the line fits.
    fn squeeze(&self, widths: &mut [usize], terminal: usize) {
        let gaps = self.columns.len().saturating_sub(1);
        // The last column takes what is left; it is cut as the line is written.
        let total = |widths: &[usize]| {
            let (last, others) = widths.split_last().map_or((0, widths), |(last, others)| (*last, others));
            others.iter().sum::<usize>() + gaps + last.min(16)
        };
        while total(widths) > terminal {
            let widest = widths
                .iter_mut()
                .zip(&self.columns)
                .filter(|(width, c)| c.fixed.is_none() && c.least.is_some_and(|least| **width > least))
                .max_by_key(|(width, _)| **width);
            match widest {
                Some((width, _)) => *width -= 1,
                None => break,
            }
        }
    }

    fn line(
        &self,
        line: &mut String,
        cells: &[String],
        terminal: Option<usize>,
        style: impl Fn(T) -> Option<Style>,
    ) {
        let mut used = 0;
        let last = self.columns.len().saturating_sub(1);
        for (at, ((column, width), cell)) in self.columns.iter().zip(&self.widths).zip(cells).enumerate() {
            if at > 0 {
                line.push(' ');
                used += 1;
            }
            let may_cut = terminal.is_some() && (column.least.is_some() || at == last);
            let text = match (column.fixed, terminal) {
                (Some(fixed), _) => cut(cell, fixed, None),
                (None, Some(terminal)) if at == last => {
                    cut(cell, terminal.saturating_sub(used).max(1), Some(MORE))
                }
                (None, _) if may_cut => cut(cell, *width, Some(MORE)),
                (None, _) => Cow::Borrowed(cell.as_str()),
            };
            let width = if at == last && !column.right { 0 } else { *width };
            match style(column.of) {
                None => pad(line, &text, width, column.right),
                Some(style) => {
                    line.push_str(&style.render().to_string());
                    pad(line, &text, width, column.right);
                    line.push_str(&style.render_reset().to_string());
                }
            }
            used += width.max(places(&text));
        }
        line.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_by_places_and_never_inside_a_character() {
        for (text, width, end, seen) in [
            ("short", 8, Some(MORE), "short"),
            ("a longer name", 8, Some(MORE), "a longe…"),
            ("a longer name", 8, None, "a longer"),
            ("漢字漢字", 5, Some(MORE), "漢字…"),
            ("漢字漢字", 4, Some(MORE), "漢…"),
            ("漢字", 1, None, ""),
            ("abc", 1, Some(MORE), "…"),
            ("abc", 0, Some(MORE), ""),
        ] {
            assert_eq!(cut(text, width, end), seen, "{text} {width}");
        }
        for (text, right, seen) in [("ab", false, "ab  |"), ("ab", true, "  ab|"), ("漢", true, "  漢|")] {
            let mut line = String::new();
            pad(&mut line, text, 4, right);
            assert_eq!(line + "|", seen);
        }
    }

    #[test]
    fn a_narrow_terminal_cuts_what_may_be_cut() {
        let mut columns: Vec<Column<usize>> =
            ["ID", "NAME", "WHERE"].into_iter().enumerate().map(|(at, head)| Column::new(at, head)).collect();
        columns[0].right = true;
        columns[1].least = Some(4);
        let mut table = Table::new(columns, true);
        let cells: Vec<String> =
            ["123456789", "a name of some length", "(Resources)"].map(str::to_owned).to_vec();
        table.widths = table.measure(&cells, Some(32));
        assert_eq!(table.widths, [9, 10, 11]);
        let mut line = String::new();
        table.line(&mut line, &cells, Some(32), |_| None);
        assert_eq!(line, "123456789 a name of… (Resources)\n");
        table.widths = table.measure(&cells, Some(20));
        line.clear();
        table.line(&mut line, &cells, Some(20), |_| None);
        assert_eq!(line, "123456789 a n… (Res…\n");
        table.widths = table.measure(&cells, None);
        line.clear();
        table.line(&mut line, &cells, None, |_| None);
        assert_eq!(line, "123456789 a name of some length (Resources)\n");
    }
}
