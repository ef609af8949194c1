//! Arrays and what belongs to them, as users see them: submitted, looked at, run again where they failed.

mod lives;

use crate::lab::{Lab, finish, program_path, until};
use gq_model::End;
use std::{
    fs,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

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

/// What one task writes, another one empties: no script of Slurm's expects that of `%j`, which is the same for all tasks here.
#[test]
fn who_gives_all_tasks_one_file_is_warned_and_the_array_is_taken() {
    let lab = Lab::with_cards(0);
    let run = |options: &str| lab.say(&format!("gqsub --parsable {options} --wrap true"));
    for (options, warnings) in [
        ("-a 0-3", &[][..]),
        ("-a 0-3 -o out-%A_%a.txt -e err.%a", &[]),
        ("-a 0-3 -o /dev/null", &[]),
        ("-a 5 -o out-%j.txt", &[]),
        ("-o out.txt", &[]),
        ("-a 0-3 -o out-%j.txt -Q", &[]),
        ("-a 0-3 -o out-%j.txt", &["--output=out-%j.txt is one file for all tasks", "%j is the number"]),
        ("-a 0-3 -o %x-%A.out", &["--output=%x-%A.out is one file", "each of them empties it"]),
        ("-a 0-3 -o %a.out -e %N.err", &["--error=%N.err is one file"]),
        ("-a 0-3 -o all --open-mode=append", &["what they write is mixed in it"]),
        ("-a 0-3 -o all --json", &["--output=all"]),
    ] {
        let said = run(options);
        assert!(warnings.iter().all(|words| said.err.contains(words)), "{options}: {said:?}");
        assert_eq!(said.err.lines().count(), usize::from(!warnings.is_empty()), "{options}: {said:?}");
        assert_eq!(said.ok().lines().count(), 1, "{options}: stdout carries the answer only");
    }
    let tested = run("--test-only -a 0-3 -o x").err;
    assert!(tested.contains("--output=x is one file"), "{tested}");
    let failed = lab.submit("-a 0-3 -o /dev/null -e same", "exit 1");
    assert_eq!(failed.over()["ended"]["FAILED"], 4);
    let again = lab.say(&format!("gqsub --rerun-failed={}", failed.id)).err;
    assert!(again.contains("--error=same is one file"), "{again}");
}

#[test]
fn an_array_is_one_line_while_it_waits_and_what_ended_alike_is_one() {
    let lab = Lab::with_cards(0);
    let text = "#!/bin/sh\n#GQ -J frames --output=%x-%A_%a.log\necho $GQ_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID\n\
                case $GQ_ARRAY_TASK_ID in 3) exit 4;; 5|6) exit 2;; esac\n";
    let job = lab.script("-H --array=1-9%3", text);
    let id = job.id;
    assert_eq!(lab.lines(""), [format!("{id}_[1-9%3] PENDING")]);
    let split = lab.lines("-r");
    assert_eq!((split.len(), split[4].clone()), (9, format!("{id}_5 PENDING")));
    assert_eq!(lab.list(&format!("-j {id}")).len(), 1, "in JSON what waits is one element for each reason");
    lab.ctl(&format!("release {id}"));
    let array = job.over();
    assert_eq!(
        (&array["tasks"], &array["ended"]["COMPLETED"], &array["ended"]["FAILED"]),
        (&9.into(), &6.into(), &3.into())
    );
    let alike = lab.lines(&format!("-j {id}"));
    assert_eq!(
        alike,
        [format!("{id}_3 FAILED"), format!("{id}_[1-2,4,7-9] COMPLETED"), format!("{id}_[5-6] FAILED")]
    );
    assert_eq!(lab.lines(&format!("-r -j {id}")).len(), 9);
    let list = lab.list(&format!("-j {id}"));
    assert_eq!(list.len(), 9, "in JSON each that has run is one element");
    let third = list.iter().find(|task| task["array_task_id"] == 3).unwrap();
    assert_eq!((&third["exit_code"], &third["id"]), (&4.into(), &id.into()));
    assert_eq!(lab.lines(&format!("-j {id}_[4-5]")), [format!("{id}_4 COMPLETED"), format!("{id}_5 FAILED")]);
    assert_eq!(fs::read_to_string(lab.work(format!("frames-{id}_7.log"))).unwrap(), format!("{id} 7\n"));
    let table = lab.say(&format!("gqstat -j {id}")).ok();
    let bar = table.lines().last().unwrap();
    assert!(bar.starts_with(&format!("{id}: [####################] 9/9, 3 failed")), "{table}");
    assert!(lab.say(&format!("gqstat -h -j {id}_99")).refused(4).contains(&format!("no such job: {id}_99")));
}

#[test]
fn each_line_of_a_file_is_a_task_and_those_that_failed_run_again_with_theirs() {
    let lab = Lab::with_cards(0);
    lab.file("items", "one\ntwo words\n\n$(id) 'x'\n");
    let text = "#!/bin/sh\n#GQ --output=%a.out\nprintf '%s|' \"$GQ_ITEM\"\n[ -e fixed ] || [ $GQ_ARRAY_TASK_ID != 1 -a $GQ_ARRAY_TASK_ID != 3 ]\n";
    let script = lab.file("job.sh", text);
    let said =
        lab.run("gqsub", &["--parsable", "--wait", "--each=items", "--array=%2", script.to_str().unwrap()]);
    assert_eq!(said.code, 1, "the worst task's: {said:?}");
    let job = lab.job(&said.out);
    let out = |task: u32| fs::read_to_string(lab.work(format!("{task}.out"))).unwrap();
    assert_eq!([0, 1, 2, 3].map(out), ["one|", "two words|", "|", "$(id) 'x'|"]);
    lab.file("fixed", "");
    fs::remove_file(lab.work("items")).unwrap();
    let again = lab.run("gqsub", &["--parsable", "--wait", "--rerun-failed", &job.id.to_string()]);
    assert_eq!(again.code, 0, "{again:?}");
    let again = lab.job(&again.out);
    assert_eq!(lab.lines(&format!("-j {}", again.id)), [format!("{}_[1,3] COMPLETED", again.id)]);
    assert_eq!([1, 3].map(out), ["two words|", "$(id) 'x'|"]);
    lab.run("gqsub", &["--rerun-failed", &again.id.to_string()]).refused(1);
}

#[test]
fn parts_of_an_array_are_cancelled_held_and_changed() {
    let lab = Lab::with_cards(0);
    let job = lab.submit("--array=0-9%1 --output=/dev/null", "sleep 600");
    let id = job.id;
    until("the first task runs", || lab.lines("").contains(&format!("{id}_0 RUNNING")).then_some(()));
    assert_eq!(lab.say(&format!("gqcancel {id}_[7-9]")).code, 0);
    lab.ctl(&format!("hold {id}_[4-6]"));
    let seen = lab.lines(&format!("-j {id}"));
    for line in ["0 RUNNING", "[1-3%1] PENDING", "[4-6%1] PENDING", "[7-9] CANCELLED"] {
        assert!(seen.contains(&format!("{id}_{line}")), "{line}: {seen:?}");
    }
    lab.ctl(&format!("update {id} --array-throttle=2 --name=renamed"));
    until("another one runs", || lab.lines("").contains(&format!("{id}_1 RUNNING")).then_some(()));
    assert!(lab.lines("").contains(&format!("{id}_[2-3%2] PENDING")), "{:?}", lab.lines(""));
    assert_eq!(job.word("name"), "renamed");
    assert_eq!(lab.say(&format!("gqcancel {id}")).code, 0);
    assert_eq!(job.over()["ended"]["CANCELLED"], 10);
    assert_eq!(job.word("name"), "renamed", "also when all has ended");
}

/// Ten million tasks that wait are ten records and ten lines.
#[test]
fn arrays_of_a_million_tasks_are_taken_and_listed_at_once() {
    let lab = Lab::with_cards(0);
    for _ in 0..10 {
        lab.submit("-H --array=0-999999%50", "true");
    }
    let mut took = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        let said = lab.say("gqstat -h").ok();
        took.push(began.elapsed());
        assert_eq!(said.lines().filter(|line| line.contains("_[0-999999%50]")).count(), 10, "{said}");
    }
    // The quickest of some: others use this machine too.
    assert!(took.iter().min().is_some_and(|least| *least < Duration::from_millis(50)), "{took:?}");
}

/// On a terminal `--wait` shows how far the array is, in one line that is written over, and takes it away in the end.
#[test]
fn who_waits_for_an_array_sees_how_far_it_is() {
    let lab = Lab::with_cards(0);
    let mut script = Command::new("script");
    let gqsub = program_path("gqsub");
    let words = "--wait --array=0-2%2 --output=/dev/null --wrap 'sleep 1.2; exit $GQ_ARRAY_TASK_ID'";
    script.arg("-qec").arg(format!("stty cols 100 rows 24; {} {words}", gqsub.display())).arg("/dev/null");
    script.current_dir(lab.work("")).env("GQ_CONF", lab.conf()).env("TERM", "xterm").stdin(Stdio::null());
    let Ok(output) = script.output() else {
        eprintln!("left out: there is no program `script` here");
        return;
    };
    assert_eq!(output.status.code(), Some(2), "the worst task's: {output:?}");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("\r[....................] 0/3, "), "{shown:?}");
    assert!(shown.contains("\r[######..............] 1/3, ") || shown.contains("] 2/3, "), "{shown:?}");
    assert!(shown.ends_with("\r\u{1b}[K"), "{shown:?}");
}
