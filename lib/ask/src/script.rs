//! Scripts: what a submission runs, and what is refused before anything is stored.

use crate::{AskError, Place, Problem, shown, values::is_unprintable};
use gq_model::MAX_SCRIPT;
use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Where a script comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptName {
    /// A file, as it was named.
    File(PathBuf),
    /// Standard input.
    StandardInput,
    /// `--wrap`.
    Wrap,
}

/// A script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Where it comes from.
    pub name: ScriptName,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Script {
    /// The script of `--wrap COMMAND`.
    pub fn wrap(command: &OsStr) -> Self {
        Self { name: ScriptName::Wrap, bytes: [b"#!/bin/sh\n", command.as_bytes(), b"\n"].concat() }
    }

    /// The script's name in messages.
    pub(crate) fn shown(&self) -> Arc<str> {
        match &self.name {
            ScriptName::File(path) => shown(&path.to_string_lossy()).into(),
            ScriptName::StandardInput => "standard input".into(),
            ScriptName::Wrap => "--wrap".into(),
        }
    }

    /// The name of a job that was given none.
    pub(crate) fn job_name(&self) -> String {
        match &self.name {
            ScriptName::File(path) => {
                let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
                name.chars().map(|c| if is_unprintable(c) { '_' } else { c }).collect()
            }
            ScriptName::StandardInput => "gqsub".into(),
            ScriptName::Wrap => "wrap".into(),
        }
    }

    /// The script's path for listings.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.name {
            ScriptName::File(path) => Some(path),
            ScriptName::StandardInput | ScriptName::Wrap => None,
        }
    }

    /// Refuses what could not run as it was meant.
    pub(crate) fn check(&self) -> Result<(), AskError> {
        let bytes = &self.bytes;
        let whole = |problem| AskError { place: None, what: self.shown().to_string(), problem, hint: None };
        let at = |offset: usize, problem| {
            let line = 1 + bytes.iter().take(offset).filter(|b| **b == b'\n').count();
            AskError::new(&Place::Script { name: self.shown(), line }, "", problem)
        };
        if bytes.is_empty() {
            return Err(whole(Problem::Other("the script is empty")));
        }
        if bytes.len() > MAX_SCRIPT {
            return Err(whole(Problem::TooLong(bytes.len(), MAX_SCRIPT))
                .hint("keep data in files, and read them from the script"));
        }
        if bytes.starts_with(b"\xef\xbb\xbf") {
            return Err(at(0, Problem::Other("the script begins with a byte order mark, not with #!"))
                .hint("save it as UTF-8 without BOM"));
        }
        let Some(program) = bytes.strip_prefix(b"#!") else {
            return Err(at(
                0,
                Problem::Other("the script does not begin with #! and the program that runs it"),
            )
            .hint("#!/bin/bash as its first line"));
        };
        let first = program.split(|b| *b == b'\n').next().unwrap_or_default();
        if first.trim_ascii().is_empty() {
            return Err(at(0, Problem::Other("no program behind #!")).hint("#!/bin/bash as its first line"));
        }
        if let Some(offset) = bytes.windows(2).position(|pair| pair == b"\r\n") {
            let fix = match &self.name {
                ScriptName::File(path) => format!("sed -i 's/\\r$//' {}", shown(&path.to_string_lossy())),
                ScriptName::StandardInput | ScriptName::Wrap => "tr -d '\\r' before it comes here".into(),
            };
            return Err(at(
                offset,
                Problem::Other("the line ends in CR LF, as on Windows: no shell here reads that"),
            )
            .hint(fix));
        }
        match bytes.iter().position(|b| *b == 0) {
            Some(offset) => Err(at(offset, Problem::Other("a NUL byte: this is no script"))),
            None => Ok(()),
        }
    }
}
