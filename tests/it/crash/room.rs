//! A full disk: new jobs are refused in words, running jobs go on, their results are kept, and work resumes by itself.

use crate::lab::{Disk, Lab, Plan, cards, until};
use gq_model::{End, JobState};
use std::{
    fs,
    time::{Duration, Instant},
};

/// Longest from room on the disk to the first job that is taken.
const RECOVERY: Duration = Duration::from_secs(15);

/// Submits until a job is refused for want of room: what was recorded in room that was there already is accepted.
fn refused_at_once(lab: &Lab) -> String {
    until("the full disk is noticed", || {
        let begin = Instant::now();
        let said = lab.say("gqsub -H --mem=64M --wrap true");
        assert!(begin.elapsed() < Duration::from_secs(10), "at once: {:?}", begin.elapsed());
        assert!([0, 1].contains(&said.code), "{said:?}");
        (said.code == 1).then_some(said.err)
    })
}

/// A lab whose state, and whose node's folder, are on a small disk; none, with a word why, when that cannot be.
fn on_a_small_disk() -> Option<(Lab, Disk)> {
    let lab = Plan::new().node("n1", &cards(2)).ready();
    let disk = Disk::at(&lab.dir().join("state"), "size=300m")?;
    lab.gqd.launch(&["--init"]);
    lab.gqd.wait_for_answer();
    lab.node("n1").start();
    lab.node_is_there("n1");
    Some((lab, disk))
}

#[test]
fn daemons_start_on_a_full_disk_and_results_are_kept() {
    let Some((lab, disk)) = on_a_small_disk() else { return };
    let job = lab.submit("--gpus=1", "until [ -e go ]; do sleep 0.05; done; exit 3").running();
    disk.fill();
    assert_eq!((lab.gqd.stop(), lab.node("n1").stop()), (Some(0), Some(0)));
    disk.fill();
    lab.file("go", "");
    until("the job ends", || lab.processes().is_empty().then_some(()));
    lab.gqd.start();
    lab.node("n1").start();
    assert!(lab.ctl("ping").contains("DEGRADED"));
    assert_eq!((job.ended(), job.view()["exit_code"].clone()), (End::Failed, 3.into()));
    disk.free();
    until("jobs are taken again", || (lab.say("gqsub --mem=64M -H --wrap true").code == 0).then_some(()));
}

#[test]
fn a_full_disk_refuses_jobs_keeps_results_and_recovers_by_itself() {
    let Some((lab, disk)) = on_a_small_disk() else { return };
    for round in 0..2 {
        let _ = fs::remove_file(lab.work("go"));
        let wait = "until [ -e go ]; do sleep 0.05; done";
        let well = lab.submit("--gpus=1", &format!("{wait}; echo well")).running();
        let badly = lab.submit("--gpus=1", &format!("{wait}; exit 3")).running();
        let waits = lab.submit("--gpus=2", "echo waited");
        disk.fill();
        let why = refused_at_once(&lab);
        assert!(why.contains("room") || why.contains("full"), "{why}");
        // The drop box may have had no room before the state had none.
        until("it is told", || lab.ctl("ping").contains("DEGRADED").then_some(()));
        let stat = lab.say("gqstat");
        assert_eq!(stat.code, 0, "{stat:?}");
        assert!(format!("{stat:?}").contains("DEGRADED"), "{stat:?}");
        assert_eq!((well.state(), badly.state()), (JobState::Running, JobState::Running));

        lab.file("go", "");
        assert_eq!((well.ended(), badly.ended()), (End::Completed, End::Failed), "round {round}");
        assert_eq!(badly.view()["exit_code"], 3);
        // What was recorded is on disk.
        lab.gqd.kill9();
        lab.gqd.start();
        assert_eq!(
            (well.state(), badly.view()["exit_code"].clone()),
            (JobState::Ended(End::Completed), 3.into())
        );

        disk.free();
        let begin = Instant::now();
        until("jobs are taken again", || (lab.say("gqsub --mem=64M -H --wrap true").code == 0).then_some(()));
        assert!(begin.elapsed() < RECOVERY, "{:?}", begin.elapsed());
        assert!(!format!("{:?}", lab.say("gqctl ping")).contains("DEGRADED"));
        assert_eq!(waits.output(), "waited\n");
    }
}
