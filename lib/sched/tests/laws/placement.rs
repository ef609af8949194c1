//! Placement and reasons, one small story each.

use crate::lab::{Lab, Wish, a100s, card, lasting, name, partition, shape};
use gq_cluster::{Demand, Event, HeldBy, Link, Next, PartitionState, Shape};
use gq_model::{CardAsk, CardHealth, End, MiB, Outcome, Reason, Seconds, TaskIndex};

fn wanting(cards: CardAsk) -> Shape {
    let plain = shape(1, 0);
    Shape { demand: Demand { cards, ..plain.demand }, ..plain }
}

fn urgent(shape: Shape, priority: i64) -> Wish {
    Wish { priority, ..shape.into() }
}

fn by_memory(count: u32, gib: u64) -> Shape {
    wanting(CardAsk { count, memory: Some(MiB(gib * 1024)), ..CardAsk::default() })
}

fn by_model(count: u32, model: &str) -> Shape {
    wanting(CardAsk { count, model: Some(model.into()), ..CardAsk::default() })
}

#[test]
fn the_smallest_card_that_fits_is_taken_on_whatever_node() {
    let mut lab = Lab::new();
    lab.node("ws0", 8, 8192, vec![card(0, "H100", 80), card(1, "RTX 3090", 24)]);
    lab.node("ws1", 8, 8192, vec![card(0, "A100", 40)]);
    let any = lab.submit(by_memory(1, 1));
    let forty = lab.submit(by_memory(1, 30));
    let eighty = lab.submit(by_memory(1, 41));
    let model = lab.submit(by_model(1, "h100"));
    lab.start();
    assert_eq!((lab.node_of(any).unwrap().as_str(), lab.cards_of(any)), ("ws0", vec![1]));
    assert_eq!((lab.node_of(forty).unwrap().as_str(), lab.cards_of(forty)), ("ws1", vec![0]));
    assert_eq!((lab.node_of(eighty).unwrap().as_str(), lab.cards_of(eighty)), ("ws0", vec![0]));
    assert_eq!(lab.reason(model), Reason::Resources);
}

#[test]
fn two_cards_are_the_two_that_are_linked() {
    let mut lab = Lab::new();
    let mut cards = a100s(4);
    for (card, peer) in [(0, 2), (2, 0), (1, 3), (3, 1)] {
        cards[card as usize].nvlink = vec![(peer, 4)];
    }
    lab.node("ws0", 8, 8192, cards);
    let one = lab.submit(shape(1, 1));
    let two = lab.submit(shape(1, 2));
    lab.start();
    assert_eq!((lab.cards_of(one), lab.cards_of(two)), (vec![0], vec![1, 3]));
}

#[test]
fn a_job_without_cards_leaves_the_nodes_with_cards_alone() {
    let mut lab = Lab::new();
    lab.node("a", 8, 8192, a100s(2));
    lab.node("b", 8, 8192, Vec::new());
    let plain = lab.submit(shape(1, 0));
    lab.start();
    assert_eq!(lab.node_of(plain).as_deref(), Some("b"));
}

#[test]
fn an_exclusive_job_is_alone() {
    let mut lab = Lab::new();
    lab.node("ws0", 8, 8192, Vec::new());
    let plain = shape(2, 0);
    let alone = Shape { demand: Demand { exclusive: true, ..plain.demand.clone() }, ..plain.clone() };
    let (first, exclusive, last) =
        (lab.submit(plain.clone()), lab.submit(alone), lab.submit(lasting(plain, 1_000)));
    lab.start();
    assert!(lab.is_running(first) && !lab.is_running(exclusive) && !lab.is_running(last));
    lab.end_job(first);
    lab.start();
    assert!(lab.is_running(exclusive) && !lab.is_running(last));
    lab.end_job(exclusive);
    lab.start();
    assert!(lab.is_running(last));
}

#[test]
fn node_lists_exclusions_and_features_are_obeyed() {
    let mut lab = Lab::new();
    lab.featured("a", 8, 8192, Vec::new(), &["nvlink"]);
    lab.featured("b", 8, 8192, Vec::new(), &["nvlink", "big"]);
    lab.node("c", 8, 8192, Vec::new());
    let listed = lab.submit(Shape { nodelist: vec![name("c")], ..shape(1, 0) });
    let excluded = lab.submit(Shape { exclude: vec![name("a"), name("b")], ..shape(1, 0) });
    let featured = lab.submit(Shape { features: vec!["nvlink".into(), "big".into()], ..shape(1, 0) });
    lab.start();
    let nodes = [listed, excluded, featured].map(|job| lab.node_of(job).unwrap());
    assert_eq!(nodes, ["c", "c", "b"]);
}

#[test]
fn a_closed_node_gets_nothing_and_who_waits_for_it_holds_up_nobody() {
    let mut lab = Lab::new();
    lab.node("big", 8, 8192, Vec::new());
    lab.node("small", 2, 8192, Vec::new());
    let since = lab.now;
    for close in [0, 1, 2] {
        match close {
            0 => lab.apply(Event::NodeDrained { node: name("big"), reason: "fan".into() }),
            1 => lab.see("big", Link::Suspect { since }),
            _ => lab.see("big", Link::Lost { since }),
        }
        let wide = lab.submit(shape(8, 0));
        let narrow = lab.submit(lasting(shape(2, 0), 10_000));
        let plan = lab.start();
        assert!(plan.outlook.reserved.is_empty());
        assert!(!lab.is_running(wide) && lab.is_running(narrow));
        assert_eq!(lab.reason(wide), Reason::NodesUnavailable);
        lab.apply(Event::NodeResumed { node: name("big") });
        lab.see("big", Link::Up);
        lab.start();
        assert!(lab.is_running(wide));
        lab.end_job(wide);
        lab.end_job(narrow);
    }
}

#[test]
fn a_job_whose_card_has_failed_waits_for_its_node_and_holds_up_nobody() {
    let mut lab = Lab::new();
    let mut cards = a100s(2);
    cards[1].health = CardHealth::Failed("Xid 79".into());
    lab.node("ws0", 8, 8192, cards);
    let two = lab.submit(shape(1, 2));
    let one = lab.submit(lasting(shape(1, 1), 10_000));
    let blocked = lab.submit(shape(1, 1));
    lab.start();
    assert!(lab.is_running(one));
    assert_eq!((lab.reason(two), lab.reason(blocked)), (Reason::CardsUnavailable, Reason::Resources));
}

#[test]
fn a_held_job_and_one_whose_time_has_not_come_are_not_planned_for() {
    let mut lab = Lab::new();
    lab.node("ws0", 8, 8192, Vec::new());
    let begin = lab.now.after(Seconds(50));
    let held = lab.submit(Wish { held: Some(HeldBy::User), ..urgent(shape(8, 0), 9) });
    let admin = lab.submit(Wish { held: Some(HeldBy::Admin), ..urgent(shape(8, 0), 9) });
    let later = lab.submit(Wish { not_before: Some(begin), ..urgent(shape(8, 0), 9) });
    let plain = lab.submit(lasting(shape(8, 0), 10_000));
    let plan = lab.start();
    assert!(lab.is_running(plain) && plan.outlook.reserved.is_empty());
    let reasons = [held, admin, later].map(|job| lab.reason(job));
    assert_eq!(reasons, [Reason::JobHeldUser, Reason::JobHeldAdmin, Reason::BeginTime]);
    assert_eq!(plan.outlook.of(lab.cluster.job(later).unwrap(), &lab.policy).1, Some(begin));
}

#[test]
fn a_partition_that_is_down_starts_nothing_and_holds_up_nobody() {
    let mut lab = Lab::new();
    lab.node("ws0", 8, 8192, Vec::new());
    lab.policy.partitions.push(partition("down", None, PartitionState::Down));
    lab.policy.partitions.push(partition("gone", None, PartitionState::Inactive));
    let down = lab.submit(urgent(Shape { partition: "down".into(), ..shape(8, 0) }, 9));
    let gone = lab.submit(urgent(Shape { partition: "gone".into(), ..shape(8, 0) }, 9));
    let plain = lab.submit(shape(8, 0));
    lab.start();
    assert!(lab.is_running(plain));
    assert_eq!((lab.reason(down), lab.reason(gone)), (Reason::PartitionDown, Reason::PartitionInactive));
}

#[test]
fn a_higher_priority_goes_first_then_who_came_first() {
    let mut lab = Lab::new();
    lab.node("ws0", 1, 8192, Vec::new());
    let low = lab.submit(urgent(shape(1, 0), -1));
    let first = lab.submit(shape(1, 0));
    let second = lab.submit(lasting(shape(1, 0), 5));
    let high = lab.submit(urgent(shape(1, 0), 7));
    for job in [high, first, second, low] {
        lab.start();
        assert!(lab.is_running(job));
        lab.end_job(job);
    }
}

#[test]
fn what_could_not_be_started_on_one_node_is_tried_on_another_if_that_has_room() {
    let mut lab = Lab::new();
    lab.node("a", 1, 8192, Vec::new());
    lab.node("b", 1, 8192, Vec::new());
    let job = lab.submit(shape(1, 0));
    let fail = |lab: &mut Lab| {
        let key = lab.cluster.job(job).unwrap().run_key(TaskIndex(0)).unwrap();
        let outcome = Outcome::without_exit(End::LaunchFailed, Reason::LaunchFailure, "");
        let next = Next::Again { not_before: None, site_fault: true, retry: false, held: None };
        lab.apply(Event::RunEnded { key, outcome, started: None, at: lab.now, next });
    };
    lab.start();
    assert_eq!(lab.node_of(job).as_deref(), Some("a"));
    fail(&mut lab);
    lab.start();
    assert_eq!(lab.node_of(job).as_deref(), Some("b"));
    fail(&mut lab);
    let other = lab.submit(urgent(Shape { nodelist: vec![name("b")], ..shape(1, 0) }, 1));
    lab.start();
    assert!(lab.is_running(other));
    assert_eq!(lab.node_of(job).as_deref(), Some("a"), "the only one with room");
}
