//! Moves job files, in a thread of its own and under a deadline: a file system that hangs must not stop the controller's loop.

use crate::refusals::Refusals;
use crossbeam_channel::{Receiver, Sender, bounded};
use gq_engine::{Filing, Refusal, RefusalKind};
use gq_model::Uid;
use gq_spool::Spool;
use std::{collections::BTreeSet, sync::Arc, thread, time::Duration};

/// Longest time a turn waits for its job files.
const DEADLINE: Duration = Duration::from_secs(20);
/// Turns that may wait to be filed.
const WAITING: usize = 16;

enum Work {
    File(Vec<Filing>, Sender<Vec<Option<String>>>, Sender<Result<(), String>>),
    GiveBack(Vec<Filing>),
    Discard(String, Uid, String),
}

/// The filing thread's inbox.
pub(crate) struct Filer {
    work: Sender<Work>,
    /// Whether the moves of this turn are durable.
    synced: Option<Receiver<Result<(), String>>>,
}

impl Filer {
    pub(crate) fn start(spool: Arc<Spool>) -> std::io::Result<Self> {
        let (work, inbox) = bounded(WAITING);
        thread::Builder::new().name("filer".into()).spawn(move || file_all(&spool, &inbox))?;
        Ok(Self { work, synced: None })
    }

    /// Moves files to their places; says of each why it was not moved, if it was not. Their folders are synced meanwhile:
    /// [`Filer::settle`] waits for that.
    pub(crate) fn file(&mut self, filings: &[Filing]) -> Vec<Option<Refusal>> {
        let ((answer, fates), (done, synced)) = (bounded(1), bounded(1));
        let refuse = |text: String| {
            Some(
                Refusal::new(RefusalKind::Policy, text)
                    .hint("ask an admin to look at the spool; submit again"),
            )
        };
        let sent = self.work.send_timeout(Work::File(filings.to_vec(), answer, done), DEADLINE);
        match sent.map_err(drop).and_then(|()| fates.recv_timeout(DEADLINE).map_err(drop)) {
            Ok(fates) => {
                self.synced = Some(synced);
                fates.into_iter().map(|fate| fate.and_then(refuse)).collect()
            }
            Err(()) => {
                // What may still be moved later must come back.
                let _ = self.work.try_send(Work::GiveBack(filings.to_vec()));
                let text = format!("the spool did not answer within {} s", DEADLINE.as_secs());
                filings.iter().map(|_| refuse(text.clone())).collect()
            }
        }
    }

    /// Waits until what [`Filer::file`] moved is durable.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        let Some(synced) = self.synced.take() else { return Ok(()) };
        synced.recv_timeout(DEADLINE).unwrap_or_else(|_| Err("the spool did not sync in time".into()))
    }

    /// Moves files back into the drop box.
    pub(crate) fn give_back(&self, filings: &[Filing]) {
        if self.work.send_timeout(Work::GiveBack(filings.to_vec()), DEADLINE).is_err() {
            log::error!("{} job files could not be given back; the next start does it", filings.len());
        }
    }

    /// Removes a file from the drop box that is not wanted there.
    pub(crate) fn discard(&self, drop_name: String, uid: Uid, why: String) {
        // What stays is removed as old a day later.
        let _ = self.work.try_send(Work::Discard(drop_name, uid, why));
    }
}

fn file_all(spool: &Spool, inbox: &Receiver<Work>) {
    let refusals = Refusals::default();
    for work in inbox {
        match work {
            Work::File(filings, answer, done) => {
                let (fates, shards) = file(spool, &filings);
                let _ = answer.send(fates);
                let synced = shards.into_iter().try_for_each(|shard| spool.sync_shard(shard));
                let _ = done.send(synced.map_err(|e| e.to_string()));
            }
            Work::GiveBack(filings) => {
                for filing in filings {
                    give_back(spool, &filing);
                }
            }
            Work::Discard(name, uid, why) => discard(spool, &refusals, uid, &name, &why),
        }
    }
}

fn file(spool: &Spool, filings: &[Filing]) -> (Vec<Option<String>>, BTreeSet<u8>) {
    let mut shards = BTreeSet::new();
    let mut fates = Vec::with_capacity(filings.len());
    for filing in filings {
        match spool.accept(&filing.drop_name, &filing.job_file) {
            Ok(shard) => {
                shards.insert(shard);
                fates.push(None);
            }
            Err(error) => fates.push(Some(format!("the job file could not be taken: {error}"))),
        }
    }
    (fates, shards)
}

fn give_back(spool: &Spool, filing: &Filing) {
    if let Err(error) = spool.give_back(&filing.job_file, &filing.drop_name) {
        log::warn!("{error}");
    }
}

/// A refused file of the scan is kept for people to look at; what a client waits beside, the client removes.
fn discard(spool: &Spool, refusals: &Refusals, uid: Uid, name: &str, why: &str) {
    if !name.ends_with(".job") {
        return;
    }
    refusals.log(uid, &format!("drop/{name}: {why}; set aside"));
    if let Err(error) = spool.quarantine(name) {
        log::warn!("{error}");
    }
}
