//! The past as a whole: runs that have ended, sent page by page, and sums of what they held and used. What somebody may not see is left out before
//! anything is counted. Nothing of it is asked of the state's own thread.

use crate::{
    door::{Door, refused, send},
    viewer::Viewer,
};
use gq_cluster::Policy;
use gq_ipc::{Conn, IpcError};
use gq_model::{JobState, Uid};
use gq_proto::{
    MAX_PAST_WORDS, PastAsk, RefusalKind, Reply, RunView, SpreadView, UsageAsk, UsageBy, UsageView,
    WAIT_BOUNDS, WaitsView,
};
use gq_store::{By, Fits, MAX_SUMS, PastRun, Spread, StoreError, Sums};

/// Runs that are read at a time: no reader holds the database longer.
const PAGE: usize = 1000;
/// Most runs of one frame, and most bytes of what they say of tasks and cards, roughly.
const CHUNK: usize = 256;
const CHUNK_BYTES: usize = 2 << 20;
/// Bytes of a card in a frame, what was used of it included.
const CARD_BYTES: usize = 400;
/// Most sums of one frame.
const SUMS_CHUNK: usize = 4096;

impl Door {
    /// Runs that have ended, in that order.
    pub(crate) fn list_runs(&self, conn: &Conn, uid: Uid, ask: &PastAsk) -> Result<(), IpcError> {
        if ask.words() > MAX_PAST_WORDS {
            return send(conn, &too_many(ask.words()));
        }
        let board = self.wall.look();
        let fits = fits(ask, Viewer::new(&board.policy, uid).seen_jobs());
        let mut behind = None;
        loop {
            let page = match self.with_history(|history| history.past(&fits, behind, PAGE)) {
                Ok(page) => page,
                Err(error) => return send(conn, &failed(&error)),
            };
            let is_last = page.len() < PAGE;
            behind = page.last().map(PastRun::mark);
            self.send_runs(conn, page, is_last)?;
            if is_last {
                return Ok(());
            }
        }
    }

    fn send_runs(&self, conn: &Conn, page: Vec<PastRun>, is_last: bool) -> Result<(), IpcError> {
        let mut runs: Vec<RunView> = Vec::new();
        let mut bytes = 0;
        for past in page {
            let view = self.run_view(past);
            bytes += view.gpus.len() * CARD_BYTES + view.array_tasks.as_ref().map_or(0, String::len);
            runs.push(view);
            if runs.len() >= CHUNK || bytes >= CHUNK_BYTES {
                bytes = 0;
                send(conn, &Reply::Runs { runs: std::mem::take(&mut runs), more: true })?;
            }
        }
        // An empty frame in between would say nothing.
        if runs.is_empty() && !is_last { Ok(()) } else { send(conn, &Reply::Runs { runs, more: !is_last }) }
    }

    fn run_view(&self, past: PastRun) -> RunView {
        let PastRun { job, uid, account, partition, qos, name, array, submitted, run } = past;
        let never_started = run.node.is_none();
        RunView {
            id: job,
            name,
            uid,
            user: self.intake.name_of(uid),
            account,
            partition,
            qos,
            array_task_id: (array && run.tasks.is_none()).then_some(run.task.0),
            array_tasks: run.tasks,
            run: if never_started { run.run.0.saturating_sub(1) } else { run.run.0 },
            again: run.again,
            state: JobState::Ended(run.outcome.end).name().to_owned(),
            reason: run.outcome.reason,
            reason_detail: Some(run.outcome.detail).filter(|detail| !detail.is_empty()),
            exit_code: run.outcome.exit_code,
            signal: run.outcome.signal,
            submit_time: submitted,
            allocated: run.allocated,
            start_time: run.started,
            end_time: run.ended,
            first_promise: run.first_promise,
            last_promise: run.last_promise,
            time_limit: run.time_limit.filter(|limit| *limit != gq_cluster::UNLIMITED),
            gpus: run.node.as_ref().map(|node| crate::view::gpus(node, &run.cards)).unwrap_or_default(),
            node: run.node,
            cpus: run.cpus,
            memory_mib: run.memory,
            worth: run.worth,
            restarts: run.restarts.unwrap_or(0),
            suspended: run.suspended,
            idle_times: run.idle_times,
            given_back: run.given_back,
            used: run.outcome.used,
        }
    }

    /// Sums of what runs held and used.
    pub(crate) fn usage(&self, conn: &Conn, uid: Uid, ask: &UsageAsk) -> Result<(), IpcError> {
        let words = ask.select.words() + ask.periods.len() + ask.by.len();
        if words > MAX_PAST_WORDS {
            return send(conn, &too_many(words));
        }
        let board = self.wall.look();
        let viewer = Viewer::new(&board.policy, uid);
        let fits = Fits { again: true, ..fits(&ask.select, viewer.seen_use(tells_of_jobs(ask))) };
        let by: Vec<By> = ask.by.iter().map(|by| of_letter(*by)).collect();
        match self.with_history(|history| history.sums(&fits, &by, &ask.periods)) {
            Ok(Some(sums)) => {
                let views: Vec<UsageView> = sums.into_iter().map(|sums| view(sums, &board.policy)).collect();
                self.send_sums(conn, &by, views, |sums, more| Reply::Usage { sums, more })
            }
            Ok(None) => send(conn, &too_fine()),
            Err(error) => send(conn, &failed(&error)),
        }
    }

    /// How runs waited. That is told of jobs.
    pub(crate) fn waits(&self, conn: &Conn, uid: Uid, ask: &UsageAsk) -> Result<(), IpcError> {
        let words = ask.select.words() + ask.periods.len() + ask.by.len();
        if words > MAX_PAST_WORDS {
            return send(conn, &too_many(words));
        }
        let board = self.wall.look();
        let viewer = Viewer::new(&board.policy, uid);
        let fits = Fits { again: true, ..fits(&ask.select, viewer.seen_use(true)) };
        let by: Vec<By> = ask.by.iter().map(|by| of_letter(*by)).collect();
        let bounds = WAIT_BOUNDS.map(|seconds| seconds * 1_000_000);
        match self.with_history(|history| history.waits(&fits, (&by, &ask.periods), &bounds)) {
            Ok(Some(waits)) => {
                let views = waits.into_iter().map(|one| WaitsView {
                    keys: one.keys,
                    wait: spread(&one.wait),
                    late: spread(&one.late),
                    release: spread(&one.release),
                });
                self.send_sums(conn, &by, views.collect(), |waits, more| Reply::Waits { waits, more })
            }
            Ok(None) => send(conn, &too_fine()),
            Err(error) => send(conn, &failed(&error)),
        }
    }

    /// Sends sums in parts, users by their names.
    fn send_sums<T: Keyed>(
        &self,
        conn: &Conn,
        by: &[By],
        mut views: Vec<T>,
        reply: impl Fn(Vec<T>, bool) -> Reply,
    ) -> Result<(), IpcError> {
        for view in &mut views {
            for (by, key) in by.iter().zip(view.keys()) {
                if let (By::User, Some(uid)) = (by, key) {
                    *uid = uid.parse().map_or_else(|_| uid.clone(), |uid| self.intake.name_of(Uid(uid)));
                }
            }
        }
        loop {
            let rest = views.split_off(views.len().min(SUMS_CHUNK));
            let more = !rest.is_empty();
            send(conn, &reply(std::mem::replace(&mut views, rest), more))?;
            if !more {
                return Ok(());
            }
        }
    }
}

/// What has something in common.
trait Keyed {
    fn keys(&mut self) -> &mut [Option<String>];
}
impl Keyed for UsageView {
    fn keys(&mut self) -> &mut [Option<String>] {
        &mut self.keys
    }
}
impl Keyed for WaitsView {
    fn keys(&mut self) -> &mut [Option<String>] {
        &mut self.keys
    }
}

fn spread(spread: &Spread) -> SpreadView {
    SpreadView {
        count: spread.count,
        mean: u64::try_from(spread.sum / u128::from(spread.count.max(1))).unwrap_or(u64::MAX),
        p50: spread.percentile(50),
        p90: spread.percentile(90),
        p99: spread.percentile(99),
        max: spread.most,
        counts: spread.counts.clone(),
    }
}

fn too_fine() -> Reply {
    let text = format!("more than {MAX_SUMS} sums");
    let hint = Some("group by less, or take a shorter time".to_owned());
    Reply::Refused(gq_proto::Refusal { kind: RefusalKind::Usage, text, hint })
}

/// Whether sums tell more of jobs than whose they are: then they are kept from those who may not see jobs.
fn tells_of_jobs(ask: &UsageAsk) -> bool {
    let select = &ask.select;
    let narrowed = !(select.jobs.is_empty()
        && select.names.is_empty()
        && select.states.is_empty()
        && select.nodes.is_empty());
    narrowed || ask.by.iter().any(|by| matches!(by, UsageBy::Name | UsageBy::State | UsageBy::Node))
}

const fn of_letter(by: UsageBy) -> By {
    match by {
        UsageBy::User => By::User,
        UsageBy::Account => By::Account,
        UsageBy::Partition => By::Partition,
        UsageBy::Node => By::Node,
        UsageBy::State => By::State,
        UsageBy::Name => By::Name,
        UsageBy::Period => By::Period,
    }
}

fn fits(ask: &PastAsk, seen: Option<(Uid, Vec<String>)>) -> Fits {
    // A state that is no end is nothing's that has ended.
    let states = ask.states.iter().map(|state| state.name()).collect();
    Fits {
        from: ask.from,
        until: ask.until,
        again: ask.again,
        jobs: ask.jobs.clone(),
        users: ask.users.clone(),
        accounts: ask.accounts.clone(),
        partitions: ask.partitions.clone(),
        nodes: ask.nodes.clone(),
        states,
        names: ask.names.clone(),
        seen,
    }
}

/// Sums as they are told, in whole seconds.
fn view(sums: Sums, policy: &Policy) -> UsageView {
    let seconds = |micros: u128| u64::try_from(micros / 1_000_000).unwrap_or(u64::MAX);
    UsageView {
        keys: sums.keys,
        runs: sums.runs,
        again: sums.again,
        cards: seconds(sums.cards),
        cpus: seconds(sums.cpus),
        memory: seconds(sums.memory),
        cards_measured: seconds(sums.cards_measured),
        cards_used: seconds(sums.cards_used),
        cpus_measured: seconds(sums.cpus_measured),
        cpus_used: seconds(sums.cpus_used),
        idle: sums.idle,
        reclaimed: sums.reclaimed,
        given_back: u64::try_from(sums.given_back).unwrap_or(u64::MAX),
        currency: policy.currency.clone().filter(|_| sums.cost.is_some()),
        cost: sums.cost.map(|cost| u64::try_from(cost).unwrap_or(u64::MAX)),
    }
}

fn too_many(words: usize) -> Reply {
    refused(RefusalKind::Usage, format!("{words} words in one question: {MAX_PAST_WORDS} at most"))
}

fn failed(error: &StoreError) -> Reply {
    refused(RefusalKind::Policy, error.to_string())
}
