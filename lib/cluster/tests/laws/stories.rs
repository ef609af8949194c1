//! Stories of single states.

use crate::{
    cards::{cut_card, declared_card},
    history::{name, outcome, payer, shape},
};
use gq_cluster::{Cluster, Event, IllegalEvent, Link, NewJob, Next, Stopping, Usage};
use gq_model::{
    BootId, Card, CardUse, IndexSet, JobId, MiB, Placement, RunKey, RunNumber, Seconds, TaskIndex, Timestamp,
    Token, Uid,
};

const NOW: Timestamp = Timestamp::from_secs(1000);

/// A node in sight with these cards, and `jobs` jobs that wait.
fn with(cards: Vec<Card>, jobs: u64) -> Cluster {
    let mut cluster = Cluster::default();
    let found = Event::NodeFound {
        node: name(2),
        boot: Some(BootId([1; 16])),
        id: None,
        cpus: 16,
        memory: MiB(65_536),
        features: Vec::new(),
        cards,
    };
    cluster.apply(&found).unwrap();
    cluster.apply(&Event::NodeSeen { node: name(2), link: Link::Up }).unwrap();
    for id in 1..=jobs {
        let new = NewJob {
            id: JobId(id),
            uid: Uid(1000),
            user: "ann".into(),
            token: Token([7; 16]),
            spec: serde_json::from_str(r#"{"name":"sim","work_dir":"/","umask":18}"#).unwrap(),
            job_file: "jobs/00/1.job".into(),
            sha256: "00".into(),
            at: NOW,
            shape: shape(5),
            payer: payer(0),
            priority: 0,
            held: None,
            not_before: None,
            array: false,
            at_once: None,
            waits: None,
            main: None,
            tasks: IndexSet::range(0, 0),
        };
        cluster.apply(&Event::Submitted(Box::new(new))).unwrap();
    }
    cluster
}

fn key(job: u64) -> RunKey {
    RunKey { job: JobId(job), task: TaskIndex(0), run: RunNumber(1) }
}

fn slice(index: u32, profile: &str, start: u8, size: u8) -> CardUse {
    let placement = Some(Placement { start, size });
    CardUse { index, uuid: None, slice: Some(profile.into()), placement, share: None }
}

fn give(cluster: &mut Cluster, job: u64, cards: Vec<CardUse>) -> Result<(), IllegalEvent> {
    cluster.apply(&Event::Allocated {
        key: key(job),
        node: name(2),
        boot: BootId([1; 16]),
        node_id: None,
        lease: None,
        cpus: 1,
        memory: MiB(64),
        cards,
        exclusive: false,
        rate: 500,
        price: None,
        promised: None,
        own_limit: None,
        at: NOW,
    })
}

#[test]
fn two_slices_of_one_card_are_held_at_once_and_no_slice_twice() {
    let mut cluster = with(vec![cut_card(0, "A100", 81_920, &[]), declared_card(1, 2)], 6);
    give(&mut cluster, 1, vec![slice(0, "3g.40gb", 4, 4)]).unwrap();
    give(&mut cluster, 2, vec![slice(0, "1g.10gb", 0, 1)]).unwrap();
    give(&mut cluster, 3, vec![slice(1, "1g.10gb", 0, 1)]).unwrap();
    cluster.check().unwrap();
    let worth = |cluster: &Cluster, job| cluster.job(JobId(job)).unwrap().runs[&TaskIndex(0)].worth;
    assert_eq!((worth(&cluster, 1), worth(&cluster, 2), worth(&cluster, 3)), (500, 125, 500));
    assert_eq!(cluster.ledger().holdings(&payer(0)).cards, 1125);
    for taken in [
        slice(0, "3g.40gb", 4, 4),
        slice(0, "1g.10gb", 6, 1),
        slice(0, "7g.80gb", 0, 8),
        slice(1, "1g.10gb", 0, 1),
        CardUse::whole(0, None),
    ] {
        assert!(give(&mut cluster.clone(), 4, vec![taken.clone()]).is_err(), "{taken:?} is held");
    }
    let node = cluster.node(&name(2)).unwrap();
    assert_eq!(node.holder(0), Some((JobId(1), TaskIndex(0))));
    assert_eq!(node.slice_holder(&node.cards[1], 0), Some((JobId(3), TaskIndex(0))));
    assert_eq!(node.slice_holder(&node.cards[1], 1), None);
    give(&mut cluster, 4, vec![slice(0, "1g.10gb", 1, 1), slice(1, "1g.10gb", 1, 1)]).unwrap();
    cluster.check().unwrap();
}

#[test]
fn a_slice_that_is_cut_for_a_run_is_still_that_runs_when_the_node_tells_of_it() {
    let mut cluster = with(vec![cut_card(0, "A100", 81_920, &[])], 1);
    give(&mut cluster, 1, vec![slice(0, "3g.40gb", 4, 4)]).unwrap();
    let cut = vec![cut_card(0, "A100", 81_920, &[("3g.40gb", 4), ("1g.10gb", 0)])];
    let node = cluster.node(&name(2)).unwrap();
    let found = Event::NodeFound {
        node: name(2),
        boot: node.boot,
        id: None,
        cpus: node.cpus,
        memory: node.memory,
        features: Vec::new(),
        cards: cut,
    };
    cluster.apply(&found).unwrap();
    cluster.check().unwrap();
    let node = cluster.node(&name(2)).unwrap();
    assert_eq!(node.slice_holder(&node.cards[0], 0), Some((JobId(1), TaskIndex(0))));
    assert_eq!(node.slice_holder(&node.cards[0], 1), None);
}

#[test]
fn a_run_that_makes_room_is_due_when_its_grace_is_over_until_it_is_told_to_end() {
    let mut cluster = with(Vec::new(), 2);
    give(&mut cluster, 1, Vec::new()).unwrap();
    give(&mut cluster, 2, Vec::new()).unwrap();
    let due = NOW.after(Seconds(30));
    let preempt = |ordered| Stopping::Preempt { again: true, due, ordered };
    let until =
        |cluster: &Cluster| cluster.node(&name(2)).unwrap().hold_of(JobId(1), TaskIndex(0)).unwrap().until;
    assert_eq!(until(&cluster), NOW.after(Seconds(60)));
    let opened = cluster.node(&name(2)).unwrap().opened();
    cluster.apply(&Event::Stopped { key: key(1), why: preempt(false), by: None }).unwrap();
    assert_eq!(cluster.preempted().collect::<Vec<_>>(), [&(due, key(1))]);
    assert_eq!(until(&cluster), due);
    assert_ne!(cluster.node(&name(2)).unwrap().opened(), opened, "the plan has to look again");
    cluster.apply(&Event::Stopped { key: key(1), why: preempt(true), by: None }).unwrap();
    assert_eq!((cluster.preempted().count(), until(&cluster)), (0, due));
    // Who cancels it ends it at once; it holds what it holds until it is gone.
    cluster.apply(&Event::Stopped { key: key(2), why: preempt(false), by: None }).unwrap();
    let cancel = Event::Stopped { key: key(2), why: Stopping::Cancel, by: Some(Uid(1000)) };
    cluster.apply(&cancel).unwrap();
    assert_eq!(cluster.preempted().count(), 0);
    cluster.check().unwrap();
}

#[test]
fn what_was_used_up_is_forgotten_and_a_run_costs_from_the_second_it_is_given_its_share() {
    let mut cluster = with(Vec::new(), 1);
    let charged = |charge| Event::Charged { account: None, uid: Uid(1000), usage: Usage { charge, at: NOW } };
    cluster.apply(&charged(7)).unwrap();
    assert_eq!(cluster.ledger().usage_of(None, Uid(1000)).charge, 7);
    cluster.apply(&charged(0)).unwrap();
    assert_eq!(cluster.ledger().usage().count(), 0);
    give(&mut cluster, 1, Vec::new()).unwrap();
    let accrued =
        |cluster: &Cluster, after| cluster.ledger().holdings(&payer(0)).accrued(NOW.after(Seconds(after)));
    assert_eq!((accrued(&cluster, 0), accrued(&cluster, 10)), (0, 5000));
    assert_eq!(cluster.ledger().licences_used("ansys"), 2);
    let end = Event::RunEnded { key: key(1), outcome: outcome(0), started: None, at: NOW, next: Next::Over };
    cluster.apply(&end).unwrap();
    assert_eq!((accrued(&cluster, 10), cluster.ledger().payers().count()), (0, 0));
    assert_eq!(cluster.ledger().licences_used("ansys"), 0);
}

fn refound(cluster: &mut Cluster, cards: Vec<Card>) -> Result<(), IllegalEvent> {
    let node = cluster.node(&name(2)).unwrap();
    let (boot, cpus, memory) = (node.boot, node.cpus, node.memory);
    cluster.apply(&Event::NodeFound {
        node: name(2),
        boot,
        id: None,
        cpus,
        memory,
        features: Vec::new(),
        cards,
    })
}

#[test]
fn slices_that_go_while_they_are_held_are_no_contradiction() {
    let uuid = |card: Card| Card {
        slices: card
            .slices
            .iter()
            .zip(0..)
            .map(|(s, at)| gq_model::Slice { uuid: Some(format!("MIG-{at}")), ..s.clone() })
            .collect(),
        ..card
    };
    let card = uuid(declared_card(0, 3));
    let mut cluster = with(vec![card.clone()], 3);
    for job in 1..=3u8 {
        let use_ = CardUse { uuid: Some(format!("MIG-{}", job - 1)), ..slice(0, "1g.10gb", job - 1, 1) };
        give(&mut cluster, job.into(), vec![use_]).unwrap();
    }
    let mut fewer = card;
    fewer.slices.remove(0);
    refound(&mut cluster, vec![fewer]).unwrap();
    cluster.check().unwrap();
}

#[test]
fn a_card_that_leaves_mig_mode_and_comes_back_is_no_contradiction() {
    let mut cluster = with(vec![cut_card(0, "A100", 81_920, &[])], 2);
    give(&mut cluster, 1, vec![slice(0, "3g.40gb", 4, 4)]).unwrap();
    refound(&mut cluster, vec![crate::cards::card(0)]).unwrap();
    let whole = CardUse::whole(0, None);
    give(&mut cluster, 2, vec![whole]).unwrap();
    refound(&mut cluster, vec![cut_card(0, "A100", 81_920, &[])]).unwrap();
}
