//! Users: on an installation of root's everybody's jobs run as that user, and nobody steers what is another's.

use crate::lab::{Job, Lab, Owner, Plan, accounts, cards, finish};
use gq_model::{End, JobState, Reason};
use std::{fs, os::unix::fs::MetadataExt};

fn submit<'a>(lab: &'a Lab, user: &Owner, words: &[&str]) -> Job<'a> {
    lab.job(&finish(lab.client_of(user, "gqsub").arg("--parsable").args(words)).ok())
}

#[test]
fn jobs_of_two_users_run_as_those_users() {
    let Some([gq, ann, ben]) = accounts(["daemon", "nobody", "games"]) else { return };
    let lab = Plan::new().node("n1", &cards(2)).installed_for(&gq.name).start();
    assert_eq!(fs::metadata(format!("/proc/{}", lab.gqd.pid())).unwrap().uid(), gq.uid, "gqd needs no root");
    let command = "id -u; id -g; id -G; echo $HOME $USER; pwd";
    for user in [&ann, &ben] {
        let job = submit(&lab, user, &["--gpus=1", "--wrap", command]);
        assert_eq!(job.ended(), End::Completed, "{}", job.view());
        let said = job.out();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[..2], [user.uid.to_string(), user.gid.to_string()]);
        assert!(!lines[2].split(' ').any(|group| group == "0"), "no group of root's: {said}");
        let home = lab.work(&user.name);
        assert_eq!(lines[4], home.display().to_string());
        let file = fs::metadata(job.out_path()).unwrap();
        assert_eq!((file.uid(), file.gid()), (user.uid, user.gid));
        assert_eq!(job.word("user"), user.name);
    }
    // An output file is opened by the user, whoever else could.
    let secret = submit(&lab, &ann, &["-o", "/root/gq-test-out", "--wrap", "true"]);
    assert_eq!((secret.ended(), secret.reason()), (End::Failed, Reason::OutputFile));
    let other = lab.work(&ben.name).join("taken");
    let there = submit(&lab, &ann, &["-o", other.to_str().unwrap(), "--wrap", "true"]);
    assert_eq!((there.ended(), there.reason()), (End::Failed, Reason::OutputFile));
    assert!(!other.exists());
    // No root.
    lab.say("gqsub --wrap true").refused(5);
}

#[test]
fn nobody_steers_what_is_anothers() {
    let Some([gq, ann, ben]) = accounts(["daemon", "nobody", "games"]) else { return };
    let lab = Plan::new().node("n1", &cards(1)).installed_for(&gq.name).start();
    let job = submit(&lab, &ann, &["--gpus=1", "--wrap", "sleep 600"]).running();
    let waits = submit(&lab, &ann, &["--gpus=1", "--wrap", "true"]);
    let ben_says = |program: &str, words: &[&str]| finish(lab.client_of(&ben, program).args(words));
    let id = job.id.to_string();
    for (program, words) in [
        ("gqcancel", &[id.as_str()][..]),
        ("gqcancel", &["-s", "KILL", &id]),
        ("gqctl", &["requeue", &id]),
        ("gqctl", &["hold", &waits.id.to_string()]),
        ("gqctl", &["drain", "n1", "--reason", "mine"]),
        ("gqctl", &["resume", "n1"]),
        ("gqctl", &["node", "n1", "fence"]),
        ("gqctl", &["node", "n1", "forget"]),
        ("gqctl", &["reload"]),
        ("gqctl", &["shutdown"]),
        ("gqsub", &["--nice=-5", "--wrap", "true"]),
    ] {
        ben_says(program, words).refused(5);
    }
    // What he selects by words is his own.
    assert_eq!(ben_says("gqcancel", &["-p", "main"]).code, 0);
    // But whoever names another user is told of what he may not do; and nothing is said where nothing is meant.
    let own = submit(&lab, &ben, &["-H", "--wrap", "true"]);
    for (program, words, count) in [
        ("gqcancel", &["-u", &ann.name][..], 2),
        ("gqcancel", &["-t", "PD", "-u", &ann.name], 1),
        ("gqctl", &["hold", "-t", "PD", "-u", &ann.name], 1),
    ] {
        let said = ben_says(program, words).refused(5);
        let wanted = format!(
            "{program}: jobs of {0}: {count} match, and only {0}, who coordinates their account, operators and admins may do that\n",
            ann.name
        );
        assert_eq!(said, wanted);
    }
    assert_eq!(ben_says("gqcancel", &["-u", &ann.name, "-n", "another"]).ok(), "");
    assert_eq!(ben_says("gqcancel", &["-u", "root"]).ok(), "");
    assert_eq!(own.state(), JobState::Pending);
    let both = format!("{},{}", ann.name, ben.name);
    assert!(ben_says("gqcancel", &["-u", &both]).refused(5).contains(&ann.name));
    assert_eq!(own.ended(), End::Cancelled, "what is his is done");
    assert_eq!((job.state(), waits.state()), (JobState::Running, JobState::Pending));
    assert!(ben_says("gqstat", &["-h"]).ok().contains(&id), "he sees them");
    // An admin may.
    lab.ctl(&format!("hold {}", waits.id));
    assert_eq!(waits.reason(), Reason::JobHeldAdmin);
    let own = finish(lab.client_of(&ann, "gqctl").args(["release", &waits.id.to_string()]));
    own.refused(5);
    lab.ctl(&format!("release {}", waits.id));
    assert_eq!(lab.say(&format!("gqcancel {id}")).code, 0);
    assert_eq!((job.ended(), waits.ended()), (End::Cancelled, End::Completed));
}

/// B204: of a user whom the node does not know its whole node was taken away. B117: he was sent as a user without a name.
#[test]
fn a_user_without_an_account_fails_alone() {
    let Some([gq, ann]) = accounts(["daemon", "nobody"]) else { return };
    let stranger = Owner { name: "stranger".into(), uid: 54_321, gid: 54_321 };
    assert!(nix::unistd::User::from_uid(stranger.uid.into()).unwrap().is_none());
    let lab = Plan::new().node("n1", &cards(1)).installed_for(&gq.name).start();
    let job = submit(&lab, &stranger, &["--gpus=1", "--wrap", "true"]);
    assert_eq!((job.ended(), job.reason()), (End::Failed, Reason::UserGone));
    assert!(job.word("reason_detail").contains("uid 54321 has no account"), "{}", job.view());
    assert_eq!(job.word("user"), "54321", "his number is who he is");
    let node = lab.node_view("n1").unwrap();
    assert_eq!((&node["state"], &node["reason"]), (&"idle".into(), &serde_json::Value::Null));
    assert_eq!(submit(&lab, &ann, &["--gpus=1", "--wrap", "true"]).ended(), End::Completed);
}
