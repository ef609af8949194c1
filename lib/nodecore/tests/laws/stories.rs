//! What a node does, one story each.

use crate::samples::{NOW, assignment, boot, ended, identity, joined, key};
use gq_model::{End, Epoch, MiB, Seq, SignalTo, Timestamp, Uid};
use gq_nodecore::{
    Effect, HeadSeen, Identity, Input, Machine, Node, Order, Record, Report, Serves, TurnAway,
};

#[test]
fn a_controller_of_an_earlier_life_or_an_older_copy_is_turned_away() {
    let mut node = joined(vec![Record::Life { controller: Epoch(5), taken: Seq(10) }]);
    let head = |epoch, lowest, highest| {
        let (lowest, highest) = (Seq(lowest), Seq(highest));
        Input::Head(HeadSeen { epoch: Epoch(epoch), lowest, highest, ack_epoch: Epoch(0), ack: Seq(0) })
    };
    let old = TurnAway::OldLife { epoch: Epoch(4), seen: Epoch(5) };
    assert_eq!(node.decide(head(4, 11, 10)), [Effect::TurnAway(old)]);
    let old = TurnAway::OldState { highest: Seq(9), taken: Seq(10) };
    assert_eq!(node.decide(head(6, 10, 9)), [Effect::TurnAway(old)]);
    assert_eq!(node.decide(head(5, 11, 10)), []);
    // The node lost its log: the controller keeps letters from 14 on only.
    assert_eq!(node.decide(head(5, 14, 20)), [Effect::Skipped { from: Seq(11), to: Seq(13) }]);
    assert_eq!(node.taken(), Seq(13));
    let gap = TurnAway::Gap { expected: Seq(14), got: Seq(15) };
    let order = Order::Signal(key(1, 1), 1, SignalTo::All);
    assert_eq!(node.decide(Input::Order { seq: Seq(15), order, at: NOW }), [Effect::TurnAway(gap)]);
}

#[test]
fn jobs_of_root_and_of_strangers_are_refused() {
    for (serves, uid, runs) in [
        (Serves::Users, 0, false),
        (Serves::Users, 1000, true),
        (Serves::Only(Uid(1000)), 1000, true),
        (Serves::Only(Uid(1000)), 1001, false),
        (Serves::Only(Uid(1000)), 0, false),
        (Serves::Only(Uid(0)), 0, true),
    ] {
        let me = Identity { serves, ..identity(1, boot(1)) };
        let mut node = Node::restore(me, []);
        node.decide(Input::Join(Machine::default()));
        let mut a = assignment(key(1, 1), boot(1));
        a.uid = Uid(uid);
        let effects = node.decide(Input::Order { seq: Seq(1), order: Order::Start(a), at: NOW });
        assert_eq!(effects.iter().any(|e| matches!(e, Effect::Launch(_))), runs, "{serves:?} {uid}");
    }
}

#[test]
fn a_start_of_another_boot_is_a_lost_node() {
    let mut node = joined(Vec::new());
    let order = Order::Start(assignment(key(1, 1), boot(2)));
    node.decide(Input::Order { seq: Seq(1), order, at: NOW });
    let reports = node.number();
    assert!(
        matches!(&reports[..], [(_, Report::Ended { outcome, .. })] if outcome.end == End::NodeFail),
        "{reports:?}"
    );
}

#[test]
fn an_exit_is_not_told_in_the_same_breath_as_the_end() {
    let mut node = joined(Vec::new());
    let order = Order::Start(assignment(key(1, 1), boot(1)));
    node.decide(Input::Order { seq: Seq(1), order, at: NOW });
    for record in [
        Record::Up { key: key(1, 1) },
        Record::Started { key: key(1, 1), at: Timestamp(1) },
        Record::Exited { key: key(1, 1), at: Timestamp(2) },
        ended(key(1, 1)),
    ] {
        node.decide(Input::Logged(record));
    }
    let reports = node.number();
    assert!(
        matches!(&reports[..], [(Seq(2), Report::Started { .. }), (Seq(3), Report::Ended { .. })]),
        "{reports:?}"
    );
}

#[test]
fn cards_are_told_when_they_changed_and_one_letter_of_them_at_a_time() {
    let mut node = joined(Vec::new());
    let cards = |n: u32| -> Vec<gq_model::Card> {
        (0..n)
            .map(|index| gq_model::Card {
                index,
                uuid: None,
                model: "A".into(),
                memory: MiB(1),
                minor: None,
                nvlink: Vec::new(),
                mig: false,
                slices: Vec::new(),
                grid: None,
                fixed: false,
                health: gq_model::CardHealth::Good,
            })
            .collect()
    };
    node.decide(Input::Cards(cards(0)));
    assert!(node.number().is_empty());
    for n in [1, 2, 3] {
        node.decide(Input::Cards(cards(n)));
    }
    let first = node.number();
    assert_eq!(first, [(Seq(2), Report::Cards(cards(1)))]);
    node.decide(Input::Acked { epoch: Epoch(3), up_to: Seq(2) });
    assert_eq!(node.number(), [(Seq(3), Report::Cards(cards(3)))]);
}
