//! Vigils: what somebody is told who waits for the end of a job, until it comes: how far an array is, and that the job waits for what can no
//! longer come.

use crate::{
    arrays,
    door::{Door, SILENCE, going_away, refused, send},
    hub::Wish,
    viewer::Viewer,
};
use crossbeam_channel::RecvTimeoutError;
use gq_cluster::{Fate, Job, Role};
use gq_ipc::{Conn, IpcError};
use gq_model::{JobId, Uid};
use gq_proto::{ArrayView, MAX_FRAME, RefusalKind, Reply};
use std::time::{Duration, Instant};

/// How often a client that waits for a job is looked after.
const LOOK: Duration = Duration::from_secs(5);
/// How often it is told of the job at most.
const NEWS: Duration = Duration::from_secs(1);

impl Door {
    /// Answers when the job has ended, and before that with what is `wanted` (progress; what can no longer come); looks now and then whether
    /// the client still waits.
    pub(crate) fn wait(
        &self,
        conn: &Conn,
        uid: Uid,
        job: JobId,
        wanted: (bool, bool),
    ) -> Result<(), IpcError> {
        let board = self.wall.look();
        match self.is_hidden(&board, &Viewer::new(&board.policy, uid), job) {
            Ok(false) => drop(board),
            Ok(true) => {
                return send(conn, &refused(RefusalKind::NoSuchJob, format!("there is no job {job}")));
            }
            Err(error) => return send(conn, &refused(RefusalKind::Policy, error.to_string())),
        }
        let Some(replies) = self.tell(uid, Role::User, Wish::Wait(job)) else {
            return send(conn, &going_away());
        };
        let mut told = Told::default();
        let mut looked = Instant::now();
        loop {
            let pause = match self.wall.look().job(job) {
                Some(job) => {
                    for news in told.news(job, wanted) {
                        send(conn, &news)?;
                    }
                    if may_have_news(job, wanted) { NEWS } else { LOOK }
                }
                None => LOOK,
            };
            match replies.recv_timeout(pause) {
                Ok(reply) => {
                    conn.set_timeouts(Some(SILENCE), Some(SILENCE))?;
                    return send(conn, &reply);
                }
                Err(RecvTimeoutError::Disconnected) => return send(conn, &going_away()),
                Err(RecvTimeoutError::Timeout) if looked.elapsed() < LOOK => {}
                Err(RecvTimeoutError::Timeout) => {
                    looked = Instant::now();
                    conn.set_timeouts(Some(Duration::from_millis(1)), Some(SILENCE))?;
                    match conn.recv(MAX_FRAME) {
                        Err(IpcError::Timeout) => {}
                        Ok(_) | Err(_) => return Err(IpcError::Closed),
                    }
                }
            }
        }
    }
}

/// Whether something may soon be told of a job.
fn may_have_news(job: &Job, (progress, hopeless): (bool, bool)) -> bool {
    (progress && job.array) || (hopeless && job.waits.is_some() && !job.waiting.is_empty())
}

/// What a client was told last.
#[derive(Default)]
struct Told {
    progress: Option<ArrayView>,
    hopeless: Vec<String>,
}

impl Told {
    /// What is wanted and other than it was told last.
    fn news(&mut self, job: &Job, (progress, hopeless): (bool, bool)) -> Vec<Reply> {
        let mut news = Vec::new();
        if progress && job.array {
            let view = arrays::of_live(job, gq_daemon::now());
            let numbers = |view: &ArrayView| (view.waiting, view.running, view.ended.clone(), view.at_once);
            if self.progress.as_ref().is_none_or(|told| numbers(told) != numbers(&view)) {
                news.push(Reply::Progress(view.clone()));
                self.progress = Some(view);
            }
        }
        if hopeless {
            let conditions = never(job);
            if conditions != self.hopeless && !conditions.is_empty() {
                news.push(Reply::Hopeless { conditions: conditions.clone() });
            }
            self.hopeless = conditions;
        }
        news
    }
}

/// The conditions for which a job, or tasks of it, wait in vain.
fn never(job: &Job) -> Vec<String> {
    let Some(waits) = job.waits.as_ref().filter(|_| !job.waiting.is_empty()) else { return Vec::new() };
    let whole = waits.fate() == Fate::Never;
    let vain = waits.conditions.iter().filter(|condition| {
        (whole && condition.fate == Fate::Never) || !condition.never.and(&job.waiting).is_empty()
    });
    vain.map(|condition| condition.term.to_string()).collect()
}
