//! The benchmark behind `scripts/bench`: the real programs in a private folder, beside the raw rates of the machine in the same run.
//! Figures are medians unless they say otherwise. Never a test: nothing here fails for being slow.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on stops")]

mod clients;
mod cost;
mod history;
mod life;
mod plan;
mod queue;
mod raw;
mod rows;
mod sim;

use std::{env, process::ExitCode};

fn main() -> ExitCode {
    // cargo passes --bench; what else comes is ours.
    let words: Vec<String> = env::args().skip(1).filter(|w| w != "--bench").collect();
    if let [verb, rest @ ..] = words.as_slice()
        && verb == "client"
    {
        return clients::child(rest);
    }
    let large = words.iter().any(|w| w == "--large");
    let known = [
        "--large", "raw", "submit", "jobs", "latency", "queue", "loss", "cost", "array", "chain", "plan",
        "sim", "history",
    ];
    if let Some(odd) = words.iter().find(|w| !known.contains(&w.as_str())) {
        eprintln!("scripts/bench: {odd:?} is not one of: {}", known.join(" "));
        return ExitCode::from(2);
    }
    let wants = |row: &str| words.iter().all(|w| w == "--large") || words.iter().any(|w| w == row);
    println!("{:<58} {:>14}", "what", "figure");
    if wants("raw") {
        raw::rates();
    }
    if wants("submit") {
        rows::submit();
    }
    if wants("jobs") {
        rows::jobs();
    }
    if wants("latency") {
        rows::latency();
        rows::handover();
    }
    if wants("cost") {
        cost::rows();
    }
    if wants("loss") {
        rows::loss();
    }
    if wants("queue") {
        rows::long_queue(10_000);
        if large {
            rows::long_queue(100_000);
        }
    }
    if wants("array") {
        life::tasks(large);
        life::millions();
    }
    if wants("chain") {
        life::chain();
    }
    if wants("plan") {
        plan::rows();
    }
    if wants("history") {
        history::rows();
    }
    if wants("sim") {
        sim::rows();
    }
    let _ = std::fs::remove_dir_all(queue::base());
    ExitCode::SUCCESS
}

/// Prints one figure.
pub(crate) fn say(what: &str, figure: impl std::fmt::Display) {
    println!("{what:<58} {figure:>14}");
}

/// The value below which `percent` of the values lie.
pub(crate) fn percentile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len().saturating_sub(1) * percent).div_ceil(100);
    values.get(at).copied().unwrap_or(f64::NAN)
}
