//! The watch: looks at the cards at some moments of a simulation. Changes nothing.

use crate::{
    fragmentation::{CardFigures, CardMoment, CardState, NodeState, Wish},
    trace::{Names, Trace, TraceJob, WHOLE},
    world::VirtualNode,
};
use gq_cluster::Cluster;
use gq_model::{Card, Grid, MiB};
use std::{collections::HashMap, sync::Arc};

/// At how many moments a simulation is looked at, at least when it has so many arrivals.
const MOMENTS: usize = 20;

/// What a job asks of a node.
pub(crate) fn wish_of(job: &TraceJob, names: &Names) -> Wish {
    let profile = (job.cards > 0).then(|| names.shared(job.profile)).filter(|name| !name.is_empty());
    Wish { cpus: job.cpus.max(1), memory: job.memory, count: job.cards, profile, weight: 1 }
}

/// What the jobs of a log that want cards ask for, each kind once, with how many ask so.
fn mix(trace: &Trace) -> Vec<Wish> {
    let mut kinds: HashMap<(u32, MiB, u32, crate::trace::Name), Wish> = HashMap::new();
    for job in trace.jobs.iter().filter(|job| job.cards > 0) {
        let kind = kinds.entry((job.cpus, job.memory, job.cards, job.profile));
        kind.and_modify(|wish| wish.weight += 1).or_insert_with(|| wish_of(job, &trace.names));
    }
    kinds.into_values().collect()
}

/// Grids that cards have in common, each kept once.
#[derive(Default)]
struct Grids(Vec<Arc<Grid>>);

impl Grids {
    fn of(&mut self, card: &Card) -> Option<Arc<Grid>> {
        let grid = card.grid.as_ref().filter(|_| card.mig)?;
        if let Some(known) = self.0.iter().find(|known| ***known == *grid) {
            return Some(Arc::clone(known));
        }
        self.0.push(Arc::new(grid.clone()));
        self.0.last().cloned()
    }
}

/// Nodes of which nothing is taken.
pub(crate) fn idle(nodes: &[VirtualNode]) -> Vec<NodeState> {
    let mut grids = Grids::default();
    let state = |node: &VirtualNode| NodeState {
        cpus_free: node.cpus,
        memory_free: node.memory,
        cards: node.cards.iter().map(|card| CardState { grid: grids.of(card), taken: 0 }).collect(),
    };
    nodes.iter().map(state).collect()
}

/// The nodes as they are.
fn states(cluster: &Cluster) -> Vec<NodeState> {
    let mut grids = Grids::default();
    let mut all = Vec::with_capacity(cluster.node_count());
    for node in cluster.nodes() {
        let used = node.used();
        let taken = |at: usize| {
            let slot = node.layout().slot(at);
            slot.map_or(u16::MAX, |slot| ((used.units & slot.mask()) >> slot.offset) as u16)
        };
        let card = |(at, card): (usize, &Card)| CardState { grid: grids.of(card), taken: taken(at) };
        all.push(NodeState {
            cpus_free: node.cpus.saturating_sub(used.cpus),
            memory_free: node.memory.saturating_sub(used.memory),
            cards: node.cards.iter().enumerate().map(card).collect(),
        });
    }
    all
}

/// Looks at the cards now and then.
pub(crate) struct Watch {
    mix: Vec<Wish>,
    /// Thousandths of cards there are.
    there: u64,
    arrived: u64,
    arrivals: usize,
    /// How many arrivals lie between two looks; none when the machine is being filled.
    stride: Option<usize>,
    at_full: Option<CardMoment>,
    moments: Vec<CardMoment>,
}

impl Watch {
    /// A watch over a machine with cards; none when it has none, or no job wants any.
    pub(crate) fn over(trace: &Trace, nodes: &[VirtualNode], filling: bool) -> Option<Self> {
        let there = nodes.iter().map(|node| node.cards.len() as u64).sum::<u64>() * u64::from(WHOLE);
        let mix = mix(trace);
        let stride = (!filling).then_some((trace.jobs.len() / MOMENTS).max(1));
        let watch = Self { mix, there, arrived: 0, arrivals: 0, stride, at_full: None, moments: Vec::new() };
        (there > 0 && !watch.mix.is_empty()).then_some(watch)
    }

    /// A job has arrived and what could be done for it is done. Returns whether this is a moment to look.
    pub(crate) fn arrive(&mut self, job: &TraceJob) -> bool {
        let before = self.arrived;
        self.arrived = self.arrived.saturating_add(job.milli());
        self.arrivals += 1;
        match self.stride {
            Some(stride) => self.arrivals.is_multiple_of(stride),
            None => before < self.there && self.arrived >= self.there,
        }
    }

    /// Looks at the cards.
    pub(crate) fn look(&mut self, nodes: &[NodeState]) {
        if self.stride.is_some() {
            self.moments.push(CardMoment::of(nodes, &self.mix, 0));
        } else {
            self.at_full = Some(CardMoment::of(nodes, &self.mix, self.arrived));
        }
    }

    /// Looks at the cards of the engine's nodes.
    pub(crate) fn look_at(&mut self, cluster: &Cluster) {
        self.look(&states(cluster));
    }

    /// All has arrived, and the nodes of the engine are as they are.
    pub(crate) fn end_at(self, cluster: &Cluster) -> CardFigures {
        self.end(&states(cluster))
    }

    /// All has arrived, and the nodes are as they are.
    pub(crate) fn end(self, nodes: &[NodeState]) -> CardFigures {
        let overall = match self.stride {
            None => CardMoment::of(nodes, &self.mix, self.arrived),
            Some(_) => mean(&self.moments),
        };
        let most = self.moments.iter().map(|moment| moment.allocated).fold(overall.allocated, f64::max);
        CardFigures { at_full: self.at_full, overall, allocated_max: most }
    }
}

fn mean(moments: &[CardMoment]) -> CardMoment {
    let of =
        |figure: fn(&CardMoment) -> f64| crate::spread::mean(&moments.iter().map(figure).collect::<Vec<_>>());
    CardMoment {
        arrived: 0.0,
        allocated: of(|m| m.allocated),
        fragmentation: of(|m| m.fragmentation),
        stranded: of(|m| m.stranded),
    }
}
