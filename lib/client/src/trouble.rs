//! Troubles: what ends a command early, with its exit code and its words. Shows them on stderr and nowhere else.

use crate::escape::shown;
use gq_ask::AskError;
use gq_proto::Refusal;
use std::{
    ffi::OsString,
    fmt,
    io::{self, Write},
};

/// Exit code: refused by policy or as the job stands, or the answer cannot be written.
pub const REFUSED: u8 = 1;
/// Exit code: the words of the command line, the script or the conf file are wrong.
pub const USAGE: u8 = 2;
/// Exit code: `gqd` cannot be reached.
pub const UNREACHABLE: u8 = 3;
/// Exit code: there is no such job.
pub const NO_SUCH_JOB: u8 = 4;
/// Exit code: not permitted.
pub const NOT_PERMITTED: u8 = 5;

/// Why a command ends before its work is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Whoever read the answer has read enough of it.
    ReaderGone,
    /// Something is wrong.
    Told {
        /// The exit code.
        code: u8,
        /// What is wrong and where.
        text: String,
        /// What to do.
        hint: Option<String>,
    },
}

impl Trouble {
    /// A trouble without a hint.
    pub fn new(code: u8, text: impl Into<String>) -> Self {
        Self::Told { code, text: text.into(), hint: None }
    }

    /// The same with words on what to do.
    pub fn with_hint(self, words: impl Into<String>) -> Self {
        match self {
            Self::ReaderGone => Self::ReaderGone,
            Self::Told { code, text, .. } => Self::Told { code, text, hint: Some(words.into()) },
        }
    }

    /// Wrong words on the command line.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::new(USAGE, text)
    }

    /// The answer cannot be written to stdout.
    pub fn of_output(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::ReaderGone
        } else {
            Self::new(REFUSED, format!("cannot write the answer: {error}"))
        }
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::ReaderGone => 0,
            Self::Told { code, .. } => *code,
        }
    }

    /// Shows it on stderr as a trouble of `program`; returns the exit code.
    pub fn tell(&self, program: &str) -> u8 {
        if let Self::Told { text, hint, .. } = self {
            say(program, text);
            if let Some(hint) = hint {
                say_hint(hint);
            }
        }
        self.code()
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReaderGone => f.write_str("nobody reads the answer"),
            Self::Told { text, .. } => f.write_str(text),
        }
    }
}
impl std::error::Error for Trouble {}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Self::Told { code: refusal.kind.exit_code(), text: refusal.text, hint: refusal.hint }
    }
}

impl From<AskError> for Trouble {
    fn from(error: AskError) -> Self {
        Self::Told { code: AskError::EXIT_CODE, text: error.to_string(), hint: error.hint }
    }
}

/// Says something on stderr: `program: text`. What cannot be said is lost.
pub fn say(program: &str, text: &str) {
    let lines: Vec<_> = text.lines().map(shown).collect();
    let _ = writeln!(io::stderr(), "{program}: {}", lines.join("\n"));
}

/// Says on stderr what to do: `  try: text`.
pub fn say_hint(text: &str) {
    let _ = writeln!(io::stderr(), "  try: {}", shown(text));
}

/// Runs a command: reads its words with its option table, does its work and turns troubles into words and a code.
/// `--help` and `--version` are answers (0); wrong words are said on stderr (2).
pub fn run(
    command: clap::Command,
    argv: Vec<OsString>,
    work: impl FnOnce(&clap::ArgMatches) -> Result<u8, Trouble>,
) -> u8 {
    let program = command.get_name().to_owned();
    match command.try_get_matches_from(argv) {
        Ok(words) => work(&words).unwrap_or_else(|trouble| trouble.tell(&program)),
        Err(error) if error.use_stderr() => {
            // clap begins with its own word; ours begin with the program's name.
            let text = error.render().to_string();
            let text = text.strip_prefix("error: ").map_or(text.clone(), |rest| format!("{program}: {rest}"));
            let _ = io::stderr().write_all(text.as_bytes());
            USAGE
        }
        Err(answer) => answer.print().map_or_else(|e| Trouble::of_output(&e).tell(&program), |()| 0),
    }
}
