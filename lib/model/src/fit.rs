//! What would have fitted: from what runs of one user and name asked for and used, what the next ones are to ask for. Pure figures; a little room is
//! left above all that was seen, since the next run is not the last one.

use gq_model::{End, JobState, MiB, Seconds};
use gq_proto::RunView;
use std::collections::BTreeSet;

/// Runs shorter than this tell nothing of how many cpus they use, in microseconds.
const TELLING: u64 = 10_000_000;
/// What is left above the most that was seen, in percent: of memory, and of time.
const ROOM: u64 = 20;
const TIME_ROOM: u64 = 25;
/// What is raised, in percent, when there was not enough.
const RAISE: u64 = 50;
/// Below so many thousandths of a card's time it was as good as not used.
const HARDLY: u16 = 50;

/// What runs of one name asked for, and used at most.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub runs: u64,
    /// Of these, those that something was measured of.
    pub measured: u64,
    pub cpus: u32,
    pub memory: MiB,
    /// The most cards of a run.
    pub cards: usize,
    /// What they were: `1g.10gb` or nothing for whole ones.
    pub slices: BTreeSet<String>,
    pub limit: Option<Seconds>,
    /// Runs that had less time, or memory, than they needed.
    pub timeouts: u64,
    pub out_of_memory: u64,
    /// The longest run that ended by itself, in microseconds.
    pub longest: u64,
    /// Cpus that were at work, in thousandths, on average of the run that had most.
    pub cpus_used: Option<u64>,
    pub memory_used: Option<MiB>,
    /// The most cards that processes of a run held.
    pub cards_held: Option<usize>,
    pub card_memory: Option<MiB>,
    /// How busy the cards were, in thousandths, of the run that had them busiest.
    pub busy: Option<u16>,
}

impl Seen {
    /// Takes a run in; one that never started tells nothing.
    pub(super) fn add(&mut self, run: &RunView) {
        if run.start_time.is_none() {
            return;
        }
        let ended = match run.state.parse() {
            Ok(JobState::Ended(end)) => end,
            _ => return,
        };
        self.runs += 1;
        self.cpus = self.cpus.max(run.cpus);
        self.memory = self.memory.max(run.memory_mib);
        self.cards = self.cards.max(run.gpus.len());
        self.slices.extend(run.gpus.iter().filter_map(|gpu| gpu.slice.clone()));
        self.limit = self.limit.max(run.time_limit);
        self.timeouts += u64::from(ended == End::Timeout);
        self.out_of_memory += u64::from(ended == End::OutOfMemory);
        if ended == End::Completed {
            self.longest = self.longest.max(run.ran());
        }
        let Some(used) = &run.used else { return };
        self.measured += 1;
        self.memory_used = self.memory_used.max(used.memory);
        if run.ran() >= TELLING {
            let cpus = used.cpu.map(|cpu| cpu.saturating_mul(1000) / run.ran());
            self.cpus_used = self.cpus_used.max(cpus);
        }
        let looked: Vec<_> = used.cards.iter().filter(|card| card.looks > 0).collect();
        if looked.is_empty() {
            return;
        }
        self.cards_held = self.cards_held.max(Some(looked.iter().filter(|card| card.held > 0).count()));
        self.card_memory = self.card_memory.max(looked.iter().filter_map(|card| card.memory).max());
        self.busy = self.busy.max(used.busy());
    }

    /// What the next ones are to ask for, in options of `gqsub`, each with why; nothing where what was asked for fits.
    pub(super) fn advice(&self) -> Vec<Advice> {
        [self.time(), self.processors(), self.main_memory()]
            .into_iter()
            .flatten()
            .chain(self.graphics())
            .collect()
    }

    fn time(&self) -> Option<Advice> {
        if let Some(limit) = self.limit.filter(|_| self.timeouts > 0) {
            let more = round_time(limit.0.saturating_mul(100 + RAISE) / 100);
            return Some(Advice::new(format!("-t {more}"), format!("{} ran out of time", self.timeouts)));
        }
        let wanted = round_time(self.longest / 1_000_000 * (100 + TIME_ROOM) / 100);
        let is_less = self.longest > 0 && self.limit.is_none_or(|limit| wanted < limit);
        let longest = Seconds(self.longest.div_ceil(1_000_000));
        is_less.then(|| {
            Advice::new(
                format!("-t {wanted}"),
                format!("the longest ran {longest}; short jobs start earlier"),
            )
        })
    }

    fn processors(&self) -> Option<Advice> {
        let used = self.cpus_used?;
        let wanted = u32::try_from(used.div_ceil(1000)).unwrap_or(u32::MAX).max(1);
        let words = format!("{}.{} of {} were at work", used / 1000, used % 1000 / 100, self.cpus);
        (wanted < self.cpus).then(|| Advice::new(format!("-c {wanted}"), words))
    }

    fn main_memory(&self) -> Option<Advice> {
        if self.out_of_memory > 0 {
            let more = round_memory(self.memory.0.saturating_mul(100 + RAISE) / 100);
            return Some(Advice::new(
                format!("--mem={more}"),
                format!("{} ran out of memory", self.out_of_memory),
            ));
        }
        let used = self.memory_used?;
        let wanted = round_memory(used.0.saturating_mul(100 + ROOM) / 100);
        (wanted < self.memory)
            .then(|| Advice::new(format!("--mem={wanted}"), format!("at most {used} were used")))
    }

    fn graphics(&self) -> Vec<Advice> {
        let Some(held) = self.cards_held.filter(|_| self.cards > 0) else { return Vec::new() };
        if held == 0 {
            return vec![Advice::new("--gpus=0".into(), "no process had a card".into())];
        }
        let mut all = Vec::new();
        if held < self.cards {
            let words = format!("{held} of {} were ever held by a process", self.cards);
            all.push(Advice::new(format!("--gpus={held}"), words));
        }
        if let Some(used) = self.card_memory {
            let wanted = round_memory(used.0.saturating_mul(100 + ROOM) / 100);
            let advice =
                Advice::new(format!("--gpu-mem={wanted}"), format!("at most {used} of a card were used"));
            all.push(Advice { card: Some(wanted), ..advice });
        }
        if let Some(busy) = self.busy.filter(|busy| *busy < HARDLY) {
            let words = format!(
                "the cards were busy for {}.{} % at most: look at what feeds them",
                busy / 10,
                busy % 10
            );
            all.push(Advice::new(String::new(), words));
        }
        all
    }
}

/// An option to ask with, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Advice {
    /// The option; empty for a word without one.
    pub option: String,
    pub why: String,
    /// How much memory of a card it asks for, when it does.
    pub card: Option<MiB>,
}

impl Advice {
    fn new(option: String, why: String) -> Self {
        Self { option, why, card: None }
    }
}

/// The next time that people would write: full minutes, quarters of an hour above two hours, hours above a day.
fn round_time(seconds: u64) -> Seconds {
    let step = match seconds {
        0..=7_200 => 60,
        7_201..=86_400 => 900,
        _ => 3600,
    };
    Seconds(seconds.div_ceil(step).max(1) * step)
}

/// The next size that people would write.
fn round_memory(size: u64) -> MiB {
    let step = match size {
        0..=1024 => 64,
        1025..=8192 => 512,
        _ => 1024,
    };
    MiB(size.div_ceil(step).max(1) * step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gq_model::{CardUsed, JobId, Reason, Timestamp, Uid, Used};
    use gq_proto::GpuView;

    /// A run of so many seconds on one card.
    fn run(state: &str, seconds: i64, used: Used) -> RunView {
        let gpu = GpuView { node: "n1".parse().unwrap(), index: 0, uuid: None, slice: None, share_mib: None };
        RunView {
            id: JobId(1),
            name: Some("train".into()),
            uid: Uid(1000),
            user: "ann".into(),
            account: None,
            partition: "main".into(),
            qos: None,
            array_task_id: None,
            array_tasks: None,
            run: 1,
            again: false,
            state: state.into(),
            reason: Reason::None,
            reason_detail: None,
            exit_code: None,
            signal: None,
            submit_time: Timestamp(0),
            allocated: Some(Timestamp(0)),
            start_time: Some(Timestamp(0)),
            end_time: Timestamp(seconds * 1_000_000),
            first_promise: None,
            last_promise: None,
            time_limit: Some(Seconds(86_400)),
            node: Some("n1".parse().unwrap()),
            cpus: 8,
            memory_mib: MiB(65_536),
            gpus: vec![gpu],
            worth: 1000,
            restarts: 0,
            suspended: 0,
            idle_times: 0,
            given_back: None,
            used: Some(Box::new(used)),
        }
    }

    fn used(memory: u64, cpu: u64, card: CardUsed) -> Used {
        Used { cpu: Some(cpu * 1_000_000), memory: Some(MiB(memory)), cards: vec![card], released: None }
    }

    fn card(held: u16, memory: u64, mean: u16) -> CardUsed {
        CardUsed { looks: 10, held, memory: Some(MiB(memory)), mean: Some(mean), ..CardUsed::default() }
    }

    fn options(runs: &[RunView]) -> Vec<String> {
        let mut seen = Seen::default();
        runs.iter().for_each(|run| seen.add(run));
        seen.advice().into_iter().map(|advice| advice.option).collect()
    }

    #[test]
    fn what_is_too_large_is_made_smaller_and_what_was_too_small_larger() {
        let small = run("COMPLETED", 3600, used(10_000, 5400, card(900, 9000, 800)));
        assert_eq!(
            options(std::slice::from_ref(&small)),
            ["-t 1:15:00", "-c 2", "--mem=12G", "--gpu-mem=11G"]
        );
        // The most that any of them needed counts.
        let large = run("COMPLETED", 7200, used(60_000, 7200 * 8, card(900, 70_000, 800)));
        assert_eq!(options(&[small.clone(), large]), ["-t 2:30:00", "--gpu-mem=83G"]);
        let late = run("TIMEOUT", 86_400, used(10_000, 86_400, card(900, 9000, 800)));
        assert_eq!(options(&[late])[0], "-t 1-12:00:00");
        let starved = run("OUT_OF_MEMORY", 60, used(65_000, 480, card(900, 9000, 800)));
        assert!(options(&[starved]).contains(&"--mem=96G".to_owned()));
    }

    #[test]
    fn a_card_that_nobody_held_is_not_asked_for_and_an_idle_one_is_told_of() {
        assert!(
            options(&[run("COMPLETED", 60, used(100, 60, card(0, 0, 0)))]).contains(&"--gpus=0".to_owned())
        );
        let idle = run("COMPLETED", 60, used(100, 60, card(1000, 400, 12)));
        let mut seen = Seen::default();
        seen.add(&idle);
        assert!(
            seen.advice().iter().any(|advice| advice.why.contains("busy for 1.2 %")),
            "{:?}",
            seen.advice()
        );
    }

    #[test]
    fn of_what_was_not_measured_nothing_is_said() {
        let unknown = RunView { used: None, ..run("FAILED", 3600, Used::default()) };
        assert_eq!(options(std::slice::from_ref(&unknown)), Vec::<String>::new());
        let never = RunView { start_time: None, ..unknown };
        let mut seen = Seen::default();
        seen.add(&never);
        assert_eq!(seen.runs, 0);
        // A moment's cpu time is mostly that of the start.
        assert!(
            !options(&[run("COMPLETED", 5, used(65_536, 1, card(900, 80_000, 900)))])
                .iter()
                .any(|o| o.starts_with("-c"))
        );
    }
}
