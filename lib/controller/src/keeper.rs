//! The engine's keeper, over the real store.

use crate::convert;
use gq_cluster::Cluster;
use gq_engine::{Gone, Keeper, Past, Record};
use gq_model::{Dependency, JobId, NodeName, Seq, Term, When};
use gq_store::{Batch, Store, StoreError};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// The store, and what the next turn is to forget of the orders it keeps.
pub struct StoreKeeper {
    /// The store.
    pub store: Store,
    /// Orders that nodes have acknowledged since the last turn.
    pub acknowledged: Vec<(NodeName, Seq)>,
    /// How long the last commit took; none once somebody has taken note of it.
    pub took: Option<Duration>,
}

impl StoreKeeper {
    /// A keeper of this store.
    pub fn new(store: Store) -> Self {
        Self { store, acknowledged: Vec::new(), took: None }
    }

    /// A job that was accepted, and whose it is.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn gone(&self, job: JobId) -> Result<Option<Gone>, StoreError> {
        let owner = self.store.owner(job)?;
        Ok(owner.map(|(uid, account)| Gone { job, uid, account }))
    }

    /// What became of the jobs that a dependency names, as far as the state itself does not tell. `all`: also of those that may end before
    /// it is looked at.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn past(
        &self,
        cluster: &Cluster,
        asked: Option<&Dependency>,
        all: bool,
    ) -> Result<Vec<Past>, StoreError> {
        let mut named: BTreeMap<JobId, bool> = BTreeMap::new();
        for term in asked.iter().flat_map(|asked| &asked.terms) {
            if let Term::Job { when, on } = term {
                *named.entry(on.job).or_default() |= on.tasks.is_some() || *when == When::AfterCorr;
            }
        }
        // Of a live job as a whole its tally tells enough.
        named.retain(|job, by_task| all || *by_task || cluster.job(*job).is_none());
        let mut found = Vec::new();
        for job in named.into_keys() {
            if let Some(gone) = self.gone(job)? {
                let (good, bad, started) = self.store.ends_of(job)?;
                found.push(Past { gone, good, bad, started });
            }
        }
        Ok(found)
    }
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
        let begun = Instant::now();
        self.store.commit(&batch)?;
        self.took = Some(begun.elapsed());
        self.acknowledged.clear();
        Ok(())
    }

    fn is_undone(error: &StoreError) -> bool {
        match error {
            StoreError::Full(_) | StoreError::Json(_) => true,
            StoreError::Sync(_)
            | StoreError::Database(_)
            | StoreError::Damaged(_)
            | StoreError::Year { .. }
            | StoreError::Newer { .. }
            | StoreError::Older { .. } => false,
        }
    }

    fn load(&mut self) -> Result<Cluster, StoreError> {
        self.store.load()
    }
}
