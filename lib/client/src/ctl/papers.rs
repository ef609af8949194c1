//! Papers: completions for shells and manual pages, made from the option tables of the programs.

use crate::{
    out::Out,
    page::man_page,
    trouble::{REFUSED, Trouble},
};
use clap::{Arg, ArgMatches, Command, builder::PossibleValuesParser, value_parser};
use clap_complete::Shell;
use std::{io::Write, path::PathBuf};

/// The programs with an option table here, each with the section of its manual page.
pub(crate) fn programs() -> Vec<(Command, &'static str)> {
    vec![
        (crate::submit::command(), "1"),
        (crate::stat::command(), "1"),
        (crate::acct::command(), "1"),
        (crate::cancel::command(), "1"),
        (super::command(), "8"),
    ]
}

/// The names of [`programs`]; written out, since the table of `gqctl` itself is one of them.
const NAMES: [&str; 5] = ["gqsub", "gqstat", "gqacct", "gqcancel", "gqctl"];

pub(super) fn completions_command() -> Command {
    Command::new("completions")
        .about("Print what completes the options of a program in a shell")
        .arg(
            Arg::new("shell")
                .value_name("SHELL")
                .required(true)
                .value_parser(value_parser!(Shell))
                .help("The shell"),
        )
        .arg(
            Arg::new("for")
                .long("for")
                .value_name("PROGRAM")
                .required(true)
                .value_parser(PossibleValuesParser::new(NAMES))
                .help("The program"),
        )
}

pub(super) fn man_command() -> Command {
    Command::new("man").about("Write the manual pages of the clients into a folder").arg(
        Arg::new("dir")
            .long("dir")
            .value_name("FOLDER")
            .required(true)
            .value_parser(value_parser!(PathBuf))
            .value_hint(clap::ValueHint::DirPath)
            .help("The folder"),
    )
}

/// Prints completions.
pub(super) fn completions(words: &ArgMatches) -> Result<u8, Trouble> {
    let name = words.get_one::<String>("for").map(String::as_str).unwrap_or_default();
    let shell =
        words.get_one::<Shell>("shell").copied().ok_or_else(|| Trouble::usage("a shell is missing"))?;
    let program = programs().into_iter().find(|(command, _)| command.get_name() == name);
    let (mut command, _) = program.ok_or_else(|| Trouble::usage(format!("`{name}` has no options here")))?;
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut text);
    let mut out = Out::stdout()?;
    out.write_all(&text).map_err(|e| Trouble::of_output(&e))?;
    out.flush()?;
    Ok(0)
}

/// Writes manual pages.
pub(super) fn man(words: &ArgMatches) -> Result<u8, Trouble> {
    let folder = words.get_one::<PathBuf>("dir").ok_or_else(|| Trouble::usage("a folder is missing"))?;
    for (command, section) in programs() {
        let file = folder.join(format!("{}.{section}", command.get_name()));
        std::fs::write(&file, man_page(command, section))
            .map_err(|e| Trouble::new(REFUSED, format!("cannot write {}: {e}", file.display())))?;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_program_is_named() {
        let names: Vec<String> = programs().iter().map(|(c, _)| c.get_name().to_owned()).collect();
        assert_eq!(names, NAMES);
    }

    /// `GQ_BLESS=1` writes them anew.
    #[test]
    fn the_manual_pages_are_those_of_the_option_tables() {
        let man = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../man");
        for (command, section) in programs() {
            let file = man.join(format!("{}.{section}", command.get_name()));
            let page = man_page(command, section);
            if std::env::var_os("GQ_BLESS").is_some() {
                std::fs::write(&file, &page).unwrap();
            }
            let kept = std::fs::read(&file).unwrap_or_default();
            assert!(kept == page, "{} is not what its options say: GQ_BLESS=1 writes it", file.display());
        }
    }
}
