//! Courses: who held each card in which part of a span of time, gathered run by run. Slices and shares of a card are its parts.

use gq_model::Timestamp;
use gq_proto::RunView;
use std::collections::BTreeMap;

/// Into how many parts the span is divided.
pub(super) const STEPS: usize = 200;
/// Most cards that are drawn.
const MAX_CARDS: usize = 256;

/// How much of a step each user held a card, by his number.
type Step = BTreeMap<usize, f64>;

/// The courses of all cards.
pub(super) struct Courses {
    from: Timestamp,
    until: Timestamp,
    cards: BTreeMap<(String, u32), Vec<Step>>,
    users: Vec<String>,
    /// Whether there were more cards.
    pub(super) is_cut: bool,
}

impl Courses {
    pub(super) const fn new(from: Timestamp, until: Timestamp) -> Self {
        Self { from, until, cards: BTreeMap::new(), users: Vec::new(), is_cut: false }
    }

    /// Adds what a run held.
    pub(super) fn add(&mut self, run: &RunView) {
        let Some(begin) = run.allocated.or(run.start_time).filter(|_| !run.gpus.is_empty()) else { return };
        let span = self.until.micros_since(self.from).max(1) as f64;
        let place = |at: Timestamp| at.micros_since(self.from) as f64 / span * STEPS as f64;
        let (first, last) = (place(begin), place(run.end_time).min(STEPS as f64));
        let user = self.users.iter().position(|user| *user == run.user).unwrap_or_else(|| {
            self.users.push(run.user.clone());
            self.users.len() - 1
        });
        // Each of what it held counts as much as the others.
        let part = (f64::from(run.worth) / 1e3 / run.gpus.len() as f64).clamp(0.0, 1.0);
        for gpu in &run.gpus {
            let key = (gpu.node.to_string(), gpu.index);
            if self.cards.len() >= MAX_CARDS && !self.cards.contains_key(&key) {
                self.is_cut = true;
                continue;
            }
            let steps = self.cards.entry(key).or_insert_with(|| vec![Step::new(); STEPS]);
            for (at, step) in steps.iter_mut().enumerate().skip(first as usize) {
                let within = last.min(at as f64 + 1.0) - first.max(at as f64);
                if within <= 0.0 {
                    break;
                }
                *step.entry(user).or_default() += within * part;
            }
        }
    }

    /// Each card by its name, with who held most of each step and how much all held of it.
    pub(super) fn rows(&self) -> impl Iterator<Item = (String, Vec<Option<(&str, f64)>>)> {
        self.cards.iter().map(|((node, index), steps)| {
            let told = |step: &Step| {
                let (user, _) = step.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
                let all = step.values().sum::<f64>().min(1.0);
                self.users.get(*user).map(|user| (user.as_str(), all))
            };
            (format!("{node}:{index}"), steps.iter().map(told).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(user: &str, from: i64, until: i64, worth: u32) -> RunView {
        serde_json::from_value(serde_json::json!({
            "id": 1, "uid": 1, "user": user, "partition": "main", "run": 1, "state": "COMPLETED", "reason": "None", "submit_time": 0,
            "allocated": from, "end_time": until, "node": "ws1", "cpus": 1, "memory_mib": 1, "worth": worth,
            "gpus": [{"node": "ws1", "index": 3}],
        }))
        .unwrap()
    }

    #[test]
    fn a_step_is_whose_who_held_most_of_it_and_as_full_as_all_made_it() {
        let mut courses = Courses::new(Timestamp(0), Timestamp(200));
        courses.add(&run("ann", -50, 2, 1000));
        courses.add(&run("ben", 2, 3, 500));
        courses.add(&run("cy", 199, 400, 1000));
        let rows: Vec<_> = courses.rows().collect();
        let (name, steps) = &rows[0];
        assert_eq!((rows.len(), name.as_str()), (1, "ws1:3"));
        assert_eq!(steps[..4], [Some(("ann", 1.0)), Some(("ann", 1.0)), Some(("ben", 0.5)), None]);
        assert_eq!((steps[198], steps[199]), (None, Some(("cy", 1.0))));
    }
}
