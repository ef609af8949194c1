//! A rig: a lab whose node has the cards that a file tells the stand-in driver of, what is shown of them, and what jobs see.

use crate::lab::{Job, Lab, Plan, cards, until};
use gq_model::End;
use nix::sys::signal::Signal;
use serde_json::Value;
use standin_nvml::Machine;
use std::fs;

/// What a job says that [`Seen`] reads.
pub const SEEN: &str = "echo $CUDA_VISIBLE_DEVICES/$GQ_SLICES/$GQ_SLICE_PROFILES/$GQ_GPUS";

/// A lab with one node, whose cards a driver's library tells of.
pub struct Rig {
    pub lab: Lab,
    pub driver: tempfile::TempDir,
}

/// A slice as `gqstat --nodes` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub profile: String,
    pub start: Option<u64>,
    pub uuid: Option<String>,
    pub job: Option<String>,
}

impl Rig {
    pub fn of(machine: &Machine, tables: &str) -> Self {
        Self::with(machine, &cards(0), tables)
    }

    /// The same, with these lines in the node's table.
    pub fn with(machine: &Machine, node: &str, tables: &str) -> Self {
        let driver = tempfile::tempdir().unwrap();
        standin_nvml::place(driver.path(), machine).unwrap();
        let plan = Plan::new().node("n1", node).env("LD_LIBRARY_PATH", driver.path()).tables(tables);
        let rig = Self { lab: plan.start(), driver };
        until("the cards are known", || (!rig.cards().is_empty()).then_some(()));
        rig
    }

    pub fn shipped(machine: &str, tables: &str) -> Self {
        Self::of(&standin_nvml::shipped(machine).unwrap(), tables)
    }

    pub fn edit<T>(&self, how: impl FnOnce(&mut Machine) -> T) -> T {
        standin_nvml::edit(self.driver.path(), how).unwrap()
    }

    /// The slices that the driver tells of, on all cards.
    pub fn real(&self) -> Vec<standin_nvml::Slice> {
        self.edit(|machine| machine.cards.iter().flat_map(|card| card.slices.clone()).flatten().collect())
    }

    pub fn cards(&self) -> Vec<Value> {
        let view = self.lab.node_view("n1").unwrap_or_default();
        view["gpus"].as_array().cloned().unwrap_or_default()
    }

    pub fn card(&self, index: usize) -> Value {
        self.cards()[index].clone()
    }

    pub fn slices(&self, card: usize) -> Vec<Shown> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let shown = |slice: &Value| Shown {
            profile: text(&slice["profile"]).unwrap(),
            start: slice["start"].as_u64(),
            uuid: text(&slice["uuid"]),
            job: text(&slice["job"]),
        };
        self.card(card)["slices"].as_array().unwrap().iter().map(shown).collect()
    }

    /// Waits until the slices of a card are shown with these profiles, in any order.
    #[track_caller]
    pub fn shows(&self, card: usize, profiles: &[&str]) -> Vec<Shown> {
        let mut wanted: Vec<&str> = profiles.to_vec();
        wanted.sort_unstable();
        until(&format!("card {card} shows {wanted:?}"), || {
            let all = self.slices(card);
            let mut names: Vec<&str> = all.iter().map(|slice| slice.profile.as_str()).collect();
            names.sort_unstable();
            (names == wanted).then(|| all.clone())
        })
    }

    /// A job that holds what it asks for until it is cancelled, and what it saw.
    #[track_caller]
    pub fn holder(&self, options: &str) -> (Job<'_>, Seen) {
        let job = self.lab.submit(options, &format!("{SEEN}; sleep 600")).running();
        let seen = until("it tells what it sees", || {
            fs::read_to_string(job.out_path()).ok().filter(|text| text.ends_with('\n'))
        });
        (job, Seen::of(&seen))
    }

    /// Where the driver has the slice of this UUID.
    #[track_caller]
    pub fn start_of(&self, uuid: &str) -> u32 {
        let real = self.real();
        let found = real.iter().find(|slice| slice.uuid == uuid);
        found.and_then(|slice| slice.placement).unwrap_or_else(|| panic!("no {uuid} in {real:?}")).start
    }

    #[track_caller]
    pub fn cancel(&self, jobs: &[Job<'_>]) {
        for job in jobs {
            assert_eq!(self.lab.say(&format!("gqcancel {}", job.id)).code, 0);
        }
        jobs.iter().for_each(|job| assert_eq!(job.ended(), End::Cancelled));
    }

    /// The node looks at its cards now.
    pub fn look(&self) {
        self.lab.node("n1").signal(Signal::SIGHUP);
    }

    #[track_caller]
    pub fn is_not_drained(&self) {
        let view = self.lab.node_view("n1").unwrap();
        assert!(["idle", "mixed"].contains(&view["state"].as_str().unwrap()), "{view}");
    }
}

/// What a job saw of its slices.
#[derive(Debug)]
pub struct Seen {
    pub visible: Vec<String>,
    pub slices: Vec<String>,
    pub profiles: Vec<String>,
}

impl Seen {
    #[track_caller]
    pub fn of(line: &str) -> Self {
        let words: Vec<Vec<String>> = line
            .trim()
            .split('/')
            .map(|list| list.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect())
            .collect();
        let [visible, slices, profiles, _] = words.try_into().unwrap_or_else(|_| panic!("{line}"));
        Self { visible, slices, profiles }
    }

    /// The UUID of its one slice.
    #[track_caller]
    pub fn one(&self, profile: &str) -> &str {
        assert_eq!(self.profiles, [profile], "{self:?}");
        assert_eq!(self.visible, self.slices, "{self:?}");
        assert!(self.slices.len() == 1 && self.slices[0].starts_with("MIG-"), "{self:?}");
        &self.slices[0]
    }
}
