//! What would have fitted: from what runs of one user and name asked for and used, what the next ones are to ask for. Pure figures; a little room is
//! left above all that was seen, since the next run is not the last one.

use crate::{Card, End, MiB, Seconds, Used};
use alloc::{
    collections::BTreeSet,
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};

/// Runs shorter than this tell nothing of how many cpus they use, in microseconds.
const TELLING: u64 = 10_000_000;
/// What is left above the most that was seen, in percent: of memory, and of time.
const ROOM: u64 = 20;
const TIME_ROOM: u64 = 25;
/// What is raised, in percent, when there was not enough.
const RAISE: u64 = 50;
/// Below so many thousandths of a card's time it was as good as not used.
const HARDLY: u16 = 50;

/// A run that was started and has ended, as far as it tells what would have fitted.
#[derive(Clone, Debug)]
pub struct Tried<'a> {
    /// How it ended.
    pub end: End,
    /// How long it ran, in microseconds, the time it was suspended not counted.
    pub ran: u64,
    /// Cpus it held.
    pub cpus: u32,
    /// Memory it held.
    pub memory: MiB,
    /// How many cards, slices or shares it held.
    pub cards: usize,
    /// What slices they were.
    pub slices: Vec<&'a str>,
    /// The time limit it had; none when it had none.
    pub limit: Option<Seconds>,
    /// What was measured of it.
    pub used: Option<&'a Used>,
}

/// What runs of one name asked for, and used at most.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// How many runs.
    pub runs: u64,
    /// Of these, those that something was measured of.
    pub measured: u64,
    /// The most cpus that one held.
    pub cpus: u32,
    /// The most memory that one held.
    pub memory: MiB,
    /// The most cards of a run.
    pub cards: usize,
    /// What they were: `1g.10gb` or nothing for whole ones.
    pub slices: BTreeSet<String>,
    /// The longest time limit.
    pub limit: Option<Seconds>,
    /// Runs that had less time than they needed.
    pub timeouts: u64,
    /// Runs that had less memory than they needed.
    pub out_of_memory: u64,
    /// The longest run that ended by itself, in microseconds.
    pub longest: u64,
    /// Cpus that were at work, in thousandths, on average of the run that had most.
    pub cpus_used: Option<u64>,
    /// The most memory that one used.
    pub memory_used: Option<MiB>,
    /// The most cards that processes of a run held.
    pub cards_held: Option<usize>,
    /// The most memory of a card that one used.
    pub card_memory: Option<MiB>,
    /// How busy the cards were, in thousandths, of the run that had them busiest.
    pub busy: Option<u16>,
}

impl Seen {
    /// Takes a run in.
    pub fn add(&mut self, run: &Tried<'_>) {
        self.runs += 1;
        self.cpus = self.cpus.max(run.cpus);
        self.memory = self.memory.max(run.memory);
        self.cards = self.cards.max(run.cards);
        self.slices.extend(run.slices.iter().map(ToString::to_string));
        self.limit = self.limit.max(run.limit);
        self.timeouts += u64::from(run.end == End::Timeout);
        self.out_of_memory += u64::from(run.end == End::OutOfMemory);
        if run.end == End::Completed {
            self.longest = self.longest.max(run.ran);
        }
        let Some(used) = run.used else { return };
        self.measured += 1;
        self.memory_used = self.memory_used.max(used.memory);
        if run.ran >= TELLING {
            let cpus = used.cpu.map(|cpu| cpu.saturating_mul(1000) / run.ran);
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
    pub fn advice(&self) -> Vec<Advice> {
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
pub struct Advice {
    /// The option; empty for a word without one.
    pub option: String,
    /// Why.
    pub why: String,
    /// How much memory of a card it asks for, when it does.
    pub card: Option<MiB>,
}

impl Advice {
    /// It on a line: the option, why, and what of these cards has the memory that it asks for.
    pub fn line<'a>(&self, cards: impl IntoIterator<Item = &'a Card>) -> String {
        let here = self.card.and_then(|least| smallest(cards, least));
        let here = here.map(|(name, memory)| format!("; that is a {name} here ({memory})"));
        format!("{:<18}  {}{}", self.option, self.why, here.unwrap_or_default())
    }

    fn new(option: String, why: String) -> Self {
        Self { option, why, card: None }
    }
}

/// The smallest card or slice of these cards that has so much memory: its name, and its memory as it is sold.
pub fn smallest<'a>(cards: impl IntoIterator<Item = &'a Card>, least: MiB) -> Option<(String, MiB)> {
    let kinds: BTreeSet<(MiB, String)> = cards.into_iter().flat_map(kinds_of).collect();
    let mut kinds = kinds.into_iter().map(|(memory, name)| (name, sold(memory)));
    kinds.find(|(_, memory)| *memory >= least)
}

/// Memory as it is sold: a card tells a little less than it is called by.
fn sold(memory: MiB) -> MiB {
    MiB(memory.0.div_ceil(1024) * 1024)
}

/// What one can have of a card.
fn kinds_of(card: &Card) -> Vec<(MiB, String)> {
    if !card.mig {
        return vec![(card.memory, card.model.clone())];
    }
    let grid = card.grid.iter().flat_map(|grid| &grid.profiles).map(|it| (it.memory, it.name.clone()));
    grid.chain(card.slices.iter().map(|slice| (slice.memory, slice.profile.clone()))).collect()
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
    use crate::CardUsed;

    /// A run of so many seconds on one card.
    fn run(end: End, seconds: u64, used: Option<&Used>) -> Tried<'_> {
        Tried {
            end,
            ran: seconds * 1_000_000,
            cpus: 8,
            memory: MiB(65_536),
            cards: 1,
            slices: Vec::new(),
            limit: Some(Seconds(86_400)),
            used,
        }
    }

    fn used(memory: u64, cpu: u64, card: CardUsed) -> Used {
        Used { cpu: Some(cpu * 1_000_000), memory: Some(MiB(memory)), cards: vec![card], released: None }
    }

    fn card(held: u16, memory: u64, mean: u16) -> CardUsed {
        CardUsed { looks: 10, held, memory: Some(MiB(memory)), mean: Some(mean), ..CardUsed::default() }
    }

    fn advice(runs: &[Tried<'_>]) -> Vec<Advice> {
        let mut seen = Seen::default();
        runs.iter().for_each(|run| seen.add(run));
        seen.advice()
    }

    fn options(runs: &[Tried<'_>]) -> Vec<String> {
        advice(runs).into_iter().map(|advice| advice.option).collect()
    }

    #[test]
    fn what_is_too_large_is_made_smaller_and_what_was_too_small_larger() {
        let used_small = used(10_000, 5400, card(900, 9000, 800));
        let small = run(End::Completed, 3600, Some(&used_small));
        assert_eq!(
            options(core::slice::from_ref(&small)),
            ["-t 1:15:00", "-c 2", "--mem=12G", "--gpu-mem=11G"]
        );
        // The most that any of them needed counts.
        let used_large = used(60_000, 7200 * 8, card(900, 70_000, 800));
        let large = run(End::Completed, 7200, Some(&used_large));
        assert_eq!(options(&[small, large]), ["-t 2:30:00", "--gpu-mem=83G"]);
        let used_late = used(10_000, 86_400, card(900, 9000, 800));
        assert_eq!(options(&[run(End::Timeout, 86_400, Some(&used_late))])[0], "-t 1-12:00:00");
        let used_up = used(65_000, 480, card(900, 9000, 800));
        assert!(options(&[run(End::OutOfMemory, 60, Some(&used_up))]).contains(&"--mem=96G".to_string()));
    }

    #[test]
    fn a_card_that_nobody_held_is_not_asked_for_and_an_idle_one_is_told_of() {
        let unheld = used(100, 60, card(0, 0, 0));
        assert!(options(&[run(End::Completed, 60, Some(&unheld))]).contains(&"--gpus=0".to_string()));
        let idle = used(100, 60, card(1000, 400, 12));
        let advice = advice(&[run(End::Completed, 60, Some(&idle))]);
        assert!(advice.iter().any(|advice| advice.why.contains("busy for 1.2 %")), "{advice:?}");
    }

    #[test]
    fn of_what_was_not_measured_nothing_is_said() {
        assert_eq!(options(&[run(End::Failed, 3600, None)]), Vec::<String>::new());
        // A moment's cpu time is mostly that of the start.
        let short = used(65_536, 1, card(900, 80_000, 900));
        assert!(!options(&[run(End::Completed, 5, Some(&short))]).iter().any(|o| o.starts_with("-c")));
    }
}
