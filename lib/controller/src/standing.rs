//! Standing: the place in the queue of each job that waits, for those who look. The plan has its own; both ask `gq_sched` the same.

use crate::snapshot::{Snapshot, Snapshots};
use gq_cluster::{Cluster, Job, Policy, Spending};
use gq_model::{Timestamp, Uid};
use gq_sched::{Factors, Outlook};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How long fair-share ranks are good enough for a listing. They change slowly: use is counted over days.
const RANKS_LIFE: Duration = Duration::from_secs(10);

/// Ranks of users on accounts, in thousandths.
type Ranks = BTreeMap<(Option<String>, Uid), u32>;

/// What priorities are made of, at one moment.
pub(crate) struct Standing {
    parts: Arc<Parts>,
    /// Budgets of which much is used.
    budgets: Vec<Spending>,
    now: Timestamp,
}

struct Parts {
    /// The policy they are of.
    policy: Arc<Policy>,
    /// The same without fair share: that is looked up in `ranks`, once for all jobs.
    rest: Policy,
    /// What does not depend on use depends on no cluster.
    nothing: Cluster,
    ranks: Ranks,
    made: Instant,
}

impl Parts {
    fn of(policy: &Arc<Policy>, ranks: Ranks) -> Self {
        let mut rest = Policy::clone(policy);
        rest.weights.fair_share = 0;
        rest.accounts = Vec::new();
        Self { policy: Arc::clone(policy), rest, nothing: Cluster::default(), ranks, made: Instant::now() }
    }
}

impl Standing {
    /// The standing as of a snapshot.
    pub(crate) fn of_snapshot(snapshot: &Snapshot) -> Self {
        let budgets = snapshot.cluster.spendings(&snapshot.policy, snapshot.now);
        Self { parts: Arc::new(Parts::of(&snapshot.policy, ranks(snapshot))), budgets, now: snapshot.now }
    }

    /// What makes up the priority of a job.
    pub(crate) fn factors(&self, job: &Job) -> Factors {
        let parts = &*self.parts;
        let mut factors = gq_sched::factors(&parts.nothing, &parts.rest, self.now, job);
        let weight = parts.policy.weights.fair_share;
        if weight != 0 {
            // Who has used nothing goes first.
            let rank = parts.ranks.get(&(job.payer.account.clone(), job.payer.uid)).copied().unwrap_or(1000);
            let part = i128::from(weight) * i128::from(rank) / 1000;
            factors.fair_share = i64::try_from(part).unwrap_or(i64::MAX);
            factors.total = factors.total.saturating_add(factors.fair_share);
        }
        let behind = gq_sched::behind(&parts.policy, &self.budgets, &job.shape, &job.payer);
        if behind.is_some() { factors.behind() } else { factors }
    }

    /// The priority of a job: higher goes first.
    pub(crate) fn priority(&self, job: &Job) -> i64 {
        self.factors(job).total
    }
}

fn ranks(snapshot: &Snapshot) -> Ranks {
    if snapshot.policy.weights.fair_share == 0 {
        return BTreeMap::new();
    }
    let shares = gq_sched::shares(&snapshot.cluster, &snapshot.policy, snapshot.now);
    shares.into_iter().filter_map(|share| Some(((share.account, share.uid?), share.factor))).collect()
}

/// Makes the standing for listings, which take no snapshot for each.
#[derive(Default)]
pub(crate) struct Standings {
    last: Mutex<Option<Arc<Parts>>>,
}

impl Standings {
    /// The standing by this policy, as of now.
    pub(crate) fn by(&self, policy: &Arc<Policy>, snapshots: &Snapshots, outlook: &Outlook) -> Standing {
        let now = gq_daemon::now();
        let budgets = outlook.budgets.clone();
        let counts = policy.weights.fair_share != 0;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last.as_ref().filter(|parts| {
            Arc::ptr_eq(&parts.policy, policy) && (!counts || parts.made.elapsed() < RANKS_LIFE)
        });
        if let Some(parts) = known {
            return Standing { parts: Arc::clone(parts), budgets, now };
        }
        let snapshot = if counts { snapshots.take() } else { None };
        let ranks = snapshot.map(|snapshot| ranks(&snapshot)).unwrap_or_default();
        let parts = Arc::new(Parts::of(policy, ranks));
        *last = Some(Arc::clone(&parts));
        Standing { parts, budgets, now }
    }
}
