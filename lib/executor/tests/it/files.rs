//! The same letters as files: `gqnode --files`.

use crate::lab::{Lab, name, until};
use gq_model::{Beat, End, Epoch, Seq, Uid};
use gq_proto::{Head, LETTER_VERSION, Order, OrderBody, Report, ReportBody, seal, unseal};
use gq_spool::{LetterKind, LetterReader, LetterWriter};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;

/// `gqd`'s end of the folders.
struct Folders {
    writer: LetterWriter,
    reader: LetterReader,
    head: Head,
    reports: BTreeMap<(Epoch, Seq), ReportBody>,
}

impl Folders {
    fn of(lab: &Lab) -> Self {
        let spool = lab.dir.path().join("spool");
        let own = Uid(nix::unistd::getuid().as_raw());
        let folder = |kind: LetterKind| kind.folder(&spool, &name());
        let head = Head {
            version: LETTER_VERSION,
            cluster: lab.cluster,
            node: name(),
            epoch: Epoch(3),
            boot: None,
            node_id: None,
            beat: 0,
            seen: Beat(0),
            refusal: None,
            cards: None,
            past: Epoch(0),
            lowest: Seq(1),
            highest: Seq(0),
            ack_epoch: Epoch(0),
            ack: Seq(0),
        };
        Self {
            writer: LetterWriter::open(&folder(LetterKind::Order), LetterKind::Order).unwrap(),
            reader: LetterReader::open(&folder(LetterKind::Report), LetterKind::Report, own),
            head,
            reports: BTreeMap::new(),
        }
    }

    fn put_head(&mut self) {
        self.head.beat += 1;
        self.writer.put_head(&seal(&self.head).unwrap()).unwrap();
    }

    fn order(&mut self, body: OrderBody) {
        self.head.highest = Seq(self.head.highest.0 + 1);
        let order = Order { seq: self.head.highest, epoch: self.head.epoch, body };
        self.writer.write(order.seq, &seal(&order).unwrap()).unwrap();
        self.put_head();
    }

    /// Reads what is there and acknowledges it; returns the node's head.
    fn read(&mut self) -> Option<Head> {
        let head: Head = unseal(&self.reader.head().unwrap()?).unwrap();
        if head.epoch != self.head.ack_epoch {
            (self.head.ack_epoch, self.head.ack, self.head.node_id) = (head.epoch, Seq(0), head.node_id);
            self.put_head();
        }
        let before = self.head.ack;
        while self.head.ack < head.highest {
            let next = Seq(self.head.ack.0 + 1);
            let Some(bytes) = self.reader.read(next).unwrap() else { break };
            let report: Report = unseal(&bytes).unwrap();
            assert_eq!((report.seq, report.epoch), (next, head.epoch));
            self.reports.insert((report.epoch, report.seq), report.body);
            self.head.ack = next;
        }
        if self.head.ack != before {
            self.put_head();
        }
        Some(head)
    }

    fn ended(&mut self, key: gq_model::RunKey) -> End {
        let mut end = None;
        until("the run ends", || {
            self.read();
            end = self.reports.values().find_map(|r| match r {
                ReportBody::Ended { key: k, outcome, .. } if *k == key => Some(outcome.end),
                _ => None,
            });
            end.is_some()
        });
        end.unwrap()
    }
}

#[test]
fn letters_go_as_files_and_a_killed_node_goes_on() {
    let mut lab = Lab::new();
    let mut gqd = Folders::of(&lab);
    // The node is there before gqd has written anything.
    lab.start(&["--files"]);
    until("the node has joined", || gqd.read().is_some_and(|head| head.highest == Seq(1)));
    assert!(matches!(gqd.reports.values().next(), Some(ReportBody::Joined { .. })));

    let quick = lab.job("exit 0");
    let gate = lab.gate("gate");
    let slow = lab.job(&format!("{gate}; exit 1"));
    let (first, second) = (quick.key, slow.key);
    gqd.order(OrderBody::Start(Box::new(quick)));
    gqd.order(OrderBody::Start(Box::new(slow)));
    assert_eq!(gqd.ended(first), End::Completed);
    until("orders are acknowledged", || {
        gqd.read().is_some_and(|head| head.ack == Seq(2) && head.ack_epoch == Epoch(3))
    });
    until("letters that were acknowledged are removed", || {
        gqd.read();
        let folder = LetterKind::Report.folder(&lab.dir.path().join("spool"), &name());
        let letters = std::fs::read_dir(folder).unwrap().filter(|e| {
            e.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "report")
        });
        letters.count() == 0
    });

    let old = gqd.head.ack_epoch;
    lab.end(Signal::SIGKILL);
    lab.start(&["--files"]);
    until("the next life has joined", || {
        gqd.read().is_some_and(|head| head.epoch > old && head.highest >= Seq(1))
    });
    lab.release("gate");
    assert_eq!(gqd.ended(second), End::Failed);
    let third = lab.job("true");
    let key = third.key;
    gqd.order(OrderBody::Start(Box::new(third)));
    assert_eq!(gqd.ended(key), End::Completed);
}

#[test]
fn a_torn_order_is_waited_for_and_never_skipped() {
    let mut lab = Lab::new();
    let mut gqd = Folders::of(&lab);
    gqd.put_head();
    lab.start(&["--files"]);
    let (one, two) = (lab.job("true"), lab.job("true"));
    let (first, second) = (one.key, two.key);
    // Number 1 is announced torn; number 2 is whole.
    let whole = seal(&Order { seq: Seq(1), epoch: Epoch(3), body: OrderBody::Start(Box::new(one)) }).unwrap();
    gqd.writer.write(Seq(1), &whole[..whole.len() / 2]).unwrap();
    gqd.head.highest = Seq(1);
    gqd.order(OrderBody::Start(Box::new(two)));
    until("the node has joined", || gqd.read().is_some_and(|head| head.highest == Seq(1)));
    assert_eq!(gqd.read().unwrap().ack, Seq(0));
    gqd.writer.write(Seq(1), &whole).unwrap();
    gqd.put_head();
    assert_eq!((gqd.ended(first), gqd.ended(second)), (End::Completed, End::Completed));
}
