//! The example scripts: that a lab can use them as they are.

use crate::lab::{Lab, finish};
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
