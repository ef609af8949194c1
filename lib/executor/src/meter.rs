//! The meter: what runs use of the cards that they hold, look by look. It keeps a few sums for each card of a run, as long as the run lives and
//! `gqnode` does; asks whoever hands it a look, and decides nothing.

use crate::{idle::Judge, sharing::Sharer};
use gq_gpu::{Measure, Nvml};
use gq_model::{CardUse, CardUsed, IdleRule, MAX_CARDS_USED, MiB, RunKey};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

/// A card, a slice or a share that a run holds, and that the driver knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which run.
    pub key: RunKey,
    /// Its UUID.
    pub uuid: String,
    /// What of it.
    pub card: CardUse,
}

impl Held {
    /// The run holds this, if it can be asked for by name.
    pub fn of(key: RunKey, card: &CardUse) -> Option<Self> {
        Some(Self { key, uuid: card.uuid.clone()?, card: card.clone() })
    }

    /// Whether what the card as a whole does is the run's doing.
    const fn is_whole(&self) -> bool {
        self.card.slice.is_none() && self.card.share.is_none()
    }
}

/// A run of which is judged whether its cards are idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ruled {
    /// Which run.
    pub key: RunKey,
    /// When they are.
    pub rule: IdleRule,
    /// How many it holds; what no driver knows of them is never found idle.
    pub cards: usize,
}

/// What was seen of one that is held.
#[derive(Debug)]
struct Sums {
    held: Held,
    looks: u32,
    in_hand: u32,
    /// Percents, and in how many looks there were any.
    busy: (u64, u32),
    peak: u8,
    memory: Option<MiB>,
    /// The card's energy when the run had it first, and last, in millijoules.
    energy: Option<(u64, u64)>,
    /// Whether its energy is to be read: it is new, or its run has ended.
    owes_energy: bool,
    /// Whether it is idle, where somebody asks.
    judge: Option<Judge>,
}

/// All that is measured.
#[derive(Debug, Default)]
pub struct Meter {
    sums: BTreeMap<RunKey, Vec<Sums>>,
    /// Runs that have ended: nothing is added to theirs.
    ended: BTreeSet<RunKey>,
    /// Runs of which is judged whether their cards are idle, and whether they were at the last look.
    ruled: BTreeMap<RunKey, (Ruled, bool)>,
    /// What was seen at the last look of the cards that are held whole: how busy they were, and how much of their memory was taken.
    seen: BTreeMap<String, (Option<u8>, Option<MiB>)>,
}

impl Meter {
    /// Whether nobody holds anything that can be looked at.
    pub fn is_idle(&self) -> bool {
        self.sums.keys().all(|key| self.ended.contains(key))
    }

    /// Takes in what is held now: begins to measure what is new, and forgets the runs that are gone without having ended.
    pub fn hold(&mut self, held: Vec<Held>) {
        let keys: BTreeSet<RunKey> = held.iter().map(|one| one.key).collect();
        let ended = &self.ended;
        self.sums.retain(|key, _| keys.contains(key) || ended.contains(key));
        for held in held {
            let of_run = self.sums.entry(held.key).or_default();
            if of_run.len() >= MAX_CARDS_USED || of_run.iter().any(|one| one.held.uuid == held.uuid) {
                continue;
            }
            let (busy, owes_energy) = ((0, 0), held.is_whole());
            of_run.push(Sums {
                held,
                looks: 0,
                in_hand: 0,
                busy,
                peak: 0,
                memory: None,
                energy: None,
                owes_energy,
                judge: None,
            });
        }
    }

    /// Takes in of which runs is judged whether their cards are idle; whoever is new among them is judged from now on. Returns those that
    /// were idle and are not judged any more.
    pub fn rule(&mut self, ruled: Vec<Ruled>, now: Instant) -> Vec<RunKey> {
        let mut before = std::mem::take(&mut self.ruled);
        for one in ruled {
            let is_idle =
                before.remove(&one.key).filter(|(was, _)| *was == one).is_some_and(|(_, idle)| idle);
            self.ruled.insert(one.key, (one, is_idle));
        }
        for (key, sums) in &mut self.sums {
            let rule = self.ruled.get(key).map(|(ruled, _)| ruled.rule);
            for one in sums.iter_mut().filter(|one| one.judge.as_ref().map(Judge::rule) != rule) {
                one.judge = rule.map(|rule| Judge::new(rule, now));
            }
        }
        before.into_iter().filter(|(_, (_, is_idle))| *is_idle).map(|(key, _)| key).collect()
    }

    /// The runs whose cards are all idle now and were not, or the other way round, since this was asked last.
    pub fn idle_changes(&mut self) -> Vec<(RunKey, bool)> {
        let mut changes = Vec::new();
        for (key, (ruled, was_idle)) in &mut self.ruled {
            let sums = self.sums.get(key).map_or(&[][..], Vec::as_slice);
            let idle = sums.iter().filter(|one| one.judge.as_ref().is_some_and(Judge::is_idle)).count();
            let is_idle = idle > 0 && idle == ruled.cards;
            if std::mem::replace(was_idle, is_idle) != is_idle {
                changes.push((*key, is_idle));
            }
        }
        changes
    }

    /// When the cards of a run count as idle.
    pub fn rule_of(&self, key: RunKey) -> Option<IdleRule> {
        self.ruled.get(&key).map(|(ruled, _)| ruled.rule)
    }

    /// Looks at all that is held. `sharers`: whose processes are whose on cards that are shared.
    pub fn look(&mut self, nvml: &Nvml, sharers: &[Sharer], now: Instant) {
        let mut seen: BTreeMap<String, Option<Measure>> = BTreeMap::new();
        for (key, sums) in &mut self.sums {
            for one in sums.iter_mut().filter(|_| !self.ended.contains(key)) {
                let uuid = &one.held.uuid;
                let look = seen.entry(uuid.clone()).or_insert_with(|| nvml.measure(uuid));
                let Some(look) = look else { continue };
                one.add(look, sharers, now);
            }
        }
        let seen = seen.into_iter().filter_map(|(uuid, look)| Some((uuid, look?)));
        self.seen = seen.map(|(uuid, look)| (uuid, (look.busy, look.taken))).collect();
    }

    /// What was seen of a card at the last look, as long as somebody holds it.
    pub fn seen(&self, uuid: &str) -> Option<(Option<u8>, Option<MiB>)> {
        self.seen.get(uuid).copied().filter(|_| !self.is_idle())
    }

    /// A run has ended: what its cards do from now on is not its doing.
    pub fn end(&mut self, key: RunKey) {
        if let Some(of_run) = self.sums.get_mut(&key) {
            of_run.iter_mut().for_each(|one| one.owes_energy = one.energy.is_some());
            self.ended.insert(key);
        }
    }

    /// Whether the energy of a card is to be read.
    pub fn owes_energy(&self) -> bool {
        self.sums.values().flatten().any(|one| one.owes_energy)
    }

    /// Reads the energy of cards that runs have got or given back.
    pub fn read_energy(&mut self, energy: impl Fn(&str) -> Option<u64>) {
        for one in self.sums.values_mut().flatten().filter(|one| one.owes_energy) {
            one.owes_energy = false;
            if let Some(now) = energy(&one.held.uuid) {
                one.energy = Some((one.energy.map_or(now, |(first, _)| first), now));
            }
        }
    }

    /// What was measured of a run, which is then forgotten.
    pub fn take(&mut self, key: RunKey) -> Vec<CardUsed> {
        self.ended.remove(&key);
        self.sums.remove(&key).unwrap_or_default().iter().filter_map(Sums::told).collect()
    }
}

impl Sums {
    fn add(&mut self, look: &Measure, sharers: &[Sharer], now: Instant) {
        self.looks = self.looks.saturating_add(1);
        let sharer = sharers.iter().find(|it| it.key == self.held.key && it.uuid == self.held.uuid);
        let is_its = |pid: u32| match (self.held.card.share, sharer) {
            (None, _) => true,
            (Some(_), sharer) => sharer.is_some_and(|sharer| sharer.owns(pid)),
        };
        let mut memory = None;
        let mut is_held = false;
        for (_, of_one) in look.users.iter().flatten().filter(|(pid, _)| is_its(**pid)) {
            is_held = true;
            memory = of_one.map(|more| memory.unwrap_or(MiB(0)).saturating_add(more)).or(memory);
        }
        // Where processes cannot be told, all that is taken of what a run has alone is its own.
        let alone = look.taken.filter(|_| self.held.card.share.is_none());
        let memory = memory.or(alone.filter(|_| is_held || look.users.is_none()));
        self.in_hand = self.in_hand.saturating_add(u32::from(is_held));
        self.memory = self.memory.max(memory);
        if let Some(busy) = look.busy.filter(|_| self.held.is_whole()) {
            self.busy = (self.busy.0.saturating_add(u64::from(busy)), self.busy.1.saturating_add(1));
            self.peak = self.peak.max(busy);
        }
        let held = look.users.is_some().then_some(if is_held { 100 } else { 0 });
        let busy = if self.held.is_whole() { look.busy.or(held) } else { held };
        let has_memory = memory.is_some_and(|memory| memory > MiB(0));
        if let Some(judge) = &mut self.judge
            && let Some(busy) = busy
        {
            judge.look(now, if judge.rule().memory_is_use && has_memory { 100 } else { busy });
        }
    }

    /// What is told of it; none when there is nothing to tell.
    fn told(&self) -> Option<CardUsed> {
        let part = |sum: u64, of: u32| sum.checked_div(u64::from(of)).and_then(|it| u16::try_from(it).ok());
        let mean = part(self.busy.0.saturating_mul(10), self.busy.1);
        let energy = self.energy.map(|(first, last)| last.saturating_sub(first) / 1000);
        (self.looks > 0 || energy.is_some_and(|energy| energy > 0)).then(|| CardUsed {
            index: self.held.card.index,
            uuid: Some(self.held.uuid.clone()),
            looks: self.looks,
            held: part(u64::from(self.in_hand).saturating_mul(1000), self.looks).unwrap_or(0),
            mean,
            peak: mean.map(|_| u16::from(self.peak).saturating_mul(10)),
            memory: self.memory,
            energy,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gq_model::{JobId, RunNumber, Share, TaskIndex};

    fn key(job: u64) -> RunKey {
        RunKey { job: JobId(job), task: TaskIndex(0), run: RunNumber(1) }
    }

    fn whole(job: u64) -> Held {
        Held::of(key(job), &CardUse::whole(0, Some("GPU-0".to_owned()))).unwrap()
    }

    fn look(busy: u8, users: &[(u32, u64)]) -> Measure {
        let users = users.iter().map(|(pid, memory)| (*pid, Some(MiB(*memory)))).collect();
        Measure { busy: Some(busy), users: Some(users), taken: Some(MiB(9999)) }
    }

    /// The sums of one that is held, after these looks.
    fn seen(held: Held, looks: &[Measure], sharers: &[Sharer]) -> CardUsed {
        let mut meter = Meter::default();
        let key = held.key;
        meter.hold(vec![held]);
        meter.read_energy(|_| Some(1_000));
        for look in looks {
            meter.sums.get_mut(&key).unwrap()[0].add(look, sharers, Instant::now());
        }
        meter.end(key);
        meter.read_energy(|_| Some(251_999));
        assert!(meter.is_idle() && !meter.owes_energy());
        // The list of what is held comes without it a moment before it is taken.
        meter.hold(Vec::new());
        meter.take(key).remove(0)
    }

    #[test]
    fn a_card_is_as_busy_as_its_driver_says_and_its_energy_is_what_it_took_meanwhile() {
        let used = seen(whole(1), &[look(100, &[(7, 10), (8, 5)]), look(30, &[]), look(50, &[(7, 2)])], &[]);
        let expected = CardUsed {
            index: 0,
            uuid: Some("GPU-0".to_owned()),
            looks: 3,
            held: 666,
            mean: Some(600),
            peak: Some(1000),
            memory: Some(MiB(15)),
            energy: Some(250),
        };
        assert_eq!((used.busy(), used), (Some(600), expected));
    }

    #[test]
    fn of_a_slice_it_is_counted_how_often_it_is_held() {
        let mut slice = whole(1);
        slice.card.slice = Some("1g.10gb".to_owned());
        // A slice whose processes are not told has what is taken of it.
        let blind = Measure { busy: None, users: None, taken: Some(MiB(40)) };
        let used = seen(slice, &[look(100, &[(7, 10)]), blind], &[]);
        assert_eq!((used.held, used.mean, used.energy, used.memory), (500, None, None, Some(MiB(40))));
        assert_eq!(used.busy(), Some(500));
    }

    #[test]
    fn of_a_share_its_own_processes_count_alone() {
        let me = std::process::id();
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let mut share = whole(1);
        share.card.share = Some(Share { parts: 1, of: 4, memory: MiB(10) });
        let sharer = Sharer {
            key: key(1),
            uuid: "GPU-0".to_owned(),
            declared: MiB(10),
            remains: gq_host::Remains { marker: "none".to_owned(), uid: gq_model::Uid(0), session: None },
            group: gq_host::Group::default(),
            supervisor: Some(me),
        };
        let used = seen(share, &[look(100, &[(child.id(), 6), (1, 70)]), look(9, &[(1, 70)])], &[sharer]);
        assert_eq!((used.held, used.mean, used.memory), (500, None, Some(MiB(6))));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// A run that holds two cards, of which `percents` are used look by look, a second between.
    fn judged(cards: usize, percents: &[(u8, u8)]) -> (Meter, Vec<(RunKey, bool)>) {
        let (begin, mut meter) = (Instant::now(), Meter::default());
        let second = Held { uuid: "GPU-1".to_owned(), ..whole(1) };
        meter.hold(vec![whole(1), second]);
        let rule = IdleRule { after: gq_model::Seconds(2), below: 5, memory_is_use: false };
        assert_eq!(meter.rule(vec![Ruled { key: key(1), rule, cards }], begin), []);
        let mut changes = Vec::new();
        for (at, (first, second)) in (1..).zip(percents) {
            let now = begin + std::time::Duration::from_secs(at);
            let sums = meter.sums.get_mut(&key(1)).unwrap();
            sums[0].add(&look(*first, &[(7, 10)]), &[], now);
            sums[1].add(&look(*second, &[]), &[], now);
            changes.extend(meter.idle_changes());
        }
        (meter, changes)
    }

    #[test]
    fn a_run_is_idle_when_all_that_it_holds_is() {
        assert_eq!(judged(2, &[(0, 90); 9]).1, []);
        assert_eq!(judged(3, &[(0, 0); 9]).1, [], "it holds another, of which nobody knows");
        let (mut meter, changes) = judged(2, &[(0, 0), (0, 0), (0, 4), (90, 0), (0, 0)]);
        assert_eq!(changes, [(key(1), true), (key(1), false)]);
        assert_eq!(meter.rule(Vec::new(), Instant::now()), [], "it was not idle");
        let (mut meter, changes) = judged(2, &[(0, 0); 3]);
        assert_eq!((changes, meter.rule_of(key(1)).is_some()), (vec![(key(1), true)], true));
        assert_eq!(meter.rule(Vec::new(), Instant::now()), [key(1)]);
        assert!(meter.sums[&key(1)].iter().all(|one| one.judge.is_none()));
    }

    #[test]
    fn a_run_that_never_began_leaves_nothing() {
        let mut meter = Meter::default();
        meter.hold(vec![whole(1)]);
        assert!(!meter.is_idle() && meter.owes_energy());
        meter.hold(vec![whole(2)]);
        assert_eq!(meter.take(key(1)), []);
        assert_eq!(meter.take(key(2)), [], "nobody looked");
        meter.end(key(3));
        assert!(meter.is_idle() && meter.ended.is_empty());
    }
}
