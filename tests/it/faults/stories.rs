//! What users do while daemons die: jobs of every kind, and what is asked of them. Each story ends when all that it asks was answered; what became
//! of its jobs is for `check`.

use super::history::{Answer, History, Line, Submission};
use crate::lab::{Dice, until, until_told};
use gq_model::JobState;
use serde_json::Value;
use std::{
    cell::RefCell,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// Users at a time.
const USERS: usize = 4;
/// Does what a job is to do, and says so.
const WELL: &str = ". ./story; begin; sleep 0.0$((GQ_JOB_ID % 5)); end 0";
/// Lives until it is ended.
const ENDLESS: &str = ". ./story; begin; while :; do sleep 0.1; done";

/// A kind of job, by what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// It ends well, whatever happens.
    Well,
    /// Its script ends with 3.
    Badly,
    /// It kills its own supervisor.
    Orphan,
    /// It is endless, and cancelled.
    Endless,
    /// It is held until it is released.
    Held,
    /// It is put back while it runs, and ends well at last.
    PutBack,
    /// An array: each task ends well.
    Tasks,
    /// It waits for a job that ends well.
    AfterWell,
    /// It waits for the good end of one that ends badly: it is cancelled.
    AfterBadly,
    /// It asks for more cards than there are.
    Impossible,
    /// Users do to it what they like.
    Any,
}

/// The stories; each is told once in a round.
const STORIES: [fn(&History<'_>, &str); 11] =
    [plain, chain, badly, orphan, cancelled, held, put_back, suspended, array, offline, impossible];

/// Those who tell stories, and how many were told.
#[derive(Default)]
pub struct Users {
    told: AtomicU64,
}

impl Users {
    /// Every story once, several at a time, in an order of the dice.
    pub fn round(&self, history: &History<'_>, dice: &mut Dice) {
        let mut left: Vec<_> = STORIES.to_vec();
        let mut order = Vec::new();
        while !left.is_empty() {
            order.push(left.swap_remove(dice.roll(left.len())));
        }
        let order = Mutex::new(order);
        std::thread::scope(|scope| {
            for _ in 0..USERS {
                scope.spawn(|| {
                    loop {
                        let Some(story) = order.lock().unwrap().pop() else { return };
                        let number = self.told.fetch_add(1, Ordering::Relaxed);
                        story(history, &format!("s{number}"));
                    }
                });
            }
        });
    }
}

/// Waits until nothing is left to do. What nobody was told the id of, and would never end, is cancelled.
#[track_caller]
pub fn settle(history: &History<'_>) {
    until("what was left in the drop box is taken up", || {
        let listed = jobs(history, "gqstat --json -t all")?;
        let is_there = |left: &Submission| listed.iter().any(|job| job["name"] == left.name.as_str());
        history.submissions().iter().filter(|s| s.answer == Answer::Left).all(is_there).then_some(())
    });
    let left = RefCell::new(Vec::new());
    until_told(
        || format!("nothing is left to do: {:#?}", left.borrow()),
        || {
            let live = jobs(history, "gqstat --json")?;
            let submissions = history.submissions();
            let nobodys = |job: &&Value| {
                let is_it = |submission: &&Submission| job["name"] == submission.name.as_str();
                let never_ends =
                    |submission: &Submission| matches!(submission.kind, Kind::Endless | Kind::Held);
                submissions.iter().find(is_it).is_some_and(|s| s.answer == Answer::Unknown && never_ends(s))
            };
            for job in live.iter().filter(nobodys) {
                history.insist("gqcancel", &[&job["id"].to_string()]);
            }
            resume_nodes(history);
            let is_over = live.is_empty();
            left.replace(live);
            is_over.then_some(())
        },
    );
}

/// What `gqstat` lists; none while `gqd` does not answer.
fn jobs(history: &History<'_>, line: &str) -> Option<Vec<Value>> {
    let said = history.lab.say(line);
    let view: Value = serde_json::from_str(&said.out).ok()?;
    Some(view["jobs"].as_array()?.clone())
}

/// Resumes nodes that were drained because supervisors were killed there.
fn resume_nodes(history: &History<'_>) {
    for node in ["n1", "n2"] {
        let is_drained = |view: &Value| ["drained", "draining"].iter().any(|state| view["state"] == *state);
        if history.lab.node_view(node).as_ref().is_some_and(is_drained) {
            history.insist("gqctl", &["resume", node]);
        }
    }
}

/// Waits until a run of this job has begun; false when it has ended without.
fn has_begun(history: &History<'_>, id: u64) -> bool {
    until(&format!("job {id} begins or ends"), || {
        let runs = |line: &Line| matches!(line, Line::Job { run, .. } if run.0 == id);
        if history.lines().iter().any(runs) {
            return Some(true);
        }
        resume_nodes(history);
        let listed = jobs(history, &format!("gqstat --json -j {id}"))?;
        let state: JobState = listed.first()?["state"].as_str()?.parse().ok()?;
        matches!(state, JobState::Ended(_)).then_some(false)
    })
}

fn plain(history: &History<'_>, name: &str) {
    history.submitted(&format!("{name}-a"), Kind::Well, "--requeue --gpus=1 -w n1", WELL);
    history.submitted(&format!("{name}-b"), Kind::Well, "--no-requeue --gpus=2 -w n2", WELL);
}

fn chain(history: &History<'_>, name: &str) {
    let first = history.submitted(&format!("{name}-a"), Kind::Well, "", WELL);
    history.submitted(&format!("{name}-b"), Kind::AfterWell, &after(first), WELL);
}

fn after(job: u64) -> String {
    format!("-d afterok:{job} --kill-on-invalid-dep=yes")
}

fn badly(history: &History<'_>, name: &str) {
    let first = history.submitted(&format!("{name}-a"), Kind::Badly, "--gpus=1", ". ./story; begin; end 3");
    history.submitted(&format!("{name}-b"), Kind::AfterBadly, &after(first), WELL);
}

fn orphan(history: &History<'_>, name: &str) {
    history.submitted(name, Kind::Orphan, "--gpus=1", ". ./story; begin; kill -9 $PPID; sleep 600");
}

fn cancelled(history: &History<'_>, name: &str) {
    for (name, waits) in [(format!("{name}-a"), false), (format!("{name}-b"), true)] {
        let id = history.submitted(&name, Kind::Endless, "--gpus=1", ENDLESS);
        if waits {
            has_begun(history, id);
        }
        history.insist("gqcancel", &[&id.to_string()]);
    }
}

fn held(history: &History<'_>, name: &str) {
    let id = history.submitted(name, Kind::Held, "-H", WELL).to_string();
    history.insist("gqctl", &["release", &id]);
    // It may have begun by now; then the next attempt of it, if there is one, is held.
    history.insist("gqctl", &["hold", &id]);
    history.insist("gqctl", &["release", &id]);
}

fn put_back(history: &History<'_>, name: &str) {
    let command = format!(". ./story; begin; until [ -e go.{name} ]; do sleep 0.02; done; end 0");
    let id = history.submitted(name, Kind::PutBack, "--requeue --gpus=1", &command);
    if has_begun(history, id) {
        history.insist("gqctl", &["requeue", &id.to_string()]);
    }
    history.lab.file(&format!("go.{name}"), "");
}

fn suspended(history: &History<'_>, name: &str) {
    let command = format!(". ./story; begin; until [ -e go.{name} ]; do sleep 0.02; done; end 0");
    let id = history.submitted(name, Kind::Well, "--gpus=1", &command);
    if has_begun(history, id) {
        history.insist("gqctl", &["suspend", &id.to_string()]);
        history.insist("gqctl", &["resume", &id.to_string()]);
    }
    history.lab.file(&format!("go.{name}"), "");
}

fn array(history: &History<'_>, name: &str) {
    history.submitted(name, Kind::Tasks, "--array=0-4%2 --gpus=1", WELL);
}

fn offline(history: &History<'_>, name: &str) {
    history.submit(name, Kind::Well, "--offline", WELL);
}

fn impossible(history: &History<'_>, name: &str) {
    until("it is refused", || {
        let answer = history.submit(name, Kind::Impossible, "--gpus=9", WELL);
        (answer == Answer::Nothing).then_some(())
    });
}
