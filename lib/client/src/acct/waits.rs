//! `gqacct waits`: how long jobs waited, how far promised starts were off, and how soon after the end of a run all that it held was free.

use super::{
    by::{self, By},
    forms, picking,
    rows::{Forms, key_cell, key_columns, key_names, key_values},
};
use crate::{
    link::{Link, conf_of},
    out::Out,
    stat::{clock::Clock, table::Column},
    trouble::Trouble,
};
use clap::{ArgMatches, Command};
use gq_model::Seconds;
use gq_proto::{Ask, Reply, SpreadView, UsageAsk, WAIT_BOUNDS, WaitsView};
use serde_json::{Value, json};

/// The options of `gqacct waits`.
pub(super) fn waits_command() -> Command {
    Command::new("waits")
        .about("Show how long jobs waited, how far promises were off, and how soon all was free")
        .long_about(
            "Shows distributions: what half, nine in ten and 99 in 100 of the runs did not exceed. WAIT is from submission to the first time that a task \
             was given its resources, whatever it waited for. LATE is by how much that was later than promised first; in time is 0. RELEASE \
             is from the end of a run to all that it held being free. Without --start it begins with this month; by month, with this year.",
        )
        .disable_help_flag(true)
        .arg(by::by_option("partition"))
        .args(picking())
        .args(forms())
}

/// Shows waits.
pub(super) fn waits(words: &ArgMatches, clock: &Clock, out: &mut Out) -> Result<u8, Trouble> {
    let (by, periods, ask) = by::asked(words, clock)?;
    let link = Link::open(conf_of(words))?;
    let mut waits = waits_of(&link, ask)?;
    waits.iter_mut().for_each(|one| by::name_period(&by, &periods, &mut one.keys));
    waits.sort_by(|a, b| a.keys.cmp(&b.keys));
    print(words, &by, &waits, out)?;
    Ok(0)
}

/// Asks for waits.
pub(super) fn waits_of(link: &Link, ask: UsageAsk) -> Result<Vec<WaitsView>, Trouble> {
    let mut waits = Vec::new();
    link.ask_in_parts(Ask::Waits(ask), |part| {
        let Reply::Waits { waits: some, more } = part else { return Err(link.astray()) };
        waits.extend(some);
        Ok(more)
    })?;
    Ok(waits)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Key(usize),
    Count,
    Of(Which, Figure),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Wait,
    Late,
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    P50,
    P90,
    P99,
    Max,
}

/// The columns behind the keys, with their keys in CSV.
const PARTS: [(Part, &str, &str); 11] = [
    (Part::Count, "TASKS", "tasks"),
    (Part::Of(Which::Wait, Figure::P50), "WAIT-50%", "wait_p50"),
    (Part::Of(Which::Wait, Figure::P90), "90%", "wait_p90"),
    (Part::Of(Which::Wait, Figure::P99), "99%", "wait_p99"),
    (Part::Of(Which::Wait, Figure::Max), "MOST", "wait_max"),
    (Part::Of(Which::Late, Figure::P90), "LATE-90%", "late_p90"),
    (Part::Of(Which::Late, Figure::P99), "99%", "late_p99"),
    (Part::Of(Which::Late, Figure::Max), "MOST", "late_max"),
    (Part::Of(Which::Release, Figure::P50), "RELEASE-50%", "release_p50"),
    (Part::Of(Which::Release, Figure::P99), "99%", "release_p99"),
    (Part::Of(Which::Release, Figure::Max), "MOST", "release_max"),
];

const fn spread(which: Which, waits: &WaitsView) -> &SpreadView {
    match which {
        Which::Wait => &waits.wait,
        Which::Late => &waits.late,
        Which::Release => &waits.release,
    }
}

/// A figure in microseconds; none when nothing counted.
fn figure(which: Which, figure: Figure, waits: &WaitsView) -> Option<u64> {
    let spread = spread(which, waits);
    let micros = match figure {
        Figure::P50 => spread.p50,
        Figure::P90 => spread.p90,
        Figure::P99 => spread.p99,
        Figure::Max => spread.max,
    };
    (spread.count > 0).then_some(micros)
}

/// Spans below a minute in seconds with decimals: that of releases is told so.
pub(super) fn span(micros: u64) -> String {
    match micros {
        0..60_000_000 => format!("{:.2}s", micros as f64 / 1e6),
        _ => Seconds(micros / 1_000_000).to_string(),
    }
}

fn cell(part: Part, waits: &WaitsView) -> String {
    match part {
        Part::Key(at) => key_cell(&waits.keys, at),
        Part::Count => waits.wait.count.to_string(),
        Part::Of(which, of) => figure(which, of, waits).map_or_else(|| "-".to_owned(), span),
    }
}

fn print(words: &ArgMatches, by: &[By], waits: &[WaitsView], out: &mut Out) -> Result<(), Trouble> {
    let figures = |one: &WaitsView| {
        let value = |part| match part {
            Part::Of(which, of) => figure(which, of, one)
                .map_or_else(String::new, |micros| format!("{:.6}", micros as f64 / 1e6)),
            part => cell(part, one),
        };
        PARTS.map(|(part, ..)| value(part)).into_iter()
    };
    let mut columns = key_columns(by, Part::Key);
    columns.extend(PARTS.map(|(part, head, _)| Column { right: true, ..Column::new(part, head) }));
    let forms = Forms {
        json: &|| {
            let rows: Vec<Value> = waits.iter().map(|one| row(by, one)).collect();
            json!({ "waits": rows, "bounds": WAIT_BOUNDS.to_vec() })
        },
        names: key_names(by).chain(PARTS.map(|(.., name)| name)).collect(),
        line: &|one: &WaitsView| key_values(&one.keys).chain(figures(one)).collect(),
        columns,
        cell: &cell,
    };
    forms.print(words, waits, out)
}

pub(super) fn row(by: &[By], waits: &WaitsView) -> Value {
    let mut row = by::row_of(by, &waits.keys);
    for (name, which) in [("wait", Which::Wait), ("late", Which::Late), ("release", Which::Release)] {
        let spread = spread(which, waits);
        let seconds = |micros: u64| micros as f64 / 1e6;
        let value = match spread.count {
            0 => Value::Null,
            count => json!({
                "count": count, "mean": seconds(spread.mean), "p50": seconds(spread.p50), "p90": seconds(spread.p90),
                "p99": seconds(spread.p99), "max": seconds(spread.max), "counts": spread.counts,
            }),
        };
        row.insert(name.to_owned(), value);
    }
    Value::Object(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_count_is_not_said_to_be_nothing() {
        let wait = SpreadView {
            count: 2,
            p50: 1_500_000,
            p90: 90_000_000,
            max: 90_000_000,
            ..SpreadView::default()
        };
        let waits = WaitsView { keys: vec![Some("main".into())], wait, ..WaitsView::default() };
        let said: Vec<String> = PARTS.iter().map(|(part, ..)| cell(*part, &waits)).collect();
        assert_eq!(said[..5], ["2", "1.50s", "1:30", "0.00s", "1:30"]);
        assert_eq!(said[5..], ["-"; 6]);
        assert!(row(&[], &waits)["release"].is_null());
    }
}
