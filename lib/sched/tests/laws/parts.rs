//! Shared cards: never more of a card than there is, never beside who has it whole, where the partition allows it, and best where it is
//! begun.

use crate::lab::{Lab, Wish, card, cases, in_parts, lasting, partition, payer, shape};
use gq_cluster::{Demand, Depth, PartitionState, Shape};
use gq_model::{Card, CardAsk, JobId, MiB, Reason, Share};
use proptest::prelude::*;

/// One node with these cards, in a partition where cards may be shared, and one where not.
fn lab(cards: Vec<Card>) -> Lab {
    let mut lab = Lab::new();
    lab.policy.partitions[0].shares = true;
    lab.policy.partitions.push(partition("strict", None, PartitionState::Up));
    lab.node("ws0", 64, 65_536, cards);
    lab
}

fn a100(index: u32, parts: u8) -> Card {
    in_parts(parts, card(index, "A100-SXM4-80GB", 80))
}

fn share(gib: u64) -> Shape {
    let plain = shape(1, 0);
    let cards = CardAsk { count: 1, share: Some(MiB(gib * 1024)), ..CardAsk::default() };
    Shape { demand: Demand { cards, ..plain.demand }, ..plain }
}

fn held(lab: &Lab, job: JobId) -> Option<(u32, Share)> {
    let run = lab.cluster.job(job)?.runs.values().next()?;
    run.cards.first().and_then(|one| Some((one.index, one.share?)))
}

#[test]
fn jobs_share_a_card_and_whoever_wants_it_whole_waits_for_all_of_them() {
    let mut lab = lab(vec![a100(0, 4)]);
    let (first, second) = (lab.submit(share(20)), lab.submit(lasting(share(40), 300)));
    lab.start();
    let parts = |job| held(&lab, job).map(|(_, share)| share.parts);
    assert_eq!((parts(first), parts(second)), (Some(0b0001), Some(0b0110)));
    let (whole, third) = (lab.submit(shape(1, 1)), lab.submit(lasting(share(20), 200)));
    let plan = lab.start();
    assert!(!lab.is_running(whole), "the card is in use");
    assert_eq!(plan.outlook.reserved[&whole].0, lab.now.after(gq_model::Seconds(300)));
    assert!(lab.is_running(third), "it ends before the whole card is free");
    let late = lab.submit(lasting(share(20), 400));
    lab.end_job(first);
    lab.start();
    assert!(!lab.is_running(late), "it would keep the card from who waits for it");
    [second, third].into_iter().for_each(|job| lab.end_job(job));
    lab.start();
    assert!(lab.is_running(whole) && !lab.is_running(late));
    assert_eq!(held(&lab, whole), None);
}

#[test]
fn the_smallest_card_that_fits_is_shared_and_of_those_the_one_that_is_begun() {
    let mut lab = lab(vec![a100(0, 4), a100(1, 4), in_parts(2, card(2, "RTX 3090", 24)), card(3, "T4", 16)]);
    let mut on = |gib| {
        let job = lab.submit(share(gib));
        lab.start();
        lab.cards_of(job)
    };
    assert_eq!(on(12), [2], "the smallest, and never one that is not shared");
    assert_eq!(on(40), [0]);
    assert_eq!(on(25), [0]);
    assert_eq!(on(30), [1]);
    assert_eq!(on(12), [2]);
    assert_eq!(on(12), [1], "the small one is full");
    let large = lab.submit(share(60));
    lab.start();
    assert_eq!(lab.reason(large), Reason::Resources);
}

#[test]
fn cards_are_shared_only_where_the_partition_allows_it() {
    let mut lab = lab(vec![a100(0, 4)]);
    let strict = Shape { partition: "strict".into(), ..share(10) };
    let job = lab.submit(Wish { payer: payer(1000, "strict"), ..strict.into() });
    lab.start();
    assert!(!lab.is_running(job));
    lab.policy.partitions[1].shares = true;
    lab.planner = gq_sched::Planner::default();
    lab.start();
    assert!(lab.is_running(job));
}

#[test]
fn a_share_is_worth_its_part_of_the_card() {
    let mut lab = lab(vec![a100(0, 4)]);
    lab.policy.partitions[0].limits.max_cards_per_user = Some(500);
    let jobs: Vec<JobId> = (0..3).map(|_| lab.submit(share(20))).collect();
    lab.start();
    let running: Vec<bool> = jobs.iter().map(|job| lab.is_running(*job)).collect();
    assert_eq!(running, [true, true, false], "half of a card is what he may have");
    assert_eq!(lab.reason(jobs[2]), Reason::UserCardLimit);
}

proptest! {
    #![proptest_config(cases(192))]
    /// Every set of cards and requests: no part twice, no share of a card that is held whole, and whoever is left would not fit.
    #[test]
    fn whatever_fits_is_placed_and_nothing_is_given_twice(
        parts in prop::collection::vec((prop::sample::select(vec![24u64, 40, 80]), 0..17u8), 1..5),
        asks in prop::collection::vec(0..90u64, 1..24),
    ) {
        let cards = (0u32..).zip(&parts);
        let cards = cards.map(|(index, (gib, parts))| in_parts(*parts, card(index, "A100", *gib)));
        let mut lab = lab(cards.collect());
        // Nothing asked for is a whole card.
        for gib in asks {
            lab.submit(if gib == 0 { shape(1, 1) } else { share(gib) });
        }
        lab.policy.depth = Depth::First(0);
        loop {
            lab.pass(crate::audit::check_starts)?;
            let used = crate::audit::in_use(&lab.cluster).remove("ws0").unwrap_or_default().units;
            let node = lab.cluster.node(&crate::lab::name("ws0")).unwrap();
            for job in lab.cluster.jobs().filter(|job| !job.waiting.is_empty()) {
                let fits = |card: &Card| {
                    let free = (0..16u8).filter(|part| !used.contains(&(card.index, *part)));
                    match job.shape.demand.cards.share {
                        None => free.count() == 16,
                        Some(_) if card.parts < 2 => false,
                        Some(memory) => {
                            let free = free.filter(|part| *part < card.parts).count() as u64;
                            let slack = (memory.0 / 50).min(1024);
                            free * card.memory.0 / u64::from(card.parts) + slack >= memory.0
                        }
                    }
                };
                prop_assert!(!node.cards.iter().any(fits), "{} waits and would fit", job.id);
            }
            // Half of what runs ends, so that cards are begun in all ways.
            let due: Vec<_> = lab.due().into_iter().step_by(2).collect();
            if due.is_empty() {
                break;
            }
            due.into_iter().for_each(|(_, key)| lab.end(key));
        }
    }
}
