//! `gqstat`: shows jobs, nodes and partitions. Listings are printed as they arrive, and never sorted here: the order is
//! the queue's, or that of expected starts, and `gqd`'s to make.

pub(crate) mod clock;
mod field;
mod format;
mod house;
pub(crate) mod json;
pub(crate) mod table;
#[cfg(test)]
mod tests;
pub(crate) mod used;
mod watch;
mod why;

use crate::{
    link::{Link, conf_of, conf_option},
    out::Out,
    progress,
    select::{filters, fits, listed, read_jobs},
    trouble::{NO_SUCH_JOB, Trouble, run, say},
};
use anstyle::{AnsiColor, Style};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use clock::Clock;
use field::Field;
use format::{Format, Piece};
use gq_model::{JobRef, JobState};
use gq_proto::{ArrayView, Ask, BudgetView, ExplanationView, JobView, ListAsk, NodeView, Reply, Selection};
use std::{ffi::OsString, io::Write, path::Path};
use table::Table;

/// The option table of `gqstat`.
pub fn command() -> Command {
    let flag =
        |id: &'static str, help: &'static str| Arg::new(id).long(id).action(ArgAction::SetTrue).help(help);
    Command::new("gqstat")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Show jobs, nodes and partitions")
        .long_about(
            "Shows jobs, in the order of the queue. Without --jobs or --states those are shown that have not ended; a \
             job that has ended stays known by its id. The tasks of an array that wait are one line for each reason, \
             and those that ended alike are one; with --jobs a line behind the table says how far an array is.",
        )
        .after_long_help(fields_help())
        .disable_help_flag(true)
        .arg(Arg::new("help").long("help").action(ArgAction::Help).help("Show what can be asked"))
        .arg(
            Arg::new("jobs")
                .long("jobs")
                .short('j')
                .visible_alias("job")
                .value_name("LIST")
                .action(ArgAction::Append)
                .help("These jobs or tasks, ended ones too: 17,18_3,19_[0-4]"),
        )
        .args(filters())
        .arg(flag("array", "Show each task of an array by itself, also those that wait or ended alike").short('r'))
        .arg(
            Arg::new("format")
                .long("format")
                .short('o')
                .visible_short_alias('O')
                .visible_alias("Format")
                .value_name("FORMAT")
                .conflicts_with_all(["json", "why", "nodes", "partitions"])
                .help("Show these fields (-O is the same): in letters such as '%.18i %j %T', or by name such as jobid,name:20,state"),
        )
        .arg(
            flag("long", "Show the state in full and the time limit, too")
                .short('l')
                .conflicts_with_all(["format", "json", "start", "why", "nodes", "partitions"]),
        )
        .arg(flag("noheader", "Show no headings").short('h'))
        .arg(flag("json", "Answer in JSON"))
        .arg(flag("start", "Show when and where jobs that wait are expected to start, in that order"))
        .arg(flag("nodes", "Show nodes, with every card and slice and who holds it"))
        .arg(flag("partitions", "Show partitions"))
        .arg(Arg::new("why").long("why").value_name("JOB").help("Say in words why this job waits, what for, who has it, and what would start at once instead; or why it ended so"))
        .arg(watch::option())
        .group(ArgGroup::new("what").args(["start", "nodes", "partitions", "why"]))
        .arg(conf_option())
}

/// The fields that `-o` knows, as a text of the manual.
fn fields_help() -> String {
    let mut text = String::from("Fields:\n");
    for declared in field::FIELDS {
        let letter = if declared.letter == ' ' { "  ".to_owned() } else { format!("%{}", declared.letter) };
        let names = declared.names.join(" or ");
        text.push_str(&format!("  {letter}  {names}: {}\n", declared.help));
    }
    text.push_str("\nA width goes before a letter (%10j, %.10j for the right side) and behind a name (name:10, name:.10).");
    text
}

/// Runs `gqstat`; returns the exit code.
pub fn main(argv: Vec<OsString>) -> u8 {
    run(command(), argv, |words| {
        let mut out = Out::stdout()?;
        let code = work(words, &mut out)?;
        out.flush()?;
        Ok(code)
    })
}

fn work(words: &ArgMatches, out: &mut Out) -> Result<u8, Trouble> {
    let (json, header) = (words.get_flag("json"), !words.get_flag("noheader"));
    let mut select = listed(words)?;
    if let Some(job) = words.get_one::<String>("why") {
        select.jobs.extend(read_jobs(&[job])?);
    }
    let start = words.get_flag("start");
    if start && select.states.is_empty() {
        select.states.push(JobState::Pending);
    }
    if words.contains_id("watch") {
        return watch::watch(words, select, conf_of(words).map(Path::to_owned));
    }
    let named = words.get_one::<String>("format").map(String::as_str);
    let usual = match (start, words.get_flag("long")) {
        (true, _) => format::START,
        (false, true) => format::LONG,
        (false, false) => format::DEFAULT,
    };
    let format = Format::read(named.unwrap_or(usual))?;
    let link = Link::open(conf_of(words))?;
    if words.get_flag("nodes") {
        return nodes(&link, &select, json, header, out);
    }
    if words.get_flag("partitions") {
        return partitions(&link, &select, json, header, out);
    }
    let clock = Clock::system();
    let why = words.contains_id("why");
    let starts = start || why || json || !select.jobs.is_empty() || format.foretells();
    let each = words.get_flag("array");
    let ask =
        ListAsk { select, starts, by_start: start, split: json || each, split_waiting: each, explain: why };
    let unknown = if json {
        listing(&link, ask, &mut Json { out, first: true, why, arrays: Vec::new() })
    } else if why {
        listing(&link, ask, &mut Why { out, clock })
    } else {
        match format {
            Format::Letters(pieces) => listing(&link, ask, &mut Lines { pieces, clock, header, out }),
            Format::Columns(columns) => {
                let arrays = (named.is_none() && header).then(Vec::new);
                listing(&link, ask, &mut Columns { table: Table::new(columns, header), clock, out, arrays })
            }
        }
    }?;
    if unknown.is_empty() {
        return Ok(0);
    }
    out.flush()?;
    let ids: Vec<String> = unknown.iter().map(ToString::to_string).collect();
    say("gqstat", &format!("no such job: {}", ids.join(", ")));
    Ok(NO_SUCH_JOB)
}

/// What jobs are shown as.
trait Show {
    /// Shows some jobs, of which some may be explained; called at least once, and with none at the end.
    fn jobs(&mut self, jobs: &[JobView], explained: &[ExplanationView]) -> Result<(), Trouble>;
    /// Takes how far arrays are.
    fn arrays(&mut self, _: Vec<ArrayView>) {}
    /// Takes budgets of which much is used.
    fn budgets(&mut self, _: &[BudgetView]) {}
    /// Everything has been shown.
    fn end(&mut self) -> Result<(), Trouble> {
        Ok(())
    }
}

/// Asks for jobs and shows them as they arrive; returns the ids that no job ever had.
fn listing(link: &Link, ask: ListAsk, show: &mut dyn Show) -> Result<Vec<JobRef>, Trouble> {
    let words = Selection { jobs: Vec::new(), ..ask.select.clone() };
    let mut unknown = Vec::new();
    link.ask_in_parts(Ask::List(ask), |part| {
        let Reply::Jobs { mut jobs, unknown: some, degraded, explained, arrays, budgets, more } = part else {
            return Err(link.astray());
        };
        unknown.extend(some);
        if let Some(why) = degraded {
            say("gqstat", &format!("DEGRADED: no new jobs are taken: {why}"));
        }
        // Jobs named by id are given as they are; the other words still count.
        jobs.retain(|job| fits(job, &words));
        show.jobs(&jobs, &explained)?;
        show.arrays(arrays);
        show.budgets(&budgets);
        Ok(more)
    })?;
    show.end()?;
    Ok(unknown)
}

struct Columns<'a> {
    table: Table<Field>,
    clock: Clock,
    out: &'a mut Out,
    /// How far arrays are, where that is wanted.
    arrays: Option<Vec<ArrayView>>,
}

impl Show for Columns<'_> {
    fn jobs(&mut self, jobs: &[JobView], _: &[ExplanationView]) -> Result<(), Trouble> {
        let clock = &self.clock;
        self.table.print(jobs, self.out, |field, job, cell| field.write(job, clock, cell), job_style)
    }
    fn budgets(&mut self, budgets: &[BudgetView]) {
        budgets.iter().for_each(|budget| say("gqstat", &crate::acct::told(budget, &self.clock)));
    }
    fn arrays(&mut self, arrays: Vec<ArrayView>) {
        self.arrays.iter_mut().for_each(|all| all.extend_from_slice(&arrays));
    }
    fn end(&mut self) -> Result<(), Trouble> {
        for array in self.arrays.iter().flatten() {
            let head = format!("{}: ", array.id);
            let width = self.out.width.map_or(usize::MAX, |width| width.saturating_sub(head.len()));
            self.out.put(&format!("{head}{}\n", progress::line(array, &self.clock, width)))?;
        }
        Ok(())
    }
}

/// The colours of a job's state.
fn job_style(field: Field, job: &JobView) -> Option<Style> {
    if !matches!(field, Field::Code | Field::State) {
        return None;
    }
    use gq_model::End;
    let colour = match job.state.parse().ok()? {
        JobState::Pending => AnsiColor::Yellow,
        JobState::Starting | JobState::Running | JobState::Ended(End::Completed) => AnsiColor::Green,
        JobState::Suspended | JobState::Completing => AnsiColor::Cyan,
        JobState::Unknown => AnsiColor::Magenta,
        JobState::Ended(_) => AnsiColor::Red,
    };
    Some(colour.on_default())
}

struct Lines<'a> {
    pieces: Vec<Piece>,
    clock: Clock,
    header: bool,
    out: &'a mut Out,
}

impl Show for Lines<'_> {
    fn jobs(&mut self, jobs: &[JobView], _: &[ExplanationView]) -> Result<(), Trouble> {
        let Self { pieces, clock, header, out } = self;
        let mut text = String::new();
        if std::mem::take(header) {
            format::write_line(pieces, &mut text, |field, cell| cell.push_str(field.head()));
        }
        for job in jobs {
            format::write_line(pieces, &mut text, |field, cell| field.write(job, clock, cell));
        }
        out.put(&text)
    }
}

struct Json<'a> {
    out: &'a mut Out,
    first: bool,
    why: bool,
    arrays: Vec<ArrayView>,
}

impl Show for Json<'_> {
    fn jobs(&mut self, jobs: &[JobView], explained: &[ExplanationView]) -> Result<(), Trouble> {
        for job in jobs {
            self.out.put(if self.first { "{\"jobs\":[" } else { ",\n" })?;
            self.first = false;
            let written = match self.why {
                true => json::write(self.out, &json::explained(job, explanation(job, explained))),
                false => json::write(self.out, &json::job(job)),
            };
            written.map_err(|e| Trouble::of_output(&e))?;
        }
        Ok(())
    }
    fn arrays(&mut self, arrays: Vec<ArrayView>) {
        self.arrays.extend(arrays);
    }
    fn end(&mut self) -> Result<(), Trouble> {
        self.out.put(if self.first { "{\"jobs\":[]" } else { "]" })?;
        for (at, array) in self.arrays.iter().enumerate() {
            self.out.put(if at == 0 { ",\n\"arrays\":[" } else { ",\n" })?;
            json::write(self.out, &json::array(array)).map_err(|e| Trouble::of_output(&e))?;
        }
        self.out.put(if self.arrays.is_empty() { "}\n" } else { "]}\n" })
    }
}

struct Why<'a> {
    out: &'a mut Out,
    clock: Clock,
}

impl Show for Why<'_> {
    fn jobs(&mut self, jobs: &[JobView], explained: &[ExplanationView]) -> Result<(), Trouble> {
        let mut text = String::new();
        for job in jobs {
            why::tell(job, explanation(job, explained), &self.clock, &mut text);
        }
        self.out.put(&text)
    }
}

/// The explanation of a job that waits.
fn explanation<'a>(job: &JobView, explained: &'a [ExplanationView]) -> Option<&'a ExplanationView> {
    let waits = job.state == JobState::Pending.name();
    explained.iter().find(|explained| waits && explained.id == job.id)
}

/// The nodes of the partitions that are meant.
fn nodes_of(link: &Link, select: &Selection) -> Result<Vec<NodeView>, Trouble> {
    let Reply::Nodes(mut nodes) = link.ask(Ask::Nodes)? else { return Err(link.astray()) };
    let wanted = &select.partitions;
    nodes.retain(|node| wanted.is_empty() || node.partitions.iter().any(|p| wanted.contains(p)));
    Ok(nodes)
}

fn nodes(link: &Link, select: &Selection, json: bool, header: bool, out: &mut Out) -> Result<u8, Trouble> {
    let nodes = nodes_of(link, select)?;
    if json {
        one_object(out, &json::nodes(&nodes))?;
    } else {
        house::print_nodes(&nodes, header, out)?;
    }
    Ok(0)
}

fn partitions(
    link: &Link,
    select: &Selection,
    json: bool,
    header: bool,
    out: &mut Out,
) -> Result<u8, Trouble> {
    let Reply::Partitions(mut partitions) = link.ask(Ask::Partitions)? else { return Err(link.astray()) };
    partitions.retain(|p| select.partitions.is_empty() || select.partitions.contains(&p.name));
    if json {
        one_object(out, &json::partitions(&partitions))?;
    } else {
        house::print_partitions(&partitions, header, out)?;
    }
    Ok(0)
}

fn one_object(out: &mut Out, value: &impl serde::Serialize) -> Result<(), Trouble> {
    json::write(out, value).and_then(|()| out.write_all(b"\n")).map_err(|e| Trouble::of_output(&e))
}
