//! What a node does, one story each.

use crate::samples::{NOW, assignment, boot, ended, identity, joined, key, stop as stop_of};
use gq_model::{Card, CardUse, CardUsed, End, Epoch, MiB, Seq, SignalTo, Timestamp, Uid};
use gq_nodecore::{
    Control, Effect, HeadSeen, Identity, Input, Machine, Node, Order, Record, Report, Serves, StopWhy,
    TurnAway,
};

fn cards(count: u32) -> Vec<Card> {
    (0..count).map(|index| Card::whole(index, "A", MiB(1))).collect()
}

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
        (Serves::Users { gqd: Uid(877) }, 0, false),
        (Serves::Users { gqd: Uid(877) }, 877, false),
        (Serves::Users { gqd: Uid(877) }, 1000, true),
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

/// A run that uses more of a card than it declared is ended by its supervisor, as long as there is one and a script.
#[test]
fn a_run_that_is_over_its_memory_is_told_while_its_script_runs() {
    let (mut node, key) = (joined(Vec::new()), key(1, 1));
    let over = || Input::Overused { key, used: MiB(9) };
    assert_eq!(node.decide(over()), [], "nobody knows it");
    let order = Order::Start(assignment(key, boot(1)));
    node.decide(Input::Order { seq: Seq(1), order, at: NOW });
    assert_eq!(node.decide(over()), [], "it only begins");
    node.decide(Input::Logged(Record::Up { key }));
    assert_eq!(node.decide(over()), [Effect::Control(key, Control::Overused(MiB(9)))]);
    node.decide(Input::Logged(Record::Exited { key, at: Timestamp(2) }));
    assert_eq!(node.decide(over()), [], "its script has ended");
    node.decide(Input::Logged(ended(key)));
    assert_eq!(node.decide(over()), []);
}

#[test]
fn cards_are_told_when_they_changed_and_one_letter_of_them_at_a_time() {
    let mut node = joined(Vec::new());
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

/// Whoever is given the cards of a run next must know first what was found of them.
#[test]
fn the_end_of_a_run_is_told_after_what_was_found_of_its_cards() {
    let mut node = joined(Vec::new());
    let mut given = assignment(key(1, 1), boot(1));
    given.cards.push(CardUse::whole(0, Some("GPU-0".into())));
    let effects = node.decide(Input::Order { seq: Seq(1), order: Order::Start(given), at: NOW });
    assert!(matches!(effects[..], [Effect::Append(_), Effect::Launch(_)]), "{effects:?}");
    let started = Record::Started { key: key(1, 1), at: Timestamp(1) };
    for record in [Record::Up { key: key(1, 1) }, started, ended(key(1, 1))] {
        let is_end = matches!(record, Record::Ended { .. });
        let effects = node.decide(Input::Logged(record));
        assert_eq!(effects == [Effect::Vacate(key(1, 1))], is_end, "{effects:?}");
    }
    // A report of its cards is on its way, and another waits until that is acknowledged.
    node.decide(Input::Cards(cards(1)));
    assert_eq!(node.number().len(), 2, "its start and the cards");
    node.decide(Input::Cards(cards(2)));
    // It holds them still: it is no end to whom one asks, and nothing that would have to be stopped.
    assert!(node.lives(key(1, 1)));
    assert_eq!(node.decide(Input::SupervisorGone { key: key(1, 1) }), []);
    let stop = Order::Stop(key(1, 1), stop_of(StopWhy::Cancel));
    let effects = node.decide(Input::Order { seq: Seq(2), order: stop, at: NOW });
    assert!(matches!(effects[..], [Effect::Append(_)]), "{effects:?}");
    assert!(node.number().is_empty());
    let used = vec![CardUsed { looks: 3, held: 1000, ..CardUsed::default() }];
    let vacated = Input::Vacated { key: key(1, 1), used: used.clone(), at: Timestamp(9) };
    let record = Record::Vacated { key: key(1, 1), used: used.clone(), at: Timestamp(9) };
    assert_eq!(node.decide(vacated.clone()), [Effect::Append(record.clone())]);
    let told: Vec<Report> = node.number().into_iter().map(|(_, report)| report).collect();
    let [Report::Cards(found), Report::Ended { outcome, .. }] = &told[..] else { panic!("{told:?}") };
    assert_eq!(*found, cards(2));
    let told = outcome.used.as_deref().unwrap();
    assert_eq!((&told.cards, told.released), (&used, Some(Timestamp(9))));
    assert_eq!(node.decide(vacated), [], "once");
    // A later life says the same: it stands in the log.
    let order = Order::Start(assignment(key(1, 1), boot(1)));
    let taken = Record::Taken { seq: Seq(1), controller: Epoch(1), order };
    let mut later = Node::restore(identity(4, boot(1)), [taken, ended(key(1, 1)), record]);
    later.decide(Input::Join(Machine::default()));
    later.decide(Input::LinkUp);
    let again = later.number().into_iter().find_map(|(_, report)| match report {
        Report::Ended { outcome, .. } => outcome.used,
        _ => None,
    });
    assert_eq!(again.unwrap().cards, used);
    assert!(node.number().is_empty() && !node.lives(key(1, 1)));
}

#[test]
fn trouble_is_told_when_it_changes_one_letter_at_a_time() {
    let mut node = joined(Vec::new());
    let why = |text: &str| Input::Trouble(Some(text.into()));
    let told =
        |node: &mut Node| -> Vec<Report> { node.number().into_iter().map(|(_, report)| report).collect() };
    node.decide(Input::Trouble(None));
    assert_eq!(told(&mut node), []);
    for input in [why("disk"), why("disk"), why("more"), Input::Trouble(None), why("last")] {
        node.decide(input);
    }
    assert_eq!(told(&mut node), [Report::Trouble(Some("disk".into()))]);
    node.decide(Input::Acked { epoch: Epoch(3), up_to: Seq(2) });
    assert_eq!(told(&mut node), [Report::Trouble(Some("last".into()))]);
    node.decide(Input::Trouble(None));
    node.decide(Input::Acked { epoch: Epoch(3), up_to: Seq(3) });
    assert_eq!(told(&mut node), [Report::Trouble(None)]);

    // What was found before it joined is told right after.
    let mut node = Node::restore(identity(4, boot(1)), []);
    node.decide(why("disk"));
    node.decide(Input::Join(Machine::default()));
    node.decide(Input::LinkUp);
    let told = told(&mut node);
    assert!(matches!(&told[..], [Report::Joined { .. }, Report::Trouble(Some(_))]), "{told:?}");
}

/// That cards are idle is told once, again on every new link, never of a run that is being ended; one report of it is on its way at a time.
#[test]
fn idle_cards_are_told_of_until_they_are_known() {
    let mut node = joined(Vec::new());
    let (run, at) = (key(1, 1), Timestamp);
    let told =
        |node: &mut Node| -> Vec<Report> { node.number().into_iter().map(|(_, report)| report).collect() };
    let found = |since: Option<i64>| Input::Idle { key: run, since: since.map(at) };
    let idle = |since: i64| Report::Idle { key: run, since: Some(at(since)) };
    let ack = |node: &mut Node| drop(node.decide(Input::Acked { epoch: Epoch(3), up_to: node.highest() }));
    node.decide(Input::Order { seq: Seq(1), order: Order::Start(assignment(run, boot(1))), at: NOW });
    node.decide(Input::Logged(Record::Up { key: run }));
    node.decide(found(Some(1)));
    assert_eq!(told(&mut node), [], "its script does not run yet");
    node.decide(found(None));
    node.decide(Input::Logged(Record::Started { key: run, at: at(2) }));
    for since in [Some(3), None, Some(4)] {
        node.decide(found(since));
    }
    assert_eq!(told(&mut node), [Report::Started { key: run, at: at(2) }, idle(3)]);
    ack(&mut node);
    assert_eq!(told(&mut node), [idle(4)], "as it is now");
    ack(&mut node);
    assert_eq!(told(&mut node), []);
    node.decide(Input::LinkDown);
    node.decide(Input::LinkUp);
    assert_eq!(told(&mut node), [idle(4)], "whoever lost sight of it has forgotten");
    ack(&mut node);
    let order = Order::Stop(run, stop_of(StopWhy::Cancel));
    node.decide(Input::Order { seq: Seq(2), order, at: NOW });
    node.decide(found(None));
    assert_eq!(told(&mut node), [], "it is being ended");
}
