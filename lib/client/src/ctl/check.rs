//! `gqctl check-conf`: reads a conf file as the daemons do, and says what is in it or all that is wrong with it.

use crate::{
    escape::shown,
    link::conf_of,
    out::Out,
    trouble::{Trouble, USAGE},
};
use clap::{Arg, ArgMatches, value_parser};
use gq_conf::Config;
use std::{
    fmt::Write as _,
    io::Write as _,
    path::{Path, PathBuf},
};

/// The file to check.
pub(super) fn file_argument() -> Arg {
    Arg::new("file")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .value_hint(clap::ValueHint::FilePath)
        .help("The file; without one, the one that gqd would read")
}

/// Checks; returns the exit code.
pub(super) fn check(words: &ArgMatches) -> Result<u8, Trouble> {
    let file = words.get_one::<PathBuf>("file").map(PathBuf::as_path).or_else(|| conf_of(words));
    let file = gq_conf::find_conf(file);
    match gq_conf::read(&file) {
        Ok(config) => {
            let mut out = Out::stdout()?;
            out.put(&summary(&file, &config))?;
            out.flush()?;
            Ok(0)
        }
        Err(mistakes) => {
            let text = mistakes.to_string();
            let lines: Vec<_> = text.lines().map(shown).collect();
            let _ = writeln!(std::io::stderr(), "{}", lines.join("\n"));
            Ok(USAGE)
        }
    }
}

/// `1 node`, `2 nodes`.
fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// What is in a good conf file, in a few lines.
fn summary(file: &Path, config: &Config) -> String {
    let mut text = String::new();
    let cards: usize = config.nodes.iter().map(|node| node.cards.len()).sum();
    let names: Vec<_> = config.partitions.iter().map(|p| shown(&p.name)).collect();
    // Writing to a string does not fail.
    let _ = writeln!(text, "{}: good", shown(&file.display().to_string()));
    let _ = writeln!(text, "  cluster {}, socket {}", shown(&config.cluster.name), config.sock().display());
    let _ = writeln!(text, "  partitions: {}", names.join(" "));
    let _ = writeln!(
        text,
        "  declared: {}, {}{}",
        counted(config.nodes.len(), "node"),
        counted(cards, "card"),
        if config.nodes.is_empty() { " (nodes bring what they find)" } else { "" }
    );
    text
}
