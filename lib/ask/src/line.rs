//! Reading words into wishes: the command line, the environment, the directives, all by the one table.

use crate::{
    AskError, ENV_PREFIX, Place, Problem, Script, directives,
    said::{Heard, Wishes, Word},
    shown,
    table::{self, Row, SCRIPT, Takes},
    unbuilt,
};
use clap::{
    Command,
    error::{ContextKind, ContextValue, ErrorKind},
    parser::ValueSource,
};
use gq_model::JobId;
use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

/// What the command line says. The rest of the request comes with [`CommandLine::resolve`].
#[derive(Debug)]
pub struct CommandLine {
    pub(crate) wishes: Wishes,
    pub(crate) script: Option<OsString>,
    pub(crate) args: Vec<OsString>,
}

/// What a command line can come to instead of a submission.
#[derive(Debug)]
pub enum Early {
    /// Help or version was asked for; it is in here.
    Shown(clap::Error),
    /// It is refused.
    Refused(Box<AskError>),
}

impl From<AskError> for Early {
    fn from(error: AskError) -> Self {
        Self::Refused(Box::new(error))
    }
}

impl CommandLine {
    /// The script's path; none for standard input (`-`, `/dev/stdin`, or no script at all) and for `--wrap`.
    pub fn script(&self) -> Option<&Path> {
        self.script.as_deref().filter(|name| *name != "-" && *name != "/dev/stdin").map(Path::new)
    }
    /// The command of `--wrap`.
    pub fn wrap(&self) -> Option<&OsStr> {
        self.wishes.wrap.as_ref().map(|said| said.value.as_os_str())
    }
    /// The job whose failed tasks are to be run again (`--rerun-failed`).
    pub fn rerun(&self) -> Option<JobId> {
        self.wishes.rerun_failed.as_ref().map(|said| said.value)
    }
    /// The file of `--conf`.
    pub fn conf(&self) -> Option<&Path> {
        self.wishes.conf.as_ref().map(|said| Path::new(&said.value))
    }
}

/// Reads the command line; `argv` begins with the program's name, `command` is [`crate::command`]'s.
///
/// # Errors
/// [`Early`] when it asks for help, or cannot be obeyed.
pub fn read_command_line(command: &mut Command, argv: Vec<OsString>) -> Result<CommandLine, Early> {
    let place = Place::CommandLine;
    let mut wishes = Wishes::default();
    let mut words = match command.try_get_matches_from_mut(argv) {
        Ok(matches) => read_matches(matches, &place, &mut wishes)?,
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => return Err(Early::Shown(error)),
            _ => return Err(refusal(&error, &place).into()),
        },
    };
    let script = if words.is_empty() { None } else { Some(words.remove(0)) };
    if let Some(again) = &wishes.rerun_failed
        && (script.is_some() || wishes.wrap.is_some())
    {
        let what = again.shown.clone();
        return Err(AskError::new(
            &place,
            what,
            Problem::Other("the job has its script: there can be no other"),
        )
        .into());
    }
    if wishes.wrap.is_some() && script.is_some() {
        return Err(
            AskError::new(&place, "--wrap", Problem::Other("there can be no script beside it")).into()
        );
    }
    Ok(CommandLine { wishes, script, args: words })
}

/// Reads the directives of a script.
pub(crate) fn read_directives(
    command: &mut Command,
    script: &Script,
    wishes: &mut Wishes,
) -> Result<(), AskError> {
    let name = script.shown();
    for (line, text) in directives::lines(&script.bytes) {
        let place = Place::Script { name: name.clone(), line };
        let words = text.and_then(directives::words).map_err(|problem| AskError::new(&place, "", problem))?;
        if matches!(words.first().map(String::as_str), None | Some("hetjob" | "packjob")) {
            match words.first() {
                None => continue,
                Some(word) => return Err(AskError::new(&place, "", Problem::NotBuilt(word.clone()))),
            }
        }
        let argv = std::iter::once(OsString::new()).chain(words.into_iter().map(OsString::from));
        let stray = match command.try_get_matches_from_mut(argv) {
            Ok(matches) => read_matches(matches, &place, wishes)?,
            Err(error) => return Err(refusal(&error, &place)),
        };
        if let Some(stray) = stray.first() {
            let what = shown(&stray.to_string_lossy());
            return Err(AskError::new(&place, what, Problem::Expected("an option")));
        }
    }
    Ok(())
}

/// Reads the variables that say options.
pub(crate) fn read_environment(
    variables: impl Iterator<Item = (OsString, OsString)>,
    wishes: &mut Wishes,
) -> Result<(), AskError> {
    let ours = |(name, _): &(OsString, OsString)| name.as_encoded_bytes().starts_with(ENV_PREFIX.as_bytes());
    let mut variables: Vec<_> = variables.filter(ours).collect();
    variables.sort();
    let place = Place::Environment;
    for (name, value) in variables {
        let lossy = name.to_string_lossy();
        let rest = lossy.strip_prefix(ENV_PREFIX).unwrap_or_default();
        let is_upper = !rest.is_empty() && !rest.bytes().any(|b| b.is_ascii_lowercase() || b == b'-');
        let option = rest.to_ascii_lowercase().replace('_', "-");
        let text = shown(&format!("{lossy}={}", value.to_string_lossy()));
        let Some(row) = table::find(&option).filter(|_| is_upper) else {
            let (problem, near) = match table::find(&option) {
                Some(row) => (Problem::Unknown, Some(row.long)),
                None => unbuilt::problem(&option),
            };
            let error = AskError::new(&place, shown(&lossy), problem);
            let variable =
                |near: &str| format!("{ENV_PREFIX}{}", near.to_ascii_uppercase().replace('-', "_"));
            return Err(match near {
                Some(near) => error.hint(variable(near)),
                None => error.hint(format!("unset {}", shown(&lossy))),
            });
        };
        say(row, &value, &text, &place, wishes)?;
    }
    Ok(())
}

/// Takes over everything that was said, and returns what is no option.
fn read_matches(
    mut matches: clap::ArgMatches,
    place: &Place,
    wishes: &mut Wishes,
) -> Result<Vec<OsString>, AskError> {
    let said: Vec<&'static Row> = matches
        .ids()
        .filter(|id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine))
        .filter_map(|id| table::find(id.as_str()))
        .collect();
    for row in said {
        if row.takes == Takes::Nothing {
            say(row, OsStr::new(""), &format!("--{}", row.long), place, wishes)?;
            continue;
        }
        for value in matches.remove_many::<OsString>(row.long).into_iter().flatten() {
            let text =
                if value.is_empty() && row.takes != Takes::Nothing && matches!(row.takes, Takes::Maybe(_)) {
                    format!("--{}", row.long)
                } else {
                    shown(&format!("--{}={}", row.long, value.to_string_lossy()))
                };
            say(row, &value, &text, place, wishes)?;
        }
    }
    Ok(matches.remove_many::<OsString>(SCRIPT).into_iter().flatten().collect())
}

fn say(
    row: &'static Row,
    raw: &OsStr,
    shown: &str,
    place: &Place,
    wishes: &mut Wishes,
) -> Result<(), AskError> {
    if row.here_only && *place != Place::CommandLine {
        return Err(AskError::new(place, shown, Problem::CommandLineOnly));
    }
    wishes.all.push(Heard { long: row.long, shown: shown.to_owned(), place: place.clone() });
    (row.set)(wishes, Word { raw, shown, place }).map_err(|problem| AskError::new(place, shown, problem))
}

/// What the parser did not take, in our own words.
fn refusal(error: &clap::Error, place: &Place) -> AskError {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        Some(ContextValue::Strings(texts)) => texts.first().map(String::as_str),
        _ => None,
    };
    // The parser says `--time <LIMIT>`; what was typed ends at the blank.
    let option = context(ContextKind::InvalidArg).unwrap_or_default();
    let option = option.split([' ', '[', '=']).next().unwrap_or_default();
    let what = shown(option);
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            AskError::new(place, "--help or --version", Problem::CommandLineOnly)
        }
        ErrorKind::UnknownArgument => {
            let name = option.trim_start_matches('-');
            let (problem, near) = unbuilt::problem(name);
            let error = AskError::new(place, what, problem);
            match (near, unbuilt::instead(name)) {
                (Some(near), _) => error.hint(format!("--{near}")),
                (None, Some(words)) => error.hint(words),
                (None, None) => error,
            }
        }
        ErrorKind::InvalidValue | ErrorKind::WrongNumberOfValues | ErrorKind::TooFewValues => {
            AskError::new(place, what, Problem::Expected("a value"))
        }
        ErrorKind::TooManyValues => AskError::new(place, what, Problem::Expected("no value")),
        _ => AskError::new(place, what, Problem::Other("cannot be read as an option")),
    }
}
