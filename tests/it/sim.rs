//! The simulator: that the controller's own mind starts the jobs of a log when plain rules say, to the second; and what it says of a
//! log that is none, and of a past of ours.

use crate::lab::{Dice, Lab};
use flate2::read::MultiGzDecoder;
use serde_json::Value;
use std::{
    collections::VecDeque,
    fmt::Write,
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

fn gqsim(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gqsim")).args(words).env_remove("GQ_CONF").output().unwrap()
}

#[track_caller]
fn told(output: &Output, code: i32) -> String {
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{words}");
    words
}

/// What a simulation with `--json` says.
#[track_caller]
fn figures(words: &[&str]) -> Value {
    let output = gqsim(&[words, &["--json"]].concat());
    told(&output, 0);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The text of a file, unpacked if it is compressed.
fn text(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let mut text = String::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        MultiGzDecoder::new(&*bytes).read_to_string(&mut text).unwrap();
    } else {
        text = String::from_utf8(bytes).unwrap();
    }
    text
}

/// A job of a made log.
#[derive(Clone, Copy, Debug)]
struct Job {
    submit: i64,
    run: i64,
    limit: i64,
    procs: i64,
}

/// Plain scheduling, second by second, as the rules are written: completions, arrivals, then one pass; the head waits for nobody, and
/// with `easy` others start behind it if they end by its shadow time or fit beside it.
fn plainly(jobs: &[Job], procs: i64, easy: bool) -> Vec<i64> {
    let mut starts = vec![-1; jobs.len()];
    let mut order: VecDeque<usize> = (0..jobs.len()).collect();
    order.make_contiguous().sort_by_key(|at| jobs[*at].submit);
    let (mut queue, mut running): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    while !order.is_empty() || !running.is_empty() {
        let end = |at: &usize, starts: &[i64]| starts[*at] + jobs[*at].run;
        let arrival = order.front().map(|at| jobs[*at].submit);
        let now = running.iter().map(|at| end(at, &starts)).chain(arrival).min().unwrap();
        running.retain(|at| end(at, &starts) > now);
        while order.front().is_some_and(|at| jobs[*at].submit == now) {
            queue.extend(order.pop_front());
        }
        let free = |running: &[usize]| procs - running.iter().map(|at| jobs[*at].procs).sum::<i64>();
        while queue.first().is_some_and(|at| jobs[*at].procs <= free(&running)) {
            let at = queue.remove(0);
            starts[at] = now;
            running.push(at);
        }
        let Some(head) = queue.first().copied().filter(|_| easy) else { continue };
        let mut ends: Vec<i64> = running.iter().map(|at| starts[*at] + jobs[*at].limit).collect();
        ends.sort_unstable();
        let free_at = |time: i64, running: &[usize]| {
            let over = running.iter().filter(|at| starts[**at] + jobs[**at].limit <= time);
            free(running) + over.map(|at| jobs[*at].procs).sum::<i64>()
        };
        let shadow = ends.into_iter().find(|end| free_at(*end, &running) >= jobs[head].procs).unwrap();
        let mut extra = free_at(shadow, &running) - jobs[head].procs;
        let behind = queue[1..].to_vec();
        for at in behind {
            let job = jobs[at];
            let ends_in_time = now + job.limit <= shadow;
            if job.procs <= free(&running) && (ends_in_time || job.procs <= extra) {
                extra -= if ends_in_time { 0 } else { job.procs };
                starts[at] = now;
                running.push(at);
                queue.retain(|other| *other != at);
            }
        }
    }
    starts
}

/// A log with few moments and widths, so that much happens in one second.
fn made(dice: &mut Dice, exact: bool) -> (Vec<Job>, i64) {
    let procs = i64::try_from(dice.roll(12)).unwrap() + 1;
    let mut submit = 0;
    let count = dice.roll(60) + 1;
    let mut one = || {
        let mut below = |n: i64| i64::try_from(dice.roll(usize::try_from(n).unwrap())).unwrap();
        submit += below(4) * below(30);
        let run = below(40) + 1;
        let more = if exact { 0 } else { below(3) * below(50) };
        Job { submit, run, limit: run + more, procs: below(procs) + 1 }
    };
    let jobs = (0..count).map(|_| one()).collect();
    (jobs, procs)
}

fn swf(jobs: &[Job]) -> String {
    let mut text = String::from("; Computer: a made one\n");
    for (at, job) in jobs.iter().enumerate() {
        let Job { submit, run, limit, procs } = job;
        writeln!(text, "{} {submit} -1 {run} {procs} -1 -1 {procs} {limit} -1 1 1 1 -1 -1 -1 -1 -1", at + 1)
            .unwrap();
    }
    text
}

/// A folder with a log.
fn log(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.swf");
    fs::write(&path, text).unwrap();
    (folder, path)
}

#[test]
fn plain_policies_start_jobs_when_plain_rules_say() {
    let mut dice = Dice::new();
    for _ in 0..40 {
        let (jobs, procs) = made(&mut dice, false);
        let (folder, path) = log(&swf(&jobs));
        let dump = folder.path().join("starts");
        for (policy, easy) in [("fcfs", false), ("easy", true)] {
            let words = ["--procs", &procs.to_string(), "--policy", policy, "--dump", dump.to_str().unwrap()];
            let said = figures(&[&[path.to_str().unwrap()][..], &words].concat());
            let starts = plainly(&jobs, procs, easy);
            let lines: String = (1..).zip(&starts).map(|(id, start)| format!("{id} {start}\n")).collect();
            assert_eq!(text(&dump), lines, "{policy} on {procs}: {jobs:?}");
            let waits: i64 = jobs.iter().zip(&starts).map(|(job, start)| start - job.submit).sum();
            let mean = waits as f64 / jobs.len() as f64;
            assert!((said["wait"]["mean"].as_f64().unwrap() - mean).abs() < 1e-9, "{said}");
        }
    }
}

#[test]
fn conservative_keeps_its_promises_when_jobs_run_to_their_limits() {
    let mut dice = Dice::new();
    let mut promised = 0;
    for _ in 0..20 {
        let (jobs, procs) = made(&mut dice, true);
        let (_folder, path) = log(&swf(&jobs));
        let said =
            figures(&[path.to_str().unwrap(), "--procs", &procs.to_string(), "--policy", "conservative"]);
        assert_eq!(said["estimate_error"]["later"].as_f64(), Some(0.0), "{said}\n{procs}: {jobs:?}");
        assert_eq!(said["never_started"].as_u64(), Some(0));
        promised += said["estimate_error"]["promised"].as_u64().unwrap();
    }
    assert!(promised > 100, "{promised} jobs were promised a start");
}

#[test]
fn real_logs_start_as_an_independent_scheduler_starts_them() {
    let Some(folder) = std::env::var_os("GQ_TRACES").map(PathBuf::from) else {
        eprintln!("GQ_TRACES names no folder of logs: they are not compared");
        return;
    };
    let temporary = tempfile::tempdir().unwrap();
    let dump = temporary.path().join("starts.gz");
    for (name, procs) in
        [("KTH-SP2-1996-2.1-cln", 100), ("HPC2N-2002-2.1-cln", 240), ("LLNL-Thunder-2007-1.1-cln", 4008)]
    {
        let path = folder.join(format!("{name}.swf.gz"));
        for policy in ["fcfs", "easy"] {
            let words = [
                "--procs",
                &procs.to_string(),
                "--policy",
                policy,
                "--strict",
                "--dump",
                dump.to_str().unwrap(),
            ];
            figures(&[&[path.to_str().unwrap()][..], &words].concat());
            let reference = folder.join(format!("reference/{name}.{procs}.{policy}.all.starts.gz"));
            let (ours, theirs) = (text(&dump), text(&reference));
            let differ = ours.lines().zip(theirs.lines()).find(|(a, b)| a != b);
            assert_eq!(differ, None, "{name} {policy}");
            assert_eq!(ours.lines().count(), theirs.lines().count(), "{name} {policy}");
        }
    }
}

#[test]
fn first_means_the_first_that_are_kept_and_a_picture_is_drawn() {
    let jobs = "1 0 -1 0 1 -1 -1 1 5 -1 1 1 1 -1 -1 -1 -1 -1
2 0 -1 5 9 -1 -1 9 5 -1 1 1 1 -1 -1 -1 -1 -1
3 0 -1 5 2 -1 -1 2 9 -1 1 1 1 -1 -1 -1 -1 -1
4 0 -1 5 2 -1 -1 2 9 -1 1 1 1 -1 -1 -1 -1 -1
5 0 -1 5 2 -1 -1 2 9 -1 1 1 1 -1 -1 -1 -1 -1
";
    let (folder, path) = log(jobs);
    let (dump, picture) = (folder.path().join("starts.gz"), folder.path().join("picture.svg"));
    let words = ["--procs", "2", "--policy", "easy", "--first", "2", "--dump", dump.to_str().unwrap()];
    let said =
        figures(&[&[path.to_str().unwrap(), "--picture", picture.to_str().unwrap()][..], &words].concat());
    assert_eq!(text(&dump), "3 0\n4 5\n");
    assert_eq!((said["jobs"].as_u64(), said["makespan"].as_u64()), (Some(2), Some(10)));
    assert_eq!(said["dropped"]["no_run"].as_u64(), Some(1));
    assert!(text(&picture).starts_with("<svg "));
    let output = gqsim(&[path.to_str().unwrap(), "--procs", "2"]);
    told(&output, 0);
    assert!(String::from_utf8_lossy(&output.stdout).contains("bounded slowdown"));
}

#[test]
fn what_cannot_be_simulated_is_told_with_file_and_line() {
    let (folder, path) = log(
        "1 0 -1 5 1 -1 -1 1 5 -1 1 1 1 -1 -1 -1 -1 -1\n2 0 -1 five 1 -1 -1 1 5 -1 1 1 1 -1 -1 -1 -1 -1\n",
    );
    let log = path.to_str().unwrap();
    let words = told(&gqsim(&[log, "--procs", "2"]), 0);
    assert!(words.contains("log.swf:2: number 4 is none: `five`"), "{words}");
    let words = told(&gqsim(&[log, "--procs", "2", "--strict"]), 2);
    assert!(words.contains("log.swf:2: ") && words.contains("  try: "), "{words}");
    for (words, why) in [
        (&[log, "--procs", "0"][..], "--procs"),
        (&[log, "--procs", "2", "--policy", "best"], "there is no such policy"),
        (&[log, "--procs", "2", "--set", "scheduler.backfil=easy"], "backfil"),
        (&[log, "--procs", "2", "--set", "scheduler"], "expected TABLE.KEY=VALUE"),
        (&[log, "--conf", "/nowhere/gq.conf"], "/nowhere/gq.conf: cannot be read"),
        (&["/nowhere/log", "--procs", "2"], "/nowhere/log: cannot be read"),
        (&[], "LOG"),
    ] {
        let said = told(&gqsim(words), 2);
        assert!(said.contains(why), "{said}");
    }
    let conf = folder.path().join("gq.conf");
    fs::write(&conf, "[[node]]\nname = \"a\"\n").unwrap();
    let said = told(&gqsim(&[log, "--conf", conf.to_str().unwrap()]), 2);
    assert!(
        said.contains("node a: its cpus are not declared") && said.contains("--set node[a].cpus=64"),
        "{said}"
    );
    told(&gqsim(&[log, "--conf", conf.to_str().unwrap(), "--set", "node[a].cpus=2"]), 0);
}

#[test]
fn only_what_the_conf_has_is_set_and_what_cannot_be_written_is_told_before_the_work() {
    let (folder, path) = log(
        "1 0 -1 5 1 -1 -1 1 5 -1 1 1 1 -1 -1 -1 -1 -1\n2 0 -1 5 1 -1 -1 1 99999999999999 -1 1 1 1 -1 -1 -1 -1 -1\n",
    );
    let log = path.to_str().unwrap();
    let nowhere = folder.path().join("none/starts");
    let words = told(&gqsim(&[log, "--procs", "2", "--set", "partition[nope].max_time=30s"]), 2);
    assert!(words.contains("no partition is called `nope`; there is: main"), "{words}");
    let words = told(&gqsim(&[log, "--procs", "2", "--set", "partition[main].max_time=30s"]), 0);
    assert!(words.contains("log.swf:2: time limit: 99999999999999 seconds"), "{words}");
    let words = told(&gqsim(&[log, "--procs", "2", "--dump", nowhere.to_str().unwrap()]), 1);
    assert!(words.contains("cannot be written") && !words.contains("log.swf:2"), "{words}");
    let words = told(&gqsim(&[log, "--procs", "2", "--picture", log]), 2);
    assert!(words.contains("ends in .svg"), "{words}");
}

#[test]
fn what_ran_once_is_let_in_and_a_copy_without_its_newest_rows_is_told() {
    let lab = Lab::with_cards(1);
    let me = nix::unistd::User::from_uid(nix::unistd::getuid()).unwrap().unwrap().name;
    lab.ctl(&format!("reserve course --start=now --duration=1h --nodes=n1 --users={me}"));
    lab.submit("--reservation=course --time=10 --nice=-5", "true").ended();
    let database = lab.dir().join("state/gq.db");
    let conf = lab.conf();
    let set = ["--set", "node[n1].cpus=8", "--set", "node[n1].memory=64G"];
    let words = [&["--conf", conf.to_str().unwrap()][..], &set].concat();
    let said = figures(&[&[database.to_str().unwrap()][..], &words].concat());
    assert_eq!((said["started"].as_u64(), said["refused"].as_u64()), (Some(1), Some(0)), "{said}");
    let notes = said["taken_as"].to_string();
    assert!(notes.contains("1 jobs ran in an advance reservation"), "{notes}");
    // What is newest stands beside the database until the controller ends.
    let copy = lab.dir().join("copy.db");
    fs::copy(&database, &copy).unwrap();
    let words = told(&gqsim(&[&[copy.to_str().unwrap()][..], &words].concat()), 2);
    assert!(words.contains("copy gq.db-wal"), "{words}");
}

#[test]
fn a_change_can_be_tried_on_the_past_of_a_queue() {
    let lab = Lab::with_cards(1);
    let jobs: Vec<_> = (0..3).map(|_| lab.submit("--gpus=1 --time=1h", "true")).collect();
    jobs.iter().for_each(|job| {
        job.ended();
    });
    let database = lab.dir().join("state/gq.db");
    let conf = lab.conf();
    let words = [database.to_str().unwrap(), "--conf", conf.to_str().unwrap()];
    let set = ["--set", "node[n1].cpus=8", "--set", "node[n1].memory=64G"];
    let now = figures(&[&words[..], &set].concat());
    assert_eq!(
        (now["format"].as_str(), now["started"].as_u64(), now["cards"].as_u64()),
        (Some("history"), Some(3), Some(1))
    );
    let more = figures(&[&words[..], &set, &["--set", "node[n1].gpu[0].count=3"]].concat());
    assert_eq!((more["started"].as_u64(), more["cards"].as_u64()), (Some(3), Some(3)));
    assert!(more["wait"]["mean"].as_f64() <= now["wait"]["mean"].as_f64());
}
