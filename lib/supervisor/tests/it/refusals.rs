//! What is not started, whose fault it is, and the words for it.

use crate::lab::{Job, Lab, uids, wait_dead};
use gq_model::{End, Fault, Reason, Uid};
use gq_nodelog::Record;
use std::{
    fs,
    os::unix::fs::{chown, symlink},
    time::Instant,
};

fn fails(lab: &mut Lab, job: &Job) -> (Reason, String) {
    let outcome = lab.run(job);
    assert_eq!((outcome.end, outcome.exit_code), (End::Failed, None), "{outcome:?}");
    assert_eq!(lab.ended(job.assignment.key).1, None);
    assert!(!lab.work("ran").exists());
    (outcome.reason, outcome.detail)
}

fn refused(lab: &mut Lab, job: &Job, serves_root: bool) -> (Fault, Reason, String) {
    let supervisor = lab.spawn(&job.assignment, serves_root);
    let key = job.assignment.key;
    let refused = lab.wait(|r| match r {
        Record::Refused { key: k, fault, reason, detail } if *k == key => {
            Some((*fault, *reason, detail.clone()))
        }
        _ => None,
    });
    wait_dead(&supervisor);
    refused
}

#[test]
fn a_users_paths_fail_his_job_with_the_path() {
    for uid in uids() {
        let mut lab = Lab::of(uid);
        let gone = lab.work("gone");
        let gone = gone.to_str().unwrap();
        let mut job = lab.job("touch ran");
        job.file.spec.work_dir = gone.into();
        assert_eq!(fails(&mut lab, &job), (Reason::WorkDir, format!("{gone}: No such file or directory")));

        let mut job = lab.job("touch ran");
        job.file.spec.stdout = Some("gone/%j".into());
        let path = format!("{gone}/{}", job.assignment.key.job);
        assert_eq!(fails(&mut lab, &job), (Reason::OutputFile, format!("{path}: No such file or directory")));

        let mut job = lab.job("touch ran");
        job.file.spec.stderr = Some("/".into());
        assert_eq!(fails(&mut lab, &job), (Reason::OutputFile, "/: Is a directory".into()));

        let mut job = lab.job("touch ran");
        job.file.spec.stdin = Some(gone.into());
        assert_eq!(fails(&mut lab, &job).0, Reason::InputFile);

        nix::unistd::mkfifo(&lab.work("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        chown(lab.work("fifo"), Some(uid.0), None).unwrap();
        let mut job = lab.job("touch ran");
        job.file.spec.stdout = Some("fifo".into());
        let begin = Instant::now();
        let (reason, detail) = fails(&mut lab, &job);
        assert!(reason == Reason::OutputFile && detail.contains("nobody reads"), "{detail}");
        assert!(begin.elapsed().as_secs() < 5);
    }
}

#[test]
fn what_a_user_may_not_write_is_not_written() {
    let Some(uid) = uids().into_iter().find(|uid| *uid != Uid(0)) else { return };
    let mut lab = Lab::of(uid);
    if gq_host::own_uid() != Uid(0) {
        return;
    }
    let secret = lab.folder("1.0.9".parse().unwrap());
    fs::write(&secret, "root's").unwrap();
    symlink(&secret, lab.work("link")).unwrap();
    for path in ["link", "/etc/gq-was-here", secret.to_str().unwrap()] {
        let mut job = lab.job("touch ran");
        job.file.spec.stdout = Some(path.into());
        let (reason, detail) = fails(&mut lab, &job);
        assert!(reason == Reason::OutputFile && detail.ends_with("Permission denied"), "{detail}");
    }
    assert_eq!(fs::read_to_string(&secret).unwrap(), "root's");
}

#[test]
fn an_account_of_somebody_else_is_not_used() {
    let mut lab = Lab::of(uids()[0]);
    lab.account = |account| account.uid = Uid(account.uid.0 + 1);
    let job = lab.job("touch ran");
    let (fault, _, detail) = refused(&mut lab, &job, true);
    assert!(fault == Fault::Site && detail.starts_with("the account of uid"), "{detail}");
}

#[test]
fn no_path_leads_to_the_nodes_log() {
    for uid in uids() {
        let mut lab = Lab::of(uid);
        for path in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/0", "/dev/stderr"] {
            let mut job = lab.job("echo text");
            job.file.spec.stdout = Some(path.into());
            lab.run(&job);
        }
        for fd in 3..12 {
            let mut job = lab.job("echo text");
            job.file.spec.stdout = Some(format!("/dev/fd/{fd}"));
            let supervisor = lab.start(&job);
            wait_dead(&supervisor);
        }
        let job = lab.job("true");
        lab.run(&job);
        assert_eq!(lab.records.first().and_then(Record::key).unwrap().job.0, 1, "the log was cut");
    }
}

#[test]
fn a_job_file_that_is_not_what_was_accepted_is_not_run() {
    for uid in uids() {
        let mut lab = Lab::of(uid);
        let changed = |lab: &mut Lab, job: &Job| {
            let (reason, detail) = fails(lab, job);
            assert_eq!(reason, Reason::JobFileChanged);
            detail
        };
        let mut job = lab.job("touch ran");
        job.tamper = |bytes| {
            if let Some(last) = bytes.last_mut() {
                *last = b' ';
            }
        };
        assert!(changed(&mut lab, &job).ends_with("its content is not what was accepted"));
        let mut job = lab.job("touch ran");
        job.tamper = Vec::clear;
        changed(&mut lab, &job);
        let mut job = lab.job("touch ran");
        job.mode = 0o662;
        assert!(changed(&mut lab, &job).ends_with("others may write to it"));
        let mut job = lab.job("touch ran");
        job.file.uid = Uid(uid.0 + 1);
        assert!(changed(&mut lab, &job).ends_with("it names another user than its owner"));
        for name in ["../spool/jobs/00/1.job", "jobs/link/1.job"] {
            let _ = symlink("00", lab.spool("jobs/link"));
            let mut job = lab.job("touch ran");
            fs::write(lab.spool("jobs/00/1.job"), job.file.to_bytes().unwrap()).unwrap();
            job.assignment.job_file = name.into();
            job.assignment.sha256 = gq_proto::sha256_hex(&job.file.to_bytes().unwrap());
            let supervisor = lab.spawn(&job.assignment, uid == Uid(0));
            assert_eq!(lab.ended(job.assignment.key).0.reason, Reason::JobFileChanged, "{name}");
            wait_dead(&supervisor);
        }
        if uid != Uid(0) {
            let mut job = lab.job("touch ran");
            job.mode = 0;
            assert!(changed(&mut lab, &job).ends_with("its owner may not read it"));
        }
    }
}

#[test]
fn a_spool_that_is_away_is_the_sites_fault() {
    for uid in uids() {
        let mut lab = Lab::of(uid);
        let job = lab.job("touch ran");
        let (fault, reason, detail) = refused(&mut lab, &job, uid == Uid(0));
        assert_eq!((fault, reason), (Fault::Site, Reason::LaunchFailure));
        assert!(detail.ends_with(".job: No such file or directory"), "{detail}");
    }
}

#[test]
fn jobs_of_root_are_refused_unless_the_node_serves_root() {
    if gq_host::own_uid() != Uid(0) {
        let mut lab = Lab::of(gq_host::own_uid());
        let mut job = lab.job("touch ran");
        job.assignment.uid = Uid(1);
        assert_eq!(refused(&mut lab, &job, false).0, Fault::Site);
        return;
    }
    let mut lab = Lab::of(Uid(0));
    let job = lab.job("touch ran");
    let supervisor = lab.spawn(&job.assignment, false);
    let outcome = lab.ended(job.assignment.key).0;
    assert_eq!((outcome.end, outcome.detail.as_str()), (End::Failed, "jobs of root are refused"));
    wait_dead(&supervisor);
}

#[test]
fn an_account_that_is_gone_fails_the_job() {
    if gq_host::own_uid() != Uid(0) {
        return;
    }
    let mut lab = Lab::of(Uid(4_000_000_001));
    let job = lab.job("touch ran");
    let (reason, detail) = fails(&mut lab, &job);
    assert_eq!((reason, detail.as_str()), (Reason::UserGone, "uid 4000000001 has no account on ws1"));
}

/// An account was removed while its job waited, and its number was given to somebody else.
#[test]
fn an_account_with_another_name_is_another() {
    let Some(uid) = uids().into_iter().find(|uid| *uid != gq_host::own_uid()) else { return };
    let mut lab = Lab::of(uid);
    let now = gq_host::Account::of(uid).unwrap().unwrap().name;
    for (then, runs) in [("somebody", false), (now.as_str(), true), ("", true), (&uid.to_string(), true)] {
        let mut job = lab.job("true");
        job.assignment.user = then.into();
        if runs {
            assert_eq!(lab.run(&job).end, End::Completed, "{then}");
        } else {
            let (reason, detail) = fails(&mut lab, &job);
            let words = format!("uid {uid} was somebody when the job was submitted, and is {now} on ws1");
            assert_eq!((reason, detail), (Reason::UserGone, words));
        }
    }
}

#[test]
fn a_script_that_cannot_be_executed_says_what_is_wrong() {
    for uid in uids() {
        let mut lab = Lab::of(uid);
        for (script, words) in [
            ("#!/no/such/shell\n", "the interpreter of its first line: No such file or directory"),
            ("#!/\n", "the interpreter of its first line: Permission denied"),
            ("no first line", "its first line: Exec format error"),
        ] {
            let mut job = lab.job("");
            job.file.script = script.as_bytes().to_vec();
            assert_eq!(fails(&mut lab, &job), (Reason::ExecFailed, words.to_owned()));
        }
        let mut job = lab.job("touch ran");
        job.file.args = vec![vec![b'x'; 300_000]];
        assert_eq!(
            fails(&mut lab, &job),
            (Reason::ExecFailed, "its arguments and environment: Argument list too long".into())
        );
        let mut job = lab.job("touch ran");
        job.file.spec.test_run = Some(gq_model::TestRun { micros: 1, exit: 0 });
        assert_eq!(fails(&mut lab, &job).0, Reason::ExecFailed);
    }
}
