//! Needs: what one task of a shape takes of a given node, and for how long.

use crate::timeline::{Claim, Load};
use gq_cluster::{Memory, Node, Shape, UNLIMITED, Units};
use gq_model::{Seconds, Timestamp};

/// What a run may take at the longest.
pub(crate) fn span(limit: Option<Seconds>) -> Seconds {
    limit.unwrap_or(UNLIMITED)
}

/// What one task of a shape takes of one node, but for cards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    pub(crate) cpus: u32,
    pub(crate) memory: u64,
    pub(crate) exclusive: bool,
    pub(crate) span: Seconds,
}

impl Need {
    /// Of this node.
    pub(crate) fn of(shape: &Shape, node: &Node) -> Self {
        Self {
            // On a node that is too small for it, being alone is not enough.
            cpus: if shape.demand.exclusive { node.cpus.max(shape.demand.cpus) } else { shape.demand.cpus },
            memory: match shape.demand.memory {
                Memory::Amount(amount) => amount.0,
                Memory::WholeNode => node.memory.0,
            },
            exclusive: shape.demand.exclusive,
            span: span(shape.time_limit),
        }
    }

    /// Whether it fits beside `load` on a node of this size, as far as cpus, memory and company go.
    pub(crate) fn fits(&self, load: &Load, node: &Node) -> bool {
        load.cpus.saturating_add(self.cpus) <= node.cpus
            && load.memory.saturating_add(self.memory) <= node.memory.0
            && load.alone == 0
            && !(self.exclusive && load.holders > 0)
    }

    /// The claim of it from `from` on.
    pub(crate) fn claim(&self, units: Units, from: Timestamp) -> Claim {
        Claim { from, until: from.after(self.span), load: self.load(units) }
    }

    pub(crate) fn load(&self, units: Units) -> Load {
        Load { units, memory: self.memory, cpus: self.cpus, holders: 1, alone: u32::from(self.exclusive) }
    }
}
