//! A job of a lab: what `gqstat` says of it, and waiting for it.

use super::{Lab, until};
use gq_model::{End, JobState, Reason};
use serde_json::Value;
use std::{fs, path::PathBuf};

/// A job.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    lab: &'a Lab,
    /// Its number.
    pub id: u64,
}

impl<'a> Job<'a> {
    pub(super) fn new(lab: &'a Lab, id: u64) -> Self {
        Self { lab, id }
    }

    /// All that `gqstat -j ID --json` says of it; none when `gqd` does not answer.
    pub fn look(&self) -> Option<Value> {
        let said = self.lab.say(&format!("gqstat --json -j {}", self.id));
        if said.code == 3 {
            return None;
        }
        let view: Value = serde_json::from_str(&said.ok()).unwrap();
        Some(view["jobs"][0].clone())
    }

    /// The same, from a `gqd` that answers.
    #[track_caller]
    pub fn view(&self) -> Value {
        self.look().unwrap_or_else(|| panic!("gqd does not answer"))
    }

    /// Waits until something holds of it, and returns what is known then.
    #[track_caller]
    pub fn when(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        until(&format!("job {}: {what}", self.id), || self.look().filter(|view| holds(view)))
    }

    /// Its state now.
    #[track_caller]
    pub fn state(&self) -> JobState {
        state(&self.view())
    }

    /// Waits until its script has been started (or it ended without).
    #[track_caller]
    pub fn started(self) -> Self {
        self.when("starts", |view| !matches!(state(view), JobState::Pending | JobState::Starting));
        self
    }

    /// Waits until it runs; it must not end first.
    #[track_caller]
    pub fn running(self) -> Self {
        let view = self.started().view();
        assert_eq!(state(&view), JobState::Running, "{view}");
        self
    }

    /// Waits for its end.
    #[track_caller]
    pub fn ended(&self) -> End {
        let view = self.when("ends", |view| matches!(state(view), JobState::Ended(_)));
        match state(&view) {
            JobState::Ended(end) => end,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until nothing of an array waits or runs, and returns how far it is.
    #[track_caller]
    pub fn over(&self) -> Value {
        until(&format!("the array {} is over", self.id), || {
            let said = self.lab.say(&format!("gqstat --json -j {}", self.id));
            if said.code == 3 {
                return None;
            }
            let array = serde_json::from_str::<Value>(&said.ok()).unwrap()["arrays"][0].clone();
            (array["waiting"] == 0 && array["running"] == 0).then_some(array)
        })
    }

    /// Waits for its end, which has to be a good one, and returns what it wrote.
    #[track_caller]
    pub fn output(&self) -> String {
        let end = self.ended();
        let out = self.out();
        assert_eq!(end, End::Completed, "{}\n{out}", self.view());
        out
    }

    /// Why it waits or ended so; a job that was not looked at yet is waited for.
    #[track_caller]
    pub fn reason(&self) -> Reason {
        let view = self.when("has a reason", |view| view["reason"] != "Scheduling");
        view["reason"].as_str().unwrap().parse().unwrap()
    }

    /// A word of its view, as a text.
    #[track_caller]
    pub fn word(&self, key: &str) -> String {
        match &self.view()[key] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    /// The file of its standard output, as `gqstat` shows it.
    #[track_caller]
    pub fn out_path(&self) -> PathBuf {
        PathBuf::from(self.word("stdout"))
    }

    /// What it wrote to standard output.
    #[track_caller]
    pub fn out(&self) -> String {
        let path = self.out_path();
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }
}

fn state(view: &Value) -> JobState {
    view["state"].as_str().unwrap_or_else(|| panic!("no state: {view}")).parse().unwrap()
}
