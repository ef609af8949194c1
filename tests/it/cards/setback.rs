//! Cards are set back after the run that held them, where the conf wants it.

use super::rig::Rig;
use crate::lab::{cards, until};
use standin_nvml::{Card, Clocks, Code};

/// What a card is set to by somebody.
const EXCLUSIVE: u32 = 3;
const SET: Clocks = Clocks { programs: Some(900), locked: Some(800), memory: Some(700) };
const WAITS: &str = "until [ -e go.$GQ_JOB_ID ]; do sleep 0.02; done";

/// Two cards, both held, and both set to something.
fn held(tables: &str) -> (Rig, Vec<String>) {
    let mut machine = standin_nvml::shipped("eight-whole").unwrap();
    machine.cards.truncate(2);
    machine.cards.iter_mut().for_each(|card| card.links.clear());
    let rig = Rig::with(&machine, &cards(0), tables);
    let uuids = (0..2).map(|_| {
        let job = rig.lab.submit("--gpus=1", WAITS).running();
        job.view()["gpus"][0]["uuid"].as_str().unwrap().to_owned()
    });
    let uuids = uuids.collect();
    rig.edit(|machine| {
        for card in &mut machine.cards {
            (card.compute_mode, card.clocks) = (EXCLUSIVE, SET);
        }
    });
    (rig, uuids)
}

fn card(rig: &Rig, uuid: &str) -> Card {
    rig.edit(|machine| machine.cards.iter().find(|card| card.uuid == uuid).unwrap().clone())
}

fn ends(rig: &Rig, job: u64) {
    std::fs::write(rig.lab.work("").join(format!("go.{job}")), "").unwrap();
    rig.lab.job(&job.to_string()).ended();
}

#[test]
fn a_card_is_set_back_before_another_gets_it_and_no_other_card_is_touched() {
    let (rig, uuids) = held("[fence]\nset_back_cards = true\n");
    ends(&rig, 1);
    let left = card(&rig, &uuids[0]);
    assert_eq!((left.compute_mode, left.clocks), (0, Clocks::default()), "when its end is told");
    let other = card(&rig, &uuids[1]);
    assert_eq!((other.compute_mode, other.clocks), (EXCLUSIVE, SET), "it is held still");
    // What the driver refuses is said, the rest is done, and the card is given on.
    rig.edit(|machine| {
        for card in &mut machine.cards {
            card.fails_at.insert("nvmlDeviceSetComputeMode".into(), Code::NoPermission);
            card.fails_at.insert("nvmlDeviceResetMemoryLockedClocks".into(), Code::NotSupported);
        }
    });
    ends(&rig, 2);
    let left = card(&rig, &uuids[1]);
    let kept = Clocks { memory: SET.memory, ..Clocks::default() };
    assert_eq!((left.compute_mode, left.clocks), (EXCLUSIVE, kept));
    let said = format!("card {} is not set back: its compute mode: ", uuids[1]);
    until("it is said", || rig.lab.node("n1").said_now().contains(&said).then_some(()));
    assert_eq!(rig.lab.submit("--gpus=2", "echo both").output(), "both\n");
}

#[test]
fn cards_are_left_as_they_are_where_nobody_wants_them_set_back() {
    let (rig, uuids) = held("");
    ends(&rig, 1);
    let left = card(&rig, &uuids[0]);
    assert_eq!((left.compute_mode, left.clocks), (EXCLUSIVE, SET));
    ends(&rig, 2);
}
