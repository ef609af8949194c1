//! What stays of a run and what does not: the folder for checkpoints, the reason of its end, its private folder.

use crate::lab::{Job, Lab, line_of, uids, wait_dead};
use gq_host::{Control, StopKind};
use gq_model::{End, EndReason, JobId, Reason, RunNumber, Seconds, TaskIndex, Uid};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
};

/// Another run of the same job.
fn again(job: &Job, run: u32) -> Job {
    let mut job = Job { file: job.file.clone(), assignment: job.assignment.clone(), ..*job };
    job.assignment.key.run = RunNumber(run);
    job
}

#[test]
fn a_checkpoint_folder_stays_through_the_runs_and_tells_why_the_last_one_ended() {
    for uid in uids() {
        let mut lab = Lab::of(uid);
        let script = "trap 'cat \"$GQ_END_REASON_FILE\" > seen; echo $GQ_RESTARTS > $GQ_CHECKPOINT_DIR/state; exit 0' TERM
            if [ -e \"$GQ_CHECKPOINT_DIR/state\" ]; then cat \"$GQ_END_REASON_FILE\" > before; rm $GQ_CHECKPOINT_DIR/state; exit 0; fi
            [ -e \"$GQ_END_REASON_FILE\" ] || echo none > first
            echo up > up; while :; do sleep 60 & wait; done";
        let mut job = lab.job(script);
        job.assignment.may_run_again = true;
        let key = job.assignment.key;
        let supervisor = lab.start(&job);
        line_of(&lab.work("up"));
        let folder = lab.work(&format!("gq-{}.ckpt", key.job));
        let seen = fs::metadata(&folder).unwrap();
        assert_eq!((seen.mode() & 0o7777, seen.uid()), (0o700, uid.0));
        assert_eq!(lab.read("first"), "none\n");
        supervisor.send(Control::Stop(StopKind::Requeue, Some(EndReason::Preemption))).unwrap();
        assert_eq!(lab.ended(key).0.reason, Reason::Requeued);
        wait_dead(&supervisor);
        // It was written before the signal came, and belongs to the user.
        assert_eq!(lab.read("seen"), "preemption\n");
        assert_eq!(fs::metadata(folder.join("END_REASON")).unwrap().uid(), uid.0);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);

        let second = again(&job, 2);
        assert_eq!(lab.run(&second).end, End::Completed);
        assert_eq!(lab.read("before"), "preemption\n");
        assert!(!folder.exists(), "nobody needs it any more");
    }
}

#[test]
fn every_end_has_its_word() {
    let mut lab = Lab::of(uids()[0]);
    for (control, word) in [
        (Control::Limit(Some(0)), "time-limit"),
        (Control::Limit(None), "deadline"),
        (Control::Stop(StopKind::Cancel, Some(EndReason::Cancel)), "cancel"),
        (Control::Stop(StopKind::Requeue, Some(EndReason::Requeue)), "requeue"),
        (Control::Warn(EndReason::Drain), "drain"),
    ] {
        let mut job = lab.job("trap 'exit 3' TERM; echo up > up; while :; do sleep 60 & wait; done");
        job.file.spec.checkpoint = Some("deep/%j".into());
        job.assignment.deadline = (word == "deadline").then_some(Seconds(3));
        let key = job.assignment.key;
        fs::create_dir_all(lab.work("deep")).unwrap();
        let _ = fs::remove_file(lab.work("up"));
        let supervisor = lab.start(&job);
        line_of(&lab.work("up"));
        supervisor.send(control).unwrap();
        let outcome = lab.ended(key);
        wait_dead(&supervisor);
        let written = fs::read_to_string(lab.work(&format!("deep/{}/END_REASON", key.job)));
        assert_eq!(written.unwrap_or_default(), format!("{word}\n"), "{outcome:?}");
    }
}

#[test]
fn a_folder_is_where_it_was_asked_for_and_only_where_it_was() {
    let mut lab = Lab::of(uids()[0]);
    assert_eq!(lab.output("echo ${GQ_CHECKPOINT_DIR-none} ${GQ_END_REASON_FILE-none}"), "none none\n");
    let print = "echo \"$GQ_CHECKPOINT_DIR\"; ls -a \"$GQ_CHECKPOINT_DIR\" | wc -l";
    let job = |lab: &mut Lab, pattern: &str| {
        let mut job = lab.job(print);
        job.file.spec.checkpoint = Some(pattern.into());
        job
    };
    let mut usual = job(&mut lab, "");
    usual.assignment.array = Some((JobId(40), TaskIndex(3)));
    assert_eq!(lab.run(&usual).end, End::Completed);
    assert_eq!(lab.read("out"), format!("{}\n2\n", lab.work("gq-40_3.ckpt").display()));
    assert!(!lab.work("gq-40_3.ckpt").exists());
    // One that others may share stays, and what it holds; an old reason of another job's goes.
    fs::create_dir(lab.work("shared")).unwrap();
    fs::write(lab.work("shared/END_REASON"), "cancel\n").unwrap();
    let shared = job(&mut lab, "shared");
    assert_eq!(lab.run(&shared).end, End::Completed);
    assert_eq!(lab.read("out"), format!("{}\n2\n", lab.work("shared").display()));
    assert!(lab.work("shared").is_dir());
    // Its parents are not made; who asked is told, who may only run again goes without.
    let deep = job(&mut lab, "no/such/%j");
    let outcome = lab.run(&deep);
    assert_eq!((outcome.end, outcome.reason), (End::Failed, Reason::WorkDir));
    assert!(
        outcome.detail.contains("no/such") && outcome.detail.contains("checkpoints"),
        "{}",
        outcome.detail
    );
    let mut blocked = lab.job("echo ${GQ_CHECKPOINT_DIR-none}");
    blocked.assignment.may_run_again = true;
    fs::write(lab.work(&format!("gq-{}.ckpt", blocked.assignment.key.job)), "a file").unwrap();
    assert_eq!(lab.run(&blocked).end, End::Completed);
    assert_eq!(lab.read("out"), "none\n");
}

#[test]
fn a_failed_run_keeps_its_checkpoint_folder_when_there_is_something_in_it() {
    let mut lab = Lab::of(uids()[0]);
    for (script, is_kept) in [("touch $GQ_CHECKPOINT_DIR/state; exit 3", true), ("exit 3", false)] {
        let mut job = lab.job(script);
        job.assignment.may_run_again = true;
        assert_eq!(lab.run(&job).end, End::Failed);
        let folder = lab.work(&format!("gq-{}.ckpt", job.assignment.key.job));
        assert_eq!(folder.is_dir(), is_kept, "{script}");
        // The next run finds one all the same.
        let mut next = again(&job, 2);
        next.file.script = b"#!/bin/sh\n[ -d \"$GQ_CHECKPOINT_DIR\" ]\n".to_vec();
        assert_eq!(lab.run(&next).end, End::Completed, "{script}");
    }
}

#[test]
fn a_private_folder_is_the_users_alone_and_goes_with_all_it_holds() {
    for uid in uids() {
        let mut lab = Lab::of(uid);
        fs::write(lab.work("mine"), "mine").unwrap();
        let script = format!(
            "cd \"$GQ_TMPDIR\" && [ \"$SLURM_TMPDIR\" = \"$GQ_TMPDIR\" ] || exit 9
             stat -c '%a %u' . > {work}/seen; pwd > {work}/where; ls -A | wc -l > {work}/found
             mkdir -p a/b/c closed/in; echo x > a/b/c/file; ln -s {work}/mine link; ln -s {work} a/link; mkfifo fifo
             echo x > closed/in/file; chmod 000 closed/in closed; chmod 000 .",
            work = lab.work("").display()
        );
        let job = lab.job(&script);
        assert_eq!(lab.run(&job).exit_code, Some(0));
        assert_eq!((lab.read("seen"), lab.read("found")), (format!("700 {uid}\n"), "0\n".to_owned()));
        let place = lab.read("where");
        let place = Path::new(place.trim_end());
        assert!(
            place.starts_with(lab.folder(job.assignment.key).canonicalize().unwrap()),
            "{}",
            place.display()
        );
        // Empty, it waits for the next run of the user; whatever links led to is as it was.
        assert_eq!(fs::read_dir(place).unwrap().count(), 0);
        assert_eq!(lab.read("mine"), "mine");
    }
}

#[test]
fn what_a_killed_supervisor_left_in_a_private_folder_is_not_found_by_the_next_run() {
    for uid in uids() {
        let mut lab = Lab::of(uid);
        let job = lab.job("ls -A \"$GQ_TMPDIR\"; echo $GQ_TMPDIR > where");
        let key = job.assignment.key;
        let folder = lab.folder(key);
        let left = folder.join("tmp/left");
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("file"), "x").unwrap();
        symlink(lab.work(""), left.join("link")).unwrap();
        for path in [folder.join("tmp"), left.clone(), left.join("file")] {
            std::os::unix::fs::chown(path, Some(uid.0), gid_of(uid)).unwrap();
        }
        fs::set_permissions(folder.join("tmp"), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(lab.run(&job).exit_code, Some(0));
        assert_eq!((lab.read("out").as_str(), lab.work("out").exists()), ("", true));
    }
}

fn gid_of(uid: Uid) -> Option<u32> {
    gq_host::Account::of(uid).unwrap().map(|account| account.gid)
}

#[test]
fn a_script_that_cannot_be_executed_says_so_in_a_job_with_a_checkpoint_folder_too() {
    let mut lab = Lab::of(uids()[0]);
    let mut job = lab.job("");
    job.file.script = b"#!/no/such/interpreter\n".to_vec();
    job.assignment.may_run_again = true;
    let outcome = lab.run(&job);
    assert_eq!((outcome.end, outcome.reason), (End::Failed, Reason::ExecFailed));
    assert!(outcome.detail.contains("interpreter"), "{}", outcome.detail);
}
