//! Disks without room or files to spare, read-only, and scripts too large for any: each of the folders by itself. What it concerns is refused or waits in
//! words, everything else goes on, nothing that was told is lost, and all goes on by itself when there is room again.

use crate::lab::{Disk, Job, Lab, Plan, cards, until};
use gq_model::{End, JobState};
use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

const WAITS: &str = "until [ -e go ]; do sleep 0.02; done";

fn names(folder: PathBuf) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

/// A lab with a small disk below its folder, mounted before anything is made there.
fn with_disk(folder: &str, options: &str) -> Option<(Lab, Disk)> {
    use std::os::unix::fs::PermissionsExt;
    let lab = Plan::new().node("n1", &cards(2)).ready();
    if folder.starts_with("state/") {
        fs::create_dir(lab.dir().join("state")).unwrap();
        fs::set_permissions(lab.dir().join("state"), fs::Permissions::from_mode(0o700)).unwrap();
    }
    let path = lab.dir().join(folder);
    let disk = Disk::at(&path, options)?;
    fs::set_permissions(path, fs::Permissions::from_mode(if folder == "spool" { 0o755 } else { 0o700 }))
        .unwrap();
    lab.gqd.launch(&["--init"]);
    lab.gqd.wait_for_answer();
    lab.node("n1").start();
    lab.node_is_there("n1");
    Some((lab, disk))
}

/// The spool has no room: whoever submits is refused in words and leaves nothing, what was accepted runs and ends.
fn without_room_in_the_spool(options: &str, fill: fn(&Disk)) {
    let Some((lab, disk)) = with_disk("spool", options) else { return };
    let runs = lab.submit("--gpus=1", &format!("{WAITS}; exit 3")).running();
    let waits = lab.submit("--gpus=2", "echo waited");
    let before = names(lab.dir().join("spool/drop"));
    fill(&disk);
    for _ in 0..3 {
        let said = lab.say("gqsub --wrap true").refused(1);
        assert!(said.contains("No space left") && said.contains("spool"), "{said}");
    }
    assert_eq!(names(lab.dir().join("spool/drop")), before, "nothing is left");
    assert_eq!(lab.list("").len(), 2);
    lab.file("go", "");
    assert_eq!((runs.ended(), runs.view()["exit_code"].clone()), (End::Failed, 3.into()));
    assert_eq!(waits.output(), "waited\n");
    disk.free();
    assert_eq!(lab.submit("", "echo well").output(), "well\n");
}

#[test]
fn a_full_spool_refuses_whoever_submits_and_nobody_else() {
    without_room_in_the_spool("size=1m", Disk::fill);
}

#[test]
fn a_spool_without_inodes_refuses_whoever_submits_and_nobody_else() {
    without_room_in_the_spool("nr_inodes=64", Disk::fill_with_files);
}

/// The node's own disk has no room: what runs ends with its own result, what is to start waits in words, and the node comes back by itself.
#[test]
fn a_full_disk_of_a_node_takes_no_jobs_and_keeps_results_until_there_is_room() {
    let Some((lab, disk)) = with_disk("state/node", "size=260m") else { return };
    let runs: Vec<Job<'_>> =
        (0..2).map(|_| lab.submit("--gpus=1", &format!("{WAITS}; exit 3")).running()).collect();
    disk.fill();
    let waits: Vec<Job<'_>> = (0..4).map(|_| lab.submit("", "echo waited")).collect();
    until("the node says why", || {
        let view = lab.node_view("n1")?;
        view["reason"].as_str().is_some_and(|why| why.contains("full")).then_some(())
    });
    let table = lab.say("gqstat --nodes").ok();
    assert!(table.contains("is full"), "{table}");
    lab.file("go", "");
    for job in &runs {
        assert_eq!((job.ended(), job.view()["exit_code"].clone()), (End::Failed, 3.into()));
    }
    assert!(waits.iter().all(|job| job.state() == JobState::Pending));
    disk.free();
    let begin = Instant::now();
    for job in waits {
        assert_eq!(job.output(), "waited\n");
    }
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
}
