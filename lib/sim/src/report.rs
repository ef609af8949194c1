//! The report: what a simulation comes to, as tables for people and as JSON for programs. Computes nothing.

use crate::{
    fragmentation::CardFigures,
    metrics::{Bucket, Metrics},
    spread::Spread,
    trace::{Dropped, Notes},
};
use comfy_table::{Cell, CellAlignment, Table, presets::NOTHING};
use serde::Serialize;
use std::fmt::Write;

/// How long the passes of the planner took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Passes {
    /// How many there were.
    pub(crate) count: u64,
    /// Half of them took no longer, in microseconds.
    pub(crate) p50_us: f64,
    /// 99 of 100 took no longer, in microseconds.
    pub(crate) p99_us: f64,
    /// The longest, in microseconds.
    pub(crate) max_us: f64,
    /// Wall time of all passes together, in seconds; what is left of the whole is the engine's and the simulator's own.
    pub(crate) planning_s: f64,
    /// Wall time of the whole simulation, in seconds.
    pub(crate) wall_s: f64,
    /// Jobs planned in a second of the planner's wall time.
    pub(crate) planned_jobs_per_s: f64,
    /// Jobs simulated in a second of wall time.
    pub(crate) jobs_per_s: f64,
}

/// All there is to say. The names of the fields are those of the JSON, and stay.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Report {
    /// The log.
    pub(crate) log: String,
    /// Its form.
    pub(crate) format: &'static str,
    /// The policy, as it was asked for.
    pub(crate) policy: String,
    /// The rule of placement.
    pub(crate) placement: &'static str,
    /// The seed of all that is random.
    pub(crate) seed: u64,
    /// Cpus of all nodes.
    pub(crate) cpus: u64,
    /// Cards of all nodes.
    pub(crate) cards: u64,
    /// Jobs of the log that were left out.
    pub(crate) dropped: Dropped,
    /// Lines that did not parse.
    pub(crate) malformed: u64,
    /// How the log's words were taken.
    pub(crate) taken_as: Vec<String>,
    /// The figures.
    #[serde(flatten)]
    pub(crate) metrics: Metrics,
    /// Figures of the cards, when there are some.
    pub(crate) card_figures: Option<CardFigures>,
    /// How long the passes took.
    pub(crate) passes: Passes,
}

impl Report {
    /// Takes over what there is to say of the reading.
    pub(crate) fn note(&mut self, notes: &Notes) {
        self.dropped = notes.dropped;
        self.malformed = notes.malformed;
        self.taken_as.clone_from(&notes.taken_as);
    }

    /// As tables for people.
    pub(crate) fn text(&self) -> String {
        let m = &self.metrics;
        let mut text = String::new();
        let machine = match (self.cpus, self.cards) {
            (cpus, 0) => format!("{cpus} processors"),
            (cpus, cards) => format!("{cpus} cpus and {cards} cards"),
        };
        // Writing to a text does not fail.
        let _ = writeln!(text, "{} ({}), {machine}, policy {}\n", self.log, self.format, self.policy);
        let mut list = plain();
        let mut row = |name: &str, value: String| {
            list.add_row([Cell::new(name), Cell::new(value)]);
        };
        row("jobs", jobs(self));
        row("makespan", span(m.makespan as f64));
        row(
            "utilisation",
            format!(
                "{} to makespan, {} while jobs arrive",
                percent(m.utilisation),
                percent(m.utilisation_arrivals)
            ),
        );
        row("backfilled", format!("{} jobs", m.backfilled));
        row(
            "starved",
            format!(
                "{} jobs; {} never started; overtaken by {} at most",
                m.starved, m.never_started, m.overtaken_max
            ),
        );
        row("fairness", format!("{:.3} (Jain, over {} users' mean slowdown)", m.fairness, m.users));
        row("estimates", estimates(self));
        if let Some(cards) = &self.card_figures {
            row("cards allocated", cards.words());
        }
        row("passes", passes(&self.passes));
        let _ = writeln!(text, "{list}\n");
        let _ = writeln!(text, "{}", spreads(m));
        for (name, buckets) in [("width", &m.by_width), ("length", &m.by_length)] {
            if !buckets.is_empty() {
                let _ = writeln!(text, "\n{}", by(name, buckets));
            }
        }
        text.lines().map(str::trim_end).fold(String::new(), |mut all, line| {
            all.push_str(line);
            all.push('\n');
            all
        })
    }
}

fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table
}

fn right(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn jobs(report: &Report) -> String {
    let m = &report.metrics;
    let mut words = format!("{} started of {}", m.started, m.jobs);
    for (count, what) in [
        (m.refused, "refused"),
        (report.dropped.total(), "of the log left out"),
        (report.malformed, "lines do not parse"),
    ] {
        if count > 0 {
            let _ = write!(words, ", {count} {what}");
        }
    }
    words
}

fn estimates(report: &Report) -> String {
    let e = &report.metrics.estimate_error;
    if e.promised == 0 {
        return "no job was promised a start before it began".to_owned();
    }
    format!(
        "{} promised; start less promise: mean {}, median {}, p95 {}; {} later than promised",
        e.promised,
        span(e.mean),
        span(e.p50),
        span(e.p95),
        percent(e.later)
    )
}

fn passes(p: &Passes) -> String {
    format!(
        "{}, each {:.1} us (p50), {:.1} us (p99), {:.1} us (max); {:.0} jobs a second, by the planner alone {:.0}",
        p.count, p.p50_us, p.p99_us, p.max_us, p.jobs_per_s, p.planned_jobs_per_s
    )
}

fn spreads(m: &Metrics) -> Table {
    let mut table = plain();
    table.add_row(["", "mean", "p50", "p95", "p99", "max"].map(right));
    let wait = m.wait;
    let row =
        |s: &Spread, show: fn(f64) -> String| [s.mean, s.p50, s.p95, s.p99, s.max].map(|n| right(show(n)));
    table.add_row(std::iter::once(Cell::new("wait")).chain(row(&wait, span)));
    table.add_row(
        std::iter::once(Cell::new("bounded slowdown")).chain(row(&m.bounded_slowdown, |n| format!("{n:.2}"))),
    );
    table
}

fn by(name: &str, buckets: &[Bucket]) -> Table {
    let mut table = plain();
    let heads = ["jobs", "mean wait", "slowdown: mean", "p50", "p95", "p99"].map(right);
    table.add_row(std::iter::once(Cell::new(name)).chain(heads));
    for bucket in buckets {
        let s = &bucket.bounded_slowdown;
        let cells = [
            bucket.jobs.to_string(),
            span(bucket.mean_wait),
            format!("{:.2}", s.mean),
            format!("{:.2}", s.p50),
            format!("{:.2}", s.p95),
            format!("{:.2}", s.p99),
        ];
        table.add_row(std::iter::once(Cell::new(bucket.kind)).chain(cells.map(right)));
    }
    table
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// A span of time for people: `37 s`, `12.5 min`, `3.2 h`, `4.1 d`.
fn span(seconds: f64) -> String {
    let size = seconds.abs();
    if size < 120.0 {
        format!("{seconds:.0} s")
    } else if size < 7200.0 {
        format!("{:.1} min", seconds / 60.0)
    } else if size < 172_800.0 {
        format!("{:.1} h", seconds / 3600.0)
    } else {
        format!("{:.1} d", seconds / 86_400.0)
    }
}
