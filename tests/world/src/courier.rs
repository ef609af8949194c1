//! The engine's keeper and courier over the real store and the real post, on a disk that may be full and in a process that may die at any
//! step. Whoever is dead does nothing more, and the turn does not know it.

use crate::{dice::Dice, fuse::Fuse, spool::Spool};
use gq_cluster::Cluster;
use gq_controller::{Post, StoreKeeper};
use gq_engine::{
    Answer, ClientId, Courier, Effect, Filing, Keeper, Over, Record, Refusal, RefusalKind, Step,
};
use gq_sched::Outlook;
use gq_store::StoreError;
use std::fmt;

/// Why a turn was not kept.
#[derive(Debug)]
pub(crate) enum NotKept {
    /// There is no room.
    Full,
    /// The process is dead.
    Dead,
    /// The store failed of itself.
    Store(StoreError),
}

impl fmt::Display for NotKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("no room to record"),
            Self::Dead => f.write_str("dead"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

/// The real store, when it can be written.
pub(crate) struct Keeping<'a> {
    pub(crate) keeper: &'a mut StoreKeeper,
    pub(crate) fuse: &'a Fuse,
    pub(crate) is_full: bool,
}

impl Keeper for Keeping<'_> {
    type Error = NotKept;

    fn keep(&mut self, record: &Record<'_>) -> Result<(), NotKept> {
        if self.is_full {
            return Err(NotKept::Full);
        }
        if !self.fuse.step() {
            return Err(NotKept::Dead);
        }
        self.keeper.keep(record).map_err(NotKept::Store)
    }

    fn is_undone(error: &NotKept) -> bool {
        match error {
            NotKept::Full | NotKept::Dead => true,
            NotKept::Store(error) => StoreKeeper::is_undone(error),
        }
    }

    fn load(&mut self) -> Result<Cluster, NotKept> {
        self.keeper.load().map_err(NotKept::Store)
    }
}

/// What leaves a turn.
pub(crate) struct Going<'a> {
    pub(crate) spool: &'a mut Spool,
    pub(crate) post: &'a mut Post,
    pub(crate) fuse: &'a Fuse,
    pub(crate) dice: &'a mut Dice,
    /// Answers that reached their clients.
    pub(crate) answers: Vec<(ClientId, Answer)>,
    /// When the plan wants to look again.
    pub(crate) look_again: Option<gq_model::Timestamp>,
    /// Folders with moves that were not synced.
    pub(crate) loose: Vec<String>,
}

fn folder_of(job_file: &str) -> String {
    job_file.rsplit_once('/').map_or_else(String::new, |(folder, _)| folder.to_owned())
}

impl Going<'_> {
    fn sync(&mut self) {
        for folder in std::mem::take(&mut self.loose) {
            self.spool.sync(&folder);
        }
    }
}

impl Courier for Going<'_> {
    fn file(&mut self, filings: &[Filing]) -> Vec<Option<Refusal>> {
        let mut fates = Vec::new();
        for filing in filings {
            let is_moved = self.fuse.step()
                && self.spool.rename(&format!("drop/{}", filing.drop_name), &filing.job_file);
            self.loose.push(folder_of(&filing.job_file));
            fates.push(
                (!is_moved).then(|| Refusal::new(RefusalKind::Policy, "the job file could not be taken")),
            );
        }
        // The folder is synced beside the transaction: before it, or after it.
        if self.dice.one_in(2) && self.fuse.step() {
            self.sync();
        }
        fates
    }

    fn settle(&mut self) -> Result<(), String> {
        if !self.fuse.step() {
            return Err("dead".into());
        }
        self.sync();
        Ok(())
    }

    fn give_back(&mut self, filings: &[Filing]) {
        for filing in filings {
            if self.fuse.step() {
                self.spool.rename(&filing.job_file, &format!("drop/{}", filing.drop_name));
            }
        }
    }

    fn publish(&mut self, _: &Cluster, _: &[Step], outlook: Option<Outlook>) {
        self.look_again = outlook.and_then(|outlook| outlook.look_again);
    }

    fn act(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if !self.fuse.step() {
                return;
            }
            match effect {
                Effect::Reply(client, answer) => self.answers.push((client, answer)),
                Effect::Order { node, seq, order } => self.post.order(&node, seq, &order),
                Effect::Discard { drop_name, .. } => {
                    if drop_name.ends_with(".job") {
                        self.spool.remove(&format!("drop/{drop_name}"));
                    }
                }
                Effect::File { .. } | Effect::Outlook(_) => {}
            }
        }
        self.post.send();
    }

    fn over(&mut self, _: Vec<Over>) {}
}
