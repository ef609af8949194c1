//! The simulator: whole logs through the controller's own engine. Real ones from the folder that `GQ_TRACES` names, a made-up one when it
//! names none.

use crate::say;
use std::{env, fs, path::Path, process::Command};

/// Real logs and the sizes of their machines.
const LOGS: [(&str, u32); 3] = [
    ("KTH-SP2-1996-2.1-cln.swf.gz", 100),
    ("HPC2N-2002-2.1-cln.swf.gz", 240),
    ("LLNL-Thunder-2007-1.1-cln.swf.gz", 4008),
];

/// The rows of the simulator.
pub(crate) fn rows() {
    match env::var_os("GQ_TRACES") {
        Some(folder) => {
            for (log, procs) in LOGS {
                let path = Path::new(&folder).join(log);
                for policy in ["easy", "default"] {
                    row(&path, procs, policy, log.split('-').next().unwrap_or(log));
                }
            }
        }
        None => {
            let folder = crate::queue::base();
            fs::create_dir_all(&folder).unwrap();
            let path = folder.join("made-up.swf");
            fs::write(&path, made_up(50_000)).unwrap();
            row(&path, 256, "easy", "made-up log");
        }
    }
}

fn row(log: &Path, procs: u32, policy: &str, name: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gqsim"));
    command.arg(log).args(["--procs", &procs.to_string(), "--policy", policy, "--json"]);
    let output = command.output().unwrap();
    let report: serde_json::Value = match serde_json::from_slice(&output.stdout) {
        Ok(report) => report,
        Err(_) => return say(&format!("sim: {name}"), String::from_utf8_lossy(&output.stderr).trim()),
    };
    let passes = &report["passes"];
    let figure = |key: &str| passes[key].as_f64().unwrap_or(f64::NAN);
    say(
        &format!("sim: {name}, {policy}: jobs a second, whole engine"),
        format!("{:.0}", figure("jobs_per_s")),
    );
    say("  by the planner alone", format!("{:.0}", figure("planned_jobs_per_s")));
    say("  planning pass p50 / p99, us", format!("{:.1} / {:.1}", figure("p50_us"), figure("p99_us")));
    let metric = |path: &str| report.pointer(path).and_then(serde_json::Value::as_f64).unwrap_or(f64::NAN);
    say("  mean bounded slowdown", format!("{:.2}", metric("/bounded_slowdown/mean")));
    say("  wait, p99, h", format!("{:.1}", metric("/wait/p99") / 3600.0));
}

/// A log without pattern but always the same.
fn made_up(jobs: u64) -> String {
    let mut state = 1u64;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let mut text = String::from("; made up\n");
    let mut submit = 0;
    for id in 1..=jobs {
        submit += below(240);
        let estimate = 60 * (1 + below(600));
        let run = 1 + below(estimate);
        let procs = 1u64 << below(7);
        let user = below(40);
        text.push_str(&format!(
            "{id} {submit} -1 {run} {procs} -1 -1 {procs} {estimate} -1 1 {user} 1 -1 1 -1 -1 -1\n"
        ));
    }
    text
}
