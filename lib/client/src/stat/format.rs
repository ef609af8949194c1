//! Formats: which columns are shown, read from `-o` in Slurm's letters (`%.18i %j`) or as names (`jobid,name:20`).

use super::field::{FIELDS, Field};
use super::table::{Column, cut, pad};
use crate::{escape::shown, trouble::Trouble};

/// Widest column that can be asked for.
const MAX_WIDTH: usize = 4096;

/// A piece of a line in Slurm's letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Words as they are.
    Text(String),
    /// A field.
    Value {
        /// Which.
        field: Field,
        /// Its exact width; none means as wide as it is.
        width: Option<usize>,
        /// Whether it stands at the right of its width.
        right: bool,
    },
}

/// What a listing looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Lines of Slurm's letters.
    Letters(Vec<Piece>),
    /// Columns under headings, as wide as what is in them.
    Columns(Vec<Column<Field>>),
}

/// The columns shown when nothing else is asked for.
pub(crate) const DEFAULT: &str = "jobid,partition,name,user,st,time,numnodes,gpus,where";
/// The columns of `--long`.
pub(crate) const LONG: &str = "jobid,partition,name,user,state,time,timelimit,numnodes,gpus,where";
/// The columns of `--start`.
pub(crate) const START: &str = "jobid,partition,name,user,st,expectedstart,schednodes,reason";

impl Format {
    /// Reads a format: letters when there is a `%` in it, else names.
    ///
    /// # Errors
    /// A letter or name that is none (exit code 2).
    pub(crate) fn read(text: &str) -> Result<Self, Trouble> {
        if text.contains('%') { letters(text).map(Self::Letters) } else { columns(text).map(Self::Columns) }
    }
}

impl Format {
    /// Whether it shows anything of starts to come.
    pub(crate) fn foretells(&self) -> bool {
        match self {
            Self::Letters(pieces) => pieces.iter().any(|piece| match piece {
                Piece::Value { field, .. } => field.foretells(),
                Piece::Text(_) => false,
            }),
            Self::Columns(columns) => columns.iter().any(|column| column.of.foretells()),
        }
    }
}

/// Writes a line of letters behind `line`, escaped; `value` writes what a field says.
pub(crate) fn write_line(pieces: &[Piece], line: &mut String, value: impl Fn(Field, &mut String)) {
    let mut cell = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(words) => line.push_str(words),
            Piece::Value { field, width, right } => {
                cell.clear();
                value(*field, &mut cell);
                let text = shown(&cell);
                match width {
                    None => line.push_str(&text),
                    Some(width) => pad(line, &cut(&text, *width, None), *width, *right),
                }
            }
        }
    }
    line.push('\n');
}

fn letters(text: &str) -> Result<Vec<Piece>, Trouble> {
    let mut pieces = Vec::new();
    let mut words = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        words.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            words.push('%');
            rest = after;
            continue;
        }
        let (right, after) = after.strip_prefix('.').map_or((false, after), |after| (true, after));
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, after) = after.split_at(digits);
        let mut chars = after.chars();
        let field = chars.next().and_then(Field::of_letter).ok_or_else(|| {
            let letter: String = after.chars().take(1).collect();
            Trouble::usage(format!("--format: `%{letter}` shows nothing")).with_hint(
                FIELDS
                    .iter()
                    .filter(|d| d.letter != ' ')
                    .map(|d| format!("%{}", d.letter))
                    .collect::<Vec<_>>()
                    .join(" "),
            )
        })?;
        let width = if digits.is_empty() { None } else { Some(width(digits)?) };
        if !words.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut words)));
        }
        pieces.push(Piece::Value { field, width, right });
        rest = chars.as_str();
    }
    words.push_str(rest);
    if !words.is_empty() {
        pieces.push(Piece::Text(words));
    }
    Ok(pieces)
}

fn width(digits: &str) -> Result<usize, Trouble> {
    digits
        .parse()
        .ok()
        .filter(|width| (1..=MAX_WIDTH).contains(width))
        .ok_or_else(|| Trouble::usage(format!("--format: a width is a number from 1 to {MAX_WIDTH}")))
}

fn columns(text: &str) -> Result<Vec<Column<Field>>, Trouble> {
    text.split(',').map(|part| column(part.trim())).collect()
}

fn column(part: &str) -> Result<Column<Field>, Trouble> {
    let (name, size) = part.split_once(':').map_or((part, None), |(name, size)| (name, Some(size)));
    let Some(field) = Field::of_name(name) else {
        let names: Vec<_> = FIELDS.iter().filter_map(|d| d.names.first().copied()).collect();
        return Err(
            Trouble::usage(format!("--format: `{name}` is no field of a job")).with_hint(names.join(" "))
        );
    };
    let mut column = Column::new(field, field.head());
    column.right = field.is_right();
    column.roomy = match field {
        Field::Id => 7,
        Field::Used | Field::Left | Field::Limit => 10,
        Field::Start | Field::End | Field::ExpectedStart => 19,
        _ => 1,
    };
    column.least = match field {
        Field::Name => Some(8),
        Field::Partition | Field::User => Some(5),
        Field::Command | Field::WorkDir | Field::Comment | Field::Stdout | Field::Stderr => Some(12),
        _ => None,
    };
    if let Some(size) = size {
        let (right, digits) = size.strip_prefix('.').map_or((false, size), |digits| (true, digits));
        column.right = right;
        column.fixed = Some(width(digits)?);
    }
    Ok(column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slurms_letters_are_read_with_width_and_side() {
        let value = |field, width, right| Piece::Value { field, width, right };
        let text = |words: &str| Piece::Text(words.to_owned());
        assert_eq!(
            Format::read("%.18i %10j|%T 100%%").unwrap(),
            Format::Letters(vec![
                value(Field::Id, Some(18), true),
                text(" "),
                value(Field::Name, Some(10), false),
                text("|"),
                value(Field::State, None, false),
                text(" 100%"),
            ])
        );
        for bad in ["%", "%9", "%.", "%é", "%X", "%0i", "%99999i", "%99999999999999999999i"] {
            assert_eq!(Format::read(bad).unwrap_err().code(), 2, "{bad}");
        }
        let known = "ijPutTMlLDCmbRrSVeNAaFKoZkQpqx";
        assert!(known.chars().all(|letter| Field::of_letter(letter).is_some()));
    }

    #[test]
    fn names_are_read_with_widths_in_any_case() {
        let Format::Columns(columns) = Format::read("JobArrayID, name:20,STATE:.9,reason").unwrap() else {
            panic!("no columns")
        };
        let seen: Vec<_> = columns.iter().map(|c| (c.of, c.fixed, c.right)).collect();
        assert_eq!(
            seen,
            [
                (Field::Id, None, true),
                (Field::Name, Some(20), false),
                (Field::State, Some(9), true),
                (Field::Reason, None, false)
            ]
        );
        for bad in ["", "jobid,", "nonsense", "name:", "name:x", "name:0"] {
            assert_eq!(Format::read(bad).unwrap_err().code(), 2, "{bad}");
        }
        assert!(Format::read(DEFAULT).is_ok() && Format::read(START).is_ok());
    }

    #[test]
    fn no_letter_and_no_name_is_given_twice() {
        let mut letters: Vec<char> = FIELDS.iter().map(|d| d.letter).filter(|l| *l != ' ').collect();
        let mut names: Vec<&str> = FIELDS.iter().flat_map(|d| d.names.iter().copied()).collect();
        let counts = (letters.len(), names.len());
        letters.sort_unstable();
        letters.dedup();
        names.sort_unstable();
        names.dedup();
        assert_eq!((letters.len(), names.len()), counts);
    }
}
