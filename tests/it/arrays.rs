//! Arrays and what belongs to them, as users see them: submitted, looked at, run again where they failed.

use crate::lab::{Lab, finish};
use gq_model::End;
use std::fs;

/// `--rerun-failed` takes script, arguments and environment of the first time, whatever has become of them since.
#[test]
fn a_job_that_failed_is_submitted_again_as_it_was() {
    let lab = Lab::with_cards(1);
    let script =
        lab.file("job.sh", "#!/bin/sh\n#GQ -J again\ntest -e fixed && echo \"$1 $WORD $GQ_JOB_NAME\"\n");
    let mut command = lab.client("gqsub");
    command.env("WORD", "kept").args(["--parsable", "-H", "-t", "20"]).arg(&script).arg("an argument");
    let first = lab.job(&finish(&mut command).ok());
    let id = first.id.to_string();
    let nothing = lab.run("gqsub", &["--rerun-failed", &id]).refused(1);
    assert!(nothing.contains(&format!("nothing of job {id} has failed")), "{nothing}");
    lab.ctl(&format!("release {id}"));
    assert_eq!(first.ended(), End::Failed);

    fs::write(&script, "#!/bin/sh\necho another script\n").unwrap();
    lab.file("fixed", "");
    let second = lab.gqsub(&["--rerun-failed", &id, "--time=30"]);
    assert_ne!(second.id, first.id);
    assert_eq!(second.output(), "an argument kept again\n");
    let view = second.view();
    assert_eq!((&view["time_limit"], &view["name"]), (&1800.into(), &"again".into()));
    let nothing = lab.run("gqsub", &["--rerun-failed", &second.id.to_string()]).refused(1);
    assert!(nothing.contains("has failed"), "{nothing}");
    lab.run("gqsub", &["--rerun-failed", "999"]).refused(4);
    lab.run("gqsub", &["--rerun-failed", &id, "--gpus=1"]).refused(2);
    lab.run("gqsub", &["--rerun-failed", &id, "--wrap", "true"]).refused(2);
}

#[test]
fn a_file_of_lines_that_cannot_be_tasks_is_refused_with_its_line() {
    let lab = Lab::with_cards(0);
    lab.file("dos.txt", "a\r\nb\r\n");
    lab.file("empty.txt", "");
    for (options, words) in [
        ("--each=dos.txt", "dos.txt:1: the line ends in CR LF"),
        ("--each=empty.txt", "the file is empty"),
        ("--each=nowhere.txt", "cannot read it"),
        ("--array=%3", "which tasks there are is not said"),
        ("--prep=dos.txt", "dos.txt:1: the script does not begin with #!"),
    ] {
        let said = lab.run("gqsub", &[options, "--wrap", "true"]).refused(2);
        assert!(said.contains(words), "{options}: {said}");
    }
}

#[test]
fn words_that_change_nothing_are_said_and_the_job_is_taken() {
    let lab = Lab::with_cards(0);
    let said =
        lab.run("gqsub", &["--parsable", "--wckey=submitit", "--hint=nomultithread", "--wrap", "true"]);
    assert!(said.err.contains("--wckey=submitit changes nothing") && said.err.contains("--hint"), "{said:?}");
    assert_eq!(lab.job(&said.ok()).ended(), End::Completed);
}
