//! Troubles: what ends `gqsim` early, with its exit code and its words. Shows them on stderr and nowhere else.

use std::{
    fmt,
    io::{self, Write},
    path::Path,
};

/// Exit code: the answer cannot be written.
pub(crate) const UNWRITTEN: u8 = 1;
/// Exit code: the words of the command line, the log or the conf file are wrong.
pub(crate) const USAGE: u8 = 2;

/// Why a simulation ends before its work is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) code: u8,
    text: String,
    hint: Option<String>,
}

impl Trouble {
    /// Something that was asked or read is wrong.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self { code: USAGE, text: text.into(), hint: None }
    }

    /// The same with words on what to do.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// A file cannot be read.
    pub(crate) fn unread(path: &Path, why: &dyn fmt::Display) -> Self {
        Self::usage(format!("{}: cannot be read: {why}", path.display()))
    }

    /// A file cannot be written.
    pub(crate) fn unwritten(path: &Path, why: &io::Error) -> Self {
        Self { code: UNWRITTEN, ..Self::usage(format!("{}: cannot be written: {why}", path.display())) }
    }

    /// The answer cannot be written to stdout. A reader who has read enough is no trouble.
    pub(crate) fn of_output(error: &io::Error) -> Self {
        let code = if error.kind() == io::ErrorKind::BrokenPipe { 0 } else { UNWRITTEN };
        Self { code, ..Self::usage(format!("cannot write the answer: {error}")) }
    }

    /// Shows it on stderr; returns the exit code.
    pub(crate) fn tell(&self) -> u8 {
        if self.code != 0 {
            say(&self.text);
            if let Some(hint) = &self.hint {
                let _ = writeln!(io::stderr(), "  try: {}", shown(hint));
            }
        }
        self.code
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Says something on stderr: `gqsim: text`. What cannot be said is lost.
pub(crate) fn say(text: &str) {
    let lines: Vec<String> = text.lines().map(shown).collect();
    let _ = writeln!(io::stderr(), "gqsim: {}", lines.join("\n"));
}

/// A text that came from a file, harmless to a terminal.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
