//! A sync that fails, once: the system may have dropped what it could not write and says no more of it, so it is never tried again. Whoever synced
//! acknowledges nothing more, says why and ends; the next start takes up what is there. Whatever was acknowledged is there.

use crate::lab::{Daemon, Lab, can_trace, until};
use gq_model::End;
use nix::sys::signal::Signal;
use std::{
    fs,
    process::{Command, Output},
    thread,
};

/// Most syncs that are let fail, one after the other: far more than there are.
const MOST: u32 = 60;
const ONCE: &str = "echo $GQ_RUN >>ran.$GQ_JOB_ID";

/// A tracer that lets the sync of this number fail, in each thread, and writes down all syncs; none, with a word why, when that cannot be.
fn failing_sync(lab: &Lab, number: u32) -> Option<Vec<String>> {
    let tracer = "strace -D -f -y -qq -e signal=none -e trace=fsync,fdatasync";
    let mut all: Vec<String> = tracer.split(' ').map(str::to_owned).collect();
    all.extend(["-o".to_owned(), lab.dir().join("syncs").display().to_string()]);
    all.extend(["-e".to_owned(), format!("inject=fsync,fdatasync:error=EIO:when={number}")]);
    can_trace(&all.iter().map(String::as_str).collect::<Vec<_>>()).then_some(all)
}

/// Runs a job while the syncs of a daemon fail in turn: in the first life the first, in the second the second, until none is left that would. Each
/// life that met one has to end with a word; the job that was submitted meanwhile runs once all the same, unless nobody was there to submit it to.
fn let_syncs_fail(lab: &Lab, daemon: &Daemon, least: u32) {
    let mut jobs = Vec::new();
    let (mut deaths, mut lives) = (0, 0);
    for number in 1..MOST {
        let Some(tracer) = failing_sync(lab, number) else { return };
        assert_eq!(daemon.stop(), Some(0));
        daemon.launch_under(&tracer.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
        let died = thread::scope(|scope| {
            let submits = scope.spawn(|| submit(lab));
            // It comes to its end, or the daemon does first.
            until("the job ends, or the daemon", || {
                (daemon.has_ended().is_some() || submits.is_finished() && is_idle(lab)).then_some(())
            });
            // What it syncs after the job's end, or as it stops, may fail as well.
            daemon.strike(Signal::SIGTERM);
            until("the daemon ends", || daemon.has_ended());
            let said = daemon.said_now();
            let code = daemon.wait();
            let died = code != Some(0);
            if died {
                assert_eq!(code, Some(1), "{said}");
                let last = said.lines().last().unwrap_or_default();
                assert!(last.contains("sync") && last.contains("ERROR"), "sync {number}: {said}");
                nothing_more_is_synced(lab);
            }
            daemon.start();
            if daemon.name() == "gqd" {
                // It dials less and less often.
                lab.node("n1").kill9();
                lab.node("n1").start();
            }
            jobs.extend(submits.join().unwrap());
            died
        });
        deaths += u32::from(died);
        until("all jobs have ended", || is_idle(lab).then_some(()));
        // A thread may have met its last one while another meets more.
        lives = if died { 0 } else { lives + 1 };
        if lives == 3 {
            break;
        }
    }
    eprintln!("{deaths} syncs failed");
    assert!(deaths >= least && jobs.len() > 3, "{deaths} deaths, {jobs:?}");
    for id in jobs {
        let job = lab.job(&id.to_string());
        assert_eq!(job.ended(), End::Completed);
        let runs = fs::read_to_string(lab.work(format!("ran.{id}"))).unwrap();
        assert_eq!(runs, "1\n", "job {id}");
    }
}

/// The thread whose sync failed made no other. SQLite does not look at what becomes of its syncs of the folder, whose names are durable before it
/// begins.
fn nothing_more_is_synced(lab: &Lab) {
    let notes = fs::read_to_string(lab.dir().join("syncs")).unwrap();
    let thread = |line: &str| line.split_whitespace().next().unwrap().to_owned();
    let failed = notes
        .lines()
        .filter(|line| line.contains("EIO") && !line.contains("fdatasync") | !line.contains("/state>)"));
    for failed in failed {
        let mut rest = notes.lines().skip_while(|line| *line != failed).skip(1);
        let next = rest.find(|line| thread(line) == thread(failed));
        assert_eq!(next, None, "{notes}");
    }
}

/// Whether `gqd` answers, and has nothing to do.
fn is_idle(lab: &Lab) -> bool {
    let said = lab.say("gqstat -h");
    said.code == 0 && said.out.is_empty()
}

/// The id of a job, when one was printed; a client that meets nobody says so.
fn submit(lab: &Lab) -> Option<u64> {
    until("gqd answers, or ends", || {
        (lab.gqd.has_ended().is_some() || lab.say("gqctl ping").code == 0).then_some(())
    });
    let Output { status, stdout, stderr } =
        lab.client("gqsub").args(["--parsable", "--wrap", ONCE]).output().unwrap();
    let words = String::from_utf8_lossy(&stderr);
    assert!(status.success() || status.code() == Some(3), "{words}");
    String::from_utf8_lossy(&stdout).trim().parse().ok()
}

#[test]
fn a_sync_of_gqd_that_fails_is_never_tried_again_and_loses_nothing() {
    let lab = Lab::with_cards(0);
    let_syncs_fail(&lab, &lab.gqd, 4);
}

#[test]
fn a_sync_of_gqnode_that_fails_is_never_tried_again_and_loses_nothing() {
    let lab = Lab::with_cards(0);
    let_syncs_fail(&lab, lab.node("n1"), 2);
}

/// A client that cannot be sure of its job file says so, and leaves nothing.
#[test]
fn a_sync_of_gqsub_that_fails_is_a_refusal() {
    let lab = Lab::with_cards(0);
    for number in 1..=2 {
        let Some(tracer) = failing_sync(&lab, number) else { return };
        let program = crate::lab::program_path("gqsub");
        let mut traced = Command::new(&tracer[0]);
        traced.args(&tracer[1..]).arg(program).args(["--wrap", "true"]);
        traced.env("GQ_CONF", lab.conf()).current_dir(lab.work(""));
        let said = crate::lab::finish(&mut traced);
        if said.code == 0 {
            assert!(number > 1, "it syncs what it writes: {said:?}");
            break;
        }
        let words = said.refused(1);
        assert!(words.contains("Input/output error"), "{words}");
    }
    let left: Vec<_> = fs::read_dir(lab.dir().join("spool/drop")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}
