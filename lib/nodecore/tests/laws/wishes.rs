//! What is wanted of a run: told when it can be, and said again.

use crate::samples::{NOW, assignment, boot, ended, identity, joined, key};
use gq_model::{EndReason, Seconds, Seq, SignalTo, Timestamp};
use gq_nodecore::{Control, Effect, Input, Machine, Node, Order, Record, Report, Stop, StopWhy};

/// A node, and what it says is to be told to the supervisor of the one run that there is.
struct Told {
    node: Node,
    log: Vec<Record>,
    seq: u64,
}

impl Told {
    fn new() -> Self {
        let mut told = Self { node: joined(Vec::new()), log: Vec::new(), seq: 0 };
        told.order(Order::Start(assignment(key(1, 1), boot(1))));
        told
    }
    fn input(&mut self, input: Input) -> Vec<Control> {
        let effects = self.node.decide(input);
        self.log.extend(effects.iter().filter_map(|effect| match effect {
            Effect::Append(record) => Some(record.clone()),
            _ => None,
        }));
        let controls = effects.into_iter().filter_map(|effect| match effect {
            Effect::Control(_, control) => Some(control),
            _ => None,
        });
        controls.collect()
    }
    fn order(&mut self, order: Order) -> Vec<Control> {
        self.seq += 1;
        self.input(Input::Order { seq: Seq(self.seq), order, at: NOW })
    }
    fn logged(&mut self, record: Record) -> Vec<Control> {
        self.log.push(record.clone());
        self.input(Input::Logged(record))
    }
    /// The node is started again; returns what the living supervisor is told then.
    fn again(&mut self) -> Vec<Control> {
        self.node = Node::restore(identity(4, boot(1)), self.log.iter().cloned());
        self.input(Input::Adopted { key: key(1, 1), alive: true, at: NOW })
    }
}

#[test]
fn what_is_wanted_of_a_run_before_its_supervisor_is_up_is_told_when_it_is() {
    let run = key(1, 1);
    let mut told = Told::new();
    for order in [
        Order::Limit(run, Some(Seconds(5))),
        Order::Limit(run, None),
        Order::Suspend(run),
        Order::Warn(run, EndReason::Drain),
        Order::Signal(run, 10, SignalTo::All),
    ] {
        assert_eq!(told.order(order), []);
    }
    let all = [Control::Limit(None), Control::Suspend, Control::Warn(EndReason::Drain)];
    assert_eq!(told.logged(Record::Up { key: run }), all);
    assert_eq!(told.logged(Record::Up { key: run }), [], "once");

    // Now each is told at once.
    let to = SignalTo::Batch;
    assert_eq!(told.order(Order::Signal(run, 12, to)), [Control::Signal(12, to)]);
    assert_eq!(told.order(Order::Resume(run)), [Control::Resume]);
    assert_eq!(told.order(Order::Limit(run, Some(Seconds(7)))), [Control::Limit(Some(Seconds(7)))]);
    assert_eq!(told.order(Order::Warn(run, EndReason::Preemption)), [Control::Warn(EndReason::Preemption)]);

    // A later life of the node says again what may not have been told and does no harm if it was.
    assert_eq!(told.again(), [Control::Limit(Some(Seconds(7))), Control::Resume]);
    let why = Stop { why: StopWhy::Requeue, reason: Some(EndReason::Requeue) };
    assert_eq!(told.order(Order::Stop(run, why)), [Control::Stop(why)]);
    assert_eq!(told.again(), [Control::Limit(Some(Seconds(7))), Control::Resume, Control::Stop(why)]);
}

#[test]
fn a_warning_that_was_taken_before_the_supervisor_was_up_outlives_the_node() {
    let run = key(1, 1);
    let mut told = Told::new();
    told.order(Order::Warn(run, EndReason::Drain));
    assert_eq!(told.again(), []);
    assert_eq!(told.logged(Record::Up { key: run }), [Control::Warn(EndReason::Drain)]);
}

#[test]
fn a_wish_for_an_unknown_run_leaves_nothing_behind() {
    let mut node = joined(Vec::new());
    let effects = node.decide(Input::Order { seq: Seq(1), order: Order::Suspend(key(7, 1)), at: NOW });
    assert!(matches!(&effects[1..], [Effect::Append(Record::Acked { key: k })] if *k == key(7, 1)));
    assert_eq!((node.kept().count(), node.number().len()), (0, 0));
}

#[test]
fn a_suspension_is_reported_and_said_again_by_the_next_life_and_after_the_same_start() {
    let run = key(1, 1);
    let mut told = Told::new();
    told.logged(Record::Up { key: run });
    told.logged(Record::Started { key: run, at: Timestamp(1) });
    told.logged(Record::Suspended { key: run, at: Timestamp(2) });
    let said = |told: &mut Told| -> Vec<Report> { told.node.number().into_iter().map(|(_, r)| r).collect() };
    let (started, suspended, resumed) = (
        Report::Started { key: run, at: Timestamp(1) },
        Report::Suspended { key: run, at: Timestamp(2) },
        Report::Resumed { key: run, at: Timestamp(3) },
    );
    assert_eq!(said(&mut told), [started.clone(), suspended.clone()]);
    told.order(Order::Start(assignment(run, boot(1))));
    assert_eq!(said(&mut told), [started, suspended.clone()]);

    told.again();
    told.input(Input::Join(Machine::default()));
    told.input(Input::LinkUp);
    assert!(matches!(&said(&mut told)[..], [Report::Joined { .. }, last] if *last == suspended));
    told.logged(Record::Resumed { key: run, at: Timestamp(3) });
    assert_eq!(said(&mut told), [resumed]);
    // A run that has ended is not said to be suspended.
    told.logged(Record::Suspended { key: run, at: Timestamp(4) });
    told.logged(ended(run));
    told.again();
    told.input(Input::Join(Machine::default()));
    told.input(Input::LinkUp);
    assert!(matches!(&said(&mut told)[..], [Report::Joined { .. }, Report::Ended { .. }]));
}
