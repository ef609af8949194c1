//! Requests: what a job of a log asks for in the words of `gqsub`. Jobs that ask alike share one request.

use crate::{
    alibaba::slice_of,
    trace::{Name, Names, Trace, TraceJob, UNLIMITED, WHOLE},
};
use gq_cluster::Policy;
use gq_model::{CardAsk, Grid, JobSpec, MemoryAsk, MiB, Profile, Seconds, TimeAsk};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// What tells two requests apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Alike {
    cpus: u32,
    memory: MiB,
    cards: u32,
    profile: Name,
    model: Name,
    account: Name,
    partition: Name,
    estimate: i64,
}

/// Makes requests, each kind once.
pub(crate) struct Requests<'w> {
    made: HashMap<Alike, Arc<JobSpec>>,
    names: &'w Names,
    partitions: HashSet<&'w str>,
    accounts: HashSet<&'w str>,
    counts_memory: bool,
    /// Whether the machine has cards: else a log's cards are processors.
    has_cards: bool,
}

impl<'w> Requests<'w> {
    pub(crate) fn new(names: &'w Names, policy: &'w Policy, counts_memory: bool, has_cards: bool) -> Self {
        let partitions = policy.partitions.iter().map(|p| p.name.as_str()).collect();
        let accounts = policy.accounts.iter().map(|a| a.name.as_str()).collect();
        Self { made: HashMap::new(), names, partitions, accounts, counts_memory, has_cards }
    }

    /// The request of a job.
    pub(crate) fn of(&mut self, job: &TraceJob) -> Arc<JobSpec> {
        if let Some(spec) = &job.spec {
            return Arc::clone(spec);
        }
        let alike = Alike {
            cpus: job.cpus,
            memory: if self.counts_memory { job.memory } else { MiB(0) },
            cards: job.cards,
            profile: job.profile,
            model: job.model,
            account: if self.accounts.is_empty() { Name::default() } else { job.account },
            partition: job.partition,
            estimate: job.estimate,
        };
        if let Some(spec) = self.made.get(&alike) {
            return Arc::clone(spec);
        }
        let spec = Arc::new(self.make(&alike));
        self.made.insert(alike, Arc::clone(&spec));
        spec
    }

    fn make(&self, job: &Alike) -> JobSpec {
        let (cpus, cards) = if self.has_cards {
            (job.cpus, self.cards(job))
        } else {
            (job.cpus.max(job.cards), CardAsk::default())
        };
        // Several slices go one to a task.
        let tasks = if cards.profile.is_some() { cards.count } else { 1 };
        let text =
            |name: Name| Some(self.names.text(name)).filter(|text| !text.is_empty()).map(str::to_owned);
        let limit = u64::try_from(job.estimate).ok().filter(|_| job.estimate < UNLIMITED);
        JobSpec {
            name: "sim".to_owned(),
            account: text(job.account).filter(|name| self.accounts.contains(name.as_str())),
            partition: text(job.partition).filter(|name| self.partitions.contains(name.as_str())),
            time_limit: limit.map(|limit| TimeAsk::Limit(Seconds(limit))),
            ntasks: Some(tasks),
            cpus_per_task: Some((cpus / tasks.max(1)).max(1)),
            memory: MemoryAsk::PerNode(job.memory),
            cards,
            work_dir: "/".to_owned(),
            submit_dir: "/".to_owned(),
            umask: 0o022,
            ..JobSpec::default()
        }
    }

    fn cards(&self, job: &Alike) -> CardAsk {
        let text =
            |name: Name| Some(self.names.text(name)).filter(|text| !text.is_empty()).map(str::to_owned);
        CardAsk {
            count: job.cards,
            profile: text(job.profile),
            model: text(job.model),
            memory: None,
            share: None,
        }
    }
}

/// The profile that holds so many thousandths of a card: as the log's map says for parts, the largest for whole cards.
fn profile(grid: &Grid, milli: u32) -> Option<&Profile> {
    let plain = || grid.profiles.iter().filter(|profile| profile.is_plain());
    let largest = || plain().max_by_key(|profile| (profile.size, profile.compute));
    let of = |sevenths: u8| plain().filter(|profile| profile.compute == sevenths).min_by_key(|p| p.size);
    slice_of(milli).and_then(of).or_else(largest)
}

/// Gives each job that asks for cards the slice that holds them, and counts it as what that takes of a card.
pub(crate) fn cut(trace: &mut Trace, grid: &Grid) {
    let units = u32::from(grid.units).max(1);
    let mut cuts: HashMap<u32, (Name, u32)> = HashMap::new();
    for job in trace.jobs.iter_mut().filter(|job| job.cards > 0 && job.spec.is_none()) {
        let names = &mut trace.names;
        let cut = cuts.entry(job.card_milli).or_insert_with(|| match profile(grid, job.card_milli) {
            Some(profile) => (names.of(&profile.name), u32::from(profile.size) * WHOLE / units),
            None => (Name::default(), WHOLE),
        });
        (job.profile, job.card_milli) = *cut;
    }
}
