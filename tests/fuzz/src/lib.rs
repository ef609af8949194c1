//! Fuzz targets: for every parser on a boundary a function that takes any bytes and asserts what must hold of them. Beside "no panic": what is read
//! and written again reads the same, and what is read keeps the bounds that are told of it.
//!
//! The fuzzer (`libfuzzer`, by `scripts/fuzz`) and the replay of the corpora in every run of the tests (`tests/replay.rs`) call the same functions.
#![expect(clippy::panic, reason = "a broken law is told by a panic")]

mod files;
mod text;
mod wire;
mod words;

use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

/// One boundary.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: of the target, and of the folder of its corpus.
    pub name: &'static str,
    /// Takes an input, and panics when a law is broken.
    pub run: fn(&[u8]),
    /// How many changed inputs a replay tries, so that all take about the same time.
    pub rounds: u32,
}

/// All boundaries.
#[rustfmt::skip]
pub static TARGETS: &[Target] = &[
    Target { name: "frames", run: wire::frames, rounds: 10_000 },
    Target { name: "asks", run: wire::asks, rounds: 10_000 },
    Target { name: "letters", run: wire::letters, rounds: 10_000 },
    Target { name: "job_file", run: files::job_file, rounds: 10_000 },
    Target { name: "node_log", run: files::node_log, rounds: 600 },
    Target { name: "script", run: text::script, rounds: 800 },
    Target { name: "options", run: text::options, rounds: 600 },
    Target { name: "conf", run: text::conf, rounds: 300 },
    Target { name: "values", run: words::values, rounds: 10_000 },
    Target { name: "sets", run: words::sets, rounds: 10_000 },
    Target { name: "patterns", run: words::patterns, rounds: 10_000 },
];

/// Runs the target of this name.
///
/// # Panics
/// When there is none, or a law is broken.
pub fn run(name: &str, input: &[u8]) {
    match TARGETS.iter().find(|target| target.name == name) {
        Some(target) => (target.run)(input),
        None => panic!("no target {name}"),
    }
}

/// What is written of a value reads as that value again.
fn reads_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let text = serde_json::to_string(value).unwrap_or_else(|why| panic!("{value:?} is not written: {why}"));
    let again: T =
        serde_json::from_str(&text).unwrap_or_else(|why| panic!("{text} is not read again: {why}"));
    assert_eq!(again, *value, "{text}");
}

/// What is told of an input moves no cursor and ends no line early.
fn is_printable(told: &str) {
    let bad = |c: char| c.is_control() && c != '\n';
    assert!(!told.contains(bad), "{told:?}");
}
