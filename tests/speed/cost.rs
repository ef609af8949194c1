//! What durability costs: files made and syncs done for a job that is alone, and for each of many at once, as the kernel sees them.

use crate::{clients, queue::GQSUB, queue::Queue, say};
use nix::{sys::signal::Signal, unistd::Pid};
use std::{
    fs,
    path::PathBuf,
    process::{Child, Command},
    time::Duration,
};

const NOTHING: &str = "#!/bin/sh\n#SBATCH -o /dev/null\n:\n";
/// What is looked at.
const CALLS: &str = "trace=fsync,fdatasync,sync_file_range,openat,open,creat,mkdir,mkdirat";
/// How long a tracer takes to have all threads, and the kernel to tell it the last call.
const BREATH: Duration = Duration::from_millis(500);
/// Jobs at once.
const JOBS: usize = 400;

/// Calls of a process, while they are looked at.
struct Trace {
    tracer: Child,
    log: PathBuf,
}

impl Trace {
    fn of(queue: &Queue, pid: u32) -> Self {
        let log = queue.path().join(format!("trace-{pid}"));
        let mut tracer = Command::new("strace");
        tracer.args(["-f", "-qq", "-e", CALLS, "-p", &pid.to_string(), "-o"]).arg(&log);
        let tracer = tracer.spawn().unwrap();
        std::thread::sleep(BREATH);
        Self { tracer, log }
    }

    /// Looks no more, and returns what was seen.
    fn end(mut self) -> String {
        std::thread::sleep(BREATH);
        nix::sys::signal::kill(Pid::from_raw(self.tracer.id().cast_signed()), Signal::SIGINT).unwrap();
        self.tracer.wait().unwrap();
        fs::read_to_string(&self.log).unwrap()
    }
}

fn syncs(trace: &str) -> usize {
    trace.lines().filter(|line| line.contains("sync(") || line.contains("sync_file_range(")).count()
}

/// All rows.
pub(crate) fn rows() {
    if Command::new("strace").arg("-V").output().is_err() {
        return say("files made, syncs", "no strace here");
    }
    lone();
    many();
}

/// One job that is alone.
fn lone() {
    let queue = Queue::start(16);
    let script = queue.script("nothing.sh", NOTHING).display().to_string();
    queue.run("gqsub", &["--wait", "-Q", &script]);
    let daemons: Vec<Trace> = queue.pids().map(|pid| Trace::of(&queue, pid)).collect();
    let client = queue.path().join("trace-client");
    let mut gqsub = Command::new("strace");
    gqsub.args(["-f", "-qq", "-e", CALLS, "-o"]).arg(&client).arg(GQSUB);
    gqsub.args(["-Q", "--wait", &script]).env("GQ_CONF", queue.conf()).current_dir(queue.path());
    assert!(gqsub.status().unwrap().success());
    let mut traces: Vec<String> = daemons.into_iter().map(Trace::end).collect();
    traces.push(fs::read_to_string(client).unwrap());
    let all = traces.concat();
    let own = queue.path().display().to_string();
    let is_made =
        |line: &&str| line.contains("O_CREAT") && !line.contains("/dev/null") && !line.contains("ENOENT");
    say("syncs for a lone job", syncs(&all));
    for (program, trace) in ["gqd", "gqnode", "gqsub"].iter().zip(&traces) {
        say(&format!("  of these {program}"), syncs(trace));
    }
    say("files made for a lone job (job file, per-run script)", all.lines().filter(is_made).count());
    let is_folder = |line: &&str| line.contains("mkdir") && line.contains(&own);
    say("  folders made", all.lines().filter(is_folder).count());
    if std::env::var_os("GQ_BENCH_TRACE").is_some() {
        eprintln!("{all}");
    }
}

/// Many jobs: those that wait, and those that run.
fn many() {
    let queue = Queue::start(16);
    let script = queue.script("nothing.sh", NOTHING);
    clients::submit(&queue, &script, &[], 16, 8);
    queue.until(|| queue.run("gqstat", &["-h"]).is_empty());
    let each = |trace: &str, jobs: usize| format!("{:.2}", syncs(trace) as f64 / jobs as f64);
    for (name, jobs, loops) in [("1 client", 100, 1), ("8 clients", JOBS, 8)] {
        let trace = Trace::of(&queue, queue.gqd_pid());
        let (_, ids) = clients::submit(&queue, &script, &["-p", "shut"], jobs, loops);
        say(&format!("syncs of gqd for an accepted job, {name}"), each(&trace.end(), ids.len()));
    }
    let traces: Vec<Trace> = queue.pids().map(|pid| Trace::of(&queue, pid)).collect();
    let (_, ids) = clients::submit(&queue, &script, &[], JOBS, 8);
    queue.until(|| queue.run("gqstat", &["-h", "-p", "main"]).is_empty());
    for (program, trace) in ["gqd", "gqnode"].iter().zip(traces) {
        say(&format!("syncs of {program} for a job that runs, 8 clients"), each(&trace.end(), ids.len()));
    }
}
