//! The ledger: what payers have waiting and running, what users have used, what was taken of budgets, and the licences in use. Sums only; limits are the policy's.

use crate::{Holdings, Job, Payer, Purse, Run, Spent, Usage, budget::Purses};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    sync::Arc,
    vec::Vec,
};
use gq_model::{JobId, LicenceAsk, TaskIndex, Timestamp, Uid};

/// Who has what, who used what.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    payers: BTreeMap<Arc<Payer>, Holdings>,
    usage: BTreeMap<(Option<String>, Uid), Usage>,
    licences: BTreeMap<String, u32>,
    licence_ends: BTreeSet<(Timestamp, JobId, TaskIndex)>,
    pub(crate) purses: Purses,
}

impl Ledger {
    /// All payers that have something waiting or running.
    pub fn payers(&self) -> impl Iterator<Item = (&Arc<Payer>, &Holdings)> {
        self.payers.iter()
    }
    /// What a payer has.
    pub fn holdings(&self, payer: &Payer) -> Holdings {
        self.payers.get(payer).copied().unwrap_or_default()
    }
    /// What each user has used on each account.
    pub fn usage(&self) -> impl Iterator<Item = (&(Option<String>, Uid), &Usage)> {
        self.usage.iter()
    }
    /// What a user has used on an account.
    pub fn usage_of(&self, account: Option<&str>, uid: Uid) -> Usage {
        self.usage.get(&(account.map(String::from), uid)).copied().unwrap_or_default()
    }
    /// What was taken of budgets, in the period that each sum is of.
    pub fn spent(&self) -> impl Iterator<Item = (&Purse, &Spent)> {
        self.purses.spent()
    }
    /// How many of a licence are in use.
    pub fn licences_used(&self, name: &str) -> u32 {
        self.licences.get(name).copied().unwrap_or(0)
    }
    /// Tasks that hold licences, the one whose time limit passes first in front.
    pub fn licence_ends(&self) -> impl Iterator<Item = &(Timestamp, JobId, TaskIndex)> {
        self.licence_ends.iter()
    }

    pub(crate) fn enter(&mut self, payer: &Arc<Payer>, tasks: u64) {
        self.change(payer, |has| has.submitted = has.submitted.saturating_add(tasks));
    }

    pub(crate) fn leave(&mut self, payer: &Arc<Payer>, tasks: u64) {
        self.change(payer, |has| has.submitted = has.submitted.saturating_sub(tasks));
    }

    fn change(&mut self, payer: &Arc<Payer>, change: impl FnOnce(&mut Holdings)) {
        match self.payers.get_mut(payer) {
            Some(has) => {
                change(has);
                if has.submitted == 0 {
                    self.payers.remove(payer);
                }
            }
            None => {
                let mut has = Holdings::default();
                change(&mut has);
                if has.submitted > 0 {
                    self.payers.insert(Arc::clone(payer), has);
                }
            }
        }
    }

    pub(crate) fn hold(&mut self, who: (JobId, TaskIndex), run: &Run, job: &Job) {
        self.change(&job.payer, |has| *has = has.with(&Holdings::of(run)));
        self.purses.hold(&job.payer, who, run);
        if !job.shape.licences.is_empty() {
            self.licence_ends.insert((crate::until(&job.shape, run), who.0, who.1));
            self.licence(&job.shape.licences, |used, count| used.saturating_add(count));
        }
    }

    pub(crate) fn release(&mut self, who: (JobId, TaskIndex), run: &Run, job: &Job) {
        self.change(&job.payer, |has| *has = has.without(&Holdings::of(run)));
        self.purses.release(&job.payer, who);
        if !job.shape.licences.is_empty() {
            self.licence_ends.remove(&(crate::until(&job.shape, run), who.0, who.1));
            self.licence(&job.shape.licences, |used, count| used.saturating_sub(count));
        }
    }

    fn licence(&mut self, asks: &Vec<LicenceAsk>, change: impl Fn(u32, u32) -> u32) {
        for ask in asks {
            let used = change(self.licences_used(&ask.name), ask.count);
            match self.licences.get_mut(&ask.name) {
                Some(count) if used > 0 => *count = used,
                Some(_) => drop(self.licences.remove(&ask.name)),
                None if used > 0 => drop(self.licences.insert(ask.name.clone(), used)),
                None => {}
            }
        }
    }

    /// Says anew until when a task holds its licences.
    pub(crate) fn hold_until(&mut self, who: (JobId, TaskIndex), before: Timestamp, until: Timestamp) {
        if self.licence_ends.remove(&(before, who.0, who.1)) {
            self.licence_ends.insert((until, who.0, who.1));
        }
    }

    pub(crate) fn charge(&mut self, account: Option<String>, uid: Uid, usage: Usage) {
        if usage.charge == 0 {
            self.usage.remove(&(account, uid));
        } else {
            self.usage.insert((account, uid), usage);
        }
    }
}
