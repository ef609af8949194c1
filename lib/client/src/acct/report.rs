//! `gqacct report`: the three records, by partition, by user and over time: how much of what was held was really used, how long jobs waited, and how
//! soon after the end of a run all that it held was free. As tables, as JSON, or as one page.

use super::{
    by::{BY, By, Periods, name_period},
    courses::Courses,
    flag, picked, picking, sheet,
    usage::{self, Part},
    waits::{self, span},
    when::{self, Period},
};
use crate::{
    link::{Link, conf_of},
    out::Out,
    stat::{
        clock::Clock,
        json,
        table::{Column, Table},
    },
    trouble::{REFUSED, Trouble},
};
use clap::{Arg, ArgMatches, Command, value_parser};
use gq_model::Timestamp;
use gq_proto::{Ask, PastAsk, Reply, UsageAsk, UsageBy, UsageView, WaitsView};
use serde_json::{Value, json};
use std::{
    panic::resume_unwind,
    path::{Path, PathBuf},
    thread::{self, ScopedJoinHandle},
};

/// Longest span that is told day by day, in days.
const DAYS: u64 = 62;
/// Microseconds of a day.
const DAY: u64 = 86_400_000_000;
/// Most runs that the picture of cards is made of.
const MAX_DRAWN: usize = 500_000;

/// The options of `gqacct report`.
pub(super) fn report_command() -> Command {
    Command::new("report")
        .about("Show how much was really used, how long jobs waited, and how soon all was free again")
        .long_about(
            "Shows three records, by partition, by user, and over time: what part of the cards and cpus that were held was in use, how long tasks \
             waited until they were given their resources, and how long it took from the end of a run until all that it held was free; and how many runs had \
             idle cards and what was taken back of them. With \
             --html they are one page with pictures besides: who used what, card by card, and waits as distributions. It begins with this \
             month if nothing else is said, and counts what has ended.",
        )
        .disable_help_flag(true)
        .args(picking())
        .arg(
            Arg::new("html")
                .long("html")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .value_hint(clap::ValueHint::FilePath)
                .conflicts_with("json")
                .help("Write a page to this file: nothing in it is a script or comes from elsewhere"),
        )
        .arg(flag("json", "Answer in JSON"))
        .arg(flag("noheader", "Show no headings").short('h'))
}

/// What is told of one partition, user or span of time.
pub(super) struct Line {
    /// Which.
    pub(super) name: String,
    /// What was held and used.
    pub(super) usage: UsageView,
    /// How they waited.
    pub(super) waits: WaitsView,
}

/// A span of time by its name, with the card-hours of each user.
pub(super) type Span = (String, Vec<(String, f64)>);

/// All that is reported.
pub(super) struct Report {
    /// From when to when, as it is told.
    pub(super) from: String,
    pub(super) until: String,
    pub(super) partitions: Vec<Line>,
    pub(super) users: Vec<Line>,
    pub(super) times: Vec<Line>,
    /// Card-hours of each span of time, of each user.
    pub(super) shares: Vec<Span>,
    /// Who held which card when; none when no page is made.
    pub(super) courses: Option<Courses>,
}

/// Makes a report.
pub(super) fn report(words: &ArgMatches, clock: &Clock, out: &mut Out) -> Result<u8, Trouble> {
    let page = words.get_one::<PathBuf>("html");
    let report = gather(words, clock, page.is_some())?;
    match page {
        Some(file) => {
            let failed = |e| Trouble::new(REFUSED, format!("cannot write {}: {e}", file.display()));
            std::fs::write(file, sheet::page(&report)).map_err(failed)?;
        }
        None if words.get_flag("json") => {
            json::write(out, &value(&report)).map_err(|e| Trouble::of_output(&e))?;
            out.put("\n")?;
        }
        None => tables(&report, !words.get_flag("noheader"), out)?,
    }
    Ok(0)
}

fn gather(words: &ArgMatches, clock: &Clock, draws: bool) -> Result<Report, Trouble> {
    let mut select = picked(words, clock, when::Start::Month)?;
    let from = select.from.ok_or_else(|| Trouble::usage("--start is missing"))?;
    let until = select.until.unwrap_or(clock.now);
    if until <= from {
        return Err(Trouble::usage("--start lies ahead"));
    }
    select.until = Some(until);
    let days = until.micros_since(from).div_ceil(DAY);
    let period = if days <= DAYS { Period::Day } else { Period::Month };
    let periods = when::periods(period, from, until, clock)?;
    let ask_for = |by: UsageBy| lines(conf_of(words), &select, by, &periods);
    let kinds = [UsageBy::Partition, UsageBy::User, UsageBy::Period];
    let [partitions, users, times] =
        thread::scope(|threads| kinds.map(|by| threads.spawn(move || ask_for(by))).map(joined));
    let link = Link::open(conf_of(words))?;
    let courses = if draws { Some(courses(&link, &select, from, until)?) } else { None };
    let civil = |at| clock.civil(at).unwrap_or_default();
    Ok(Report {
        from: civil(from),
        until: civil(until),
        partitions: partitions?,
        users: users?,
        times: times?,
        shares: if draws { shares(&link, &select, &periods)? } else { Vec::new() },
        courses,
    })
}

fn asked(select: &PastAsk, by: Vec<UsageBy>, periods: &Periods) -> UsageAsk {
    UsageAsk { select: select.clone(), by, periods: periods.iter().map(|(begin, _)| *begin).collect() }
}

/// The word of something that sums are made by.
fn word(by: UsageBy) -> Vec<By> {
    BY.iter().filter(|(_, key, _)| key.letter() == by).take(1).copied().collect()
}

/// What a thread found.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Both are asked at the same time, as are all lines of a report, each by a link of its own: every answer is a look at all of its runs.
fn lines(
    conf: Option<&Path>,
    select: &PastAsk,
    by: UsageBy,
    periods: &Periods,
) -> Result<Vec<Line>, Trouble> {
    let ask = asked(select, vec![by], periods);
    let (sums, waits) = thread::scope(|threads| {
        let sums = threads.spawn(|| usage::sums_of(&Link::open(conf)?, ask.clone()));
        let waits = Link::open(conf).and_then(|link| waits::waits_of(&link, ask.clone()));
        (joined(sums), waits)
    });
    let (sums, mut waits) = (sums?, waits?);
    let mut lines: Vec<Line> = Vec::new();
    for mut usage in sums {
        // What ended in between is in neither or in the sums alone.
        let at = waits.iter().position(|one| one.keys == usage.keys);
        let waits = at.map(|at| waits.swap_remove(at)).unwrap_or_default();
        name_period(&word(by), periods, &mut usage.keys);
        let name = usage.keys.first().cloned().flatten().unwrap_or_else(|| "-".to_owned());
        lines.push(Line { name, usage, waits });
    }
    match by {
        UsageBy::Period => lines.sort_by(|a, b| a.name.cmp(&b.name)),
        _ => lines.sort_by(|a, b| {
            (b.usage.cards, b.usage.cpus, &a.name).cmp(&(a.usage.cards, a.usage.cpus, &b.name))
        }),
    }
    Ok(lines)
}

fn shares(link: &Link, select: &PastAsk, periods: &Periods) -> Result<Vec<Span>, Trouble> {
    let mut spans: Vec<Span> = periods.iter().map(|(_, name)| (name.clone(), Vec::new())).collect();
    let ask = asked(select, vec![UsageBy::Period, UsageBy::User], periods);
    for sum in usage::sums_of(link, ask)? {
        let [Some(number), Some(user)] = sum.keys.as_slice() else { continue };
        let hours = usage::figure(Part::CardHours, &sum).unwrap_or_default();
        let span = number.parse::<usize>().ok().and_then(|number| spans.get_mut(number));
        span.into_iter().for_each(|(_, parts)| parts.push((user.clone(), hours)));
    }
    spans.iter_mut().for_each(|(_, parts)| parts.sort_by(|a, b| a.0.cmp(&b.0)));
    Ok(spans)
}

fn courses(link: &Link, select: &PastAsk, from: Timestamp, until: Timestamp) -> Result<Courses, Trouble> {
    let mut courses = Courses::new(from, until);
    let mut left = MAX_DRAWN;
    link.ask_in_parts(Ask::Past(PastAsk { again: true, ..select.clone() }), |part| {
        let Reply::Runs { runs, more } = part else { return Err(link.astray()) };
        for run in runs.iter().take(left) {
            courses.add(run);
        }
        courses.is_cut |= runs.len() > left;
        left = left.saturating_sub(runs.len());
        Ok(more)
    })?;
    Ok(courses)
}

/// The columns of a table of lines, with their headings.
pub(super) const COLUMNS: [(Said, &str); 13] = [
    (Said::Use(Part::Runs), "RUNS"),
    (Said::Use(Part::CardHours), "CARD-HOURS"),
    (Said::Use(Part::CardsUsed), "USED"),
    (Said::Use(Part::CpuHours), "CPU-HOURS"),
    (Said::Use(Part::CpusUsed), "USED"),
    (Said::Wait(50), "WAIT-50%"),
    (Said::Wait(90), "90%"),
    (Said::Late, "LATE-90%"),
    (Said::Release(50), "RELEASE-50%"),
    (Said::Release(99), "99%"),
    (Said::Use(Part::Idle), "IDLE"),
    (Said::Use(Part::Reclaimed), "RECLAIMED"),
    (Said::Use(Part::GivenBack), "BACK-HOURS"),
];

/// What is said in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Which it is.
    Name,
    /// What was held and used.
    Use(Part),
    /// What so many percent of the tasks did not wait longer than.
    Wait(u8),
    /// By how much nine in ten were not later than promised.
    Late,
    /// What so many percent of the runs did not take longer than to be gone.
    Release(u8),
}

/// What a cell says.
pub(super) fn cell(said: Said, line: &Line) -> String {
    let waits = &line.waits;
    let told = |count: u64, micros: u64| if count > 0 { span(micros) } else { "-".to_owned() };
    match said {
        Said::Name => line.name.clone(),
        Said::Use(part) => usage::cell(part, &line.usage),
        Said::Wait(50) => told(waits.wait.count, waits.wait.p50),
        Said::Wait(_) => told(waits.wait.count, waits.wait.p90),
        Said::Late => told(waits.late.count, waits.late.p90),
        Said::Release(50) => told(waits.release.count, waits.release.p50),
        Said::Release(_) => told(waits.release.count, waits.release.p99),
    }
}

fn tables(report: &Report, header: bool, out: &mut Out) -> Result<(), Trouble> {
    let parts = [("PARTITION", &report.partitions), ("USER", &report.users), ("TIME", &report.times)];
    for (at, (head, lines)) in parts.into_iter().enumerate() {
        if at > 0 {
            out.put("\n")?;
        }
        let mut columns = vec![Column::new(Said::Name, head)];
        let has_costs = lines.iter().any(|line| line.usage.cost.is_some());
        let cost = has_costs.then_some((Said::Use(Part::Cost), "COST"));
        let said = COLUMNS.into_iter().chain(cost);
        columns.extend(said.map(|(said, head)| Column { right: true, ..Column::new(said, head) }));
        let mut table = Table::new(columns, header);
        table.print(lines, out, |said, line, text| text.push_str(&cell(said, line)), |_, _| None)?;
    }
    Ok(())
}

fn value(report: &Report) -> Value {
    let rows = |lines: &[Line], name: &str| -> Vec<Value> {
        let row = |line: &Line| {
            let mut row = usage::row(&[], &line.usage);
            row.insert(name.to_owned(), line.name.clone().into());
            if let Value::Object(waits) = waits::row(&[], &line.waits) {
                row.extend(waits);
            }
            Value::Object(row)
        };
        lines.iter().map(row).collect()
    };
    json!({
        "start": report.from, "end": report.until, "partitions": rows(&report.partitions, "partition"),
        "users": rows(&report.users, "user"), "times": rows(&report.times, "time"),
    })
}
