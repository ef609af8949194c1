//! The rows of the benchmark.

use crate::{clients, percentile, queue::Queue, say};
use std::{
    fs,
    io::{BufRead, BufReader},
    time::{Duration, Instant},
};

const NOTHING: &str = "#!/bin/sh\n#SBATCH -o /dev/null\n:\n";

pub(crate) fn submit() {
    let queue = Queue::start(16);
    let script = queue.script("nothing.sh", NOTHING);
    let rate = |count: usize, took: Duration| format!("{:.0}/s", count as f64 / took.as_secs_f64());
    clients::submit(&queue, &script, &["-p", "shut"], 100, 1);
    let (took, ids) = clients::submit(&queue, &script, &["-p", "shut"], 1000, 1);
    say("submit, one client process per job", rate(ids.len(), took));
    let (took, ids) = clients::submit(&queue, &script, &["-p", "shut"], 4000, 8);
    say("submit, 8 clients at once", rate(ids.len(), took));
    let (took, ids) = clients::submit(&queue, &script, &[], 600, 1);
    say("submit, one client process per job, jobs running", rate(ids.len(), took));
    queue.run("gqcancel", &["-p", "shut"]);
    for (name, bytes) in [("64 KiB", 64 << 10), ("4 MiB", (4 << 20) - 64)] {
        let large = queue.script("large.sh", &format!("#!/bin/sh\n#{}\n", "x".repeat(bytes - 16)));
        let mut took: Vec<f64> = (0..15)
            .map(|_| {
                let begun = Instant::now();
                queue.run("gqsub", &["-p", "shut", &large.display().to_string()]);
                begun.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        say(&format!("accept a script of {name}, p50"), format!("{:.1} ms", percentile(&mut took, 50)));
    }
}

/// Seconds of processor time of these processes and their ended children.
fn cpu_of(pids: impl Iterator<Item = u32>) -> f64 {
    pids.map(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: f64 = fields.get(11..15).unwrap().iter().map(|f| f.parse::<f64>().unwrap()).sum();
        ticks / 100.0
    })
    .sum()
}

fn cpu_of_clients() -> f64 {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_CHILDREN).unwrap();
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

fn ended(queue: &Queue) -> bool {
    queue.run("gqstat", &["-h"]).is_empty()
}

pub(crate) fn jobs() {
    let queue = Queue::start(16);
    let script = queue.script("nothing.sh", NOTHING);
    clients::submit(&queue, &script, &[], 96, 8);
    queue.until(|| ended(&queue));
    for (name, loops) in [("8 clients", 8), ("1 client", 1)] {
        let (daemons, own) = (cpu_of(queue.pids()), cpu_of_clients());
        let begun = Instant::now();
        let (_, ids) = clients::submit(&queue, &script, &[], 1000, loops);
        assert_eq!(ids.len(), 1000);
        queue.until(|| ended(&queue));
        let took = begun.elapsed().as_secs_f64();
        let cpu = cpu_of(queue.pids()) - daemons + cpu_of_clients() - own;
        say(
            &format!("1,000 no-op jobs, submitted ({name}) to all done"),
            format!("{:.0} jobs/s", 1000.0 / took),
        );
        say("  cpu for each, everything together", format!("{:.2} ms", cpu));
    }
}

pub(crate) fn latency() {
    let queue = Queue::start(16);
    let pipe = queue.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let script =
        queue.script("first.sh", &format!("#!/bin/sh\n#SBATCH -o /dev/null\necho >{}\n", pipe.display()));
    let script = script.display().to_string();
    let mut took = Vec::new();
    for round in 0..320 {
        let path = pipe.clone();
        let first = std::thread::spawn(move || {
            fs::read(path).unwrap();
            Instant::now()
        });
        let begun = Instant::now();
        queue.run("gqsub", &["-Q", &script]);
        let latency = first.join().unwrap().duration_since(begun).as_secs_f64() * 1e3;
        queue.until(|| ended(&queue));
        if round >= 20 {
            took.push(latency);
        }
    }
    let (p50, p99) = (percentile(&mut took, 50), percentile(&mut took, 99));
    say("idle latency, start of gqsub to first line of the job", format!("{p50:.1} / {p99:.1} ms"));
}

/// One job at a time fits: how long from the last line of one to the first line of the next.
pub(crate) fn handover() {
    let queue = Queue::start(1);
    let pipe = queue.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let text =
        format!("#!/bin/sh\n#SBATCH -o /dev/null\necho s >{0}\nsleep 0.02\necho e >{0}\n", pipe.display());
    let script = queue.script("both.sh", &text);
    queue.run("gqctl", &["drain", "n1", "--reason", "bench"]);
    clients::submit(&queue, &script, &[], 120, 8);
    // Held open for writing too, so that it never ends.
    let file = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    queue.run("gqctl", &["resume", "n1"]);
    let (mut took, mut ended) = (Vec::new(), None);
    for line in BufReader::new(file).lines().take(240) {
        let now = Instant::now();
        match (line.unwrap().as_str(), ended) {
            ("s", Some(at)) => took.push(now.duration_since(at).as_secs_f64() * 1e3),
            ("e", _) => ended = Some(now),
            _ => {}
        }
    }
    let (p50, p99) = (percentile(&mut took, 50), percentile(&mut took, 99));
    say("end of a job to start of the next on a full node, p50 / p99", format!("{p50:.1} / {p99:.1} ms"));
}

pub(crate) fn long_queue(count: usize) {
    let mut queue = Queue::start(16);
    let script = queue.script("nothing.sh", NOTHING);
    clients::submit(&queue, &script, &["-p", "shut"], count, 8);
    let memory = fs::read_to_string(format!("/proc/{}/status", queue.gqd_pid())).unwrap();
    let resident = memory.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap().trim().to_owned();
    let resident: f64 = resident.trim_end_matches(" kB").trim().parse().unwrap();
    say(&format!("controller memory, {count} pending"), format!("{:.1} MiB", resident / 1024.0));
    let timed = |queue: &Queue, options: &[&str]| {
        let mut took: Vec<f64> = (0..9)
            .map(|_| {
                let begun = Instant::now();
                queue.run("gqstat", options);
                begun.elapsed().as_secs_f64()
            })
            .collect();
        percentile(&mut took, 50)
    };
    say(&format!("gqstat, {count} pending"), format!("{:.3} s", timed(&queue, &[])));
    say(&format!("gqstat --json, {count} pending"), format!("{:.3} s", timed(&queue, &["--json"])));
    queue.kill_gqd();
    let begun = Instant::now();
    queue.start_gqd(false);
    say(
        &format!("restart after kill -9, {count} pending"),
        format!("{:.3} s", begun.elapsed().as_secs_f64()),
    );
    let kept = queue.run("gqstat", &["-h"]).lines().count();
    say("  of these lost", count - kept);
    let begun = Instant::now();
    queue.run("gqcancel", &["-p", "shut"]);
    say(&format!("cancel all {count}"), format!("{:.3} s", begun.elapsed().as_secs_f64()));
}

pub(crate) fn loss() {
    let mut queue = Queue::start(16);
    let script = queue.script("nothing.sh", NOTHING);
    let (_, ids) = clients::submit(&queue, &script, &["-p", "shut"], 1000, 8);
    queue.kill_gqd();
    queue.start_gqd(false);
    let kept = queue.run("gqstat", &["-h", "-o", "%i"]);
    let kept: std::collections::BTreeSet<u64> = kept.lines().filter_map(|l| l.trim().parse().ok()).collect();
    let lost = ids.iter().filter(|id| !kept.contains(id)).count();
    say("1,000 submissions, then kill -9 at once: acknowledged and lost", lost);
}
