//! What really happened, whatever anybody says of it: which scripts were executed, how they ended, which ids were printed.

use gq_model::{JobId, Outcome, RunKey, Timestamp, Token, Uid};
use std::collections::BTreeMap;

/// What happened to a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fate {
    /// When its script was executed.
    pub(crate) executed: Option<Timestamp>,
    /// What its supervisor wrote of its end.
    pub(crate) written: Option<Outcome>,
}

/// All that happened.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    pub(crate) runs: BTreeMap<RunKey, Fate>,
    /// Ids that were printed.
    pub(crate) told: BTreeMap<JobId, (Token, Uid)>,
    /// Events so far.
    pub(crate) events: u64,
    pub(crate) kills: u64,
}
