//! The link to `gqd`, and the way over its socket: one thread that dials, reads, and dials again for ever. What letters
//! mean is not its business. The way over files is in `files`.

use crate::{event::Event, files::Outgoing};
use crossbeam_channel::{Sender, TrySendError, bounded};
use gq_ipc::{Conn, IpcError};
use gq_model::{Beat, ClusterId, NodeName, Seq, Uid};
use gq_proto::{
    ASK_VERSION, Ask, Asked, CardNow, Head, LETTER_VERSION, Letters, MAX_FRAME, MAX_LIST_FRAME, OrderBody,
    Reply, Report,
};
use std::{io, path::PathBuf, time::Duration};
use thiserror::Error;

/// First and longest pause between two attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Pause after a refusal: nothing will change in a moment.
const REFUSED_PAUSE: Duration = Duration::from_secs(2);
/// How long `gqd` may take to answer a head, and to make room for a frame.
const HELLO: Duration = Duration::from_secs(30);
const WRITE: Duration = Duration::from_secs(5);

/// Whom this node speaks to, and as whom.
#[derive(Clone, Debug)]
pub struct Parties {
    /// The cluster.
    pub cluster: ClusterId,
    /// This node.
    pub node: NodeName,
    /// Users that `gqd` may run as.
    pub trusted: Vec<Uid>,
}

/// Why there is no link.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The socket does not work.
    #[error("{0}")]
    Ipc(#[from] IpcError),
    /// Somebody else listens there.
    #[error("{0}: somebody with uid {1} listens there, who is neither gqd's user nor root")]
    Stranger(PathBuf, Uid),
    /// What came cannot be understood.
    #[error("what came is no letter of gqd: {0}")]
    Malformed(#[from] serde_json::Error),
    /// It is another cluster, node, or version of letters.
    #[error("gqd speaks {what} {theirs}, and this node {ours}")]
    Differs {
        /// In what.
        what: &'static str,
        /// What `gqd` says.
        theirs: String,
        /// What this node says.
        ours: String,
    },
    /// It refuses this node.
    #[error("gqd refuses this node: {0}")]
    Refused(String),
    /// It gave another answer than a head.
    #[error("gqd gave no head for an answer")]
    NoHead,
    /// Letters pile up: the other side, or the spool, does not take them.
    #[error("letters are not taken fast enough")]
    Slow,
    /// `gqnode` is about to end.
    #[error("gqnode is stopping")]
    Stopping,
}

/// Where letters go out.
#[derive(Debug)]
pub enum Out {
    /// Over the socket.
    Socket(Conn),
    /// To the thread that writes files.
    Files(Sender<Outgoing>),
}

impl Out {
    /// Sends an acknowledgement and letters, what the cards do, if that is to be told, and over the socket a sign of life, if there is one.
    ///
    /// # Errors
    /// [`LinkError`]; close the link then: what was not acknowledged is sent again over the next one.
    pub fn send(
        &self,
        ack: Seq,
        beat: Beat,
        cards: Option<Vec<CardNow>>,
        letters: Vec<Report>,
    ) -> Result<(), LinkError> {
        match self {
            Self::Socket(conn) => send_frames(conn, Letters { ack, beat, cards, letters }),
            Self::Files(give) => give.try_send(Outgoing { ack, cards, letters }).map_err(|e| match e {
                TrySendError::Full(_) => LinkError::Slow,
                TrySendError::Disconnected(_) => LinkError::Stopping,
            }),
        }
    }

    /// Whether signs of life have to be sent; the thread that writes files gives its own.
    pub const fn wants_beats(&self) -> bool {
        matches!(self, Self::Socket(_))
    }

    /// Closes the link; its thread tries again after a while.
    pub fn close(self) {
        match self {
            Self::Socket(conn) => conn.shutdown(),
            // The thread sees that nobody holds the other end.
            Self::Files(_) => {}
        }
    }
}

/// Sends letters in one frame, or in as many as they need.
fn send_frames(conn: &Conn, letters: Letters<gq_proto::ReportBody>) -> Result<(), LinkError> {
    let bytes = serde_json::to_vec(&letters)?;
    let Letters { ack, beat, cards, letters: mut first } = letters;
    if bytes.len() <= MAX_FRAME || first.len() < 2 {
        return Ok(conn.send(&bytes)?);
    }
    let second = first.split_off(first.len() / 2);
    send_frames(conn, Letters { ack, beat, cards, letters: first })?;
    send_frames(conn, Letters { ack, beat, cards: None, letters: second })
}

impl Parties {
    /// Checks that a head is of the same cluster, node and version.
    ///
    /// # Errors
    /// [`LinkError::Differs`].
    pub fn check(&self, head: &Head) -> Result<(), LinkError> {
        let differs = |what, theirs: String, ours: String| Err(LinkError::Differs { what, theirs, ours });
        if head.version != LETTER_VERSION {
            return differs("letters of version", head.version.to_string(), LETTER_VERSION.to_string());
        }
        if head.cluster != self.cluster {
            return differs("for cluster", head.cluster.to_string(), self.cluster.to_string());
        }
        if head.node != self.node {
            return differs("to the node", head.node.to_string(), self.node.to_string());
        }
        Ok(())
    }
}

/// Says what is wrong with the link once, and not again until it is something else.
#[derive(Debug, Default)]
pub struct Complaints {
    last: String,
}

impl Complaints {
    /// Logs `error` unless it was the last thing said.
    pub fn say(&mut self, error: &impl std::fmt::Display) {
        let words = error.to_string();
        if words != self.last {
            log::warn!("no link to gqd: {words}; jobs go on, and it is tried again");
            self.last = words;
        }
    }

    /// Whether nothing was wrong since the link was up.
    pub fn is_clear(&self) -> bool {
        self.last.is_empty()
    }

    /// The link is up.
    pub fn clear(&mut self) {
        self.last.clear();
    }
}

/// Asks the deciding thread what to say of this node.
///
/// # Errors
/// [`LinkError::Stopping`].
pub fn want_head(events: &Sender<Event>) -> Result<Head, LinkError> {
    let (give, take) = bounded(1);
    events.send(Event::HeadWanted(give)).map_err(|_| LinkError::Stopping)?;
    take.recv().map_err(|_| LinkError::Stopping)
}

/// Starts the thread that keeps the link over the socket `sock`.
///
/// # Errors
/// When there are no threads left.
pub fn start(sock: PathBuf, parties: Parties, events: Sender<Event>) -> io::Result<()> {
    let dialler = Dialler { sock, parties, events, number: 0, complaints: Complaints::default() };
    std::thread::Builder::new().name("link".to_owned()).spawn(move || dialler.dial_for_ever())?;
    Ok(())
}

struct Dialler {
    sock: PathBuf,
    parties: Parties,
    events: Sender<Event>,
    number: u64,
    complaints: Complaints,
}

impl Dialler {
    fn dial_for_ever(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let told = match self.dial() {
                Ok(conn) => {
                    // A connection that is closed at once is no better than none.
                    let begun = std::time::Instant::now();
                    let end = self.read(&conn);
                    conn.shutdown();
                    if begun.elapsed() > LONGEST_PAUSE {
                        pause = FIRST_PAUSE;
                        self.complaints.clear();
                    }
                    match end {
                        Ok(()) => log::info!("gqd closed the link; jobs go on"),
                        Err(LinkError::Stopping) => return,
                        Err(e) => self.complaints.say(&e),
                    }
                    self.events.send(Event::Unlinked(self.number))
                }
                Err(LinkError::Stopping) => return,
                Err(e) => {
                    let refused = matches!(
                        e,
                        LinkError::Refused(_) | LinkError::Differs { .. } | LinkError::Stranger(..)
                    );
                    if refused {
                        pause = REFUSED_PAUSE;
                    }
                    self.complaints.say(&e);
                    self.events.send(Event::NotLinked)
                }
            };
            if told.is_err() {
                return;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Connects and exchanges heads.
    fn dial(&mut self) -> Result<Conn, LinkError> {
        let conn = Conn::connect(&self.sock)?;
        let peer = conn.peer()?.uid;
        if !self.parties.trusted.contains(&peer) {
            return Err(LinkError::Stranger(self.sock.clone(), peer));
        }
        conn.set_timeouts(Some(HELLO), Some(WRITE))?;
        let ask = Ask::Node(want_head(&self.events)?);
        conn.send(&serde_json::to_vec(&Asked { v: ASK_VERSION, ask })?)?;
        let answer = conn.recv(MAX_LIST_FRAME)?.ok_or(IpcError::Closed)?;
        let head = match serde_json::from_slice(&answer)? {
            Reply::Node(head) => head,
            Reply::Refused(refusal) => {
                let hint = refusal.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
                return Err(LinkError::Refused(format!("{}{hint}", refusal.text)));
            }
            _ => return Err(LinkError::NoHead),
        };
        self.parties.check(&head)?;
        conn.set_timeouts(None, Some(WRITE))?;
        self.number += 1;
        let linked = Event::Linked(self.number, Out::Socket(conn.try_clone()?), head);
        self.events.send(linked).map_err(|_| LinkError::Stopping)?;
        Ok(conn)
    }

    /// Hands in letters until the connection ends.
    fn read(&self, conn: &Conn) -> Result<(), LinkError> {
        loop {
            let frame = match conn.recv(MAX_LIST_FRAME) {
                Ok(Some(frame)) => frame,
                Ok(None) | Err(IpcError::Closed) => return Ok(()),
                Err(e) => return Err(e.into()),
            };
            let letters: Letters<OrderBody> = serde_json::from_slice(&frame)?;
            let event = Event::Letters(self.number, Some((letters.ack, letters.beat)), letters.letters);
            self.events.send(event).map_err(|_| LinkError::Stopping)?;
        }
    }
}
