//! The door: takes connections, knows who is on the other side, answers what is known at once (see `listing`), and hands the rest to the hub.
//! Everything is bounded before it is parsed: connections in total and for each user, frames, time without a word.

use crate::{
    board::{Board, Wall},
    convert,
    forecast::Forecaster,
    gate::Gate,
    guests::{Guest, Guests},
    hub::{Wish, Word},
    intake::Intake,
    messages::Counts,
    meters::Meters,
    metrics,
    post::{Bundle, LinkId, MAX_WAITING},
    refusals::Refusals,
    snapshot::Snapshots,
    standing::Standings,
    view,
    viewer::Viewer,
};
use crossbeam_channel::{Receiver, Sender, bounded};
use gq_cluster::Role;
use gq_engine::{Actor, ClientId, NodeVerb, Verb};
use gq_failpoint::{Step, step};
use gq_ipc::{Conn, IpcError, Listener};
use gq_model::{Epoch, NodeName, Uid};
use gq_proto::{
    ASK_VERSION, Ask, Asked, ClusterView, Head, Letters, MAX_FRAME, MAX_LIST_FRAME, Refusal, RefusalKind,
    Reply, ReportBody,
};
use gq_spool::drop_name;
use gq_store::{History, Room, StoreError};
use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How long nobody is let in when the system refuses a connection.
const BREATH: Duration = Duration::from_millis(50);
/// How long a client may say nothing, or not take an answer.
pub(crate) const SILENCE: Duration = Duration::from_secs(30);
/// How long a client may take to say what it has begun to say.
const SAYING: Duration = Duration::from_secs(5);
/// Longest frame that is read and understood whoever else asks, in bytes; it is many times as large then.
const SMALL_FRAME: usize = 16 << 10;
/// Most threads that wait for a connection.
const MAX_GREETERS: usize = 8;
/// Stack of a connection's thread.
const STACK: usize = 256 << 10;

/// What every connection's thread needs.
pub(crate) struct Door {
    pub(crate) wall: Wall,
    pub(crate) words: Sender<Word>,
    pub(crate) intake: Arc<Intake>,
    pub(crate) database: PathBuf,
    pub(crate) own: Uid,
    pub(crate) next: AtomicU64,
    pub(crate) readers: Mutex<Vec<History>>,
    pub(crate) guests: Guests,
    /// Before listings and large frames.
    pub(crate) gate: Gate,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) standings: Standings,
    pub(crate) forecaster: Forecaster,
    pub(crate) meters: Arc<Meters>,
    /// Threads that wait for a connection.
    pub(crate) greeters: AtomicUsize,
    /// What was logged of refusals.
    pub(crate) refusals: Refusals,
    /// Messages and notices that were dropped.
    pub(crate) dropped: Arc<Counts>,
}

/// Opens the door: from now on connections are taken, for ever.
pub(crate) fn open(door: &Arc<Door>, listener: Listener) -> std::io::Result<()> {
    greet(door, &Arc::new(listener))
}

/// Starts one more thread that waits at the door. Whoever takes a connection leaves one behind to wait, so that no connection waits for a
/// thread to be made; more than a few do not wait.
fn greet(door: &Arc<Door>, listener: &Arc<Listener>) -> std::io::Result<()> {
    door.greeters.fetch_add(1, Ordering::AcqRel);
    let (at, listener) = (Arc::clone(door), Arc::clone(listener));
    let waits = move || {
        let mut refusing = false;
        loop {
            let conn = match listener.accept() {
                Ok(conn) => conn,
                Err(error) => {
                    // No file descriptors left, most likely: those who are inside must leave first. Whoever waits goes on
                    // waiting; a successor would fare no better.
                    if !std::mem::replace(&mut refusing, true) {
                        log::warn!("connections are not taken: {error}");
                    }
                    thread::sleep(BREATH);
                    continue;
                }
            };
            refusing = false;
            if at.greeters.fetch_sub(1, Ordering::AcqRel) == 1
                && let Err(error) = greet(&at, &listener)
            {
                // This thread must wait on, or nobody would.
                log::warn!("a connection is closed, there is no thread for it: {error}");
                at.greeters.fetch_add(1, Ordering::AcqRel);
                thread::sleep(BREATH);
                continue;
            }
            receive(&at, conn);
            if at.greeters.fetch_add(1, Ordering::AcqRel) >= MAX_GREETERS {
                at.greeters.fetch_sub(1, Ordering::AcqRel);
                return;
            }
        }
    };
    let spawned = thread::Builder::new().name("client".into()).stack_size(STACK).spawn(waits);
    if spawned.is_err() {
        door.greeters.fetch_sub(1, Ordering::AcqRel);
    }
    spawned.map(drop)
}

fn receive(door: &Arc<Door>, mut conn: Conn) {
    let Ok(peer) = conn.peer() else { return };
    conn.set_frame_times(Some(SAYING), Some(SILENCE));
    let conn = Arc::new(conn);
    let Some(guest) = door.guests.enter(&conn, peer.uid) else {
        let (all, each) = (door.guests.room, door.guests.most_of_one());
        let text = format!("too many connections (at most {each} for a user, {all} in all)");
        if let Ok(mut conn) = conn.try_clone() {
            conn.set_frame_times(None, Some(Duration::from_millis(100)));
            let _ = send(&conn, &refused(RefusalKind::Unreachable, text));
        }
        return;
    };
    if let Err(error) = door.attend(&conn, &guest) {
        log::debug!("uid {}: {error}", guest.uid);
    }
}

pub(crate) fn refused(kind: RefusalKind, text: impl Into<String>) -> Reply {
    Reply::Refused(Refusal { kind, text: text.into(), hint: None })
}

pub(crate) fn send(conn: &Conn, reply: &Reply) -> Result<(), IpcError> {
    match serde_json::to_vec(reply) {
        Ok(bytes) => conn.send(&bytes),
        Err(error) => {
            log::error!("an answer cannot be written: {error}");
            Err(IpcError::Closed)
        }
    }
}

impl Door {
    fn attend(self: &Arc<Self>, conn: &Conn, guest: &Guest<'_>) -> Result<(), IpcError> {
        let uid = guest.uid;
        conn.set_timeouts(Some(SILENCE), Some(SILENCE))?;
        loop {
            guest.waits(true);
            let mut place = None;
            let enter = |len| place = (len > SMALL_FRAME).then(|| self.gate.enter(uid));
            let Some(frame) = conn.recv_when(MAX_FRAME, enter)? else { return Ok(()) };
            guest.waits(false);
            let asked: Asked = match serde_json::from_slice(&frame) {
                Ok(asked) => asked,
                Err(error) => {
                    return send(conn, &refused(RefusalKind::Usage, format!("not understood: {error}")));
                }
            };
            drop(frame);
            if asked.v != ASK_VERSION {
                let text = format!("this gqd speaks version {ASK_VERSION}, the client version {}", asked.v);
                return send(conn, &refused(RefusalKind::Usage, text));
            }
            let verb = asked.ask.verb();
            if place.is_none() && is_listing(&asked.ask) {
                place = Some(self.gate.enter(uid));
            }
            match asked.ask {
                Ask::Node(head) => return self.node(conn, uid, head),
                Ask::List(list) => self.list(conn, uid, &list)?,
                Ask::Priorities { select } => self.priorities(conn, uid, &select)?,
                Ask::Shares => self.shares(conn, uid)?,
                Ask::Budgets => self.budgets(conn, uid)?,
                Ask::Past(select) => self.list_runs(conn, uid, &select)?,
                Ask::Usage(usage) => self.usage(conn, uid, &usage)?,
                Ask::Waits(usage) => self.waits(conn, uid, &usage)?,
                Ask::Wait { job, progress, hopeless } => {
                    drop(place);
                    guest.waits(true);
                    self.wait(conn, uid, job, (progress, hopeless))?;
                }
                Ask::Shutdown => self.shut_down(conn, uid)?,
                ask @ (Ask::Ping | Ask::Nodes | Ask::Partitions | Ask::Reservations | Ask::Metrics) => {
                    send(conn, &self.answer(uid, ask))?;
                }
                ask => {
                    let reply = self.answer(uid, ask);
                    self.note(&self.wall.look(), uid, verb, &reply);
                    step(Step::TurnAnswer, || send(conn, &reply))?;
                }
            }
        }
    }

    fn answer(&self, uid: Uid, ask: Ask) -> Reply {
        let board = self.wall.look();
        let wish = match ask {
            Ask::Ping => return Reply::Pong(self.pong(&board)),
            Ask::Nodes => {
                let viewer = Viewer::new(&board.policy, uid);
                return Reply::Nodes(
                    board.nodes.iter().map(|node| view::node(&board, &viewer, node)).collect(),
                );
            }
            Ask::Partitions => return Reply::Partitions(view::partitions(&board)),
            Ask::Metrics => {
                let room = Room::around(&self.database);
                return match metrics::text(&board, &self.meters, &room, gq_daemon::now()) {
                    Ok(text) => Reply::Metrics { text },
                    Err(error) => refused(RefusalKind::Policy, format!("no metrics: {error}")),
                };
            }
            Ask::Reservations => {
                let viewer = Viewer::new(&board.policy, uid);
                let views = view::reservations(&board, &viewer, |uid| self.intake.name_of(uid));
                return Reply::Reservations(views);
            }
            Ask::Submit { token } => {
                if let Some(why) = board.takes_none() {
                    let hint = match board.degraded {
                        Some(_) => {
                            "the disk of gqd's state is full or read-only; it goes on by itself when there is room"
                        }
                        None => "an admin must put the spool in order",
                    };
                    let (kind, text) = (RefusalKind::Policy, format!("no new jobs are taken: {why}"));
                    return Reply::Refused(Refusal { kind, text, hint: Some(hint.into()) });
                }
                let taken = self
                    .intake
                    .take(&drop_name(token, false), token, Some(uid), |uid| board.policy.role(uid));
                match taken {
                    Ok(submission) => Wish::Submit(Box::new(submission)),
                    Err(not_taken) => return self.submitted_before(uid, token, not_taken.refusal()),
                }
            }
            Ask::TestOnly { spec } => match self.intake.consider(uid, board.policy.is_admin(uid), *spec) {
                Ok(spec) => Wish::TestOnly(Box::new(spec)),
                Err(refusal) => return Reply::Refused(refusal),
            },
            Ask::Cancel { select, signal, to } => {
                Wish::Do(signal.map_or(Verb::Cancel, |signal| Verb::Signal(signal, to)), select)
            }
            Ask::Hold { select } => Wish::Do(Verb::Hold, select),
            Ask::Release { select } => Wish::Do(Verb::Release, select),
            Ask::Requeue { select, hold } => Wish::Do(Verb::Requeue { hold }, select),
            Ask::Suspend { select } => Wish::Do(Verb::Suspend, select),
            Ask::Continue { select } => Wish::Do(Verb::Continue, select),
            Ask::Update { select, changes } => Wish::Do(Verb::Update(changes), select),
            Ask::Drain { nodes, reason } => Wish::Nodes(NodeVerb::Drain(reason), nodes),
            Ask::Resume { nodes } => Wish::Nodes(NodeVerb::Resume, nodes),
            Ask::Fence { nodes } => Wish::Nodes(NodeVerb::Fence, nodes),
            Ask::Forget { nodes } => Wish::Nodes(NodeVerb::Forget, nodes),
            Ask::Reserve(ask) => {
                let (replace, ignore_jobs) = (ask.replace, ask.ignore_jobs);
                Wish::Book { booking: Box::new(convert::booking(ask)), replace, ignore_jobs }
            }
            Ask::Unreserve { name } => Wish::Unbook(name),
            Ask::Reload => Wish::Reload,
            Ask::JobFile { job } => return self.job_file(&board, uid, job),
            Ask::List(_)
            | Ask::Priorities { .. }
            | Ask::Shares
            | Ask::Budgets
            | Ask::Past(_)
            | Ask::Usage(_)
            | Ask::Waits(_)
            | Ask::Wait { .. }
            | Ask::Node(_)
            | Ask::Shutdown => {
                return refused(RefusalKind::Usage, "not here");
            }
        };
        match self.tell(uid, board.policy.role(uid), wish) {
            Some(replies) => replies.recv().unwrap_or_else(|_| going_away()),
            None => going_away(),
        }
    }

    /// Answers first and then has the hub stop: no answer would leave a process that is ending.
    fn shut_down(&self, conn: &Conn, uid: Uid) -> Result<(), IpcError> {
        let board = self.wall.look();
        if !board.policy.is_admin(uid) {
            let reply = refused(RefusalKind::NotPermitted, "only admins may do this");
            self.note(&board, uid, Ask::Shutdown.verb(), &reply);
            return send(conn, &reply);
        }
        let sent = send(conn, &Reply::Done { count: 1, failures: Vec::new() });
        if self.words.send(Word::Stop).is_err() {
            log::debug!("gqd is stopping already");
        }
        sent
    }

    /// A token whose file is no longer in the drop box may be a job already, or become one just now: its client asks a second time.
    fn submitted_before(&self, uid: Uid, token: gq_model::Token, refusal: Refusal) -> Reply {
        let look = || self.with_history(|history| history.token(token));
        let known = match look() {
            Ok(None) if self.turn_is_over() => look(),
            known => known,
        };
        match known {
            Ok(Some((job, owner))) if owner == uid => Reply::Submitted { job },
            _ => Reply::Refused(refusal),
        }
    }

    /// Waits until the turn that is under way is kept or undone; false when `gqd` is going away.
    fn turn_is_over(&self) -> bool {
        let (reply, replies) = bounded(1);
        self.words.send(Word::Settled { reply }).is_ok() && replies.recv().is_ok()
    }

    pub(crate) fn tell(&self, uid: Uid, role: Role, wish: Wish) -> Option<Receiver<Reply>> {
        let (reply, replies) = bounded(1);
        let client = ClientId(self.next.fetch_add(1, Ordering::Relaxed));
        let word = Word::Ask { client, by: Actor { uid, role }, wish, reply };
        self.words.send(word).ok()?;
        Some(replies)
    }

    fn pong(&self, board: &Board) -> ClusterView {
        ClusterView {
            name: board.policy.cluster.clone(),
            id: board.cluster_id,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            degraded: board.takes_none().cloned(),
            dropped: self.dropped.dropped(),
        }
    }

    pub(crate) fn with_history<T>(
        &self,
        ask: impl FnOnce(&History) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let free = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let history = match free {
            Some(history) => history,
            None => History::open(&self.database)?,
        };
        let answer = ask(&history);
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if answer.is_ok() && readers.len() < 8 {
            readers.push(history);
        }
        answer
    }

    /// A node's connection: this thread reads, another one writes.
    fn node(&self, conn: &Conn, uid: Uid, head: Head) -> Result<(), IpcError> {
        if uid != Uid(0) && uid != self.own {
            let text = format!("gqnode must be run by root or by gqd's own user; this is uid {uid}");
            let reply = refused(RefusalKind::NotPermitted, text);
            self.note(&self.wall.look(), uid, Ask::Node(head).verb(), &reply);
            return send(conn, &reply);
        }
        // A node that has no time to go on with what it says is still there.
        let mut link = conn.try_clone()?;
        link.set_frame_times(None, Some(SILENCE));
        let conn = &link;
        let (out, bundles) = bounded(MAX_WAITING);
        let (answer, welcome) = bounded(1);
        let (node, epoch) = (head.node.clone(), head.epoch);
        let number = LinkId(self.next.fetch_add(1, Ordering::Relaxed));
        if self.words.send(Word::NodeUp { head, link: number, out, answer }).is_err() {
            return send(conn, &going_away());
        }
        let ours = match welcome.recv() {
            Ok(Ok(ours)) => ours,
            Ok(Err(refusal)) => return send(conn, &Reply::Refused(refusal)),
            Err(_) => return send(conn, &going_away()),
        };
        let mut heard = Instant::now();
        let end = self.exchange(conn, (&node, epoch, number), ours, bundles, &mut heard);
        conn.shutdown();
        self.wall.look().pulse.forget(&node, number);
        // Whatever ended it, its end is told: nobody else is taken by this name before. A connection that is closed was there until now;
        // one in which nothing is said any more, until the last word.
        let since = if matches!(end, Err(IpcError::Timeout)) { heard } else { Instant::now() };
        let _ = self.words.send(Word::NodeDown { node: node.clone(), link: number, since });
        log::info!("{node}: the link is gone{}", end.err().map(|e| format!(": {e}")).unwrap_or_default());
        Ok(())
    }

    /// Exchanges letters over a link that was taken, until it ends.
    fn exchange(
        &self,
        conn: &Conn,
        (node, epoch, link): (&NodeName, Epoch, LinkId),
        ours: Head,
        bundles: Receiver<Bundle>,
        heard: &mut Instant,
    ) -> Result<(), IpcError> {
        send(conn, &Reply::Node(ours))?;
        let patience = Duration::from_secs(self.wall.look().policy.suspect_after.0);
        conn.set_timeouts(Some(patience), Some(SILENCE))?;
        let writer = conn.try_clone()?;
        thread::Builder::new()
            .name("orders".into())
            .stack_size(STACK)
            .spawn(move || write_orders(&writer, &bundles))
            .map_err(|source| IpcError::Io { what: "no thread".into(), source })?;
        self.read_reports(conn, (node, epoch, link), heard)
    }

    fn read_reports(
        &self,
        conn: &Conn,
        (node, epoch, link): (&NodeName, Epoch, LinkId),
        heard: &mut Instant,
    ) -> Result<(), IpcError> {
        let pulse = self.wall.look().pulse.clone();
        while let Some(frame) = conn.recv(MAX_LIST_FRAME)? {
            *heard = Instant::now();
            let letters: Letters<ReportBody> = match serde_json::from_slice(&frame) {
                Ok(letters) => letters,
                Err(error) => {
                    log::error!("{node}: letters that cannot be read: {error}");
                    return Ok(());
                }
            };
            if let Some(cards) = letters.cards {
                pulse.take(node, link, cards);
            }
            let reports = letters.letters.into_iter().map(|l| (l.seq, Box::new(convert::report(l.body))));
            let (node, ack, beat) = (node.clone(), letters.ack, letters.beat);
            let word = Word::NodeLetters { node, epoch, ack, beat, reports: reports.collect() };
            if self.words.send(word).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Whether the answer may be large, and take its reader long.
const fn is_listing(ask: &Ask) -> bool {
    matches!(
        ask,
        Ask::List(_)
            | Ask::Priorities { .. }
            | Ask::Shares
            | Ask::Budgets
            | Ask::Past(_)
            | Ask::Usage(_)
            | Ask::Waits(_)
            | Ask::Nodes
            | Ask::Partitions
            | Ask::Reservations
    )
}

pub(crate) fn going_away() -> Reply {
    refused(RefusalKind::Unreachable, "gqd is going away")
}

fn write_orders(conn: &Conn, bundles: &Receiver<Bundle>) {
    for bundle in bundles {
        let size = bundle.letters.iter().map(|(_, bytes)| bytes.len() + 1).sum::<usize>();
        let mut frame = Vec::with_capacity(size + 64);
        let said = format!("{{\"ack\":{},\"beat\":{},\"letters\":[", bundle.ack, bundle.seen);
        frame.extend_from_slice(said.as_bytes());
        for (n, (_, bytes)) in bundle.letters.iter().enumerate() {
            if n > 0 {
                frame.push(b',');
            }
            frame.extend_from_slice(bytes);
        }
        frame.extend_from_slice(b"]}");
        let sending = if bundle.letters.is_empty() { Step::ReportAck } else { Step::OrderSend };
        if step(sending, || conn.send(&frame)).is_err() {
            break;
        }
    }
    // Cut by the hub, or broken: the reader sees the end too.
    conn.shutdown();
}
