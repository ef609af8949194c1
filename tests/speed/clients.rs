//! Many client processes, one for each job, from one or several loops at once. Each loop is a process of its own, so that starting clients
//! costs what it costs a small shell loop.

use crate::queue::{GQSUB, Queue};
use std::{
    env,
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

/// Submits `count` jobs from `loops` loops at once; returns how long it took and the ids.
pub(crate) fn submit(
    queue: &Queue,
    script: &Path,
    options: &[&str],
    count: usize,
    loops: usize,
) -> (Duration, Vec<u64>) {
    let begun = Instant::now();
    let children: Vec<_> = (0..loops)
        .map(|_| {
            let mut child = Command::new(env::current_exe().unwrap());
            child.arg("client").arg((count / loops).to_string()).args(options).arg(script);
            child.env("GQ_CONF", queue.conf()).current_dir(queue.path()).stdout(Stdio::piped());
            child.spawn().unwrap()
        })
        .collect();
    let mut ids = Vec::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        ids.extend(said.lines().filter_map(|line| line.parse::<u64>().ok()));
    }
    (begun.elapsed(), ids)
}

/// One loop: `COUNT OPTIONS… SCRIPT`.
pub(crate) fn child(words: &[String]) -> ExitCode {
    let [count, rest @ ..] = words else { return ExitCode::from(2) };
    for _ in 0..count.parse::<usize>().unwrap() {
        let status = Command::new(GQSUB).arg("--parsable").args(rest).stdin(Stdio::null()).status().unwrap();
        if !status.success() {
            // gqd was killed on purpose, or something is wrong: what was printed so far counts.
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
