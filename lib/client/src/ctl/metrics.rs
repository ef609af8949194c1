//! `gqctl metrics`: the figures of the queue for Prometheus, to stdout or into a file of which nobody ever reads a half.

use super::Link;
use crate::{
    link::conf_of,
    out::Out,
    trouble::{REFUSED, Trouble},
};
use clap::{Arg, ArgMatches, Command, value_parser};
use gq_proto::{Ask, Reply};
use std::{
    fs::Permissions,
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Whoever collects it is another user.
const MODE: u32 = 0o644;

pub(super) fn metrics_command() -> Command {
    Command::new("metrics")
        .about("Print the figures of the queue in the text form of Prometheus: what waits, runs and has ended, cards and slices, waits, and the errors of estimates")
        .arg(
            Arg::new("output")
                .long("output")
                .short('o')
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .value_hint(clap::ValueHint::FilePath)
                .help("Write them into this file, which appears whole: for the textfile collector of node_exporter, whose files end in .prom"),
        )
}

/// Runs it; returns the exit code.
pub(super) fn metrics(words: &ArgMatches) -> Result<u8, Trouble> {
    let link = Link::open(conf_of(words))?;
    let Reply::Metrics { text } = link.ask(Ask::Metrics)? else { return Err(link.astray()) };
    match words.get_one::<PathBuf>("output") {
        Some(path) => {
            put(path, &text).map_err(|e| Trouble::new(REFUSED, format!("{}: {e}", path.display())))?
        }
        None => {
            let mut out = Out::stdout()?;
            out.put(&text)?;
            out.flush()?;
        }
    }
    Ok(0)
}

/// Puts the text in the place of an older file, whole. What it is called meanwhile no collector reads.
fn put(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".gq-metrics-").tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(Permissions::from_mode(MODE))?;
    file.persist(path).map(drop).map_err(|e| e.error)
}
