//! The engine's keeper, over the real store.

use crate::convert;
use gq_cluster::Cluster;
use gq_engine::{Keeper, Record};
use gq_model::{NodeName, Seq};
use gq_store::{Batch, Store, StoreError};

/// The store, and what the next turn is to forget of the orders it keeps.
pub(crate) struct StoreKeeper {
    pub(crate) store: Store,
    /// Orders that nodes have acknowledged since the last turn.
    pub(crate) acknowledged: Vec<(NodeName, Seq)>,
}

impl Keeper for StoreKeeper {
    type Error = StoreError;

    fn keep(&mut self, record: &Record<'_>) -> Result<(), StoreError> {
        let letters = convert::letters(record.effects, self.store.epoch()).collect::<Result<Vec<_>, _>>()?;
        let batch = Batch {
            at: record.at,
            steps: record.steps.iter().map(|step| (&step.event, step.before.as_deref())).collect(),
            cluster: record.cluster,
            letters,
            acknowledged: &self.acknowledged,
        };
        self.store.commit(&batch)?;
        self.acknowledged.clear();
        Ok(())
    }

    fn is_undone(error: &StoreError) -> bool {
        match error {
            StoreError::Full(_) | StoreError::Json(_) => true,
            StoreError::Sync(_)
            | StoreError::Database(_)
            | StoreError::Damaged(_)
            | StoreError::Newer { .. }
            | StoreError::Older { .. } => false,
        }
    }

    fn load(&mut self) -> Result<Cluster, StoreError> {
        self.store.load()
    }
}
