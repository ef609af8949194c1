//! Slices: those ordered by place are cut before their run starts, those ordered by UUID must be there, and what a run holds is left alone.

use crate::lab::Lab;
use gq_model::{Card, CardUse, End, Fault, Placement, Reason, RunKey};
use gq_proto::{OrderBody, ReportBody, StopWhy};
use nix::sys::signal::Signal;
use standin_nvml::{Machine, shipped};
use std::fs;

const SEEN: &str =
    "echo \"$CUDA_VISIBLE_DEVICES/$GQ_SLICES/$GQ_SLICE_PROFILES/$GQ_GPUS/$SLURM_GPUS_ON_NODE\"";

fn machine(name: &str) -> Machine {
    shipped(name).unwrap()
}

fn at(profile: &str, start: u8, size: u8) -> CardUse {
    CardUse {
        index: 0,
        uuid: None,
        slice: Some(profile.to_owned()),
        placement: Some(Placement { start, size }),
        share: None,
    }
}

impl Lab {
    /// Orders a run that is to hold `cards`.
    fn run_on(&mut self, script: &str, cards: &[CardUse]) -> RunKey {
        let mut assignment = self.job(script);
        assignment.cards = cards.to_vec();
        let key = assignment.key;
        self.order(OrderBody::Start(Box::new(assignment)));
        key
    }

    fn refused(&mut self, key: RunKey) -> (Fault, Reason, String) {
        self.wait(|r| match r {
            ReportBody::Refused { key: k, fault, reason, detail } if *k == key => {
                Some((*fault, *reason, detail.clone()))
            }
            _ => None,
        })
    }

    /// Waits until the node's newest word on its cards is as wanted.
    fn cards(&mut self, wanted: impl Fn(&Card) -> bool) -> Card {
        loop {
            let newest = self.reports.values().rev().find_map(|r| match r {
                ReportBody::Cards { cards } | ReportBody::Joined { cards, .. } => cards.first().cloned(),
                _ => None,
            });
            match newest.filter(&wanted) {
                Some(card) => return card,
                // Cards are not reported again before the last report of them was taken.
                None => {
                    self.acknowledge();
                    self.receive();
                }
            }
        }
    }

    fn output(&self, key: RunKey) -> String {
        fs::read_to_string(self.work(&format!("out-{}", key.job))).unwrap()
    }
}

#[test]
fn slices_are_cut_before_their_run_and_reported() {
    let mut lab = Lab::with_driver(&machine("a100-empty"));
    let empty = lab.cards(|card| card.mig);
    assert_eq!((empty.slices.len(), empty.grid.map(|grid| grid.units)), (0, Some(8)));

    let key = lab.run_on(SEEN, &[at("3g.40gb", 4, 4), at("1g.10gb", 3, 1)]);
    assert_eq!(lab.ended(key).end, End::Completed);
    let card = lab.cards(|card| card.slices.len() == 2);
    let uuid = |profile: &str| {
        let slice = card.slices.iter().find(|slice| slice.profile == profile).unwrap();
        slice.uuid.clone().unwrap()
    };
    let both = format!("{},{}", uuid("3g.40gb"), uuid("1g.10gb"));
    assert_eq!(lab.output(key), format!("{both}/{both}/3g.40gb,1g.10gb/0/2\n"));
    let places: Vec<_> = card.slices.iter().map(|slice| slice.placement.unwrap().start).collect();
    assert_eq!(places, [4, 3]);

    // What is idle and just so is used as it is, by its place and by its UUID.
    let again = lab.run_on(SEEN, &[at("3g.40gb", 4, 4)]);
    lab.ended(again);
    let named = CardUse { uuid: Some(uuid("1g.10gb")), ..at("1g.10gb", 3, 1) };
    let by_uuid = lab.run_on(SEEN, &[named]);
    lab.ended(by_uuid);
    assert!(lab.output(again).starts_with(&uuid("3g.40gb")), "{}", lab.output(again));
    assert!(lab.output(by_uuid).starts_with(&uuid("1g.10gb")), "{}", lab.output(by_uuid));

    // What is idle and in the way goes.
    let whole = lab.run_on(SEEN, &[at("7g.80gb", 0, 8)]);
    assert_eq!(lab.ended(whole).end, End::Completed);
    let card = lab.cards(|card| card.slices.len() == 1);
    assert_eq!(card.slices[0].profile, "7g.80gb");
}

#[test]
fn what_a_run_holds_is_left_alone_also_by_the_next_life_of_the_node() {
    let mut lab = Lab::with_driver(&machine("a100-empty"));
    let gate = lab.gate("gate");
    let key = lab.run_on(&format!("{SEEN}; {gate}"), &[at("2g.20gb", 4, 2)]);
    lab.started(key);
    let uuid = lab.cards(|card| card.slices.len() == 1).slices[0].uuid.clone();

    let refused = lab.run_on("true", &[at("3g.40gb", 4, 4)]);
    let (fault, reason, detail) = lab.refused(refused);
    assert_eq!((fault, reason), (Fault::Site, Reason::CardGone), "{detail}");
    assert!(detail.contains("3g.40gb cannot be cut") && detail.contains("held by a job"), "{detail}");

    // The next life knows of the run only what its order said: a place, and no UUID.
    lab.end(Signal::SIGKILL);
    lab.start(&[]);
    lab.link();
    let refused = lab.run_on("true", &[at("3g.40gb", 4, 4)]);
    assert_eq!(lab.refused(refused).1, Reason::CardGone);
    let beside = lab.run_on("true", &[at("4g.40gb", 0, 4)]);
    assert_eq!(lab.ended(beside).end, End::Completed);
    let card = lab.cards(|card| card.slices.len() == 2);
    assert!(card.slices.iter().any(|slice| slice.uuid == uuid));

    // Its end frees its place.
    lab.release("gate");
    lab.ended(key);
    let next = lab.run_on("true", &[at("3g.40gb", 4, 4)]);
    assert_eq!(lab.ended(next).end, End::Completed);
}

#[test]
fn a_slice_that_disappears_fails_only_the_run_that_needs_it() {
    let mut cut = machine("two-one-cut");
    cut.cards.remove(0);
    cut.cards[0].links.clear();
    let mut lab = Lab::with_driver(&cut);
    let card = lab.cards(|card| card.slices.len() == 4);
    let named = |at: usize| CardUse {
        index: 0,
        uuid: card.slices[at].uuid.clone(),
        slice: Some(card.slices[at].profile.clone()),
        placement: card.slices[at].placement,
        share: None,
    };
    lab.edit(|machine| machine.cards[0].slices[0] = None);
    let gone = lab.run_on("true", &[named(0)]);
    let (fault, reason, detail) = lab.refused(gone);
    assert_eq!((fault, reason), (Fault::Site, Reason::CardGone));
    assert!(detail.contains("3g.40gb") && detail.contains("is gone"), "{detail}");
    // It is told at once, not with the next look.
    lab.cards(|card| card.slices.len() == 3);
    let other = lab.run_on(SEEN, &[named(1)]);
    assert_eq!(lab.ended(other).end, End::Completed);
    assert!(lab.output(other).starts_with(card.slices[1].uuid.as_deref().unwrap()));

    lab.edit(|machine| machine.cards[0].fails = Some(standin_nvml::Code::GpuIsLost));
    let lost = lab.run_on("true", &[named(1)]);
    let (fault, reason, detail) = lab.refused(lost);
    assert_eq!((fault, reason), (Fault::Site, Reason::CardGone));
    assert!(detail.contains("XID 79"), "{detail}");
}

#[test]
fn a_monitor_that_holds_an_instance_is_named_and_nothing_starts() {
    let mut lab = Lab::with_driver(&machine("a30-empty"));
    let first = lab.run_on("true", &[at("2g.12gb", 0, 2)]);
    lab.ended(first);
    lab.edit(|machine| machine.cards[0].slices[0].as_mut().unwrap().in_use = true);
    let kept = lab.run_on("touch ran", &[at("4g.24gb", 0, 4)]);
    let (fault, reason, detail) = lab.refused(kept);
    assert_eq!((fault, reason), (Fault::Site, Reason::CardGone));
    assert!(detail.contains("DCGM"), "{detail}");
    assert!(!lab.work("ran").exists());
    // Beside it there is room.
    let beside = lab.run_on("true", &[at("1g.6gb", 2, 1)]);
    assert_eq!(lab.ended(beside).end, End::Completed);
}

/// Stopped while its slice is cut, a run ends as soon as it is up, and its place is free again.
#[test]
fn a_run_that_is_stopped_while_its_slice_is_cut_frees_its_place() {
    let mut lab = Lab::with_driver(&machine("rtx-pro-empty"));
    let key = lab.run_on("sleep 600", &[at("1g.24gb+gfx", 9, 3)]);
    lab.order(OrderBody::Stop { key, why: StopWhy::Cancel, reason: None });
    assert_eq!(lab.ended(key).end, End::Cancelled);
    let next = lab.run_on(SEEN, &[at("2g.48gb-me", 6, 6)]);
    assert_eq!(lab.ended(next).end, End::Completed);
    let card = lab.cards(|card| card.slices.iter().any(|slice| slice.profile == "2g.48gb-me"));
    assert_eq!(card.slices.len(), 1);
}

#[test]
fn declared_slices_are_not_cut() {
    let mut lab = Lab::joined();
    let held = CardUse { index: 1, ..at("1g.10gb", 6, 1) };
    let key = lab.run_on(SEEN, &[held.clone(), CardUse { placement: None, ..held }]);
    assert_eq!(lab.ended(key).end, End::Completed);
    assert_eq!(lab.output(key), "1/1,1/1g.10gb,1g.10gb/1/2\n");
    let gone = lab.run_on("true", &[CardUse { index: 7, ..at("1g.10gb", 6, 1) }]);
    assert_eq!(lab.refused(gone).1, Reason::CardGone);
}
