//! Folders of state as releases wrote them, `tests/golden/NAME`: whatever was written once is read for ever. `scripts/golden NAME` makes one.

use crate::lab::{Lab, Plan, cards};
use gq_model::End;
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// A job that can run anywhere.
const ANYWHERE: &str = "-H -J held -D / -o /dev/null";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn a_lab() -> Lab {
    Plan::new().node("n1", &cards(2)).absent().start()
}

/// Copies what is in one folder into another one, which is made.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let there = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &there),
            false => {
                fs::copy(entry.path(), &there).unwrap();
                // A checkout keeps no modes.
                fs::set_permissions(there, fs::Permissions::from_mode(0o640)).unwrap();
            }
        }
    }
}

/// What must be known of each job for ever.
fn known(lab: &Lab) -> Value {
    let words =
        ["id", "name", "uid", "state", "reason", "exit_code", "run", "array_task_id", "array_tasks", "gpus"];
    let job = |job: &Value| words.iter().map(|word| ((*word).to_owned(), job[*word].clone())).collect();
    let mut jobs: Vec<Value> = lab.list("-t all").iter().map(|view| Value::Object(job(view))).collect();
    jobs.sort_by_key(ToString::to_string);
    json!(jobs)
}

/// Where a node keeps its log below the lab's folder.
fn log_of(lab: &Lab) -> PathBuf {
    let id = fs::read_to_string(lab.dir().join("spool/cluster.uuid")).unwrap();
    lab.dir().join("state/node").join(id.trim()).join("n1/log")
}

#[test]
fn what_a_release_wrote_is_read_for_ever() {
    let mut folders: Vec<PathBuf> =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    assert!(!folders.is_empty());
    for golden in folders {
        eprintln!("{}", golden.display());
        let lab = a_lab();
        assert_eq!(lab.gqd.stop(), Some(0));
        for file in ["gq.db-wal", "gq.db-shm"] {
            let _ = fs::remove_file(lab.dir().join("state").join(file));
        }
        fs::copy(golden.join("gq.db"), lab.dir().join("state/gq.db")).unwrap();
        fs::remove_file(lab.dir().join("spool/cluster.uuid")).unwrap();
        fs::copy(golden.join("cluster.uuid"), lab.dir().join("spool/cluster.uuid")).unwrap();
        copy(&golden.join("jobs"), &lab.dir().join("spool/jobs"));
        copy(&golden.join("log"), &log_of(&lab));
        lab.gqd.start();
        let expected: Value = serde_json::from_slice(&fs::read(golden.join("jobs.json")).unwrap()).unwrap();
        assert_eq!(known(&lab), expected, "{}", golden.display());
        assert!(!lab.gqd.said_now().contains("ERROR"), "{}", lab.gqd.said_now());
        lab.node("n1").start();
        lab.node_is_there("n1");
        let held = lab.list("-n held").pop().unwrap();
        // The owner of a job file is who may have it run: here whoever checked it out.
        if held["uid"] == nix::unistd::getuid().as_raw() {
            let held = lab.job(&held["id"].to_string());
            lab.ctl(&format!("release {}", held.id));
            assert_eq!(held.ended(), End::Completed, "{}", held.view());
        }
        assert_eq!(lab.submit("--gpus=2", "echo well").output(), "well\n");
    }
}

#[test]
#[ignore = "writes into the sources: scripts/golden"]
fn make() {
    let golden = folder().join(std::env::var("GQ_GOLDEN").unwrap());
    let lab = a_lab();
    lab.node("n1").start();
    lab.node_is_there("n1");
    // Nothing of whoever makes it.
    let submit = |options: &str, command: &str| lab.submit(&format!("--export=NONE {options}"), command);
    assert_eq!(submit("-J badly --gpus=1", "exit 3").ended(), End::Failed);
    assert_eq!(submit("-J killed --gpus=2", "kill -9 $$").ended(), End::Failed);
    let tasks = submit("-J tasks --array=0-9%2", "[ $GQ_ARRAY_TASK_ID != 4 ]");
    tasks.over();
    submit(ANYWHERE, "true");
    submit("-H -J more --array=0-999%7 --gpus=1", "true");
    let first = submit("-H -J first", "true");
    submit(&format!("-J after -d afterok:{}", first.id), "true");
    lab.say("gqctl drain n1 --reason golden").ok();
    lab.say("gqctl resume n1").ok();
    assert_eq!((lab.node("n1").stop(), lab.gqd.stop()), (Some(0), Some(0)));
    lab.gqd.start();
    let known = known(&lab);
    assert_eq!(lab.gqd.stop(), Some(0));
    fs::create_dir_all(&golden).unwrap();
    fs::copy(lab.dir().join("state/gq.db"), golden.join("gq.db")).unwrap();
    fs::copy(lab.dir().join("spool/cluster.uuid"), golden.join("cluster.uuid")).unwrap();
    copy(&lab.dir().join("spool/jobs"), &golden.join("jobs"));
    copy(&log_of(&lab), &golden.join("log"));
    fs::write(golden.join("jobs.json"), serde_json::to_string_pretty(&known).unwrap() + "\n").unwrap();
}
