//! Upkeep: takes up job files that users left without a client, removes what nobody wants any more, and puts the spool in order at the start.

use crate::{
    board::Wall,
    hub::{Word, ago},
    intake::{Intake, NotTaken, refusal},
    refusals::Refusals,
};
use crossbeam_channel::Sender;
use gq_cluster::{Cluster, Job};
use gq_model::{JobId, Seconds, Token, Uid};
use gq_proto::{JobFileParts, RefusalKind};
use gq_spool::{Cleaned, Litter, Ready, Spool, drop_name};
use gq_store::{History, Store};
use std::{
    collections::{BTreeMap, BTreeSet},
    mem::take,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

/// How often the drop box is looked through.
const SCAN: Duration = Duration::from_secs(1);
/// How often old files are looked for.
const CLEAN: Duration = Duration::from_secs(3600);
/// How often job files of jobs that ended long ago are looked for.
const SWEEP: Duration = Duration::from_secs(86_400);
/// Jobs looked up at a time.
const CHUNK: usize = 1024;

/// What the thread needs.
pub(crate) struct Upkeep {
    pub(crate) spool: Arc<Spool>,
    pub(crate) intake: Arc<Intake>,
    pub(crate) wall: Wall,
    pub(crate) words: Sender<Word>,
    pub(crate) database: PathBuf,
    /// What was logged of what lies in the drop box.
    pub(crate) refusals: Refusals,
    /// How long the file of an ended job is kept.
    pub(crate) keep: Seconds,
}

/// Looks after the drop box for ever.
pub(crate) fn run(upkeep: &Upkeep) {
    let (mut cleaned, mut swept): (Option<Instant>, Option<Instant>) = (None, None);
    let (mut known, mut litterers) = (Known::default(), Litterers::default());
    let mut door = Ok(());
    loop {
        upkeep.look_at_door(&mut door);
        if door.is_ok()
            && let Err(error) = upkeep.scan(&mut known)
        {
            log::warn!("the drop box is not looked through: {error}");
        }
        if door.is_ok() && cleaned.is_none_or(|at| at.elapsed() >= CLEAN) {
            match upkeep.spool.clean(gq_daemon::now()) {
                // What is left of a large one is done before anything else is.
                Ok(part) => cleaned = litterers.note(part).then(Instant::now),
                Err(error) => {
                    cleaned = Some(Instant::now());
                    log::warn!("the drop box is not cleaned: {error}");
                }
            }
        }
        if swept.is_none_or(|at| at.elapsed() >= SWEEP) {
            swept = Some(Instant::now());
            if let Err(error) = upkeep.remove_old() {
                log::warn!("files of old jobs are not removed: {error}");
            }
        }
        std::thread::sleep(SCAN);
    }
}

impl Upkeep {
    /// Looks whether the drop box is what it must be, and says so when that changes: what lies in one that others could have exchanged proves nothing.
    fn look_at_door(&self, door: &mut Result<(), String>) {
        let now = self.spool.check_drop().map_err(|e| e.to_string());
        if now == *door {
            return;
        }
        match &now {
            Ok(()) => log::info!("the drop box is as it must be again: jobs are taken from it"),
            Err(why) => log::error!("the drop box is shut, and nothing is taken from it: {why}"),
        }
        if self.words.send(Word::DropBox(now.clone())).is_ok() {
            *door = now;
        }
    }

    /// Removes job files whose time is over; their hash stays with the job. One that cannot be removed keeps no other.
    fn remove_old(&self) -> Result<(), String> {
        let history = History::open(&self.database).map_err(|e| e.to_string())?;
        let mut failed = Ok(());
        let before = ago(gq_daemon::now(), self.keep);
        for files in self.spool.list_jobs().map_err(|e| e.to_string())?.chunks(CHUNK) {
            let ids: Vec<JobId> = files.iter().map(|(_, id)| *id).collect();
            let old: BTreeSet<JobId> =
                history.ended_before(&ids, before).map_err(|e| e.to_string())?.into_iter().collect();
            for (shard, id) in files.iter().filter(|(_, id)| old.contains(id)) {
                let removed = self.spool.remove_job(&self.spool.job_path(*shard, *id));
                failed = failed.and(removed.map_err(|e| e.to_string()));
            }
        }
        failed
    }

    fn scan(&self, known: &mut Known) -> Result<(), gq_spool::SpoolError> {
        let board = self.wall.look();
        if board.degraded.is_some() {
            return Ok(());
        }
        let role = |uid: Uid| board.policy.role(uid);
        let before = take(&mut known.unfinished);
        // What cannot be moved away of one user's keeps nobody else's waiting.
        let mut failed = Ok(());
        for file in self.spool.ready()? {
            if before.contains(&file) && !file.is_stale(gq_daemon::now()) {
                known.unfinished.insert(file);
                continue;
            }
            let name = file.name.as_str();
            let taken = match name.strip_suffix(".job").and_then(|t| t.parse::<Token>().ok()) {
                Some(token) => self.intake.take(name, token, None, role),
                None => Err(NotTaken::Never(refusal(RefusalKind::Usage, "not a token"))),
            };
            match taken {
                Ok(submission) => {
                    if self.words.send(Word::Found(Box::new(submission))).is_err() {
                        return Ok(());
                    }
                }
                Err(NotTaken::Unfinished(_)) if !file.is_stale(gq_daemon::now()) => {
                    known.unfinished.insert(file);
                }
                Err(NotTaken::NotYet(why)) => {
                    self.refusals.log(file.uid, &format!("drop/{name}: {}", why.text));
                }
                Err(NotTaken::Unfinished(why) | NotTaken::Never(why)) => {
                    failed = failed.and(self.set_aside(&file, &why.text));
                }
            }
        }
        failed
    }

    fn set_aside(&self, file: &Ready, why: &str) -> Result<(), gq_spool::SpoolError> {
        self.spool.quarantine(&file.name)?;
        self.refusals.log(file.uid, &format!("drop/{}: {why}; set aside", file.name));
        Ok(())
    }
}

/// What is known from look to look of files that were left to be taken up.
#[derive(Default)]
struct Known {
    /// Those that were not written to their end, as they were: they are not read again before they have changed.
    unfinished: BTreeSet<Ready>,
}

/// Whoever left in the drop box what is no job file, and what came of it in the cleaning that is under way.
#[derive(Default)]
struct Litterers {
    found: BTreeMap<Uid, Litter>,
    /// Of whom it was told that he left something.
    told: BTreeSet<Uid>,
}

impl Litterers {
    /// Notes a part of a cleaning; true at its end, when it is told of: once of each user as long as there is anything of his, and what was removed.
    fn note(&mut self, part: Cleaned) -> bool {
        for (uid, more) in part.users {
            let litter =
                self.found.entry(uid).or_insert_with(|| Litter { name: more.name, ..Litter::default() });
            litter.removed += more.removed;
            litter.left += more.left;
        }
        if !part.whole {
            return false;
        }
        let found = take(&mut self.found);
        self.told.retain(|uid| found.get(uid).is_some_and(|litter| litter.left > 0));
        for (uid, Litter { removed, left, name }) in found {
            if removed > 0 {
                log::info!(
                    "drop/: {removed} of uid {uid} were no job files, or unfinished, for more than a day, and are removed ({name})"
                );
            }
            if left > 0 && self.told.insert(uid) {
                log::warn!(
                    "drop/: {left} of uid {uid} are no job files ({name}); they are removed when they are a day old"
                );
            }
        }
        true
    }
}

/// Puts files and records in step before anybody is served: job files without a record go back to the drop box, a record whose file's
/// move was lost gets its file.
///
/// # Errors
/// When the store cannot be asked, or a file that was moved cannot be synced. What else the spool refuses is logged.
pub(crate) fn put_in_order(spool: &Spool, store: &Store, cluster: &Cluster) -> Result<(), String> {
    let files = match spool.list_jobs() {
        Ok(files) => files,
        Err(error) => {
            log::warn!("accepted job files are not looked through: {error}");
            return Ok(());
        }
    };
    let there: BTreeSet<JobId> = files.iter().map(|(_, id)| *id).collect();
    for job in cluster.jobs().filter(|job| !there.contains(&job.id)) {
        fetch(spool, job)?;
    }
    let others: Vec<(u8, JobId)> = files.into_iter().filter(|(_, id)| cluster.job(*id).is_none()).collect();
    for (shard, id) in others {
        if !store.was_job(id).map_err(|e| e.to_string())? {
            give_back(spool, &spool.job_path(shard, id));
        }
    }
    Ok(())
}

/// The record of a job outlived a crash and the move of its file did not: the file is in the drop box still.
fn fetch(spool: &Spool, job: &Job) -> Result<(), String> {
    let names = [false, true].map(|left| drop_name(job.token, left));
    if let Some(shard) = names.iter().find_map(|name| spool.accept(name, &job.job_file).ok()) {
        log::info!("{}: moved again after a crash", job.job_file);
        return spool.sync_shard(shard).map_err(|e| e.to_string());
    }
    log::error!("{}: the file of job {} is gone; its node will refuse to run it", job.job_file, job.id);
    Ok(())
}

fn give_back(spool: &Spool, job_file: &str) {
    let read = spool.read_job(job_file).map_err(|e| e.to_string());
    let name = read.and_then(|file| {
        let file = JobFileParts::of(&file.bytes).map_err(|e| e.to_string())?;
        Ok(drop_name(file.token, file.left))
    });
    let given = name.and_then(|name| spool.give_back(job_file, &name).map_err(|e| e.to_string()));
    match given {
        Ok(()) => log::info!("{job_file}: was never recorded; back in the drop box"),
        Err(error) => log::warn!("{job_file}: was never recorded, and stays: {error}"),
    }
}
