//! Upkeep: takes up job files that users left without a client, removes what nobody wants any more, and puts the spool in order at the start.

use crate::{
    board::Wall,
    hub::{Word, ago},
    intake::{Intake, NotTaken},
};
use crossbeam_channel::Sender;
use gq_cluster::{Cluster, Job};
use gq_model::{JobId, Seconds, Token, Uid};
use gq_proto::JobFile;
use gq_spool::Spool;
use gq_store::{Store, StoreError};
use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

/// How often the drop box is looked through.
const SCAN: Duration = Duration::from_secs(1);
/// How often old files are looked for.
const CLEAN: Duration = Duration::from_secs(3600);
/// How long tokens are remembered after the end of their job.
const TOKEN_KEEP: Seconds = Seconds(30 * 86_400);

/// What the thread needs.
pub(crate) struct Upkeep {
    pub(crate) spool: Arc<Spool>,
    pub(crate) intake: Arc<Intake>,
    pub(crate) wall: Wall,
    pub(crate) words: Sender<Word>,
    pub(crate) own: Uid,
}

/// Looks after the drop box for ever.
pub(crate) fn run(upkeep: &Upkeep) {
    let mut cleaned: Option<Instant> = None;
    loop {
        if let Err(error) = upkeep.scan() {
            log::warn!("the drop box is not looked through: {error}");
        }
        if cleaned.is_none_or(|at| at.elapsed() >= CLEAN) {
            cleaned = Some(Instant::now());
            if let Err(error) = upkeep.spool.clean(gq_daemon::now()) {
                log::warn!("the drop box is not cleaned: {error}");
            }
        }
        std::thread::sleep(SCAN);
    }
}

impl Upkeep {
    fn scan(&self) -> Result<(), gq_spool::SpoolError> {
        let board = self.wall.look();
        if board.degraded.is_some() {
            return Ok(());
        }
        let is_admin = |uid: Uid| uid == Uid(0) || uid == self.own || board.policy.admins.contains(&uid);
        for name in self.spool.ready()? {
            let Some(token) = name.strip_suffix(".job").and_then(|t| t.parse::<Token>().ok()) else {
                log::warn!("drop/{name}: not a token, set aside");
                self.spool.quarantine(&name)?;
                continue;
            };
            match self.intake.take(&name, token, None, is_admin) {
                Ok(submission) => {
                    if self.words.send(Word::Found(Box::new(submission))).is_err() {
                        return Ok(());
                    }
                }
                Err(NotTaken::NotYet(why)) => log::info!("drop/{name}: {}", why.text),
                Err(NotTaken::Never(why)) => {
                    log::warn!("drop/{name}: {}; set aside", why.text);
                    self.spool.quarantine(&name)?;
                }
            }
        }
        Ok(())
    }
}

/// Puts files and records in step before anybody is served: job files without a record go back to the drop box, a record whose file's
/// move was lost gets its file, files of jobs that ended long ago go.
///
/// # Errors
/// When the store cannot be asked, or a file that was moved cannot be synced. What else the spool refuses is logged.
pub(crate) fn put_in_order(
    spool: &Spool,
    store: &mut Store,
    cluster: &Cluster,
    keep: Seconds,
) -> Result<(), String> {
    let now = gq_daemon::now();
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
    let ids: Vec<JobId> = others.iter().map(|(_, id)| *id).collect();
    let lookup = |e: StoreError| e.to_string();
    let old: BTreeSet<JobId> =
        store.ended_before(&ids, ago(now, keep)).map_err(lookup)?.into_iter().collect();
    for (shard, id) in others {
        let job_file = spool.job_path(shard, id);
        if old.contains(&id) {
            if let Err(error) = spool.remove_job(&job_file) {
                log::warn!("{error}");
            }
        } else if !store.was_job(id).map_err(lookup)? {
            give_back(spool, &job_file);
        }
    }
    let forgotten = store.forget_tokens(ago(now, TOKEN_KEEP)).map_err(lookup)?;
    if forgotten > 0 {
        log::info!("{forgotten} tokens of jobs that ended 30 days ago are forgotten");
    }
    Ok(())
}

/// The record of a job outlived a crash and the move of its file did not: the file is in the drop box still.
fn fetch(spool: &Spool, job: &Job) -> Result<(), String> {
    let names = [format!(".s.{}", job.token), format!("{}.job", job.token)];
    if names.iter().any(|name| spool.accept(name, &job.job_file).is_ok()) {
        log::info!("{}: moved again after a crash", job.job_file);
        let shard = job.job_file.split('/').nth(1).and_then(|s| u8::from_str_radix(s, 16).ok());
        return shard.map_or(Ok(()), |shard| spool.sync_shard(shard).map_err(|e| e.to_string()));
    }
    log::error!("{}: the file of job {} is gone; its node will refuse to run it", job.job_file, job.id);
    Ok(())
}

fn give_back(spool: &Spool, job_file: &str) {
    let read = spool.read_job(job_file).map_err(|e| e.to_string());
    let token = read
        .and_then(|file| JobFile::from_bytes(&file.bytes).map_err(|e| e.to_string()))
        .map(|file| file.token);
    let given = token.and_then(|token| spool.give_back(job_file, token).map_err(|e| e.to_string()));
    match given {
        Ok(()) => log::info!("{job_file}: was never recorded; back in the drop box"),
        Err(error) => log::warn!("{job_file}: was never recorded, and stays: {error}"),
    }
}
