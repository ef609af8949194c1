//! Files that are not what was written: `gqd` and `gqnode` refuse them by name and touch nothing; told to accept the loss they go on with all that can
//! be read, keep the damaged files, and what runs goes on.

use crate::lab::{Daemon, Job, Lab, until};
use gq_model::{End, JobState, Reason};
use rusqlite::Connection;
use std::{
    fs,
    path::{Path, PathBuf},
};

const WAITS: &str = "until [ -e go ]; do sleep 0.02; done; echo $GQ_RUN";

/// Starts a daemon, which has to refuse; its words.
#[track_caller]
fn refused(daemon: &Daemon) -> String {
    let before = daemon.said().len();
    daemon.launch(&[]);
    assert_eq!(daemon.wait(), Some(1), "{}", daemon.said());
    daemon.said()[before..].to_owned()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The node's log: the folder, and its one segment.
fn log_of(lab: &Lab) -> (PathBuf, PathBuf) {
    let id = fs::read_to_string(lab.dir().join("spool/cluster.uuid")).unwrap();
    let folder = lab.dir().join("state/node").join(id.trim()).join("n1/log");
    let segment = folder.join(names(&folder).pop().unwrap());
    (folder, segment)
}

#[test]
fn gqd_refuses_a_damaged_state_and_goes_on_without_what_is_lost_when_told_to() {
    let lab = Lab::with_cards(1);
    let ran = lab.submit("", "exit 3");
    assert_eq!(ran.ended(), End::Failed);
    let runs = lab.submit("--gpus=1", WAITS).running();
    let held = lab.submit("-H", "true");
    let next = lab.submit("--gpus=1", "echo next");
    lab.gqd.kill9();
    let db = lab.dir().join("state/gq.db");
    // Closing it folds the log in.
    let conn = Connection::open(&db).unwrap();
    for job in [runs.id, held.id] {
        let sql = format!("UPDATE job SET body = replace(body, 'main', 'Main') WHERE id = {job}");
        assert_eq!(conn.execute(&sql, []).unwrap(), 1);
    }
    assert_eq!(conn.execute("UPDATE run SET exit_code = 4", []).unwrap(), 1);
    conn.close().unwrap();
    let said = refused(&lab.gqd);
    for word in ["gq.db", &format!("the row of job {}", runs.id), "checksum", "try:", "gqd --accept-loss"] {
        assert!(said.contains(word), "no {word:?} in {said}");
    }

    lab.gqd.launch(&["--accept-loss"]);
    lab.gqd.wait_for_answer();
    let said = lab.gqd.said_now();
    for job in [runs.id, held.id] {
        assert!(said.contains(&format!("job {job} is made anew of its trail")), "{said}");
    }
    assert!(
        said.contains(&format!("run {}.0.1 is given up", ran.id)) && said.contains("damaged-1"),
        "{said}"
    );
    assert!(lab.dir().join("state/damaged-1/gq.db").exists());
    assert_eq!((runs.state(), held.state()), (JobState::Running, JobState::Pending));
    lab.file("go", "");
    assert_eq!(runs.output(), "1\n");
    assert_eq!(next.output(), "next\n");
    lab.ctl(&format!("release {}", held.id));
    held.output();
    assert!(lab.submit("-H", "true").id > next.id);
    assert_eq!(lab.gqd.stop(), Some(0));
    lab.gqd.launch(&["--accept-loss"]);
    lab.gqd.wait_for_answer();
    assert!(lab.gqd.said_now().contains("nothing is damaged"));
}

/// B003: a tail that was never acknowledged is cut with a count and kept, and a hole in what was is named.
#[test]
fn gqd_cuts_the_torn_end_of_its_log_and_refuses_a_hole_in_it() {
    let lab = Lab::with_cards(0);
    let jobs: Vec<_> = (0..4).map(|_| lab.submit("-H", "true")).collect();
    lab.gqd.kill9();
    let state = lab.dir().join("state");
    let wal = state.join("gq.db-wal");
    let whole = fs::read(&wal).unwrap();
    let half = whole.len() / 2;
    let mut other = whole.clone();
    other[half..half + 8192].fill(0);
    fs::write(&wal, &other).unwrap();
    let said = refused(&lab.gqd);
    assert!(said.contains("gq.db-wal: frame") && said.contains("was acknowledged"), "{said}");
    assert!(fs::read(&wal).unwrap() == other, "it is left as it was");

    // Half a page of a transaction that was being written.
    let mut other = whole.clone();
    other.extend_from_slice(&whole[32..2000]);
    fs::write(&wal, &other).unwrap();
    lab.gqd.start();
    let said = lab.gqd.said_now();
    assert!(said.contains("1968 bytes") && said.contains("never acknowledged"), "{said}");
    assert_eq!(fs::read(state.join("gq.db-wal.torn-1")).unwrap().len(), 1968);
    assert_eq!(lab.list("").len(), jobs.len());
}

#[test]
fn gqnode_refuses_a_damaged_log_and_its_jobs_go_on_whatever_becomes_of_it() {
    let lab = Lab::with_cards(1);
    let node = lab.node("n1");
    let job = lab.submit("--gpus=1", WAITS).running();
    let next = lab.submit("--gpus=1", "echo next");
    node.kill9();
    // A new life, so that what came before is durable for certain.
    node.start();
    lab.node_is_there("n1");
    node.kill9();
    let (folder, segment) = log_of(&lab);
    let whole = fs::read(&segment).unwrap();
    let text = String::from_utf8(whole.clone()).unwrap();
    let start = text.find("\"Start\"").unwrap();
    let mut other = whole.clone();
    other[start + 3] ^= 1;
    fs::write(&segment, &other).unwrap();
    let said = refused(node);
    for word in [segment.to_str().unwrap(), "1 lines", "offset", "gqnode --accept-loss"] {
        assert!(said.contains(word), "no {word:?} in {said}");
    }
    assert!(fs::read(&segment).unwrap() == other && names(&folder).len() == 1, "nothing is touched");

    let is_found_again = |job: Job<'_>, next: Job<'_>| {
        lab.node_is_there("n1");
        let said = node.said_now();
        assert!(said.contains(&format!("the log knows nothing of run {}.0.1", job.id)), "{said}");
        assert_eq!((job.state(), next.state()), (JobState::Running, JobState::Pending));
    };
    node.launch(&["--accept-loss"]);
    is_found_again(job, next);
    assert!(names(&folder).iter().any(|name| name.ends_with(".cut-1")), "{:?}", names(&folder));
    lab.file("go", "");
    assert_eq!((job.output().as_str(), next.output().as_str()), ("1\n", "next\n"));
    fs::remove_file(lab.work("go")).unwrap();

    // All of it is gone, and with it what the supervisor will write. What it holds is not given on before it is dead.
    let job = lab.submit("--gpus=1", WAITS).running();
    let next = lab.submit("--gpus=1", "echo next");
    node.kill9();
    fs::remove_dir_all(&folder).unwrap();
    node.start();
    is_found_again(job, next);
    lab.file("go", "");
    assert_eq!((job.ended(), job.reason()), (End::Failed, Reason::SupervisorLost));
    assert_eq!(next.output(), "next\n");
}

#[test]
fn gqnode_refuses_a_log_of_a_newer_format_untouched_and_cuts_a_torn_one() {
    let lab = Lab::with_cards(0);
    let node = lab.node("n1");
    lab.submit("", "true").output();
    assert_eq!(node.stop(), Some(0));
    let (folder, segment) = log_of(&lab);
    let whole = fs::read(&segment).unwrap();
    let json = br#"{"v":99,"record":{"Moon":{}}}"#;
    let mut newer = whole.clone();
    newer.extend_from_slice(format!("\n{:08x} ", crc32fast::hash(json)).as_bytes());
    newer.extend_from_slice(json);
    newer.push(b'\n');
    fs::write(&segment, &newer).unwrap();
    let said = refused(node);
    assert!(said.contains("newer gq (version 99") && said.contains("use that version"), "{said}");
    assert!(fs::read(&segment).unwrap() == newer && names(&folder).len() == 1, "nothing is touched");

    let mut torn = whole.clone();
    torn.extend_from_slice(&[0; 5000]);
    fs::write(&segment, &torn).unwrap();
    node.start();
    lab.node_is_there("n1");
    let said = node.said_now();
    assert!(said.contains("5000 bytes") && said.contains("written by nobody"), "{said}");
    assert_eq!(lab.submit("", "echo well").output(), "well\n");
    until("a node by that log is well", || (node.stop() == Some(0)).then_some(()));
    node.start();
    lab.node_is_there("n1");
}
