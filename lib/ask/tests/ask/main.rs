//! Requests as people write them, through the public door: argument words, variables and a script in; a submission or
//! the words of a refusal out.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod begin;
mod forms;
mod laws;
mod life;
mod refusals;
mod trial;

use gq_ask::{Context, Early, Script, ScriptName, Submission, command, read_command_line};
use gq_model::{ResourceLimit, Timestamp};
use jiff::tz::TimeZone;
use std::{ffi::OsString, io, path::Path};

/// 2026-12-01 20:00:00 in London, and in UTC.
pub const NOW: i64 = 1_796_155_200;

/// What one submission is made of.
pub struct Try<'a> {
    /// The words behind the program's name.
    pub argv: Vec<OsString>,
    /// The environment.
    pub variables: Vec<(&'a str, &'a str)>,
    /// The bytes of the script or standard input.
    pub script: Vec<u8>,
    /// The files that can be read.
    pub files: Vec<(&'a str, &'a [u8])>,
    /// The clock, in seconds since 1970.
    pub now: i64,
    /// The time zone.
    pub zone: &'a str,
}

impl Default for Try<'_> {
    fn default() -> Self {
        let (argv, variables) = (vec!["train.sh".into()], Vec::new());
        let (script, files) = (b"#!/bin/sh\n".to_vec(), Vec::new());
        Self { argv, variables, script, files, now: NOW, zone: "Europe/London" }
    }
}

impl Try<'_> {
    /// Submits; an error is its words, with the hint behind `; try `.
    pub fn submit(self) -> Result<Submission, String> {
        let mut command = command();
        let argv = std::iter::once(OsString::from("gqsub")).chain(self.argv).collect();
        let told = |e: &gq_ask::AskError| match &e.hint {
            Some(hint) => format!("{e}; try {hint}"),
            None => e.to_string(),
        };
        let line = read_command_line(&mut command, argv).map_err(|early| match early {
            Early::Shown(error) => format!("shown: {error}"),
            Early::Refused(error) => told(&error),
        })?;
        let name = match line.script() {
            Some(path) => ScriptName::File(path.to_owned()),
            None => ScriptName::StandardInput,
        };
        let script = match line.wrap() {
            Some(command) => Script::wrap(command),
            None => Script { name, bytes: self.script },
        };
        let zone = || TimeZone::get(self.zone).unwrap();
        let read = |path: &Path, most: usize| reader(&self.files, path, most);
        let context = Context {
            now: Timestamp::from_secs(self.now),
            zone: &zone,
            directory: Path::new("/home/ann"),
            host: "ws1",
            umask: 0o027,
            limits: limits(),
            read: &read,
        };
        let variables = self.variables.iter().map(|(n, v)| (OsString::from(n), OsString::from(v)));
        line.resolve(&mut command, variables, script, context).map_err(|e| told(&e))
    }
}

/// Of the limits of the shell, the two that tests look at.
pub fn limits() -> Vec<ResourceLimit> {
    ["core", "nofile"].map(|name| ResourceLimit { name: name.into(), soft: Some(7) }).to_vec()
}

fn reader(files: &[(&str, &[u8])], path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let file = files.iter().find(|(name, _)| Path::new(name) == path);
    let (_, bytes) = file.ok_or(io::ErrorKind::NotFound)?;
    Ok(bytes.iter().copied().take(most + 1).collect())
}

/// Submits with these words before the script's name.
pub fn words(words: &[&str]) -> Result<Submission, String> {
    let argv = words.iter().copied().chain(["train.sh"]).map(OsString::from).collect();
    Try { argv, ..Try::default() }.submit()
}

/// Submits a script with these lines behind its shebang.
pub fn lines(lines: &str) -> Result<Submission, String> {
    let script = format!("#!/bin/bash\n{lines}\necho hi\n").into_bytes();
    Try { script, ..Try::default() }.submit()
}
