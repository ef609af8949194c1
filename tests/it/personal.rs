//! Personal mode for an ordinary user, and jobs that come without a `gqd`: offline, and twice.

use crate::lab::{Lab, Plan, accounts, cards, finish, until};
use gq_model::{End, Reason};
use serde_json::json;
use std::{fs, os::unix::fs::MetadataExt};

/// Needs root, to become somebody else; without it every other story is one of an ordinary user.
#[test]
fn an_ordinary_user_has_a_queue_of_his_own() {
    let Some([nobody]) = accounts(["nobody"]) else { return };
    let lab = Plan::new().node("n1", &cards(2)).owner(nobody.clone()).start();
    let job = lab.submit("--gpus=2", "id -u; echo $CUDA_VISIBLE_DEVICES; sleep 1000 & echo $! >pid");
    assert_eq!(job.output(), format!("{}\n0,1\n", nobody.uid));
    assert_eq!(fs::metadata(job.out_path()).unwrap().uid(), nobody.uid);
    let pid = fs::read_to_string(lab.work("pid")).unwrap();
    assert!(!fs::exists(format!("/proc/{}/exe", pid.trim())).unwrap());
    // Who may not make control groups is told what that means.
    let unbound = &lab.node_view("n1").unwrap()["unbound"];
    assert_eq!(*unbound, json!(["memory", "processes", "cards", "cpus", "suspension"]));
    assert!(
        lab.say("gqstat --nodes").ok().contains("not bounded: memory, processes, cards, cpus, suspension")
    );
    let deaf = lab.submit("-t 1s", "trap '' TERM; while :; do sleep 0.1; done");
    assert_eq!(deaf.ended(), End::Timeout);
    // What the user may not write, his job may not either.
    let theirs = lab.submit("-o /root/out", "true");
    assert_eq!((theirs.ended(), theirs.reason()), (End::Failed, Reason::OutputFile));
    lab.ctl("drain n1 --reason mine");
    lab.ctl("resume n1");
    lab.node("n1").kill9();
    lab.node("n1").start();
    lab.node_is_there("n1");
    assert_eq!(lab.submit("", "true").ended(), End::Completed);
    // Root, who is an admin everywhere, has no job here.
    let mut command = lab.client("gqsub");
    use std::os::unix::process::CommandExt;
    let said = finish(command.uid(0).gid(0).args(["--wrap", "true"]));
    said.refused(5);
}

#[test]
fn a_job_left_offline_is_taken_up_when_gqd_is_there() {
    let lab = Lab::with_cards(0);
    assert_eq!(lab.gqd.stop(), Some(0));
    let token = lab.run("gqsub", &["--offline", "-J", "left", "--wrap", "echo found"]).ok();
    let token = token.trim();
    assert_eq!(token.len(), 32, "{token}");
    let file = lab.dir().join("spool/drop").join(format!("{token}.job"));
    assert!(file.exists());
    let copy = fs::read(&file).unwrap();
    lab.gqd.start();
    let job = until("it is taken up", || lab.list("-t all -n left").pop());
    let job = lab.job(&job["id"].to_string());
    assert_eq!(job.output(), "found\n");
    assert!(!file.exists());

    // The same token is the same job, however often it comes.
    let again = lab.dir().join("spool/drop").join(".again");
    fs::write(&again, &copy).unwrap();
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(&again, fs::Permissions::from_mode(0o640)).unwrap();
    let group = fs::metadata(lab.dir().join("spool/drop")).unwrap().gid();
    std::os::unix::fs::chown(&again, None, Some(group)).unwrap();
    fs::rename(&again, &file).unwrap();
    until("it is looked at", || (!file.exists()).then_some(()));
    assert_eq!(lab.submit("", "true").ended(), End::Completed);
    assert_eq!(lab.list("-t all -n left").len(), 1, "one job");
    assert!(
        lab.gqd.said().contains(&format!("it is job {} already", job.id)),
        "it is set aside, and that is told"
    );
    // What can never run is set aside too, and the log says why.
    assert_eq!(lab.gqd.stop(), Some(0));
    lab.run("gqsub", &["--offline", "--gpus=9", "--wrap", "true"]).ok();
    lab.gqd.start();
    until("it is refused", || lab.gqd.said_now().contains("could ever run this: 1 cpu,").then_some(()));
    // What is no job file is set aside, and nothing else happens.
    let bad = lab.dir().join("spool/drop").join(format!("{}.job", "0".repeat(32)));
    fs::write(&bad, "nonsense").unwrap();
    until("it is set aside", || (!bad.exists()).then_some(()));
    assert!(fs::read_dir(lab.dir().join("spool/quarantine")).unwrap().count() > 0);
    assert!(lab.ctl("ping").contains("answers"));
}
