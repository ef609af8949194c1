//! What surrounds a submission: script, directory, host, umask, limits. Looks and never changes anything.

use crate::{
    escape::shown,
    submit::PROGRAM,
    trouble::{Trouble, USAGE, say},
};
use gq_ask::{Context, Script, ScriptName};
use gq_model::{MAX_SCRIPT, RESOURCE_LIMITS, ResourceLimit, Timestamp};
use jiff::tz::TimeZone;
use nix::sys::{
    resource::{RLIM_INFINITY, Resource, getrlimit},
    stat::{Mode, umask},
};
use std::{
    fs::File,
    io::{self, IsTerminal, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The limits that go with a job, in the order of their names.
const LIMITS: [Resource; RESOURCE_LIMITS.len()] = [
    Resource::RLIMIT_AS,
    Resource::RLIMIT_CORE,
    Resource::RLIMIT_CPU,
    Resource::RLIMIT_DATA,
    Resource::RLIMIT_FSIZE,
    Resource::RLIMIT_MEMLOCK,
    Resource::RLIMIT_NOFILE,
    Resource::RLIMIT_NPROC,
    Resource::RLIMIT_RSS,
    Resource::RLIMIT_STACK,
];

/// Reads the script: a file, or standard input when none is named.
pub(super) fn script(path: Option<&Path>) -> Result<Script, Trouble> {
    let (name, bytes) = match path {
        Some(path) => {
            let bytes = File::open(path).and_then(read);
            let name = path.display().to_string();
            let told = |e| Trouble::new(USAGE, format!("{}: cannot read the script: {e}", shown(&name)));
            (ScriptName::File(path.to_owned()), bytes.map_err(told)?)
        }
        None => {
            let stdin = io::stdin();
            if stdin.is_terminal() {
                say(PROGRAM, "reading the script from standard input; Ctrl-D ends it");
            }
            let told = |e| Trouble::new(USAGE, format!("standard input: cannot read the script: {e}"));
            (ScriptName::StandardInput, read(stdin.lock()).map_err(told)?)
        }
    };
    Ok(Script { name, bytes })
}

/// Reads a file that an option names: `most` bytes and, if there are more, one more.
pub(super) fn file(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads to the end, or to one byte more than a script may have.
fn read(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_SCRIPT as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What was seen around.
pub(super) struct Around {
    directory: PathBuf,
    host: String,
    umask: u32,
    limits: Vec<ResourceLimit>,
    pub(super) now: i64,
}

impl Around {
    /// Looks around.
    pub(super) fn look() -> Result<Self, Trouble> {
        let host =
            nix::unistd::gethostname().map_or_else(|_| String::new(), |h| h.to_string_lossy().into_owned());
        // The umask can only be read by setting it; no other thread is there to see the moment between.
        let mask = umask(Mode::empty());
        umask(mask);
        Ok(Self {
            directory: directory()?,
            host,
            umask: mask.bits(),
            limits: RESOURCE_LIMITS.into_iter().zip(LIMITS).filter_map(limit).collect(),
            now: jiff::Timestamp::now().as_microsecond(),
        })
    }

    /// As the reader of requests wants it.
    pub(super) fn context(&self, now: Timestamp) -> Context<'_> {
        Context {
            now,
            zone: &TimeZone::system,
            directory: &self.directory,
            host: &self.host,
            umask: self.umask,
            limits: self.limits.clone(),
            read: &file,
        }
    }
}

/// The working directory, by the name that the user's shell has for it when that is still the same directory.
fn directory() -> Result<PathBuf, Trouble> {
    let here = std::fs::metadata(".").map(|m| (m.dev(), m.ino())).ok();
    let named = std::env::var_os("PWD").map(PathBuf::from).filter(|path| path.is_absolute());
    let is_here =
        |path: &PathBuf| here.is_some() && std::fs::metadata(path).map(|m| (m.dev(), m.ino())).ok() == here;
    match named.filter(is_here) {
        Some(path) => Ok(path),
        None => std::env::current_dir().map_err(|e| {
            Trouble::new(USAGE, format!("the working directory cannot be named: {e}"))
                .with_hint("cd, then again")
        }),
    }
}

fn limit((name, resource): (&str, Resource)) -> Option<ResourceLimit> {
    let (soft, _) = getrlimit(resource).ok()?;
    Some(ResourceLimit { name: name.to_owned(), soft: Some(soft).filter(|soft| *soft != RLIM_INFINITY) })
}
