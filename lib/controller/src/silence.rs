//! Silence: nodes out of sight, and for how long by a clock that never jumps. It says when one is lost and when runs there have ended
//! themselves; what that means is the engine's to say. Reads no clock.

use gq_cluster::{Cluster, Link};
use gq_engine::Input;
use gq_model::{NodeName, Seconds};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// How often the leases of runs on nodes out of sight are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Nodes out of sight.
#[derive(Default)]
pub struct Silence {
    nodes: BTreeMap<NodeName, Spell>,
    looked: Option<Instant>,
}

struct Spell {
    /// When the last sign of life was seen, or later.
    since: Instant,
    /// Whether it was said to be lost.
    is_lost: bool,
}

impl Spell {
    fn until(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }
}

impl Silence {
    /// After a start of the controller every node is out of sight from then on, however long it has been before.
    pub fn after_start(cluster: &Cluster, since: Instant) -> Self {
        let spell = |link| match link {
            Link::Suspect { .. } => Some(Spell { since, is_lost: false }),
            Link::Lost { .. } => Some(Spell { since, is_lost: true }),
            Link::Absent | Link::Up | Link::Forgotten => None,
        };
        let nodes = cluster.nodes().filter_map(|node| Some((node.name.clone(), spell(node.link)?)));
        Self { nodes: nodes.collect(), looked: None }
    }

    /// Nothing was seen of a node since then.
    pub fn fell_silent(&mut self, node: &NodeName, since: Instant) {
        self.nodes.entry(node.clone()).or_insert(Spell { since, is_lost: false });
    }

    /// A node is in sight.
    pub fn is_back(&mut self, node: &NodeName) {
        self.nodes.remove(node);
    }

    /// How long nothing is to be done about it; none when nobody is out of sight.
    pub fn nap(&self, Seconds(lost_after): Seconds, now: Instant) -> Option<Duration> {
        let lost_after = Duration::from_secs(lost_after);
        let waits = self.nodes.values().filter(|spell| !spell.is_lost);
        let lost = waits.map(|spell| lost_after.saturating_sub(spell.until(now))).min();
        let look = (!self.nodes.is_empty()).then_some(LOOK);
        lost.into_iter().chain(look).min()
    }

    /// The nodes that are lost by now; each is said once.
    pub fn lost(&mut self, Seconds(lost_after): Seconds, now: Instant) -> impl Iterator<Item = NodeName> {
        let is_due = move |spell: &Spell| !spell.is_lost && spell.until(now).as_secs() >= lost_after;
        self.nodes.iter_mut().filter(move |(_, spell)| is_due(spell)).map(move |(node, spell)| {
            log::warn!(
                "{node}: silent for {lost_after} s: lost; its jobs are UNKNOWN and keep what they hold"
            );
            spell.is_lost = true;
            node.clone()
        })
    }

    /// The nodes where runs have ended themselves by now, as far as the state still has them as alive.
    pub fn leases_over(&mut self, cluster: &Cluster, now: Instant) -> Vec<Input> {
        if self.nodes.is_empty() || self.looked.is_some_and(|at| now.saturating_duration_since(at) < LOOK) {
            return Vec::new();
        }
        self.looked = Some(now);
        let over = |(name, spell): (&NodeName, &Spell)| {
            let silence = Seconds(spell.until(now).as_secs());
            let runs = cluster.node(name)?.runs();
            let run = |(job, task)| cluster.job(job)?.runs.get(&task);
            let is_due = runs.filter_map(run).any(|run| run.is_over_after(silence));
            is_due.then(|| Input::LeaseOver { node: name.clone(), silence })
        };
        self.nodes.iter().filter_map(over).collect()
    }
}
