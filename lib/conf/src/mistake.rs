//! Mistakes of a conf file: where, what, and what to do. Collects them; never decides what is one.

use std::{
    fmt,
    ops::Range,
    path::{Path, PathBuf},
};

/// Most mistakes told of one file; the rest is only counted.
const MAX_MISTAKES: usize = 200;

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Its line, from 1; 0 when it is the file as a whole.
    pub line: usize,
    /// Its column in characters, from 1; 0 when it is the file as a whole.
    pub column: usize,
    /// What is wrong, and what was expected.
    pub text: String,
    /// What to do, such as the nearest known key.
    pub hint: Option<String>,
}

/// All mistakes of a conf file, in the order of the file. Shown as one `FILE:LINE:COL: …` each, with what to do below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfErrors {
    file: PathBuf,
    mistakes: Vec<Mistake>,
}

impl ConfErrors {
    /// The mistakes, in the order of the file.
    pub fn all(&self) -> &[Mistake] {
        &self.mistakes
    }
    /// The file they are in.
    pub fn file(&self) -> &Path {
        &self.file
    }

    pub(crate) fn of_file(file: &Path, text: String, hint: &str) -> Self {
        let hint = Some(hint.to_string()).filter(|h| !h.is_empty());
        Self { file: file.to_path_buf(), mistakes: vec![Mistake { line: 0, column: 0, text, hint }] }
    }

    pub(crate) fn not_utf8(file: &Path, good: &str) -> Self {
        let (line, column) = position(good, good.len());
        let text = "is not UTF-8 from here on".to_string();
        Self { file: file.to_path_buf(), mistakes: vec![Mistake { line, column, text, hint: None }] }
    }
}

impl fmt::Display for ConfErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, mistake) in self.mistakes.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}:", self.file.display())?;
            if mistake.line > 0 {
                write!(f, "{}:{}:", mistake.line, mistake.column)?;
            }
            write!(f, " {}", mistake.text)?;
            if let Some(hint) = &mistake.hint {
                write!(f, "\n  try: {hint}")?;
            }
        }
        Ok(())
    }
}
impl std::error::Error for ConfErrors {}

/// Where something is in the text, in bytes.
pub(crate) type Span = Range<usize>;

/// The mistakes found so far in one text.
pub(crate) struct Notes<'a> {
    text: &'a str,
    found: Vec<(usize, String, Option<String>)>,
    untold: usize,
    /// Whether lines were left out because they are no TOML: then what is missing may stand in one of them.
    pub(crate) has_holes: bool,
}

impl<'a> Notes<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, found: Vec::new(), untold: 0, has_holes: false }
    }

    /// Notes a mistake at `span`.
    pub(crate) fn add(&mut self, span: &Span, text: impl Into<String>, hint: Option<String>) {
        if !self.is_full() { self.found.push((span.start, text.into(), hint)) } else { self.untold += 1 }
    }

    /// Notes that something is missing or was not declared, unless it may stand in a line that was left out.
    pub(crate) fn add_missing(&mut self, span: &Span, text: impl Into<String>, hint: Option<String>) {
        if !self.has_holes {
            self.add(span, text, hint)
        }
    }

    /// Whether what is noted from now on is only counted.
    pub(crate) fn is_full(&self) -> bool {
        self.found.len() >= MAX_MISTAKES
    }

    /// The number of the line at `span`.
    pub(crate) fn line(&self, span: &Span) -> usize {
        position(self.text, span.start).0
    }

    pub(crate) fn into_errors(mut self, file: &Path) -> Option<ConfErrors> {
        if self.found.is_empty() {
            return None;
        }
        self.found.sort_by_key(|(at, ..)| *at);
        let told = self.found.into_iter().map(|(at, text, hint)| {
            let (line, column) = position(self.text, at);
            Mistake { line, column, text, hint }
        });
        let mut mistakes: Vec<Mistake> = told.collect();
        if self.untold > 0 {
            let text = format!("{} more mistakes are not told", self.untold);
            mistakes.push(Mistake { line: 0, column: 0, text, hint: None });
        }
        Some(ConfErrors { file: file.to_path_buf(), mistakes })
    }
}

/// Line and column (in characters), both from 1, of a byte of the text.
fn position(text: &str, at: usize) -> (usize, usize) {
    let at = (0..=at.min(text.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    let before = text.get(..at).unwrap_or_default();
    let line = before.rsplit_once('\n').map_or(before, |(_, line)| line);
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// The known word nearest to `word`, when one is near enough to have been meant.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let scored = known.into_iter().map(|k| {
        let steps = strsim::damerau_levenshtein(&word, &k.to_lowercase());
        (steps, k)
    });
    let longest = |k: &str| word.chars().count().max(k.chars().count());
    scored.filter(|(steps, k)| *steps * 5 <= longest(k) * 2).min_by_key(|(steps, _)| *steps).map(|(_, k)| k)
}
