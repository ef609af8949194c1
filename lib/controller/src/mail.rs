//! The mail: the same letters as files, for nodes on other hosts. One thread does all of it, so that a spool that hangs stops nothing else.
//!
//! Found by listing `nodes/`, looked at every second; a nudge only makes it sooner. A node is judged by its beats on our own clock.

use crate::{
    board::Wall,
    convert,
    hub::Word,
    post::{Bundle, LinkId, MAX_WAITING, waiting},
};
use crossbeam_channel::{Receiver, Sender, bounded};
use gq_model::{ClusterId, Epoch, NodeName, Seq, Uid};
use gq_proto::{Head, LETTER_VERSION, Reading, Report, seal, seal_json, unseal};
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
/// How often our own `HEAD` is written even when there is nothing to say.
const BEAT: Duration = Duration::from_secs(10);
/// A node without a beat for so long is suspect.
const SUSPECT: Duration = Duration::from_secs(30);
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
    /// Its life and beat as last seen, and when that changed.
    seen: Option<(Epoch, u64, Instant)>,
    link: Option<(LinkId, Receiver<Bundle>)>,
    /// How far its reports were handed on.
    reading: Reading,
    /// The last order number of ours that it has taken.
    its_ack: Seq,
    /// Its reports that are on disk.
    ack: Seq,
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
        for name in self.wall.look().policy.declared.keys() {
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
                    nodes.insert(name.clone(), Correspondent::new(name.clone(), &reports, writer));
                }
            }
        }
    }

    /// Reads what a node has written.
    fn look(&mut self, node: &mut Correspondent) {
        let head = match node.reader.head() {
            Ok(Some(bytes)) => unseal::<Head>(&bytes).ok(),
            Ok(None) => None,
            Err(error) => {
                // We cannot see: that says nothing about the node.
                log::warn!("{}: its letters cannot be read: {error}", node.node);
                return;
            }
        };
        let Some(head) = head.filter(|head| self.is_ours(node, head)) else { return node.judge(&self.words) };
        let fresh = node.seen.is_none_or(|(epoch, beat, _)| (epoch, beat) != (head.epoch, head.beat));
        if !fresh && node.link.is_some() {
            node.judge(&self.words);
        }
        if fresh {
            let new_life = node.seen.is_none_or(|(epoch, _, _)| epoch != head.epoch);
            node.seen = Some((head.epoch, head.beat, Instant::now()));
            if new_life || node.link.is_none() {
                self.link(node, &head);
            }
        }
        self.take(node, &head);
    }

    fn is_ours(&self, node: &Correspondent, head: &Head) -> bool {
        head.version == LETTER_VERSION && head.cluster == self.cluster && head.node == node.node
    }

    fn link(&mut self, node: &mut Correspondent, head: &Head) {
        let (out, bundles) = bounded(MAX_WAITING);
        let (answer, welcome) = bounded(1);
        self.next_link = self.next_link.wrapping_add(2);
        let link = LinkId(self.next_link);
        if let Some((old, _)) = node.link.take() {
            let _ =
                self.words.send(Word::NodeDown { node: node.node.clone(), link: old, since: Instant::now() });
        }
        if self.words.send(Word::NodeUp { head: head.clone(), link, out, answer }).is_err() {
            return;
        }
        match welcome.recv() {
            Ok(Ok(ours)) => {
                node.reading = Reading::after(ours.ack);
                node.ack = ours.ack;
                (node.lowest, node.highest) = (ours.lowest, ours.highest);
                node.its_ack = head.ack;
                node.beaten = None;
                node.link = Some((link, bundles));
            }
            Ok(Err(refusal)) => {
                log::warn!("{}: not linked: {}", node.node, refusal.text);
                node.seen = None;
            }
            Err(_) => {}
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
            let _ = self.words.send(Word::NodeLetters { node, epoch, ack: head.ack, reports });
        }
    }

    /// Writes what the hub has for a node, and our `HEAD` when something changed or a beat is due.
    fn write(&self, node: &mut Correspondent) {
        let Some((_, bundles)) = &node.link else { return };
        // Cut by the hub: the next beat makes a new link.
        let Some(bundles) = waiting(bundles) else { return node.cut(&self.words) };
        let changed = !bundles.is_empty();
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
                    return node.cut(&self.words);
                }
            }
            node.ack = bundle.ack;
            (node.lowest, node.highest) = (bundle.lowest, bundle.highest);
        }
        if changed || node.beaten.is_none_or(|at| at.elapsed() >= BEAT) {
            node.beat = node.beat.wrapping_add(1);
            let head = Head {
                version: LETTER_VERSION,
                cluster: self.cluster,
                node: node.node.clone(),
                epoch: self.epoch,
                boot: None,
                beat: node.beat,
                lowest: node.lowest,
                highest: node.highest,
                ack_epoch: node.seen.map_or(Epoch(0), |(epoch, _, _)| epoch),
                ack: node.ack,
            };
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
}

impl Correspondent {
    fn new(node: NodeName, out: &Path, writer: Uid) -> Self {
        Self {
            reader: LetterReader::open(out, LetterKind::Report, writer),
            watch: watch(out, &["HEAD"]),
            node,
            writer: None,
            seen: None,
            link: None,
            reading: Reading::after(Seq(0)),
            its_ack: Seq(0),
            ack: Seq(0),
            highest: Seq(0),
            lowest: Seq(1),
            beat: 0,
            beaten: None,
            stuck: None,
        }
    }

    /// Without a new beat for too long, the link counts as gone.
    fn judge(&mut self, words: &Sender<Word>) {
        if self.seen.is_some_and(|(_, _, since)| since.elapsed() >= SUSPECT) {
            self.cut(words);
        }
    }

    fn cut(&mut self, words: &Sender<Word>) {
        if let Some((link, _)) = self.link.take() {
            let since = self.seen.map_or_else(Instant::now, |(_, _, since)| since);
            let _ = words.send(Word::NodeDown { node: self.node.clone(), link, since });
        }
    }
}
