//! The link to `gqd` over files in the spool: the same letters, a file each, and `HEAD`. It has a thread of its own, so
//! that a file system that hangs holds up nothing but letters.

use crate::{
    event::Event,
    heads::boot_millis,
    link::{Complaints, LinkError, Out, Parties, want_head},
};
use crossbeam_channel::{Receiver, Sender, bounded, select};
use gq_model::{Epoch, NodeName, Seconds, Seq, Uid};
use gq_proto::{CardNow, Head, Order, Reading, Report, SealError, seal, unseal};
use gq_spool::{LetterKind, LetterReader, LetterWriter, SpoolError, Watch, watch};
use std::{
    io,
    path::PathBuf,
    time::{Duration, Instant},
};
use thiserror::Error;

/// Most messages that wait to be written.
const MAX_WAITING: usize = 256;
/// Most orders read in one go.
const MAX_ORDERS: usize = 256;
/// How often the folder is looked at, whatever was nudged.
const LOOK: Duration = Duration::from_secs(1);
/// First and longest pause before the folders are opened anew after a failure.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(16);
/// An order that is announced and not seen for so long is complained of. It is never skipped.
const MISSING: Duration = Duration::from_secs(60);

/// Something to write.
#[derive(Debug)]
pub struct Outgoing {
    /// Every order up to this number has been taken.
    pub ack: Seq,
    /// What the cards do, when that is to be told: with the next `HEAD`, for which nothing is written by itself.
    pub cards: Option<Vec<CardNow>>,
    /// Letters, in order.
    pub letters: Vec<Report>,
}

/// Why the folders cannot be used at present.
#[derive(Debug, Error)]
enum FilesError {
    #[error("{0}")]
    Spool(#[from] SpoolError),
    #[error("{0}")]
    Link(#[from] LinkError),
    #[error("a letter cannot be written: {0}")]
    Seal(#[from] SealError),
    /// Two nodes have one name.
    #[error(
        "another gqnode writes letters as node {node} (life {epoch}{boot}): two nodes have one name; start this one with another (gqnode --name)"
    )]
    Twin {
        /// The name.
        node: NodeName,
        /// The other one's life.
        epoch: Epoch,
        /// Its boot, in words.
        boot: String,
    },
    /// The controller listens to another node of this name.
    #[error(
        "gqd listens to another node of this name: one name is one node; start this one with another (gqnode --name), or stop that one"
    )]
    NotListened,
    /// The deciding thread does not listen to this controller, or this thread was too slow.
    #[error("this node closed it")]
    Closed,
}

/// Starts the thread.
///
/// # Errors
/// When there are no threads left.
pub fn start(conf: &gq_conf::Cluster, gqd: Uid, parties: Parties, events: Sender<Event>) -> io::Result<()> {
    let span = |Seconds(seconds)| Duration::from_secs(seconds);
    let mailbox = Mailbox {
        spool_dir: conf.spool_dir.clone(),
        beat: span(conf.beat),
        window: span(conf.suspect_after),
        gqd,
        parties,
        events,
        number: 0,
        is_new: true,
        written: Seq(0),
    };
    std::thread::Builder::new().name("letters".to_owned()).spawn(move || mailbox.serve_for_ever())?;
    Ok(())
}

struct Mailbox {
    spool_dir: PathBuf,
    /// How often `HEAD` is written when nothing else changes it.
    beat: Duration,
    /// Whoever wrote here before and has not for so long is gone.
    window: Duration,
    gqd: Uid,
    parties: Parties,
    events: Sender<Event>,
    number: u64,
    /// Whether nothing of this life was written yet.
    is_new: bool,
    /// The highest letter of this life that was written.
    written: Seq,
}

/// What is known while the folders are open.
struct Session {
    writer: LetterWriter,
    reader: LetterReader,
    /// Reads what stands where this node writes.
    mirror: LetterReader,
    own: Head,
    /// The life of the controller that wrote the last `HEAD`, and the last that was handed in.
    life: Option<Epoch>,
    theirs: Option<Head>,
    reading: Reading,
    beaten: Instant,
    missing: Option<Instant>,
}

impl Mailbox {
    fn serve_for_ever(mut self) {
        let mut complaints = Complaints::default();
        let mut pause = FIRST_PAUSE;
        loop {
            let begun = Instant::now();
            let end = self.serve(&mut complaints);
            if begun.elapsed() > LONGEST_PAUSE {
                pause = FIRST_PAUSE;
            }
            let told = match end {
                Err(FilesError::Link(LinkError::Stopping)) | Ok(()) => return,
                Err(e) => {
                    complaints.say(&e);
                    self.events.send(Event::Unlinked(self.number)).and(self.events.send(Event::NotLinked))
                }
            };
            if told.is_err() {
                return;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn serve(&mut self, complaints: &mut Complaints) -> Result<(), FilesError> {
        let folder = |kind: LetterKind| kind.folder(&self.spool_dir, &self.parties.node);
        let (out, inbox) = (folder(LetterKind::Report), folder(LetterKind::Order));
        let own_uid = Uid(nix::unistd::Uid::effective().as_raw());
        let mut mirror = LetterReader::open(&out, LetterKind::Report, own_uid);
        self.claim(&mut mirror, complaints)?;
        let mut writer = LetterWriter::open(&out, LetterKind::Report)?;
        if self.is_new {
            // Letters of an earlier life: what still matters of them is reported anew.
            writer.forget_up_to(Seq(u64::MAX))?;
            self.is_new = false;
        }
        let own = Head { highest: self.written, ..want_head(&self.events)? };
        let mut session = Session {
            writer,
            reader: LetterReader::open(&inbox, LetterKind::Order, self.gqd),
            mirror,
            reading: Reading::after(own.ack),
            own,
            life: None,
            theirs: None,
            beaten: Instant::now(),
            missing: None,
        };
        session.put_head()?;
        let nudged = watch(&inbox, &["HEAD"]);
        let answer = self.wait_for_answer(&mut session, &nudged, complaints)?;
        self.number += 1;
        let (give, letters) = bounded(MAX_WAITING);
        self.tell(Event::Linked(self.number, Out::Files(give), answer))?;
        loop {
            self.look(&mut session, complaints)?;
            select! {
                recv(letters) -> first => {
                    let first = first.map_err(|_| FilesError::Closed)?;
                    self.write(&mut session, first, &letters)?;
                }
                recv(nudged.nudges()) -> _ => {}
                default(LOOK) => {}
            }
            session.beat(self.beat)?;
        }
    }

    /// Waits until the controller says that it listens to this life: only then is it known whether the log tells of all that was done, and
    /// whoever is not listened to has nothing to say. Its head tells of the last life before.
    fn wait_for_answer(
        &self,
        session: &mut Session,
        nudged: &Watch,
        complaints: &mut Complaints,
    ) -> Result<Head, FilesError> {
        self.tell(Event::NotLinked)?;
        loop {
            if let Some(head) = self.hear(session, complaints)?
                && session.is_answered_by(&head)
            {
                return Ok(Head { ack_epoch: head.past, ..head });
            }
            // Nobody nudges: it is looked again all the same.
            let _ = nudged.nudges().recv_timeout(LOOK);
            session.beat(self.beat)?;
        }
    }

    /// Waits until nobody else writes here, and nobody's letters are touched that may be wanted. What this node wrote in this boot is of a
    /// life that is over: two of them cannot hold its log. Whoever else wrote here is gone, or gives a sign of life.
    fn claim(&self, mirror: &mut LetterReader, complaints: &Complaints) -> Result<(), FilesError> {
        let own = want_head(&self.events)?;
        let mut watched: Option<(Head, Instant)> = None;
        loop {
            let Some(head) = mirror.head()?.and_then(|bytes| whole::<Head>(&bytes, "HEAD")) else {
                return Ok(());
            };
            if is_of(&head, &own) {
                return Ok(());
            }
            match &watched {
                None => {
                    if complaints.is_clear() {
                        log::info!(
                            "life {} of another node has written letters by this name: waiting for {} s whether it still does",
                            head.epoch,
                            self.window.as_secs()
                        );
                    }
                    self.tell(Event::NotLinked)?;
                    watched = Some((head, Instant::now()));
                }
                Some((seen, _)) if *seen != head => return Err(twin(head)),
                Some((_, since)) if since.elapsed() >= self.window => return Ok(()),
                Some(_) => {}
            }
            std::thread::sleep(LOOK);
        }
    }

    fn tell(&self, event: Event) -> Result<(), FilesError> {
        Ok(self.events.send(event).map_err(|_| LinkError::Stopping)?)
    }

    /// Writes all that waits, and `HEAD` once.
    fn write(
        &mut self,
        session: &mut Session,
        first: Outgoing,
        more: &Receiver<Outgoing>,
    ) -> Result<(), FilesError> {
        let mut is_owed = false;
        for Outgoing { ack, cards, letters } in
            std::iter::once(first).chain(more.try_iter().take(MAX_WAITING))
        {
            is_owed |= ack > session.own.ack || !letters.is_empty();
            session.own.cards = cards.or(session.own.cards.take());
            for letter in letters {
                session.writer.write(letter.seq, &seal(&letter)?)?;
                self.written = self.written.max(letter.seq);
            }
            session.own.ack = session.own.ack.max(ack);
        }
        session.own.highest = self.written;
        if is_owed { session.put_head() } else { Ok(()) }
    }

    /// Reads the controller's `HEAD`; none when it is not meant for this node.
    fn hear(&self, session: &mut Session, complaints: &mut Complaints) -> Result<Option<Head>, FilesError> {
        let Some(head) = session.reader.head()?.and_then(|bytes| whole::<Head>(&bytes, "HEAD")) else {
            return Ok(None);
        };
        if let Err(e) = self.parties.check(&head) {
            complaints.say(&e);
            return Ok(None);
        }
        // A new life of gqd wants a sign of life before it believes what stands here.
        if session.life.replace(head.epoch) != Some(head.epoch) {
            session.put_head()?;
        }
        if head.node_id.is_some() && head.node_id != session.own.node_id {
            complaints.say(&FilesError::NotListened);
            return Ok(None);
        }
        if let Some(why) = head.refusal {
            complaints.say(&LinkError::Refused(why));
            return Ok(None);
        }
        if session.is_answered_by(&head) {
            complaints.clear();
        }
        Ok(Some(head))
    }

    /// Reads `HEAD` and the orders that it announces. Orders that stand there by a `HEAD` that is meant for another life are not obeyed:
    /// somebody may have put both back.
    fn look(&self, session: &mut Session, complaints: &mut Complaints) -> Result<(), FilesError> {
        let Some(head) = self.hear(session, complaints)? else { return Ok(()) };
        if session.theirs.as_ref() != Some(&head) {
            if head.ack_epoch == session.own.epoch {
                session.writer.forget_up_to(head.ack)?;
                session.own.lowest = session.own.lowest.max(Seq(head.ack.0.saturating_add(1)));
            }
            session.own.ack_epoch = session.own.ack_epoch.max(head.epoch);
            session.theirs = Some(head.clone());
            self.tell(Event::Head(self.number, head.clone()))?;
        }
        if !session.is_answered_by(&head) {
            return Ok(());
        }
        let orders = session.orders(&head)?;
        if orders.is_empty() { Ok(()) } else { self.tell(Event::Letters(self.number, None, orders)) }
    }
}

impl Session {
    /// Whether a head of the controller says that it listens to this life.
    fn is_answered_by(&self, head: &Head) -> bool {
        head.node_id == self.own.node_id && head.ack_epoch == self.own.epoch
    }

    /// Writes `HEAD` anew when that is due.
    fn beat(&mut self, pause: Duration) -> Result<(), FilesError> {
        if self.beaten.elapsed() >= pause {
            self.look_behind()?;
            self.put_head()?;
        }
        Ok(())
    }

    /// Sees that what stands here is what this life wrote: whoever was stopped for long may have been taken for gone.
    fn look_behind(&mut self) -> Result<(), FilesError> {
        match self.mirror.head()?.and_then(|bytes| whole::<Head>(&bytes, "HEAD")) {
            Some(head) if !is_of(&head, &self.own) => Err(twin(head)),
            Some(_) | None => Ok(()),
        }
    }

    fn put_head(&mut self) -> Result<(), FilesError> {
        self.own.beat = boot_millis().max(self.own.beat.saturating_add(1));
        self.writer.put_head(&seal(&self.own)?)?;
        self.beaten = Instant::now();
        Ok(())
    }

    /// Reads the next orders that `head` announces, as far as they can be seen yet.
    fn orders(&mut self, head: &Head) -> Result<Vec<Order>, FilesError> {
        let Self { reading, reader, missing, .. } = self;
        let look = reading.look(head, MAX_ORDERS, |seq| {
            let bytes = reader.read(seq)?;
            Ok::<_, FilesError>(bytes.and_then(|bytes| whole::<Order>(&bytes, "an order")))
        })?;
        let Some(first) = look.missing else {
            *missing = None;
            return Ok(look.letters);
        };
        if !look.letters.is_empty() {
            *missing = None;
        }
        let since = *missing.get_or_insert_with(Instant::now);
        if since.elapsed() >= MISSING {
            log::error!(
                "order {first} is announced and cannot be read for {} s: does the spool's file system work?",
                since.elapsed().as_secs()
            );
            *missing = None;
        }
        Ok(look.letters)
    }
}

/// Whether a head is of the same node in the same boot.
fn is_of(head: &Head, own: &Head) -> bool {
    head.node_id == own.node_id && head.boot == own.boot
}

fn twin(head: Head) -> FilesError {
    FilesError::Twin { boot: boot_of(&head), node: head.node, epoch: head.epoch }
}

/// The boot of a head in words.
fn boot_of(head: &Head) -> String {
    head.boot.map(|boot| format!(", boot {boot}")).unwrap_or_default()
}

/// Unseals a line; none when it is not whole yet, or not what it should be, which is said.
fn whole<T: serde::de::DeserializeOwned>(bytes: &[u8], what: &str) -> Option<T> {
    match unseal(bytes) {
        Ok(value) => Some(value),
        Err(SealError::Torn) => None,
        Err(e) => {
            log::error!("{what} of gqd cannot be understood: {e}; is it of another version?");
            None
        }
    }
}
