//! The post: orders that nodes have not acknowledged, and the links they leave by. The same for the socket and for files.

use crate::convert;
use crossbeam_channel::{Receiver, Sender, TryRecvError};
use gq_engine::Order;
use gq_model::{Beat, Epoch, NodeName, Seq};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Bundles of letters that may wait for one link; a link that falls further behind is cut, and all is sent anew on the next.
pub const MAX_WAITING: usize = 1024;

/// What goes out on a link.
#[derive(Debug)]
pub struct Bundle {
    /// Reports taken up to here.
    pub ack: Seq,
    /// The last sign of life that was seen on this link.
    pub seen: Beat,
    /// Orders, by number: their letters' bytes.
    pub letters: Vec<(Seq, Arc<[u8]>)>,
    /// Highest order ever written to the node.
    pub highest: Seq,
    /// The lowest still kept.
    pub lowest: Seq,
}

/// A link's own number, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkId(
    /// The number.
    pub u64,
);

/// The bundles that wait on a link; none when the post has cut it.
pub fn waiting(bundles: &Receiver<Bundle>) -> Option<Vec<Bundle>> {
    let mut all = Vec::new();
    loop {
        match bundles.try_recv() {
            Ok(bundle) => all.push(bundle),
            Err(TryRecvError::Empty) => return Some(all),
            Err(TryRecvError::Disconnected) => return None,
        }
    }
}

struct Link {
    id: LinkId,
    epoch: Epoch,
    seen: Beat,
    out: Sender<Bundle>,
}

#[derive(Default)]
struct Mailbox {
    kept: BTreeMap<Seq, Arc<[u8]>>,
    /// The first order that was not yet given to the link.
    unsent: Option<Seq>,
    highest: Seq,
    ack: Seq,
    ack_due: bool,
    link: Option<Link>,
}

/// Every node's letters and link.
pub struct Post {
    epoch: Epoch,
    nodes: BTreeMap<NodeName, Mailbox>,
    dirty: BTreeSet<NodeName>,
    acks_due: BTreeSet<NodeName>,
}

impl Post {
    /// Begins with the orders that were kept.
    pub fn new(epoch: Epoch, letters: Vec<(NodeName, Seq, Vec<u8>)>) -> Self {
        let mut post =
            Self { epoch, nodes: BTreeMap::new(), dirty: BTreeSet::new(), acks_due: BTreeSet::new() };
        for (node, seq, bytes) in letters {
            post.nodes.entry(node).or_default().keep(seq, bytes.into());
        }
        post
    }

    /// Takes up an order that is on disk.
    pub fn order(&mut self, node: &NodeName, seq: Seq, order: &Order) {
        match convert::order_bytes(seq, self.epoch, order) {
            Ok(bytes) => {
                self.nodes.entry(node.clone()).or_default().keep(seq, bytes.into());
                self.dirty.insert(node.clone());
            }
            // The same bytes were written to disk a moment ago.
            Err(error) => log::error!("order {seq} to {node}: {error}"),
        }
    }

    /// Sends what is new to every node that has a link.
    pub fn send(&mut self) {
        for node in std::mem::take(&mut self.dirty) {
            self.flush(&node);
        }
    }

    /// Says to nodes which reports were taken, where no order has said it.
    pub fn send_acks(&mut self) {
        for node in std::mem::take(&mut self.acks_due) {
            if self.nodes.get(&node).is_some_and(|mailbox| mailbox.ack_due) {
                self.flush(&node);
            }
        }
    }

    /// Whether [`Post::send_acks`] has something to do.
    pub fn owes_acks(&self) -> bool {
        !self.acks_due.is_empty()
    }

    fn flush(&mut self, node: &NodeName) {
        let Some(mailbox) = self.nodes.get_mut(node) else { return };
        let Some(link) = &mailbox.link else { return };
        let from = mailbox.unsent.take();
        let new = from
            .map(|from| mailbox.kept.range(from..).map(|(seq, bytes)| (*seq, Arc::clone(bytes))).collect());
        let bundle = Bundle {
            ack: mailbox.ack,
            seen: link.seen,
            letters: new.unwrap_or_default(),
            highest: mailbox.highest,
            lowest: mailbox.lowest(),
        };
        mailbox.ack_due = false;
        if link.out.try_send(bundle).is_err() {
            log::warn!(
                "{node}: the link is stuck or gone; it is cut, and all orders are sent anew on the next"
            );
            mailbox.link = None;
        }
    }

    /// Every report of `node` in its life `epoch` up to `seq` is on disk. Said to that life alone: another one numbers its reports anew, and would
    /// take what it has said to nobody for taken.
    pub fn taken(&mut self, node: &NodeName, epoch: Epoch, seq: Seq) {
        let Some(mailbox) = self.nodes.get_mut(node) else { return };
        let is_its = mailbox.link.as_ref().is_some_and(|link| link.epoch == epoch);
        if is_its && seq > mailbox.ack {
            mailbox.ack = seq;
            mailbox.ack_due = true;
            self.acks_due.insert(node.clone());
        }
    }

    /// A node has given a sign of life; it is told that it was seen.
    pub fn beat(&mut self, node: &NodeName, beat: Beat) {
        let Some(mailbox) = self.nodes.get_mut(node) else { return };
        if let Some(link) = &mut mailbox.link {
            link.seen = link.seen.max(beat);
            mailbox.ack_due = true;
            self.acks_due.insert(node.clone());
        }
    }

    /// The node has taken every order up to `seq`. Says whether that was news.
    pub fn acknowledged(&mut self, node: &NodeName, seq: Seq) -> bool {
        let Some(mailbox) = self.nodes.get_mut(node) else { return false };
        let rest = mailbox.kept.split_off(&Seq(seq.0.saturating_add(1)));
        !std::mem::replace(&mut mailbox.kept, rest).is_empty()
    }

    /// The life of the node that is linked.
    pub fn linked(&self, node: &NodeName) -> Option<Epoch> {
        self.nodes.get(node)?.link.as_ref().map(|link| link.epoch)
    }

    /// A node has a new link; all that is kept is sent on it. `ack`: its reports taken in this life of it; `highest`: the number of the
    /// last order written to it.
    pub fn connect(
        &mut self,
        node: &NodeName,
        (id, epoch): (LinkId, Epoch),
        out: Sender<Bundle>,
        ack: Seq,
        highest: Seq,
    ) {
        let mailbox = self.nodes.entry(node.clone()).or_default();
        mailbox.link = Some(Link { id, epoch, seen: Beat(0), out });
        mailbox.ack = ack;
        mailbox.highest = mailbox.highest.max(highest);
        mailbox.unsent = mailbox.kept.keys().next().copied();
        self.flush(node);
    }

    /// A link is gone. Says whether it was the node's present one.
    pub fn disconnect(&mut self, node: &NodeName, id: LinkId) -> bool {
        let Some(mailbox) = self.nodes.get_mut(node) else { return false };
        let was = mailbox.link.as_ref().is_none_or(|link| link.id == id);
        if was {
            mailbox.link = None;
        }
        was
    }

    /// Cuts every link, so that nodes come again and say anew what was not taken.
    pub fn cut_all(&mut self) {
        self.nodes.values_mut().for_each(|mailbox| mailbox.link = None);
    }

    /// Lowest order kept for `node` and the highest ever written.
    pub fn span(&self, node: &NodeName, highest: Seq) -> (Seq, Seq) {
        let kept = self.nodes.get(node).and_then(|mailbox| mailbox.kept.keys().next().copied());
        (kept.unwrap_or(Seq(highest.0.saturating_add(1))), highest)
    }
}

impl Mailbox {
    fn keep(&mut self, seq: Seq, bytes: Arc<[u8]>) {
        self.kept.insert(seq, bytes);
        self.highest = self.highest.max(seq);
        self.unsent.get_or_insert(seq);
    }

    fn lowest(&self) -> Seq {
        self.kept.keys().next().copied().unwrap_or(Seq(self.highest.0.saturating_add(1)))
    }
}
