//! Arrays and chains: tasks a second, what a million tasks cost before one has started, and what a chain of jobs costs a pass.

use crate::{percentile, queue::Queue, say};
use std::{fs, time::Instant};

/// Tasks that run at a time: those of an array with a throttle.
const AT_ONCE: u32 = 64;

/// Arrays of jobs that do nothing, to the end of the last task.
pub(crate) fn tasks(large: bool) {
    let queue = Queue::start(AT_ONCE);
    let script = queue.script("noop.sh", "#!/bin/sh\n:\n");
    let script = script.to_str().unwrap();
    let run = |count: u32, limit: &str| {
        let array = format!("--array=0-{}{limit}", count - 1);
        let begun = Instant::now();
        queue.run("gqsub", &["--wait", "--quiet", "-o", "/dev/null", &array, script]);
        f64::from(count) / begun.elapsed().as_secs_f64()
    };
    run(200, "");
    let mut rates: Vec<f64> = (0..3).map(|_| run(1_000, "")).collect();
    say("array of 1,000 no-op tasks: tasks a second to done", format!("{:.0}/s", percentile(&mut rates, 50)));
    let mut rates: Vec<f64> = (0..3).map(|_| run(1_000, "%64")).collect();
    let few = percentile(&mut rates, 50);
    say("the same with %64", format!("{few:.0}/s"));
    let count = if large { 100_000 } else { 10_000 };
    let many = run(count, "%64");
    say(&format!("array of {count} with %64"), format!("{many:.0}/s"));
    say("that against 1,000", format!("{:.2}", many / few));
}

/// Arrays of a million tasks that wait: accepted, held in memory, listed.
pub(crate) fn millions() {
    let queue = Queue::start(1);
    let script = queue.script("noop.sh", "#!/bin/sh\n:\n");
    let script = script.to_str().unwrap();
    queue.run("gqsub", &["--quiet", "--hold", script]);
    let before = memory(queue.gqd_pid());
    let mut times: Vec<f64> = (0..10)
        .map(|_| {
            let begun = Instant::now();
            queue.run("gqsub", &["--quiet", "--hold", "--array=0-999999", script]);
            begun.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    let grown = memory(queue.gqd_pid()).saturating_sub(before);
    say("array of a million tasks: gqsub to its id", format!("{:.1} ms", percentile(&mut times, 50)));
    say("the slowest of ten", format!("{:.1} ms", percentile(&mut times, 100)));
    say("memory of gqd for each of them", format!("{} KiB", grown / 10));
    let mut times: Vec<f64> = (0..20)
        .map(|_| {
            let begun = Instant::now();
            assert_eq!(queue.run("gqstat", &["-h"]).lines().count(), 11);
            begun.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    say("gqstat with ten of them", format!("{:.1} ms", percentile(&mut times, 50)));
}

/// Memory of a process in KiB.
fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// A chain of 10,000 jobs each of which waits for the one before it: from the end of one to the start of the next.
pub(crate) fn chain() {
    const LINKS: usize = 10_000;
    const LOOKED_AT: usize = 200;
    let queue = Queue::start(1);
    let script = queue.script("noop.sh", "#!/bin/sh\n:\n");
    let script = script.to_str().unwrap();
    let first = queue.run("gqsub", &["--parsable", "--hold", "-o", "/dev/null", script]).trim().to_owned();
    let (mut last, mut took) = (first.clone(), Vec::with_capacity(LINKS));
    for _ in 1..LINKS {
        let begun = Instant::now();
        let after = format!("--dependency=afterok:{last}");
        last = queue.run("gqsub", &["--parsable", "-o", "/dev/null", &after, script]).trim().to_owned();
        took.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    let slowest = percentile(&mut took, 99);
    say("chain of 10,000 jobs: gqsub of a link, p50 / p99", {
        format!("{:.1} / {slowest:.1} ms", percentile(&mut took, 50))
    });
    queue.run("gqctl", &["release", &first]);
    let (from, to) = (first.parse::<usize>().unwrap(), first.parse::<usize>().unwrap() + LOOKED_AT);
    queue.until(|| queue.run("gqstat", &["-h", "-j", &to.to_string(), "-o", "%t"]).trim() == "CD");
    let ids: Vec<String> = (from..=to).map(|id| id.to_string()).collect();
    let listing = queue.run("gqstat", &["--json", "-j", &ids.join(",")]);
    let listing: serde_json::Value = serde_json::from_str(&listing).unwrap();
    let time = |job: &serde_json::Value, name: &str| job[name].as_f64().unwrap();
    let jobs = listing["jobs"].as_array().unwrap();
    let mut gaps: Vec<f64> = jobs
        .windows(2)
        .map(|pair| (time(&pair[1], "start_time") - time(&pair[0], "end_time")) * 1e3)
        .collect();
    let slowest = percentile(&mut gaps, 100);
    say("end of one to start of the next, p50 / slowest of 200", {
        format!("{:.1} / {slowest:.1} ms", percentile(&mut gaps, 50))
    });
}
