//! The example scripts: that a lab can use them as they are.

use crate::lab::{Job, Lab, finish, until};
use gq_model::End;
use std::{
    fs,
    path::{Path, PathBuf},
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("conf/examples")
}

#[test]
fn every_example_would_be_taken_as_it_is() {
    let lab = Lab::with_cards(1);
    lab.file("params.txt", "--lr 0.1\n--lr 0.01\n");
    let params = lab.work("params.txt");
    for (script, options) in [
        ("render-array.sh", vec![]),
        ("parameter-sweep.sh", vec![format!("--each={}", params.display()), "--array=%4".into()]),
        ("checkpoint-training.sh", vec![]),
        ("prep-then-train.sh", vec![]),
    ] {
        let mut command = lab.client("gqsub");
        let said = finish(command.current_dir(folder()).arg("--test-only").args(options).args([script, "x"]));
        assert_eq!(said.code, 0, "{script}: {said:?}");
        assert!(said.err.contains("Job to start at"), "{script}: {said:?}");
    }
    let is_job = |path: &Path| fs::read_to_string(path).is_ok_and(|text| text.contains("\n#GQ "));
    let jobs = fs::read_dir(folder()).unwrap().filter(|entry| is_job(&entry.as_ref().unwrap().path()));
    assert_eq!(jobs.count(), 4, "each is tried here");
}

/// Submits an example in the work folder, with these variables.
#[track_caller]
fn submit<'a>(lab: &'a Lab, words: &[&str], variables: &[(&str, &str)]) -> Job<'a> {
    let (script, rest) = words.split_first().unwrap();
    let options = rest.iter().take_while(|word| word.starts_with("--")).count();
    let (options, arguments) = rest.split_at(options);
    let mut command = lab.client("gqsub");
    command
        .envs(variables.iter().copied())
        .arg("--parsable")
        .args(options)
        .arg(folder().join(script))
        .args(arguments);
    lab.job(&finish(&mut command).ok())
}

/// What the tasks of an array came to, once all have ended.
#[track_caller]
fn ends(lab: &Lab, job: Job<'_>) -> String {
    until("all tasks have ended", || {
        let said = lab.run("gqstat", &["-h", "-o", "%i %T", "-j", &job.id.to_string()]).ok();
        let live = ["PENDING", "STARTING", "RUNNING", "COMPLETING"];
        (!said.is_empty() && live.iter().all(|state| !said.contains(state))).then_some(said)
    })
}

#[test]
fn frames_are_rendered_and_parameters_swept() {
    let lab = Lab::with_cards(2);
    let frames = submit(&lab, &["render-array.sh", "--array=1-3", "shot.blend"], &[("RENDERER", "echo")]);
    assert_eq!(ends(&lab, frames), format!("{}_[1-3] COMPLETED\n", frames.id));
    let log = fs::read_to_string(lab.work(format!("render-{}_2.log", frames.id))).unwrap();
    assert_eq!(log, "--background shot.blend --render-output frames/#### --render-frame 2\n");

    lab.file("params.txt", "--lr 0.1 --seed 1\n--lr 0.01 --seed 2\n");
    let sweep = ["parameter-sweep.sh", "--each=params.txt", "train.py"];
    let sweep = submit(&lab, &sweep, &[("PYTHON", "echo")]);
    assert_eq!(ends(&lab, sweep), format!("{}_[0-1] COMPLETED\n", sweep.id));
    let log = fs::read_to_string(lab.work(format!("sweep-{}_1.log", sweep.id))).unwrap();
    assert_eq!(log, "train.py --lr 0.01 --seed 2 --out results/1\n");
    assert_eq!(fs::read_to_string(lab.work("results/0/parameters")).unwrap(), "--lr 0.1 --seed 1\n");
}

#[test]
fn a_training_saves_before_its_limit_and_goes_on_in_its_next_run() {
    let lab = Lab::with_cards(1);
    // A training of two halves: in the first it saves when it is told to stop, in the second it ends.
    let train = "#!/bin/sh\nset -u\nif [ -e \"$2/half\" ]; then echo went on; exit; fi\n\
                 trap 'echo saved; touch \"$2/half\"; exit' TERM\ntouch ready\nwhile :; do sleep 0.05; done\n";
    let train = lab.file("train", train);
    fs::set_permissions(&train, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", crate::lab::program_path("gqctl").parent().unwrap().display());
    let job = submit(&lab, &["checkpoint-training.sh", "./train"], &[("PATH", &path)]).running();
    until("it trains", || fs::exists(lab.work("ready")).unwrap().then_some(()));
    // As the warning before the limit does.
    assert_eq!(lab.say(&format!("gqcancel -b -s USR1 {}", job.id)).code, 0);
    assert_eq!(job.ended(), End::Completed);
    let view = job.view();
    assert_eq!((&view["run"], &view["restarts"]), (&2.into(), &1.into()), "{view}");
    let log = fs::read_to_string(lab.work(format!("train-{}.log", job.id))).unwrap();
    for words in ["run 1, checkpoints in ", "saved", "run 2, checkpoints in ", "went on"] {
        assert!(log.contains(words), "{words}: {log}");
    }
}

#[test]
fn data_are_there_before_a_card_is_taken() {
    let lab = Lab::with_cards(1);
    fs::create_dir(lab.work("archive")).unwrap();
    lab.file("archive/faces", "many\n");
    let prep = format!("--prep={}", folder().join("fetch-data.sh").display());
    let job = submit(&lab, &["prep-then-train.sh", &prep, "echo"], &[("DATA_FROM", "archive")]);
    assert_eq!(job.ended(), End::Completed);
    assert_eq!(fs::read_to_string(lab.work("data/faces")).unwrap(), "many\n");
}
