//! A node that exchanges letters as files, and nodes that fall silent.

use super::held_cards;
use crate::lab::{Lab, Plan, cards, until};
use gq_model::{End, JobState};
use std::{fs, path::PathBuf};

fn folder(lab: &Lab, way: &str) -> PathBuf {
    lab.dir().join("spool/nodes/n2").join(way)
}

/// The names of letters in a folder.
fn letters(lab: &Lab, way: &str) -> Vec<String> {
    let entries = fs::read_dir(folder(lab, way)).unwrap().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).filter(|name| name != "HEAD").collect()
}

/// Cuts a `HEAD` short, as a file system that shows half of it does.
fn tear(lab: &Lab, way: &str) {
    let head = folder(lab, way).join("HEAD");
    let bytes = fs::read(&head).unwrap();
    fs::write(&head, &bytes[..bytes.len() / 2]).unwrap();
}

#[test]
fn a_node_by_files_runs_jobs_through_every_crash() {
    let lab = Plan::new().node("n1", &cards(0)).node("n2", &cards(2)).by_files().start();
    assert_eq!(lab.submit("--gpus=1", "echo $GQ_NODELIST").output(), "n2\n");
    assert_eq!(lab.submit("-w n1", "echo $GQ_NODELIST").output(), "n1\n");
    let job = lab.submit("-w n2", "exit 3");
    assert_eq!((job.ended(), job.view()["exit_code"].clone()), (End::Failed, 3.into()));
    // Each of the two is killed, and both.
    let (gqd, node) = (&lab.gqd, lab.node("n2"));
    for victims in [vec![node], vec![gqd], vec![gqd, node], vec![node, gqd]] {
        let _ = fs::remove_file(lab.work("go"));
        let _ = fs::remove_file(lab.work("alone"));
        let wait = "until [ -e go ]; do sleep 0.02; done";
        let ends_alone = lab.submit("--gpus=1", &format!("{wait}; echo alone; touch alone")).running();
        let waits = lab.submit("--gpus=1", &format!("{wait}; exit 5")).running();
        victims.iter().for_each(|daemon| daemon.kill9());
        lab.file("go", "");
        until("a job ends alone", || lab.work("alone").exists().then_some(()));
        victims.iter().for_each(|daemon| daemon.start());
        assert_eq!(ends_alone.output(), "alone\n");
        assert_eq!((waits.ended(), waits.view()["exit_code"].clone()), (End::Failed, 5.into()));
        assert_eq!((ends_alone.view()["run"].clone(), waits.view()["run"].clone()), (1.into(), 1.into()));
    }
    let job = lab.submit("-w n2", "sleep 600").running();
    assert_eq!(lab.say(&format!("gqcancel {}", job.id)).code, 0);
    assert_eq!(job.ended(), End::Cancelled);
    for way in ["in", "out"] {
        until("letters that were taken are removed", || letters(&lab, way).is_empty().then_some(()));
    }
}

#[test]
fn a_torn_head_is_waited_out() {
    let lab = Plan::new().node("n2", &cards(1)).by_files().start();
    for way in ["in", "out"] {
        tear(&lab, way);
    }
    assert_eq!(lab.submit("--gpus=1", "echo well").output(), "well\n");
    // Torn when they are first looked at.
    lab.node("n2").kill9();
    lab.gqd.kill9();
    for way in ["in", "out"] {
        tear(&lab, way);
    }
    lab.gqd.start();
    lab.node("n2").start();
    assert_eq!(lab.submit("--gpus=1", "echo well").output(), "well\n");
}

fn falls_silent(plan: Plan) {
    let lab = plan.cluster("lost_after = \"1s\"").start();
    let job = lab.submit("--gpus=1", "until [ -e go ]; do sleep 0.05; done; echo back").running();
    let next = lab.submit("--gpus=1", "echo next");
    lab.node("n2").kill9();
    job.when("is out of sight", |view| view["state"] == "UNKNOWN");
    assert_eq!(lab.node_view("n2").unwrap()["state"], "lost");
    assert_eq!((held_cards(&lab, "n2"), next.state()), (1, JobState::Pending), "its card stays reserved");
    lab.gqd.kill9();
    lab.gqd.start();
    assert_eq!(held_cards(&lab, "n2"), 1);
    lab.node("n2").start();
    job.when("is in sight again", |view| view["state"] == "RUNNING");
    lab.file("go", "");
    assert_eq!(job.output(), "back\n");
    assert_eq!(job.view()["run"], 1);
    assert_eq!(next.output(), "next\n");
}

#[test]
fn jobs_of_a_silent_node_are_unknown_until_it_is_back() {
    falls_silent(Plan::new().node("n2", &cards(1)));
}

#[test]
fn jobs_of_a_node_whose_beats_stop_are_unknown_until_it_is_back() {
    falls_silent(Plan::new().node("n2", &cards(1)).by_files());
}
