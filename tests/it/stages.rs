//! Two stages: a script that prepares runs on cpus alone, the cards are taken when it has ended well, and it is one job throughout.

use crate::lab::{Job, Lab, until};
use gq_model::{End, JobState, Reason};
use std::ffi::OsString;

/// Submits a job of two stages: options parted by blanks, the script that prepares, and the command.
#[track_caller]
fn staged<'a>(lab: &'a Lab, options: &str, prep: &str, command: &str) -> Job<'a> {
    let mut prep_option = OsString::from("--prep=");
    prep_option.push(lab.file("prep.sh", format!("#!/bin/sh\n{prep}\n")));
    let mut words = vec![prep_option];
    words.extend(options.split_ascii_whitespace().map(OsString::from));
    words.extend(["--wrap".into(), command.into()]);
    lab.gqsub(&words)
}

/// What `gqstat` shows of its state and stage.
fn shown(lab: &Lab, job: Job<'_>) -> String {
    let said = lab.say(&format!("gqstat -h -o state,stage -j {}", job.id)).ok();
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn cards_are_taken_only_when_all_is_prepared() {
    let lab = Lab::with_cards(1);
    let other = lab.submit("--gpus=1", "until [ -e go ]; do sleep 0.02; done").running();
    let prep = "echo $GQ_STAGE [$GQ_GPUS] [$CUDA_VISIBLE_DEVICES] $GQ_CPUS $GQ_RUN >seen; touch prepares\n\
                until [ -e prepared ]; do sleep 0.02; done";
    let job =
        staged(&lab, "--gpus=1 -c2", prep, "echo $GQ_STAGE [$GQ_GPUS] $GQ_CPUS ${SLURM_RESTART_COUNT-none}");
    // It prepares though the only card is another's, and holds none.
    lab.until_file("prepares");
    let view = job.when("runs", |view| view["state"] == "RUNNING");
    assert_eq!((&view["stage"], &view["gpus"].as_array().unwrap().len()), (&"prep".into(), &0), "{view}");
    assert_eq!(shown(&lab, job), "RUNNING prep");
    assert_eq!(lab.read("seen"), "prep [] [] 2 1\n");
    let held = lab.say(&format!("gqstat -h -o gpus,gres -j {}", job.id)).ok();
    assert_eq!(held.split_whitespace().collect::<Vec<_>>(), ["0", "N/A"]);
    lab.file("prepared", "");
    let view = job.when("waits for its card", |view| view["state"] == "PENDING");
    assert_eq!(view["stage"], "main", "{view}");
    assert_eq!(job.reason(), Reason::Resources);
    assert_eq!(lab.list("").len(), 2, "it is one job");
    // The card is free meanwhile for who has it.
    lab.gqd.kill9();
    lab.gqd.start();
    assert_eq!(shown(&lab, job), "PENDING main");
    lab.file("go", "");
    assert_eq!(other.ended(), End::Completed);
    assert_eq!(job.output(), "main [0] 2 none\n");
    assert_eq!(
        (&job.view()["run"], &job.view()["restarts"]),
        (&2.into(), &0.into()),
        "its script was begun once"
    );
    assert_eq!(lab.list(&format!("-j {}", job.id)).len(), 1);
}

#[test]
fn a_job_that_was_not_prepared_has_failed_and_its_script_never_ran() {
    let lab = Lab::with_cards(1);
    let job = staged(&lab, "--gpus=1 -o out", "echo no data; exit 3", "touch ran");
    let after = lab.submit(&format!("-d afternotok:{}", job.id), "echo told");
    assert_eq!((job.ended(), job.reason()), (End::Failed, Reason::PrepFailed));
    assert_eq!(job.view()["exit_code"], 3);
    assert!(lab.read("out").contains("no data"), "{}", lab.read("out"));
    assert!(!lab.work("ran").exists());
    assert_eq!(after.output(), "told\n");
    let why = lab.say(&format!("gqstat --why {}", job.id)).ok();
    assert!(why.contains("PrepFailed"), "{why}");
    assert_eq!(lab.submit("--gpus=1", "echo free").output(), "free\n");
    // A script that waits for it: its code is that of the preparation.
    lab.file("prep.sh", "#!/bin/sh\nexit 5\n");
    assert_eq!(lab.run("gqsub", &["--wait", "--prep=prep.sh", "--wrap", "true"]).code, 5);
}

#[test]
fn a_job_is_cancelled_and_requeued_in_either_stage() {
    let lab = Lab::with_cards(1);
    let prep = "echo prep $GQ_RUN >>log; [ -e go ] || sleep 600";
    let main = "echo main $GQ_RUN >>log; [ -e go.main ] || sleep 600";
    let cancelled = staged(&lab, "--gpus=1", prep, "touch ran");
    until("it prepares", || (lab.read("log") == "prep 1\n").then_some(()));
    assert_eq!(lab.say(&format!("gqcancel {}", cancelled.id)).code, 0);
    assert_eq!((cancelled.ended(), cancelled.reason()), (End::Cancelled, Reason::Cancelled));
    let job = staged(&lab, "--gpus=1", prep, main);
    until("it prepares", || (lab.read("log") == "prep 1\nprep 1\n").then_some(()));
    // What was not prepared to the end is prepared anew.
    lab.file("go", "");
    lab.ctl(&format!("requeue {}", job.id));
    until("its script runs", || lab.read("log").ends_with("prep 1\nprep 2\nmain 3\n").then_some(()));
    // What was prepared stays so.
    lab.file("go.main", "");
    lab.ctl(&format!("requeue {}", job.id));
    assert_eq!(job.ended(), End::Completed);
    assert!(lab.read("log").ends_with("prep 1\nprep 2\nmain 3\nmain 4\n"), "{}", lab.read("log"));
    assert!(!lab.work("ran").exists());
}

#[test]
fn an_array_is_prepared_once_by_its_first_task() {
    let lab = Lab::with_cards(2);
    let job = staged(
        &lab,
        "--array=3-6 --gpus=1 -o %a.out",
        "echo prep $GQ_ARRAY_TASK_ID; echo prep $GQ_ARRAY_TASK_ID >>log; touch prepares; until [ -e prepared ]; do sleep 0.02; done",
        "echo main; echo $GQ_ARRAY_TASK_ID >>log",
    );
    lab.until_file("prepares");
    let waits = format!("{}_[4-6] PENDING Dependency prep", job.id);
    let seen = lab.say(&format!("gqstat -h -o jobid,state,reason,stage -j {}", job.id)).ok();
    let seen: Vec<String> =
        seen.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(seen.contains(&waits), "the others wait meanwhile: {seen:?}");
    lab.file("prepared", "");
    assert_eq!(job.over()["ended"]["COMPLETED"], 4);
    let mut log: Vec<String> = lab.read("log").lines().map(str::to_owned).collect();
    assert_eq!(log.remove(0), "prep 3");
    log.sort();
    assert_eq!(log, ["3", "4", "5", "6"]);
    assert_eq!((lab.read("3.out").as_str(), lab.read("4.out").as_str()), ("prep 3\nmain\n", "main\n"));
    let failed = staged(&lab, "--array=0-3 -o /dev/null", "exit 1", "touch ran");
    assert_eq!(failed.over()["ended"]["FAILED"], 4);
    assert!(!lab.work("ran").exists());
}

/// A first task that is held prepares what is not; whoever cancels it cancels it alone, and the next one prepares.
#[test]
fn what_is_done_to_the_first_task_is_done_to_it_alone() {
    let lab = Lab::with_cards(0);
    let prep = "echo $GQ_ARRAY_TASK_ID >>log; until [ -e go ]; do sleep 0.02; done";
    let cancelled = staged(&lab, "--array=0-3 -o /dev/null", prep, "touch ran");
    until("it prepares", || (lab.read("log") == "0\n").then_some(()));
    assert_eq!(lab.say(&format!("gqcancel {}_0", cancelled.id)).code, 0);
    until("the next one prepares", || (lab.read("log") == "0\n1\n").then_some(()));
    assert!(!lab.work("ran").exists());
    lab.file("go", "");
    let ended = cancelled.over()["ended"].clone();
    assert_eq!((&ended["CANCELLED"], &ended["COMPLETED"]), (&1.into(), &3.into()));

    let next = staged(&lab, "-H --array=0-3 -o /dev/null", prep, "true");
    assert_eq!(lab.say(&format!("gqcancel {}_0", next.id)).code, 0);
    lab.ctl(&format!("release {}", next.id));
    let ended = next.over()["ended"].clone();
    assert_eq!((&ended["CANCELLED"], &ended["COMPLETED"]), (&1.into(), &3.into()));
    assert_eq!(lab.read("log"), "0\n1\n1\n", "the first that was left");

    let other = lab.submit("", "until [ -e ended ]; do sleep 0.02; done");
    let held = staged(&lab, &format!("-d afterany:{} --array=0-3 -o /dev/null", other.id), prep, "true");
    lab.ctl(&format!("hold {}_0", held.id));
    lab.file("ended", "");
    assert_eq!(other.ended(), End::Completed);
    until("only the one that is held is left", || {
        let lines = lab.say(&format!("gqstat -h -o jobid,reason -j {} -t PD,R", held.id)).ok();
        (lines.split_whitespace().collect::<Vec<_>>() == [&format!("{}_[0]", held.id), "JobHeldUser"])
            .then_some(())
    });
    assert_eq!(lab.read("log"), "0\n1\n1\n0\n", "it is prepared once");
    lab.ctl(&format!("release {}_0", held.id));
    assert_eq!(held.over()["ended"]["COMPLETED"], 4);
    assert_eq!(lab.read("log"), "0\n1\n1\n0\n", "and not again");
}

#[test]
fn a_preparation_that_outlives_its_limit_is_a_timeout_and_one_that_is_tried_again_is_tried_alone() {
    let lab = Lab::with_cards(1);
    let slow = staged(&lab, "-t 1s --gpus=1", "sleep 600", "touch ran");
    let again = staged(&lab, "--retry=1 --gpus=1", "echo prep >>log; [ $GQ_RUN = 2 ]", "echo main >>log");
    assert_eq!(again.ended(), End::Completed);
    assert_eq!(lab.read("log"), "prep\nprep\nmain\n");
    assert_eq!((slow.ended(), slow.state()), (End::Timeout, JobState::Ended(End::Timeout)));
    assert!(!lab.work("ran").exists());
    // The script that prepares has to be there.
    let said = lab.run("gqsub", &["--prep=nowhere.sh", "--wrap", "true"]).refused(2);
    assert!(said.contains("nowhere.sh"), "{said}");
}
