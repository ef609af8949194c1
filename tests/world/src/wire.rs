//! Letters on their way: over a socket, which keeps their order and breaks; or as files, which are seen late. The letters themselves, their
//! bytes and their heads are the real ones.

use crate::{
    gqd::{CLUSTER, Gqd, Office},
    gqnode::{At, Saying, Session},
    share::{HEAD, Share, letter},
};
use crossbeam_channel::{Receiver, TryRecvError, bounded};
use gq_controller::{Bundle, LinkId, MAX_WAITING, report, report_in, waiting};
use gq_model::{Beat, Seq};
use gq_proto::{
    Head, LETTER_VERSION, Letters, Order, OrderBody, Reading, Refusal, Report, ReportBody, seal, seal_json,
    unseal,
};
use std::convert::Infallible;

/// A node without a beat for so long is suspect.
const SUSPECT: u64 = 30_000_000;
/// How often a head is written even when there is nothing to say.
const BEAT: u64 = 10_000_000;
/// Of a pause between two looks so much counts, since in a longer one it was the controller that did not look.
const LONGEST_LOOK: u64 = SUSPECT / 3;
/// Most letters of one look.
const MOST: usize = 5;

/// The way between the controller and one node.
pub(crate) struct Wire {
    /// Whether letters go as files.
    pub(crate) files: bool,
    pub(crate) share: Share,
    /// The link as the controller holds it.
    link: Option<(LinkId, Receiver<Bundle>)>,
    next: u64,
}

impl Wire {
    pub(crate) fn new(files: bool, number: u64) -> Self {
        Self { files, share: Share::default(), link: None, next: number << 32 }
    }

    pub(crate) const fn is_linked(&self) -> bool {
        self.link.is_some()
    }

    /// The controller is gone: nothing of its side is left.
    pub(crate) fn controller_died(&mut self) {
        self.link = None;
    }

    /// A link for a node that comes with `head`; or why it is not spoken to.
    fn connect(&mut self, gqd: &mut Gqd, head: &Head) -> Result<Head, Refusal> {
        let (out, bundles) = bounded(MAX_WAITING);
        self.next += 1;
        let link = LinkId(self.next);
        let ours = gqd.node_up(head, link, out)?;
        self.link = Some((link, bundles));
        Ok(ours)
    }

    /// The link breaks.
    pub(crate) fn cut(&mut self, gqd: Option<&mut Gqd>, at: Option<&mut At<'_>>, clock: u64) {
        if let Some((link, _)) = self.link.take()
            && let (Some(gqd), Some(name)) = (gqd, at.as_ref().map(|at| at.machine.name.clone()))
        {
            gqd.node_down(&name, link, clock);
        }
        if let Some(at) = at {
            at.life.unlink();
        }
    }

    /// The next thing on a socket: it is dialled, or a frame goes one way or the other.
    pub(crate) fn carry(&mut self, gqd: &mut Gqd, at: &mut At<'_>, clock: u64) {
        if self.link.is_none() || !at.life.is_linked {
            self.cut(Some(&mut *gqd), Some(&mut *at), clock);
            return self.dial(gqd, at, clock);
        }
        let is_up = at.dice.one_in(2) && !at.life.sayings.is_empty();
        match at.life.sayings.pop_front_if(|_| is_up) {
            Some(saying) => up(gqd, at, saying),
            None => self.down(gqd, at, clock),
        }
    }

    fn dial(&mut self, gqd: &mut Gqd, at: &mut At<'_>, clock: u64) {
        let head = at.life.head(CLUSTER, at.machine, clock);
        let Ok(ours) = self.connect(gqd, &head) else { return };
        let mut todo = Vec::new();
        if at.hear(&ours, &mut todo) {
            at.link_up(todo);
        } else {
            at.settle(todo);
            self.cut(Some(gqd), Some(at), clock);
        }
    }

    fn down(&mut self, gqd: &mut Gqd, at: &mut At<'_>, clock: u64) {
        let Some((_, bundles)) = &self.link else { return };
        let bundle = match bundles.try_recv() {
            Ok(bundle) => bundle,
            Err(TryRecvError::Empty) => return,
            // The controller cut it.
            Err(TryRecvError::Disconnected) => return self.cut(Some(gqd), Some(at), clock),
        };
        if at.machine.is_full {
            // It waits for room and reads nothing; what was on the way is lost with the link.
            return self.cut(Some(gqd), Some(at), clock);
        }
        let letters: Vec<serde_json::Value> = bundle
            .letters
            .iter()
            .map(|(_, bytes)| serde_json::from_slice(bytes).expect("a letter"))
            .collect();
        let frame = serde_json::json!({ "ack": bundle.ack, "beat": bundle.seen, "letters": letters });
        let frame: Letters<OrderBody> = serde_json::from_value(frame).expect("letters");
        at.take(Some((frame.ack, frame.beat)), frame.letters);
    }

    /// The controller looks at the files of a node, and writes its own.
    pub(crate) fn controller_looks(&mut self, gqd: &mut Gqd, at: &mut At<'_>, clock: u64) {
        self.read_reports(gqd, at, clock);
        self.write_orders(gqd, at, clock);
    }

    fn read_reports(&mut self, gqd: &mut Gqd, at: &mut At<'_>, clock: u64) {
        let name = at.machine.name.clone();
        let head = self.share.reports.read(HEAD, at.dice).and_then(|bytes| unseal::<Head>(&bytes).ok());
        let Gqd { cluster, offices, .. } = &mut *gqd;
        let known = cluster.node(&name).map(|node| &**node);
        let office = offices.entry(name.clone()).or_insert_with(|| Office::new(known, clock));
        let passed = clock.saturating_sub(office.looked).min(LONGEST_LOOK);
        office.looked = clock;
        match head {
            Some(head) if office.is_sign(&head, self.link.is_some()) => {
                let is_new_life = office.seen.as_ref().is_none_or(|seen| seen.epoch != head.epoch);
                (office.silence, office.answer_due) = (0, true);
                office.seen = Some(head.clone());
                if is_new_life || self.link.is_none() {
                    self.take_link(gqd, &head, clock);
                }
                self.hand_on(gqd, at, &head);
            }
            other => {
                office.silence += passed;
                let (silence, is_of) =
                    (office.silence, other.as_ref().is_some_and(|head| office.is_of(head)));
                if office.seen.is_none() {
                    office.seen.clone_from(&other);
                }
                if silence >= SUSPECT {
                    self.lose_sight(gqd, &name, clock - silence);
                }
                if let Some(head) = other.filter(|_| is_of) {
                    self.hand_on(gqd, at, &head);
                }
            }
        }
    }

    /// A node that writes files gets a link, or is told why not.
    fn take_link(&mut self, gqd: &mut Gqd, head: &Head, clock: u64) {
        self.lose_sight(gqd, &head.node, clock);
        let welcome = self.connect(gqd, head);
        let Some(office) = gqd.offices.get_mut(&head.node) else { return };
        match welcome {
            Ok(ours) => {
                (office.ack_epoch, office.past) = (head.epoch, ours.ack_epoch);
                office.ack = if ours.ack_epoch == head.epoch { ours.ack } else { Seq(0) };
                office.reading = Reading::after(office.ack);
                (office.lowest, office.highest) = (ours.lowest, ours.highest);
                (office.its_ack, office.refusal) = (head.ack, None);
            }
            Err(refusal) => office.refusal = Some(refusal.text),
        }
    }

    fn lose_sight(&mut self, gqd: &mut Gqd, name: &gq_model::NodeName, since: u64) {
        if let Some((link, _)) = self.link.take() {
            gqd.node_down(name, link, since);
        }
    }

    fn hand_on(&mut self, gqd: &mut Gqd, at: &mut At<'_>, head: &Head) {
        let name = at.machine.name.clone();
        let (Some(office), Some(_)) = (gqd.offices.get_mut(&name), &self.link) else { return };
        let reports = &mut self.share.reports;
        let Ok(look) = office.reading.look(head, MOST, |seq| {
            let bytes = reports.read(&letter(seq), at.dice);
            Ok::<_, Infallible>(bytes.and_then(|bytes| report_in(&bytes, head)))
        });
        let is_stale = |letter: &Report| letter.epoch != head.epoch;
        assert!(
            !look.letters.iter().any(is_stale),
            "a letter of an earlier life of {name} is taken for one of this"
        );
        if !look.letters.is_empty() || head.ack > office.its_ack {
            office.its_ack = head.ack;
            let reports = look.letters.into_iter().map(|letter| (letter.seq, Box::new(report(letter.body))));
            gqd.letters(&name, head.epoch, (head.ack, Beat(0)), reports.collect());
        }
    }

    fn write_orders(&mut self, gqd: &mut Gqd, at: &mut At<'_>, clock: u64) {
        let name = at.machine.name.clone();
        let bundles = match self.link.as_ref().map(|(_, bundles)| waiting(bundles)) {
            Some(Some(bundles)) => bundles,
            Some(None) => {
                self.lose_sight(gqd, &name, clock);
                Vec::new()
            }
            None => Vec::new(),
        };
        let epoch = gqd.keeper.store.epoch();
        let Gqd { offices, fuse, .. } = gqd;
        let Some(office) = offices.get_mut(&name) else { return };
        let is_changed = !bundles.is_empty() || std::mem::take(&mut office.answer_due);
        for bundle in bundles {
            for (seq, bytes) in &bundle.letters {
                if !fuse.step() {
                    return;
                }
                self.share.orders.write(&letter(*seq), seal_json(bytes));
            }
            office.ack = bundle.ack;
            (office.lowest, office.highest) = (bundle.lowest, bundle.highest);
        }
        let is_due = office.beaten.is_none_or(|at| clock.saturating_sub(at) >= BEAT);
        if (is_changed || is_due) && fuse.step() {
            office.beat += 1;
            let linked = office.seen.as_ref().filter(|_| self.link.is_some());
            let head = Head {
                version: LETTER_VERSION,
                cluster: CLUSTER,
                node: name,
                epoch,
                boot: None,
                node_id: linked.and_then(|seen| seen.node_id),
                beat: office.beat,
                seen: linked.map_or(Beat(0), |seen| Beat(seen.beat)),
                lowest: office.lowest,
                highest: office.highest,
                ack_epoch: office.ack_epoch,
                ack: office.ack,
                past: office.past,
                refusal: office.refusal.clone(),
                cards: None,
            };
            self.share.orders.write(HEAD, seal(&head).expect("a head"));
            office.beaten = Some(clock);
            remove_up_to(&mut self.share.orders, office.its_ack);
        }
    }

    /// The node looks at the files of the controller, and writes its own.
    pub(crate) fn node_looks(&mut self, at: &mut At<'_>) {
        if at.machine.is_full {
            return;
        }
        if at.life.session.is_none() {
            self.open(at);
        }
        self.read_orders(at);
        self.write_reports(at);
    }

    fn open(&mut self, at: &mut At<'_>) {
        if at.life.written.is_none() {
            // Letters of an earlier life: what still matters of them is reported anew.
            remove_up_to(&mut self.share.reports, Seq(u64::MAX));
        }
        let written = *at.life.written.get_or_insert(Seq(0));
        let head = Head { highest: written, ..at.life.head(CLUSTER, at.machine, at.clock) };
        let reading = Reading::after(head.ack);
        at.life.session = Some(Session { reading, theirs: None, is_answered: false, lowest: head.lowest });
        let bytes = seal(&head).expect("a head");
        if at.life.fuse.step() {
            self.share.reports.write(HEAD, bytes);
        }
    }

    fn read_orders(&mut self, at: &mut At<'_>) {
        let head = self.share.orders.read(HEAD, at.dice).and_then(|bytes| unseal::<Head>(&bytes).ok());
        let Some(head) = head else { return };
        let Some(session) = &mut at.life.session else { return };
        let is_new = session.theirs.as_ref() != Some(&head);
        let is_answer = (head.node_id, head.ack_epoch) == (Some(at.life.life.id), at.life.life.epoch);
        let is_for_another = head.node_id.is_some_and(|id| id != at.life.life.id);
        if is_for_another || head.refusal.is_some() || !(session.is_answered || is_answer) {
            return;
        }
        if !std::mem::replace(&mut session.is_answered, true) {
            let answer = Head { ack_epoch: head.past, ..head.clone() };
            let mut todo = Vec::new();
            if !at.hear(&answer, &mut todo) {
                at.settle(todo);
                return at.life.unlink();
            }
            at.link_up(todo);
        }
        let Some(session) = &mut at.life.session else { return };
        if is_new {
            if head.ack_epoch == at.life.life.epoch {
                remove_up_to(&mut self.share.reports, head.ack);
                session.lowest = session.lowest.max(Seq(head.ack.0.saturating_add(1)));
            }
            session.theirs = Some(head.clone());
            let mut todo = Vec::new();
            if !at.hear(&head, &mut todo) {
                at.settle(todo);
                return at.life.unlink();
            }
            at.settle(todo);
        }
        let Some(session) = at.life.session.as_mut().filter(|_| is_answer) else { return };
        let orders = &mut self.share.orders;
        let Ok(look) = session.reading.look(&head, MOST, |seq| {
            let bytes = orders.read(&letter(seq), at.dice);
            Ok::<_, Infallible>(bytes.and_then(|bytes| unseal::<Order>(&bytes).ok()))
        });
        if !look.letters.is_empty() {
            at.take(None, look.letters);
        }
    }

    fn write_reports(&mut self, at: &mut At<'_>) {
        let sayings = std::mem::take(&mut at.life.sayings);
        let Some(lowest) = at.life.session.as_ref().map(|session| session.lowest) else { return };
        let mut ack = at.life.node.taken();
        for Saying { ack: said, letters, .. } in sayings {
            for report in letters {
                if !at.life.fuse.step() {
                    return;
                }
                at.life.written = at.life.written.max(Some(report.seq));
                self.share.reports.write(&letter(report.seq), seal(&report).expect("a report"));
            }
            ack = said;
        }
        let highest = at.life.written.unwrap_or_default();
        let head = Head { lowest, highest, ack, ..at.life.head(CLUSTER, at.machine, at.clock) };
        if at.life.fuse.step() {
            self.share.reports.write(HEAD, seal(&head).expect("a head"));
        }
    }
}

fn remove_up_to(folder: &mut crate::share::Folder, seq: Seq) {
    let last = letter(seq);
    for name in folder.names() {
        if name != HEAD && name <= last {
            folder.remove(&name);
        }
    }
}

fn up(gqd: &mut Gqd, at: &mut At<'_>, saying: Saying) {
    let frame = Letters { ack: saying.ack, beat: saying.beat, cards: None, letters: saying.letters };
    let bytes = serde_json::to_vec(&frame).expect("a frame");
    let frame: Letters<ReportBody> = serde_json::from_slice(&bytes).expect("a frame");
    let reports = frame.letters.into_iter().map(|letter| (letter.seq, Box::new(report(letter.body))));
    gqd.letters(&at.machine.name, at.life.life.epoch, (frame.ack, frame.beat), reports.collect());
}
