//! `gqacct usage`: what runs held and used, in hours, by whatever they have in common. `gqd` sums up; hours are made here.

use super::{
    by::{self, By},
    flag, forms, picking,
    rows::{Forms, key_cell, key_columns, key_names, key_values},
};
use crate::{
    link::{Link, conf_of},
    out::Out,
    stat::{clock::Clock, table::Column, used::percent},
    trouble::Trouble,
};
use clap::{ArgMatches, Command};
use gq_proto::{Ask, Reply, UsageAsk, UsageView};
use serde_json::{Map, Value, json};

/// The options of `gqacct usage`.
pub(super) fn usage_command() -> Command {
    Command::new("usage")
        .about("Show card-hours, cpu-hours and memory-hours that were held, and how much of them was used")
        .long_about(
            "Sums up what runs held, every attempt of a task: from when they were given it to their end. A slice or a share counts as its part of a \
             card. A run counts as a whole where it ended, and what still runs does not count yet. USED says how much of what was measured was in \
             use. COST is there when cards have prices, and what a run cost is what they were when it was given its cards. Without --start it begins with this month; by month, with this year.",
        )
        .disable_help_flag(true)
        .arg(by::by_option("user"))
        .args(picking())
        .args(forms())
        .arg(flag("sort", "The largest use of cards first").long("largest"))
}

/// Shows sums.
pub(super) fn usage(words: &ArgMatches, clock: &Clock, out: &mut Out) -> Result<u8, Trouble> {
    let (by, periods, ask) = by::asked(words, clock)?;
    let link = Link::open(conf_of(words))?;
    let mut sums = sums_of(&link, ask)?;
    sums.iter_mut().for_each(|sum| by::name_period(&by, &periods, &mut sum.keys));
    sums.sort_by(|a, b| a.keys.cmp(&b.keys));
    if words.get_flag("sort") {
        sums.sort_by_key(|sum| std::cmp::Reverse(sum.cards));
    }
    print(words, &by, &sums, out)?;
    Ok(0)
}

/// Asks for sums.
pub(super) fn sums_of(link: &Link, ask: UsageAsk) -> Result<Vec<UsageView>, Trouble> {
    let mut sums = Vec::new();
    link.ask_in_parts(Ask::Usage(ask), |part| {
        let Reply::Usage { sums: some, more } = part else { return Err(link.astray()) };
        sums.extend(some);
        Ok(more)
    })?;
    Ok(sums)
}

/// What is said of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// One of the keys.
    Key(usize),
    /// How many runs.
    Runs,
    /// How many of them were not the last of their task.
    Again,
    /// Hours of cards.
    CardHours,
    /// How much of them was used.
    CardsUsed,
    /// Hours of cpus.
    CpuHours,
    /// How much of them was used.
    CpusUsed,
    /// Hours of GiB.
    MemoryHours,
    /// How many of the runs were found with idle cards.
    Idle,
    /// How many of these were ended or put back for it.
    Reclaimed,
    /// Hours of cards that were left of their time limits.
    GivenBack,
    /// What the cards cost.
    Cost,
}

/// The columns behind the keys, with their keys in JSON and CSV.
const PARTS: [(Part, &str, &str); 11] = [
    (Part::Runs, "RUNS", "runs"),
    (Part::Again, "AGAIN", "again"),
    (Part::CardHours, "CARD-HOURS", "card_hours"),
    (Part::CardsUsed, "USED", "gpu_utilization"),
    (Part::CpuHours, "CPU-HOURS", "cpu_hours"),
    (Part::CpusUsed, "USED", "cpu_utilization"),
    (Part::MemoryHours, "GIB-HOURS", "memory_gib_hours"),
    (Part::Idle, "IDLE", "idle_runs"),
    (Part::Reclaimed, "RECLAIMED", "reclaimed_runs"),
    (Part::GivenBack, "BACK-HOURS", "reclaimed_card_hours"),
    (Part::Cost, "COST", "cost"),
];

const HOUR: f64 = 3600.0;

/// What a sum says: a number; none where nothing was measured.
pub(super) fn figure(part: Part, sum: &UsageView) -> Option<f64> {
    let share = |used: u64, of: u64| (of > 0).then(|| used as f64 / of as f64);
    match part {
        Part::Key(_) => None,
        Part::Runs => Some(sum.runs as f64),
        Part::Again => Some(sum.again as f64),
        Part::CardHours => Some(sum.cards as f64 / 1e3 / HOUR),
        Part::CardsUsed => share(sum.cards_used, sum.cards_measured),
        Part::CpuHours => Some(sum.cpus as f64 / HOUR),
        Part::CpusUsed => share(sum.cpus_used, sum.cpus_measured),
        Part::MemoryHours => Some(sum.memory as f64 / 1024.0 / HOUR),
        Part::Idle => Some(sum.idle as f64),
        Part::Reclaimed => Some(sum.reclaimed as f64),
        Part::GivenBack => Some(sum.given_back as f64 / 1e3 / HOUR),
        Part::Cost => sum.cost.map(|cost| cost as f64 / 1e6),
    }
}

/// What it says in a cell.
pub(super) fn cell(part: Part, sum: &UsageView) -> String {
    match (part, figure(part, sum)) {
        (Part::Key(at), _) => key_cell(&sum.keys, at),
        (_, None) => "-".to_owned(),
        (Part::Runs | Part::Again | Part::Idle | Part::Reclaimed, Some(count)) => format!("{count:.0}"),
        (Part::CardsUsed | Part::CpusUsed, Some(part)) => percent((part * 1e3).round() as u64),
        (Part::Cost, Some(cost)) => {
            let currency = sum.currency.as_ref().map(|name| format!(" {name}"));
            format!("{cost:.2}{}", currency.unwrap_or_default())
        }
        (_, Some(hours)) => format!("{hours:.2}"),
    }
}

fn print(words: &ArgMatches, by: &[By], sums: &[UsageView], out: &mut Out) -> Result<(), Trouble> {
    let figures = |sum: &UsageView| {
        PARTS.map(|(part, ..)| figure(part, sum).map_or_else(String::new, number)).into_iter()
    };
    // Where nobody looks for idle cards there is nothing to tell of them, nor of costs without a price.
    let is_told = |part| match part {
        Part::Idle | Part::Reclaimed | Part::GivenBack => sums.iter().any(|sum| sum.idle > 0),
        Part::Cost => sums.iter().any(|sum| sum.cost.is_some()),
        _ => true,
    };
    let mut columns = key_columns(by, Part::Key);
    let parts = PARTS.into_iter().filter(|(part, ..)| is_told(*part));
    columns.extend(parts.map(|(part, head, _)| Column { right: true, ..Column::new(part, head) }));
    let forms = Forms {
        json: &|| {
            let rows: Vec<Value> = sums.iter().map(|sum| Value::Object(row(by, sum))).collect();
            json!({ "usage": rows })
        },
        names: key_names(by).chain(PARTS.map(|(.., name)| name)).collect(),
        line: &|sum: &UsageView| key_values(&sum.keys).chain(figures(sum)).collect(),
        columns,
        cell: &cell,
    };
    forms.print(words, sums, out)
}

/// As short as it is exact to six digits behind the point.
fn number(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A sum with all its keys.
pub(super) fn row(by: &[By], sum: &UsageView) -> Map<String, Value> {
    let mut row = by::row_of(by, &sum.keys);
    for (part, _, name) in PARTS {
        let value = figure(part, sum).map_or(Value::Null, |figure| match part {
            Part::Runs | Part::Again | Part::Idle | Part::Reclaimed => Value::from(figure as u64),
            _ => Value::from(figure),
        });
        row.insert(name.to_owned(), value);
    }
    row.insert("currency".into(), sum.currency.clone().map_or(Value::Null, Value::from));
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_hours_and_what_was_not_measured_is_not_said_to_be_idle() {
        let sum = UsageView {
            keys: vec![Some("ann".into()), None],
            runs: 3,
            again: 1,
            // Two cards for half an hour.
            cards: 3_600_000,
            cpus: 9000,
            memory: 3600 * 2048,
            cards_measured: 1_000_000,
            cards_used: 250_000,
            idle: 2,
            reclaimed: 1,
            given_back: 1_800_000,
            cost: Some(1_500_000),
            currency: Some("EUR".into()),
            ..UsageView::default()
        };
        let said: Vec<String> = PARTS.iter().map(|(part, ..)| cell(*part, &sum)).collect();
        assert_eq!(said, ["3", "1", "1.00", "25%", "2.50", "-", "2.00", "2", "1", "0.50", "1.50 EUR"]);
        assert_eq!((cell(Part::Key(0), &sum), cell(Part::Key(1), &sum)), ("ann".into(), "-".into()));
        assert_eq!([number(0.25), number(2.0), number(100.0)], ["0.25", "2", "100"]);
    }
}
