//! Shares: who has used less goes first, use is forgotten steadily, and whoever waits longer never falls back.

use crate::{
    lab::{cases, lasting, shape},
    site::{Site, a_site},
    wishes::any_wish,
};
use gq_cluster::{Event, Usage, Weights};
use gq_model::{Seconds, Timestamp, Uid};
use gq_sched::{Share, decay, factors, shares};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Use by account and user.
type Used = BTreeMap<(Option<String>, u32), u64>;

fn some_use() -> impl Strategy<Value = Used> {
    let account = prop::option::weighted(
        0.8,
        prop::sample::select(vec!["physics", "optics", "chemistry", "gone"]).prop_map(str::to_owned),
    );
    prop::collection::btree_map((account, 1000..1005u32), 0..1_000_000u64, 0..12)
}

fn ranked(site: &Site, used: &Used) -> Vec<Share> {
    let mut lab = site.lab();
    for ((account, uid), charge) in used {
        let usage = Usage { charge: *charge, at: lab.now };
        lab.apply(Event::Charged { account: account.clone(), uid: Uid(*uid), usage });
    }
    shares(&lab.cluster, &lab.policy, lab.now)
}

proptest! {
    #![proptest_config(cases(256))]
    #[test]
    fn less_use_for_the_same_share_never_ranks_lower(site in a_site(), used in some_use()) {
        let lines = ranked(&site, &used);
        prop_assert!(lines.iter().all(|line| line.factor <= 1000));
        let users: Vec<&Share> = lines.iter().filter(|line| line.uid.is_some()).collect();
        prop_assert!(users.iter().all(|line| line.factor > 0));
        prop_assert!(users.is_empty() || users.iter().any(|line| line.factor == 1000));
        for a in &users {
            for b in users.iter().filter(|b| b.account == a.account && b.shares == a.shares) {
                prop_assert!(a.usage >= b.usage || a.factor >= b.factor, "{:?} and {:?}", a, b);
                prop_assert!(a.usage != b.usage || a.factor == b.factor, "{:?} and {:?}", a, b);
            }
        }
        // Nobody is lost, and nobody is there twice.
        for (account, uid) in used.iter().filter(|(_, charge)| **charge > 0).map(|(who, _)| who) {
            let is_it = |line: &&&Share| line.account == *account && line.uid == Some(Uid(*uid));
            prop_assert_eq!(users.iter().filter(is_it).count(), 1, "{:?} {}", account, uid);
        }
    }

    #[test]
    fn who_uses_more_does_not_rise(site in a_site(), used in some_use(), more in 1..1_000_000u64, at in 0..12usize) {
        let Some(who) = used.keys().nth(at).cloned() else { return Ok(()) };
        let mut after = used.clone();
        *after.get_mut(&who).unwrap() += more;
        let rank = |used: &Used| {
            let lines = ranked(&site, used);
            let is_it = |line: &&Share| line.account == who.0 && line.uid == Some(Uid(who.1));
            lines.iter().find(is_it).map(|line| line.factor)
        };
        if let (Some(before), Some(after)) = (rank(&used), rank(&after)) {
            prop_assert!(after <= before, "{} rises to {}", before, after);
        }
    }

    #[test]
    fn use_is_forgotten_steadily(charge in any::<u64>(), half in 0..10_000_000u64, a in 0..100_000_000i64, b in 0..100_000_000i64) {
        let usage = Usage { charge, at: Timestamp::from_secs(0) };
        let of = |secs: i64| decay(usage, Timestamp::from_secs(secs), Seconds(half));
        let (sooner, later) = (of(a.min(b)), of(a.max(b)));
        prop_assert!(later.charge <= sooner.charge && sooner.charge <= charge);
        // In two steps it is what it is in one, but for rounding.
        let steps = decay(sooner, Timestamp::from_secs(a.max(b)), Seconds(half));
        let slack = later.charge / 1_000 + 2;
        prop_assert!(steps.charge.abs_diff(later.charge) <= slack, "{} {}", steps.charge, later.charge);
        // More stays more.
        let less = decay(Usage { charge: charge / 2, ..usage }, Timestamp::from_secs(a), Seconds(half));
        prop_assert!(less.charge <= of(a).charge);
    }

    #[test]
    fn whoever_waits_longer_never_falls_back(site in a_site(), wish in any_wish(), a in 0..2_000u64, b in 0..2_000u64) {
        let weights = Weights { age: site.weights.age.abs(), ..site.weights };
        let mut lab = Site { weights, ..site }.lab();
        let job = lab.submit(wish);
        let total = |waited: u64| {
            let found = factors(&lab.cluster, &lab.policy, lab.now.after(Seconds(waited)), lab.cluster.job(job).unwrap());
            let parts = [found.age, found.fair_share, found.size, found.partition, found.qos, found.own];
            (found, parts.iter().sum::<i64>())
        };
        let ((sooner, sum), (later, _)) = (total(a.min(b)), total(a.max(b)));
        prop_assert_eq!(sooner.total, sum);
        prop_assert!(sooner.age <= later.age && sooner.total <= later.total);
        prop_assert!(later.age <= weights.age);
    }

    #[test]
    fn who_asks_for_less_is_not_behind_by_size(site in a_site(), cpus in 1..64u32, cards in 0..8u32, seconds in 1..100_000u64) {
        let weights = Weights { size: 1000, ..Weights::default() };
        let mut lab = Site { weights, ..site }.lab();
        let mut size = |cpus: u32, cards: u32, seconds: u64| {
            let job = lab.submit(lasting(shape(cpus, cards), seconds));
            factors(&lab.cluster, &lab.policy, lab.now, lab.cluster.job(job).unwrap()).size
        };
        let one = size(cpus, cards, seconds);
        prop_assert!((0..=1000).contains(&one));
        prop_assert!(size(cpus + 1, cards, seconds) <= one);
        prop_assert!(size(cpus, cards + 1, seconds) <= one && size(cpus, cards, seconds * 2) <= one);
    }
}
