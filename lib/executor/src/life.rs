//! Which life of which node: its number, and what tells it from another node of its name. Reads no disk and makes no name up.

use gq_model::{BootId, Epoch, NodeId};
use gq_nodecore::Node;
use gq_nodelog::Record;

/// Which life of which node.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// Its number.
    pub epoch: Epoch,
    /// The last one before it that the log tells of; 0 when it tells of none.
    pub past: Epoch,
    /// Which node: made with the log.
    pub id: NodeId,
}

impl Life {
    /// The life after those that the log tells of. `clock`: milliseconds since 1970; `new_id`: makes the identity of a node whose log tells of
    /// none.
    ///
    /// Its number grows with every start, not only with every boot: reports are numbered from 1 in each life, so that nothing but results
    /// must be kept. In a new folder no earlier life is known: the clock makes it a later one all the same; in milliseconds, since two lives
    /// may well begin within a second.
    ///
    /// # Errors
    /// Those of `new_id`.
    pub fn after<E>(
        records: &[Record],
        clock: u64,
        new_id: impl FnOnce() -> Result<NodeId, E>,
    ) -> Result<Self, E> {
        let (mut past, mut id) = (Epoch(0), None);
        for record in records {
            if let Record::Life { epoch, node_id, .. } = record {
                past = past.max(*epoch);
                id = node_id.or(id);
            }
        }
        let epoch = Epoch(past.0.saturating_add(1).max(clock));
        Ok(Self { epoch, past, id: id.map_or_else(new_id, Ok)? })
    }

    /// What must be known of a life however old the log is.
    pub fn record(&self, boot: BootId, node: &Node) -> Record {
        let Self { epoch, id, .. } = *self;
        Record::Life { epoch, boot, node_id: Some(id), controller: node.controller(), taken: node.taken() }
    }

    /// Whether a controller that knows the life `known` of this node knows of one that the log should tell of and does not: the log is an older
    /// copy. A log that tells of none is new, and its node is another one already; but one of a higher number than this.
    pub fn is_outlived_by(&self, known: Epoch) -> bool {
        known != self.epoch && known > self.past && (self.past > Epoch(0) || known > self.epoch)
    }

    /// The same node no more: another one of its name, since its log does not tell all that was done.
    pub fn as_another(&self, known: Epoch, id: NodeId) -> Self {
        Self { epoch: known.max(self.epoch), id, ..*self }
    }
}
