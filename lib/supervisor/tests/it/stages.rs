//! What a run is told that is one of several: the stage of its job, the task of its array, the run after another; and the environment
//! of a login.

use crate::lab::{Lab, line_of, uids, wait_dead};
use gq_host::process_start;
use gq_model::{ArrayBounds, End, JobId, OpenMode, Reason, RunNumber, Seconds, Stage, TaskIndex};
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

#[test]
fn the_script_that_runs_first_is_followed_by_the_other_in_one_output() {
    let mut lab = Lab::of(uids()[0]);
    let mut job = lab.job("echo main $GQ_STAGE $GQ_RUN $GQ_RESTARTS ${SLURM_RESTART_COUNT-unset} $1");
    job.file.prep = b"#!/bin/sh\necho prep $GQ_STAGE $GQ_RESTARTS $1\n".to_vec();
    job.file.args = vec![b"arg".to_vec()];
    job.file.spec.open_mode = OpenMode::Truncate;
    fs::write(lab.work("out"), "old\n").unwrap();
    job.assignment.stage = Stage::Prep;
    assert_eq!(lab.run(&job).end, End::Completed);
    job.assignment.key.run = RunNumber(2);
    job.assignment.stage = Stage::Main;
    job.assignment.restarts = Some(0);
    assert_eq!(lab.run(&job).end, End::Completed);
    assert_eq!(lab.read("out"), "prep prep 0 arg\nmain main 2 0 unset arg\n");
}

#[test]
fn a_job_without_a_script_that_runs_first_has_no_stage_and_cannot_be_told_to() {
    let mut lab = Lab::of(uids()[0]);
    assert_eq!(lab.output("echo ${GQ_STAGE-none}"), "none\n");
    let mut job = lab.job("true");
    job.assignment.stage = Stage::Prep;
    let outcome = lab.run(&job);
    assert_eq!((outcome.end, outcome.reason), (End::Failed, Reason::JobFileChanged));
}

#[test]
fn a_task_knows_its_array_and_its_item_byte_for_byte() {
    let mut lab = Lab::of(uids()[0]);
    let script = "for v in COUNT MIN MAX STEP ID; do eval echo \\$GQ_ARRAY_TASK_$v \\$SLURM_ARRAY_TASK_$v; done; printf '%s|' \"${GQ_ITEM-none}\"";
    let item = b" a\xff 'b' $(id) \n\\".to_vec();
    for (task, told) in [(2, Some(item.clone())), (5, None)] {
        let mut job = lab.job(script);
        job.file.items = vec![Vec::new(), b"one".to_vec(), item.clone()];
        job.file.env.push(b"GQ_ITEM=stale".to_vec());
        job.assignment.array = Some((JobId(7), TaskIndex(task)));
        job.assignment.bounds = Some(ArrayBounds { count: 3, min: 1, max: 5, step: 2 });
        assert_eq!(lab.run(&job).end, End::Completed);
        let mut wanted = format!("3 3\n1 1\n5 5\n2 2\n{task} {task}\n").into_bytes();
        wanted.extend(told.unwrap_or_else(|| b"none".to_vec()));
        wanted.push(b'|');
        assert_eq!(fs::read(lab.work("out")).unwrap(), wanted);
    }
}

#[test]
fn a_run_knows_how_often_it_was_begun_who_pays_and_its_name_of_now() {
    let mut lab = Lab::of(uids()[0]);
    let mut job = lab.job(
        "echo $GQ_RESTARTS $SLURM_RESTART_COUNT $GQ_ACCOUNT $SLURM_JOB_ACCOUNT $GQ_QOS $SLURM_JOB_QOS $GQ_JOB_NAME $SLURM_JOB_NAME $SLURM_NODE_ALIASES",
    );
    job.assignment.key.run = RunNumber(6);
    job.assignment.restarts = Some(2);
    job.assignment.account = Some("physics".into());
    job.assignment.qos = Some("long".into());
    job.assignment.name = Some("new/name".into());
    job.file.spec.stdout = Some("%x.out".into());
    assert_eq!(lab.run(&job).end, End::Completed);
    assert_eq!(lab.read("new_name.out"), "2 2 physics physics long long new/name new/name (null)\n");
}

/// A job with the environment of a login, and its user's home in the working directory.
fn with_login(lab: &mut Lab, profile: &str, script: &str, patience: u64) -> crate::lab::Job {
    let mut job = lab.job(script);
    job.file.spec.get_user_env = Some(Seconds(patience));
    job.file.env = vec![b"CHOSEN=mine".to_vec()];
    let home = lab.work("");
    fs::write(home.join(".profile"), profile).unwrap();
    lab.home = Some(home);
    job
}

#[test]
fn a_job_has_the_environment_of_a_login_beneath_what_was_chosen() {
    for uid in uids() {
        let mut lab = Lab::of(uid);
        let profile = "echo welcome; export CHOSEN=theirs FROM_PROFILE='a b' PATH=/opt/x:$PATH GQ_JOB_ID=999
            setsid sh -c 'echo $$ > agent; exec sleep 66' & while ! [ -s agent ]; do sleep 0.01; done; id -u > who";
        let script = "echo $CHOSEN $FROM_PROFILE ${PATH%%:*} $GQ_JOB_ID ${SHLVL-unset} ${OLDPWD-unset}; pwd";
        let job = with_login(&mut lab, profile, script, 20);
        assert_eq!(lab.run(&job).end, End::Completed);
        let work = lab.work("").canonicalize().unwrap();
        let out = lab.read("out");
        let mut lines = out.lines();
        // Some shells count themselves.
        let first = lines
            .next()
            .unwrap()
            .replace("unset unset", "")
            .replace(" 0 unset", " ")
            .replace(" 1 unset", " ");
        assert_eq!(first.trim_end(), format!("mine a b /opt/x {}", job.assignment.key.job));
        assert_eq!(lines.next().map(Path::new), Some(work.as_path()));
        assert_eq!(lab.read("who"), format!("{uid}\n"));
        // What the profile left running was the job's, and ended with it.
        let agent: u32 = lab.read("agent").trim().parse().unwrap();
        assert_eq!(process_start(agent), None);
    }
}

#[test]
fn a_login_that_hangs_or_fails_costs_a_line_in_the_output_and_no_job() {
    let mut lab = Lab::of(uids()[0]);
    for (profile, word) in [("setsid sleep 67 & sleep 68", "more than 1 s"), ("exit 3", "without it")] {
        let job = with_login(&mut lab, profile, "echo runs $CHOSEN", 1);
        let begun = Instant::now();
        assert_eq!(lab.run(&job).end, End::Completed);
        assert!(begun.elapsed() < Duration::from_secs(15));
        let out = lab.read("out");
        assert!(
            out.contains("--get-user-env") && out.contains(word) && out.ends_with("runs mine\n"),
            "{out}"
        );
    }
}

#[test]
fn a_run_can_be_ended_while_its_login_hangs() {
    let mut lab = Lab::of(uids()[0]);
    let job = with_login(&mut lab, "echo $$ > shell; sleep 69", "true", 60);
    let key = job.assignment.key;
    let supervisor = lab.start(&job);
    let shell: u32 = line_of(&lab.work("shell")).parse().unwrap();
    // What is for the script is not for the one who only prepares it.
    supervisor.send(gq_host::Control::Signal(10, gq_model::SignalTo::All)).unwrap();
    supervisor.send(gq_host::Control::Stop(gq_host::StopKind::Cancel, None)).unwrap();
    let (outcome, started) = lab.ended(key);
    assert_eq!((outcome.end, started), (End::Cancelled, None));
    wait_dead(&supervisor);
    assert_eq!(process_start(shell), None);
}
