//! Manual pages from option tables: what clap knows, and the sections that all pages of gq share.

use clap::Command;
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};
use std::io::{self, Write};

/// Exit codes of clients, with what they mean.
const CLIENT_CODES: &[(&str, &str)] = &[
    ("0", "Done."),
    ("1", "Refused by policy, or as the job stands; or the answer could not be written."),
    ("2", "The command line, the script or the conf file is wrong."),
    ("3", "gqd cannot be reached."),
    ("4", "There is no such job."),
    ("5", "Not permitted."),
];
const DAEMON_CODES: &[(&str, &str)] = &[
    ("0", "Stopped as it was told to."),
    ("1", "It cannot go on; the last lines of its log say why."),
    ("2", "The command line or the conf file is wrong."),
];

/// All pages, for SEE ALSO.
const PAGES: &[(&str, &str)] = &[
    ("gqsub", "1"),
    ("gqstat", "1"),
    ("gqacct", "1"),
    ("gqcancel", "1"),
    ("gqsim", "1"),
    ("gq.conf", "5"),
    ("gq", "7"),
    ("gqctl", "8"),
    ("gqd", "8"),
    ("gqnode", "8"),
];

/// Writes the manual page of a program for `section` (`1`, `8`), as roff. The same table gives the same bytes.
pub fn man_page(command: Command, section: &str) -> Vec<u8> {
    let mut page = Vec::new();
    // Writing to a vector does not fail.
    let _ = write_page(command, section, &mut page);
    page
}

fn write_page(command: Command, section: &str, page: &mut Vec<u8>) -> io::Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let name = command.get_name().to_owned();
    writeln!(page, ".TH {} {section} \"\" gq \"gq manual\"", name.to_uppercase())?;
    let man = Man::new(command.clone());
    man.render_name_section(page)?;
    write_synopsis(&mut command, page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    let subcommands: Vec<Command> = command.get_subcommands().filter(|c| !c.is_hide_set()).cloned().collect();
    if !subcommands.is_empty() {
        write_commands(&name, subcommands, page)?;
    }
    if let Some(more) = command.get_after_long_help().or(command.get_after_help()) {
        write_more(&more.to_string(), page)?;
    }
    write_shared(&name, section, page)
}

/// How the program is called, a line for each way.
fn write_synopsis(command: &mut Command, page: &mut Vec<u8>) -> io::Result<()> {
    let usage = command.render_usage().to_string();
    let mut roff = Roff::default();
    roff.control("SH", ["SYNOPSIS"]);
    for (at, line) in usage.trim_start_matches("Usage:").lines().map(str::trim).enumerate() {
        if at > 0 {
            roff.control("br", []);
        }
        let (name, words) = line.split_once(' ').unwrap_or((line, ""));
        roff.text([bold(name), roman(format!(" {words}"))]);
    }
    roff.to_writer(page)
}

/// What is said behind the options. A first line with `:` at its end is the heading; lines that begin with a blank stand
/// as they are.
fn write_more(text: &str, page: &mut Vec<u8>) -> io::Result<()> {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let (head, body) = match first.strip_suffix(':') {
        Some(head) => (head.to_uppercase(), rest),
        None => ("NOTES".to_owned(), text),
    };
    let mut roff = Roff::default();
    roff.control("SH", [head.as_str()]);
    let mut is_literal = false;
    for line in body.trim_end().lines() {
        let literal = line.starts_with(' ');
        if literal != is_literal {
            roff.control(if literal { "nf" } else { "fi" }, []);
            is_literal = literal;
        }
        if line.is_empty() {
            roff.control("PP", []);
        } else {
            roff.text([roman(line.trim_end().strip_prefix("  ").unwrap_or(line))]);
        }
    }
    if is_literal {
        roff.control("fi", []);
    }
    roff.to_writer(page)
}

/// The commands of a program that has some, each with its own options.
fn write_commands(program: &str, commands: Vec<Command>, page: &mut Vec<u8>) -> io::Result<()> {
    let mut head = Roff::default();
    head.control("SH", ["COMMANDS"]);
    head.to_writer(page)?;
    for command in commands {
        let name = command.get_name().to_owned();
        let mut part = Roff::default();
        part.control("SS", [format!("{program} {name}").as_str()]);
        if let Some(about) = command.get_long_about().or(command.get_about()) {
            part.text([roman(about.to_string())]);
        }
        part.to_writer(page)?;
        let own = command
            .mut_args(|arg| if arg.is_global_set() || arg.get_id() == "help" { arg.hide(true) } else { arg })
            .disable_help_flag(true);
        if own.get_arguments().any(|arg| !arg.is_hide_set()) {
            let mut options = Vec::new();
            Man::new(own).render_options_section(&mut options)?;
            // The heading of the page's own options is not repeated.
            let options = String::from_utf8_lossy(&options);
            let body = options.split_once(".SH OPTIONS\n").map_or(&*options, |(_, body)| body);
            page.extend_from_slice(body.as_bytes());
        }
    }
    Ok(())
}

fn write_shared(name: &str, section: &str, page: &mut Vec<u8>) -> io::Result<()> {
    let is_client = !matches!(name, "gqd" | "gqnode" | "gqstep");
    let mut roff = Roff::default();
    let entry = |roff: &mut Roff, head: &str, body: &str| {
        roff.control("TP", []);
        roff.text([bold(head)]);
        roff.text([roman(body)]);
    };
    roff.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in if is_client { CLIENT_CODES } else { DAEMON_CODES } {
        entry(&mut roff, code, meaning);
    }
    if name == "gqsub" {
        roff.control("PP", []);
        roff.text([roman(
            "With --wait the job's own code wins: its exit code, or 128 and the number of its signal.",
        )]);
    }
    roff.control("SH", ["ENVIRONMENT"]);
    entry(&mut roff, "GQ_CONF", "The conf file, when --conf names none.");
    if !is_client {
        entry(&mut roff, "GQ_LOG", "What is logged: error, warn, info, debug. Info when it is not set.");
    }
    if name == "gqsub" {
        entry(
            &mut roff,
            "GQSUB_<OPTION>",
            "Each option of the command line, such as GQSUB_PARTITION. What the command line says wins over it; it wins over the lines of the script.",
        );
    }
    if name == "gqstat" {
        entry(&mut roff, "NO_COLOR", "When it is set to anything, nothing is coloured.");
        entry(&mut roff, "TZ", "The time zone in which times are shown.");
    }
    roff.control("SH", ["SEE ALSO"]);
    let mut others = Vec::new();
    for (other, section) in PAGES.iter().filter(|page| **page != (name, section)) {
        if !others.is_empty() {
            others.push(roman(", "));
        }
        others.push(bold(*other));
        others.push(roman(format!("({section})")));
    }
    roff.text(others);
    roff.to_writer(page)
}
