//! `gqacct`: what has ended, and what it held and used: runs one by one, one job with all that is kept of it, and sums. `gqd` picks and sums
//! up; here it is shown.

mod advise;
mod budgets;
mod by;
mod courses;
mod field;
mod json;
mod picture;
mod report;
mod rows;
mod sheet;
mod show;
mod usage;
mod waits;
mod when;

pub(crate) use advise::{advice_in_json, advice_in_words, advice_of, smallest_of, tried};
pub(crate) use budgets::told;

use crate::{
    link::{Link, conf_of, conf_option},
    out::Out,
    select::{filtered, filters, read_jobs, split},
    stat::{clock::Clock, table::Table},
    trouble::{Trouble, run},
};
use clap::{Arg, ArgAction, ArgMatches, Command};
use field::Field;
use gq_model::{NodeName, expand_hosts};
use gq_proto::{Ask, PastAsk, Reply, RunView};
use std::ffi::OsString;

/// The fields shown when nothing else is asked for.
const DEFAULT: &str =
    "jobid,jobname,user,partition,state,exitcode,end,elapsed,cpus,gpus,totalcpu,maxrss,gpuutil";

/// What shows runs as they come.
type Show<'a> = dyn FnMut(&[RunView], &mut Out) -> Result<(), Trouble> + 'a;

/// The option table of `gqacct`.
pub fn command() -> Command {
    Command::new("gqacct")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Show jobs that have ended, and what was used")
        .long_about(
            "Shows what has ended, in the order in which it did: of each job or task its last run. Without --start, --end or --jobs it is what \
             ended today. What waits or runs is shown by gqstat.",
        )
        .after_long_help(field::help())
        .args_conflicts_with_subcommands(true)
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .arg(Arg::new("help").long("help").action(ArgAction::Help).global(true).help("Show what can be asked"))
        .arg(
            Arg::new("jobs")
                .long("jobs")
                .short('j')
                .visible_alias("job")
                .value_name("LIST")
                .action(ArgAction::Append)
                .help("Runs of these jobs or tasks: 17,18_3,19_[0-4]"),
        )
        .args(picking())
        .arg(flag("duplicates", "Show every run of a task, also those after which it went on").short('D'))
        .arg(
            Arg::new("format")
                .long("format")
                .short('o')
                .value_name("FIELDS")
                .help("Show these fields: jobid,jobname,elapsed"),
        )
        .args(forms())
        .arg(conf_option())
        .subcommand(show::show_command())
        .subcommand(usage::usage_command())
        .subcommand(budgets::budgets_command())
        .subcommand(waits::waits_command())
        .subcommand(report::report_command())
        .subcommand(advise::advise_command())
}

fn flag(id: &'static str, help: &'static str) -> Arg {
    Arg::new(id).long(id).action(ArgAction::SetTrue).help(help)
}

/// The options that pick runs.
fn picking() -> Vec<Arg> {
    let list = |id: &'static str, short: char, help: &'static str| {
        Arg::new(id).long(id).short(short).value_name("LIST").action(ArgAction::Append).help(help)
    };
    let time = |id: &'static str, short: char, help: &'static str| {
        Arg::new(id).long(id).short(short).value_name("TIME").help(help)
    };
    let mut all = filters();
    all.extend([
        list("account", 'A', "Runs charged to these accounts, or labelled so"),
        list("node", 'N', "Runs on these nodes: ws1, or ws[1-4,7]").visible_alias("nodelist"),
        time(
            "start",
            'S',
            "What ended at that time or later: 2027-01-31, 2027-01-31T16:00, today, yesterday, now-7days",
        )
        .visible_alias("starttime"),
        time("end", 'E', "What ended before that time").visible_alias("endtime"),
    ]);
    all
}

/// The options that say in what form it is shown.
fn forms() -> Vec<Arg> {
    vec![
        flag("json", "Answer in JSON").conflicts_with("csv"),
        flag("csv", "Answer in comma-separated values"),
        flag("noheader", "Show no headings").short('h'),
    ]
}

/// Runs `gqacct`; returns the exit code.
pub fn main(argv: Vec<OsString>) -> u8 {
    run(command(), argv, |words| {
        let mut out = Out::stdout()?;
        let clock = Clock::system();
        let code = match words.subcommand() {
            Some(("show", words)) => show::show(words, &clock, &mut out)?,
            Some(("advise", words)) => advise::advise(words, &clock, &mut out)?,
            Some(("report", words)) => report::report(words, &clock, &mut out)?,
            Some(("budgets", words)) => budgets::budgets(words, &clock, &mut out)?,
            Some(("waits", words)) => waits::waits(words, &clock, &mut out)?,
            Some((_, words)) => usage::usage(words, &clock, &mut out)?,
            None => list(words, &clock, &mut out)?,
        };
        out.flush()?;
        Ok(code)
    })
}

/// Reads what [`picking`] declares; `usual_start` is when it begins if nobody says.
fn picked(words: &ArgMatches, clock: &Clock, usual_start: when::Start) -> Result<PastAsk, Trouble> {
    let select = filtered(words)?;
    if let Some(state) = select.states.iter().find(|state| !state.has_ended()) {
        return Err(Trouble::usage(format!("--states: nothing has ended {}", state.name()))
            .with_hint("gqstat shows what waits and runs"));
    }
    let lists = |id: &str| -> Vec<&str> {
        words.get_many::<String>(id).into_iter().flatten().map(String::as_str).collect()
    };
    let mut nodes: Vec<NodeName> = Vec::new();
    for list in lists("node") {
        nodes.extend(expand_hosts(list).map_err(|e| Trouble::usage(format!("--node={list}: {e}")))?);
    }
    let said = |id: &str| words.get_one::<String>(id).map(String::as_str);
    let (from, until) = when::range(said("start"), said("end"), clock, usual_start)?;
    let owned = |list: &&str| split(list).into_iter().map(str::to_owned).collect::<Vec<_>>();
    Ok(PastAsk {
        from,
        until,
        jobs: Vec::new(),
        users: select.users,
        accounts: lists("account").iter().flat_map(owned).collect(),
        partitions: select.partitions,
        nodes,
        states: select.states,
        names: select.names.iter().flat_map(|list| list.split(',')).map(str::to_owned).collect(),
        again: false,
    })
}

/// Lists runs.
fn list(words: &ArgMatches, clock: &Clock, out: &mut Out) -> Result<u8, Trouble> {
    let jobs: Vec<&str> =
        words.get_many::<String>("jobs").into_iter().flatten().map(String::as_str).collect();
    let jobs = read_jobs(&jobs)?;
    let usual = if jobs.is_empty() { when::Start::Today } else { when::Start::Ever };
    let mut ask = picked(words, clock, usual)?;
    ask.jobs = jobs.iter().map(|job| job.job).collect();
    ask.again = words.get_flag("duplicates");
    let format = words.get_one::<String>("format").map_or(DEFAULT, String::as_str);
    let columns = field::columns(format)?;
    let is_meant = |run: &RunView| {
        jobs.is_empty()
            || jobs.iter().any(|job| {
                let names = |task| job.tasks.as_ref().is_none_or(|tasks| tasks.contains(task));
                job.job == run.id && run.array_task_id.is_none_or(names)
            })
    };
    let link = Link::open(conf_of(words))?;
    let header = !words.get_flag("noheader");
    let mut show: Box<Show<'_>> = if words.get_flag("json") {
        Box::new(json::list())
    } else if words.get_flag("csv") {
        Box::new(csv_lines(columns.iter().map(|column| column.of).collect(), header, clock))
    } else {
        let mut table = Table::new(columns, header);
        Box::new(move |runs, out| {
            table.print(runs, out, |field: Field, run, cell| field.write(run, clock, cell), |_, _| None)
        })
    };
    link.ask_in_parts(Ask::Past(ask), |part| {
        let Reply::Runs { mut runs, more } = part else { return Err(link.astray()) };
        runs.retain(is_meant);
        show(&runs, out)?;
        Ok(more)
    })?;
    if words.get_flag("json") {
        json::end(out)?;
    }
    Ok(0)
}

/// Shows runs as comma-separated values.
fn csv_lines(
    fields: Vec<Field>,
    header: bool,
    clock: &Clock,
) -> impl FnMut(&[RunView], &mut Out) -> Result<(), Trouble> {
    let mut owes_header = header;
    move |runs, out| {
        let mut rows: Vec<Vec<String>> = Vec::new();
        if std::mem::take(&mut owes_header) {
            rows.push(fields.iter().map(|field| field.name().to_owned()).collect());
        }
        rows.extend(runs.iter().map(|run| fields.iter().map(|field| field.plain(run, clock)).collect()));
        write_csv(&rows, out)
    }
}

fn write_csv(rows: &[Vec<String>], out: &mut Out) -> Result<(), Trouble> {
    let mut writer = csv::Writer::from_writer(out);
    for row in rows {
        writer.write_record(row).map_err(|e| Trouble::of_output(&std::io::Error::other(e)))?;
    }
    writer.flush().map_err(|e| Trouble::of_output(&e))
}
