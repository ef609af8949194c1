//! The forecaster: a thread that plays the plan forward when somebody wants to know when jobs start, one forecast at a time, and hands the
//! state's own thread the first promise of jobs that have none. It changes no plan; with nobody waiting it does nothing.

use crate::{
    board::{Board, Wall},
    hub::Word,
    snapshot::Snapshots,
};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use gq_model::{JobId, NodeName, Timestamp};
use gq_sched::{Explanation, Forecast};
use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};

/// A forecast is good enough for so long, at least.
const LIFE: Duration = Duration::from_secs(1);
/// Forecasts take at most one part of so many of a processor,
const PARTS: u32 = 20;
/// and of so many while somebody asks about jobs that came later than the last one.
const PARTS_FOR_NEW: u32 = 5;
/// How often it is looked whether jobs wait that were promised nothing.
const LOOK: Duration = Duration::from_secs(10);
/// How often jobs are tried again that the last forecast had no start for.
const AGAIN: Duration = Duration::from_secs(300);
/// After so long without a question a forecast is thrown away.
const KEEP: Duration = Duration::from_secs(60);
/// Most promises that are handed over at a time, and the pause before the next ones: each is a row to be written.
const MOST_PROMISES: usize = 512;
const PAUSE: Duration = Duration::from_millis(200);
/// After so long no more jobs of a question are explained.
const MOST_WHY: Duration = Duration::from_secs(2);
/// How long somebody waits for an answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// Most questions that wait.
const MAX_ASKED: usize = 256;
/// Stack of the thread.
const STACK: usize = 2 << 20;

/// When jobs are expected to start.
pub(crate) struct Told {
    forecast: Forecast,
    /// The newest job it knows of.
    last_job: JobId,
}

impl Told {
    /// When and where a job is expected to start; never in the past.
    pub(crate) fn start(&self, job: JobId, now: Timestamp) -> Option<(Timestamp, &NodeName)> {
        self.forecast.starts.get(&job).map(|(at, node)| ((*at).max(now), node))
    }
}

/// The way to ask the forecaster.
pub(crate) struct Forecaster {
    asks: Sender<Asked>,
}

enum Asked {
    /// When jobs start, the newest of which is this one.
    Starts(JobId, Sender<Option<Arc<Told>>>),
    /// Why these jobs wait.
    Why(Vec<JobId>, Sender<Vec<(JobId, Explanation)>>),
}

impl Forecaster {
    /// Starts the thread.
    pub(crate) fn start(wall: Wall, words: Sender<Word>, snapshots: Arc<Snapshots>) -> std::io::Result<Self> {
        let (asks, asked) = bounded(MAX_ASKED);
        let thread = Thread {
            wall,
            words,
            snapshots,
            kept: None,
            cost: Duration::ZERO,
            made: None,
            looked: None,
            seen: Weak::new(),
            owed: VecDeque::new(),
            handed: None,
        };
        thread::Builder::new().name("forecast".into()).stack_size(STACK).spawn(move || thread.run(&asked))?;
        Ok(Self { asks })
    }

    /// When jobs are expected to start, the newest asked about being `newest`; none when nobody can tell.
    pub(crate) fn starts(&self, newest: JobId) -> Option<Arc<Told>> {
        let (reply, replies) = bounded(1);
        self.asks.send_timeout(Asked::Starts(newest, reply), PATIENCE).ok()?;
        replies.recv_timeout(PATIENCE).ok().flatten()
    }

    /// Why jobs wait. Those for which there is no time are left out.
    pub(crate) fn explain(&self, jobs: Vec<JobId>) -> Vec<(JobId, Explanation)> {
        let (reply, replies) = bounded(1);
        if self.asks.send_timeout(Asked::Why(jobs, reply), PATIENCE).is_err() {
            return Vec::new();
        }
        replies.recv_timeout(PATIENCE).unwrap_or_default()
    }
}

struct Thread {
    wall: Wall,
    words: Sender<Word>,
    snapshots: Arc<Snapshots>,
    kept: Option<Arc<Told>>,
    /// What the last forecast cost, when it was made, and the newest job it knew of.
    cost: Duration,
    made: Option<(Instant, JobId)>,
    /// When it was last looked for jobs without a promise, and at which board.
    looked: Option<Instant>,
    seen: Weak<Board>,
    /// First promises that were not handed over yet.
    owed: VecDeque<(JobId, Timestamp)>,
    handed: Option<Instant>,
}

impl Thread {
    fn run(mut self, asked: &Receiver<Asked>) {
        loop {
            let pause = if self.owed.is_empty() { LOOK } else { PAUSE };
            match asked.recv_timeout(pause) {
                // Whoever went away needs no answer.
                Ok(Asked::Starts(newest, reply)) => {
                    let _ = reply.try_send(self.told(newest));
                }
                Ok(Asked::Why(jobs, reply)) => {
                    let _ = reply.try_send(self.why(&jobs));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.made.is_none_or(|(at, _)| at.elapsed() >= KEEP) {
                self.kept = None;
            }
            self.look();
            if !self.hand_over() {
                return;
            }
        }
    }

    /// The forecast that is there while it is good enough; else a new one.
    fn told(&mut self, newest: JobId) -> Option<Arc<Told>> {
        if let (Some(kept), Some((made, _))) = (&self.kept, self.made) {
            // A job that came later than the forecast is not in it, and its user wants to know.
            let is_known = newest <= kept.last_job;
            let life = if is_known { LIFE.max(self.cost * PARTS) } else { self.cost * PARTS_FOR_NEW };
            if made.elapsed() < life {
                return Some(Arc::clone(kept));
            }
        }
        self.make()
    }

    /// Explains jobs, as many as there is time for: others wait meanwhile.
    fn why(&self, jobs: &[JobId]) -> Vec<(JobId, Explanation)> {
        let Some(snapshot) = self.snapshots.take() else { return Vec::new() };
        let (began, mut all) = (Instant::now(), Vec::new());
        for job in jobs {
            if let Some(found) =
                gq_sched::explain(&snapshot.cluster, &snapshot.policy, &snapshot.planner, snapshot.now, *job)
            {
                all.push((*job, found));
            }
            if began.elapsed() >= MOST_WHY {
                break;
            }
        }
        all
    }

    fn make(&mut self) -> Option<Arc<Told>> {
        let snapshot = self.snapshots.take()?;
        let began = Instant::now();
        let forecast =
            gq_sched::forecast(&snapshot.cluster, &snapshot.policy, &snapshot.planner, snapshot.now);
        self.cost = began.elapsed();
        log::debug!("a forecast of {} starts took {} ms", forecast.starts.len(), self.cost.as_millis());
        let unpromised =
            |job: &JobId| snapshot.cluster.job(*job).is_some_and(|job| job.first_promise.is_none());
        let mut owed: Vec<(JobId, Timestamp)> = forecast
            .starts
            .iter()
            .filter(|(job, _)| unpromised(job))
            .map(|(job, (at, _))| (*job, *at))
            .collect();
        owed.sort_unstable_by_key(|(job, at)| (*at, *job));
        self.owed = owed.into();
        let last_job = snapshot.cluster.last_job();
        self.made = Some((Instant::now(), last_job));
        let told = Arc::new(Told { forecast, last_job });
        self.kept = Some(Arc::clone(&told));
        Some(told)
    }

    /// Makes a forecast by itself when jobs wait that were promised nothing.
    fn look(&mut self) {
        if self.looked.is_some_and(|at| at.elapsed() < LOOK.max(self.cost * PARTS)) {
            return;
        }
        self.looked = Some(Instant::now());
        let board = self.wall.look();
        let same = self.seen.upgrade().is_some_and(|seen| Arc::ptr_eq(&seen, &board));
        let old = self.made.is_some_and(|(at, _)| at.elapsed() >= AGAIN);
        if same && !old {
            return;
        }
        self.seen = Arc::downgrade(&board);
        let without = board.jobs().filter(|job| job.is_eligible() && job.first_promise.is_none());
        let Some(newest) = without.map(|job| job.id).max() else { return };
        drop(board);
        // What the last forecast had no start for is not tried again at once.
        let tried = self.made.is_some_and(|(_, last_job)| newest <= last_job);
        if !tried || old {
            self.make();
        }
    }

    /// Hands over some promises. False: `gqd` is going away.
    fn hand_over(&mut self) -> bool {
        if self.owed.is_empty() || self.handed.is_some_and(|at| at.elapsed() < PAUSE) {
            return true;
        }
        let some = self.owed.drain(..self.owed.len().min(MOST_PROMISES)).collect();
        self.handed = Some(Instant::now());
        match self.words.try_send(Word::Promises(some)) {
            // A hub that has so much to do is not given more; the next forecast owes them again.
            Ok(()) | Err(TrySendError::Full(_)) => true,
            Err(TrySendError::Disconnected(_)) => false,
        }
    }
}
