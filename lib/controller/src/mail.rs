//! The mail: the same letters as files, for nodes on other hosts. One thread does all of it, so that a spool that hangs stops nothing else.
//!
//! Found by listing `nodes/`, looked at every second; a nudge only makes it sooner. A node is judged by its signs of life on our own clock:
//! by how long it was looked at and gave none. What stands there when a life of ours begins is no sign: the node answers our first `HEAD`.

use crate::{
    board::Wall,
    convert,
    hub::Word,
    post::{Bundle, LinkId, MAX_WAITING, waiting},
};
use crossbeam_channel::{Receiver, Sender, bounded};
use gq_cluster::Node;
use gq_model::{Beat, ClusterId, Epoch, NodeName, Seq, Uid};
use gq_proto::{Head, LETTER_VERSION, MAX_REFUSAL, Reading, Report, seal, seal_json, unseal};
use gq_spool::{LetterKind, LetterReader, LetterWriter, Watch, watch};
use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// How often everything is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Parts of the time after which a node is suspect: our own `HEAD` is written once in one even when there is nothing to say; and of a pause
/// between two looks so much counts, since in a longer one it was we who did not look.
const PARTS: u32 = 3;
/// Most reports taken from one node at a time.
const MAX_AT_ONCE: usize = 256;
/// How long after a letter could not be read it is said aloud.
const ALARM: Duration = Duration::from_secs(60);

/// What the thread needs.
pub(crate) struct Mail {
    pub(crate) spool_dir: PathBuf,
    pub(crate) cluster: ClusterId,
    pub(crate) epoch: Epoch,
    /// Uids that a node's letters may come from: root's and our own.
    pub(crate) writer: Uid,
    pub(crate) wall: Wall,
    pub(crate) words: Sender<Word>,
    pub(crate) next_link: u64,
}

/// One node that writes files.
struct Correspondent {
    node: NodeName,
    reader: LetterReader,
    writer: Option<LetterWriter>,
    watch: Watch,
    /// Its `HEAD` as last seen of the node that is linked, or of any while none is.
    seen: Option<Head>,
    /// How long it was looked at since without a sign of life, and when it was looked at last.
    silence: Duration,
    looked: Instant,
    link: Option<(LinkId, Receiver<Bundle>)>,
    /// Why its last sign of life led to no link.
    refusal: Option<String>,
    /// Whether it gave a sign of life that our `HEAD` does not tell of yet.
    answer_due: bool,
    /// Whether it was said that another node writes by this name.
    has_twin: bool,
    /// How far its reports were handed on.
    reading: Reading,
    /// The last order number of ours that it has taken.
    its_ack: Seq,
    /// Its reports that are on disk, and of which life of it.
    ack_epoch: Epoch,
    ack: Seq,
    /// The last life of it that had been heard of when it was linked.
    past: Epoch,
    highest: Seq,
    lowest: Seq,
    beat: u64,
    beaten: Option<Instant>,
    stuck: Option<Instant>,
}

/// Exchanges letters for ever.
pub(crate) fn run(mut mail: Mail) {
    let mut nodes: BTreeMap<NodeName, Correspondent> = BTreeMap::new();
    let mut made = BTreeSet::new();
    loop {
        mail.find(&mut nodes, &mut made);
        for node in nodes.values_mut() {
            mail.look(node);
            mail.write(node);
        }
        wait(&nodes);
    }
}

/// Waits for a second, a nudge, or something to send. Without correspondents only a second.
fn wait(nodes: &BTreeMap<NodeName, Correspondent>) {
    if nodes.is_empty() {
        return std::thread::sleep(LOOK);
    }
    let mut any = crossbeam_channel::Select::new();
    for node in nodes.values() {
        any.recv(node.watch.nudges());
        if let Some((_, bundles)) = &node.link {
            any.recv(bundles);
        }
    }
    if any.ready_timeout(LOOK).is_ok() {
        for node in nodes.values() {
            let _ = node.watch.nudges().try_recv();
        }
    }
}

impl Mail {
    /// Makes a folder for every declared node, and takes up those that write there.
    fn find(&self, nodes: &mut BTreeMap<NodeName, Correspondent>, made: &mut BTreeSet<NodeName>) {
        let board = self.wall.look();
        for name in board.policy.declared.keys() {
            if nodes.contains_key(name) {
                continue;
            }
            if !made.contains(name) {
                let orders = LetterKind::Order.folder(&self.spool_dir, name);
                match LetterWriter::open(&orders, LetterKind::Order) {
                    Ok(_) => made.insert(name.clone()),
                    Err(error) => return log::warn!("{name}: no folder for its letters: {error}"),
                };
            }
            let reports = LetterKind::Report.folder(&self.spool_dir, name);
            if let Ok(meta) = std::fs::symlink_metadata(&reports)
                && meta.is_dir()
            {
                // Root's or our own; anybody else's letters are not even looked at.
                let writer = Uid(meta.uid());
                if writer == Uid(0) || writer == self.writer {
                    let known = board.node(name).map(|node| &**node);
                    nodes.insert(name.clone(), Correspondent::new(name.clone(), known, &reports, writer));
                }
            }
        }
    }

    /// Reads what a node has written.
    fn look(&mut self, node: &mut Correspondent) {
        let patience = Duration::from_secs(self.wall.look().policy.suspect_after.0);
        let passed = node.looked.elapsed().min(patience / PARTS);
        node.looked = Instant::now();
        let head = match node.reader.head() {
            Ok(Some(bytes)) => unseal::<Head>(&bytes).ok(),
            Ok(None) => None,
            Err(error) => {
                // We cannot see: that says nothing about the node.
                log::warn!("{}: its letters cannot be read: {error}", node.node);
                return;
            }
        };
        let head = head.filter(|head| self.is_ours(node, head));
        match head {
            Some(head) if node.is_sign(&head) => {
                let is_new_life = node.seen.as_ref().is_none_or(|seen| seen.epoch != head.epoch);
                (node.silence, node.answer_due) = (Duration::ZERO, true);
                node.seen = Some(head.clone());
                if is_new_life || node.link.is_none() {
                    self.link(node, &head);
                }
                self.feel(node, &head);
                self.take(node, &head);
            }
            other => {
                node.silence = node.silence.saturating_add(passed);
                if node.silence >= patience {
                    node.cut(self);
                }
                match other {
                    // Whatever it is, it may be new to us, but it is no sign.
                    Some(head) if node.seen.is_none() => node.seen = Some(head),
                    Some(head) if node.is_of(&head) => self.take(node, &head),
                    Some(_) | None => {}
                }
            }
        }
    }

    fn is_ours(&self, node: &Correspondent, head: &Head) -> bool {
        head.version == LETTER_VERSION && head.cluster == self.cluster && head.node == node.node
    }

    fn link(&mut self, node: &mut Correspondent, head: &Head) {
        let (out, bundles) = bounded(MAX_WAITING);
        let (answer, welcome) = bounded(1);
        self.next_link = self.next_link.wrapping_add(2);
        let link = LinkId(self.next_link);
        node.cut(self);
        if self.words.send(Word::NodeUp { head: head.clone(), link, out, answer }).is_err() {
            return;
        }
        match welcome.recv() {
            Ok(Ok(ours)) => {
                (node.ack_epoch, node.past) = (head.epoch, ours.ack_epoch);
                node.ack = if ours.ack_epoch == head.epoch { ours.ack } else { Seq(0) };
                node.reading = Reading::after(node.ack);
                (node.lowest, node.highest) = (ours.lowest, ours.highest);
                node.its_ack = head.ack;
                (node.refusal, node.has_twin) = (None, false);
                node.link = Some((link, bundles));
            }
            Ok(Err(refusal)) => {
                let hint = refusal.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
                let mut text = format!("{}{hint}", refusal.text);
                text.truncate(text.floor_char_boundary(MAX_REFUSAL));
                node.refusal = Some(text);
            }
            Err(_) => {}
        }
    }

    /// Takes in what the cards of a node do; of one that is not linked nobody knows.
    fn feel(&self, node: &Correspondent, head: &Head) {
        if let (Some((link, _)), Some(cards)) = (&node.link, &head.cards) {
            self.wall.look().pulse.take(&node.node, *link, cards.clone());
        }
    }

    /// Hands new reports to the hub, in order, none skipped.
    fn take(&self, node: &mut Correspondent, head: &Head) {
        if node.link.is_none() {
            return;
        }
        let Correspondent { reading, reader, .. } = node;
        let Ok(look) = reading.look(head, MAX_AT_ONCE, |seq| {
            let bytes = reader.read(seq).ok().flatten();
            Ok::<_, Infallible>(bytes.and_then(|bytes| convert::report_in(&bytes, head)))
        });
        if look.missing.is_none() || !look.letters.is_empty() {
            node.stuck = None;
        }
        if let Some(first) = look.missing
            && node.stuck.get_or_insert_with(Instant::now).elapsed() > ALARM
        {
            log::error!("{}: report {first} cannot be read for {} s", node.node, ALARM.as_secs());
            node.stuck = None;
        }
        let convert = |letter: Report| (letter.seq, Box::new(convert::report(letter.body)));
        let reports: Vec<_> = look.letters.into_iter().map(convert).collect();
        if !reports.is_empty() || head.ack > node.its_ack {
            node.its_ack = head.ack;
            let (node, epoch) = (node.node.clone(), head.epoch);
            let _ = self.words.send(Word::NodeLetters { node, epoch, ack: head.ack, beat: Beat(0), reports });
        }
    }

    /// Writes what the hub has for a node, and our `HEAD` when something changed or a beat is due.
    fn write(&self, node: &mut Correspondent) {
        let bundles = match node.link.as_ref().map(|(_, bundles)| waiting(bundles)) {
            Some(Some(bundles)) => bundles,
            // The hub has cut it; the next sign of life makes another, and all is sent anew.
            Some(None) => {
                node.cut(self);
                Vec::new()
            }
            None => Vec::new(),
        };
        let is_changed = !bundles.is_empty() || std::mem::take(&mut node.answer_due);
        if node.writer.is_none() {
            let path = LetterKind::Order.folder(&self.spool_dir, &node.node);
            match LetterWriter::open(&path, LetterKind::Order) {
                Ok(writer) => node.writer = Some(writer),
                Err(error) => return log::warn!("{}: orders cannot be written: {error}", node.node),
            }
        }
        let Some(writer) = &mut node.writer else { return };
        for bundle in bundles {
            for (seq, bytes) in &bundle.letters {
                if let Err(error) = writer.write(*seq, &seal_json(bytes)) {
                    // Kept by the hub: the next link sends all of them anew.
                    log::warn!("{}: order {seq} cannot be written: {error}", node.node);
                    return node.cut(self);
                }
            }
            node.ack = bundle.ack;
            (node.lowest, node.highest) = (bundle.lowest, bundle.highest);
        }
        let pause = Duration::from_secs(self.wall.look().policy.suspect_after.0) / PARTS;
        if is_changed || node.beaten.is_none_or(|at| at.elapsed() >= pause) {
            let head = self.head(node);
            let Some(writer) = &mut node.writer else { return };
            let written = seal(&head)
                .map_err(|e| e.to_string())
                .and_then(|h| writer.put_head(&h).map_err(|e| e.to_string()));
            match written {
                Ok(()) => node.beaten = Some(Instant::now()),
                Err(error) => log::warn!("{}: HEAD cannot be written: {error}", node.node),
            }
            if let Err(error) = writer.forget_up_to(node.its_ack) {
                log::warn!("{}: old orders cannot be removed: {error}", node.node);
            }
        }
    }

    /// Our `HEAD`. Only a node that is linked is told that it was seen.
    fn head(&self, node: &mut Correspondent) -> Head {
        node.beat = node.beat.wrapping_add(1);
        let linked = node.seen.as_ref().filter(|_| node.link.is_some());
        Head {
            version: LETTER_VERSION,
            cluster: self.cluster,
            node: node.node.clone(),
            epoch: self.epoch,
            boot: None,
            node_id: linked.and_then(|seen| seen.node_id),
            beat: node.beat,
            seen: linked.map_or(Beat(0), |seen| Beat(seen.beat)),
            lowest: node.lowest,
            highest: node.highest,
            ack_epoch: node.ack_epoch,
            ack: node.ack,
            past: node.past,
            refusal: node.refusal.clone(),
            cards: None,
        }
    }
}

impl Correspondent {
    /// `known`: the node as it is known, so that our first `HEAD` tells what it has heard before.
    fn new(node: NodeName, known: Option<&Node>, out: &Path, writer: Uid) -> Self {
        let zero = (Epoch(0), Seq(0), Seq(0));
        let (ack_epoch, ack, highest) =
            known.map_or(zero, |node| (node.epoch, node.last_report, node.last_order));
        Self {
            reader: LetterReader::open(out, LetterKind::Report, writer),
            watch: watch(out, &["HEAD"]),
            node,
            writer: None,
            seen: None,
            silence: Duration::ZERO,
            looked: Instant::now(),
            link: None,
            refusal: None,
            answer_due: false,
            has_twin: false,
            reading: Reading::after(Seq(0)),
            its_ack: Seq(0),
            ack_epoch,
            ack,
            past: Epoch(0),
            highest,
            lowest: Seq(1),
            beat: 0,
            beaten: None,
            stuck: None,
        }
    }

    /// Whether a head is of the node that was seen last, in the life that was.
    fn is_of(&self, head: &Head) -> bool {
        self.seen.as_ref().is_some_and(|seen| (seen.node_id, seen.epoch) == (head.node_id, head.epoch))
    }

    /// Whether a head is a sign of life: it has changed since it was first seen. While a node is linked, another one of its name gives none,
    /// and neither does an earlier life of it.
    fn is_sign(&mut self, head: &Head) -> bool {
        let Some(seen) = &self.seen else { return false };
        let is_new = (seen.node_id, seen.epoch, seen.beat) != (head.node_id, head.epoch, head.beat);
        if self.link.is_none() || !is_new {
            return is_new;
        }
        let is_twin = seen.node_id != head.node_id || seen.epoch > head.epoch;
        if is_twin && !std::mem::replace(&mut self.has_twin, true) {
            let Head { node, epoch, .. } = head;
            log::error!(
                "{node}: another node writes letters by its name (life {epoch}): one name is one node, and it is not listened to; gqnode --name gives it another"
            );
        }
        !is_twin
    }

    fn cut(&mut self, mail: &Mail) {
        if let Some((link, _)) = self.link.take() {
            mail.wall.look().pulse.forget(&self.node, link);
            let since = Instant::now().checked_sub(self.silence).unwrap_or_else(Instant::now);
            let _ = mail.words.send(Word::NodeDown { node: self.node.clone(), link, since });
        }
    }
}
