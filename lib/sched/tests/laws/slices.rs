//! Slices: never two on one unit, static ones as they are, the smallest that fits, and where large ones stay possible.

use crate::lab::{Lab, card, cases, cut, declared, shape, slice_shape};
use gq_cluster::{Demand, Event, Shape};
use gq_model::{BootId, Card, CardAsk, CardUse, JobId, MiB, known_grid};
use proptest::prelude::*;

/// One node with these cards, whose slices may be cut anew or not.
fn lab(cards: Vec<Card>, recut: bool) -> Lab {
    let mut lab = Lab::new();
    lab.policy.partitions[0].recut = recut;
    lab.node("ws0", 64, 65_536, cards);
    lab
}

fn uses(lab: &Lab, job: JobId) -> Vec<CardUse> {
    lab.cluster.job(job).unwrap().runs.values().flat_map(|run| run.cards.clone()).collect()
}

/// Where slices of this profile go, one after the other, on one card.
fn order(card: Card, profile: &str, count: u32) -> Vec<u8> {
    let mut lab = lab(vec![card], true);
    (0..count)
        .map(|_| {
            let job = lab.submit(slice_shape(profile, 1));
            lab.start();
            uses(&lab, job)[0].placement.unwrap().start
        })
        .collect()
}

fn by_memory(gib: u64, count: u32, slices: bool) -> Shape {
    let plain = shape(1, 0);
    let cards = CardAsk { count, memory: Some(MiB(gib * 1024)), ..CardAsk::default() };
    Shape { demand: Demand { cards, ..plain.demand }, slices_by_memory: slices, ..plain }
}

#[test]
fn slices_lie_where_the_fewest_others_are_lost() {
    for (model, gib, one, two, three, four) in [
        ("A100", 80, "1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb"),
        ("H200", 141, "1g.18gb", "2g.35gb", "3g.71gb", "4g.71gb"),
    ] {
        let starts = order(cut(0, model, gib, &[]), one, 7);
        assert_eq!(starts[0], 6, "{model}");
        let sets: Vec<Vec<u8>> = starts[1..]
            .chunks(2)
            .map(|pair| {
                let mut pair = pair.to_vec();
                pair.sort_unstable();
                pair
            })
            .collect();
        assert_eq!(sets, [[4, 5], [2, 3], [0, 1]], "{model}: {starts:?}");
        assert_eq!(order(cut(0, model, gib, &[]), two, 3), [4, 2, 0], "{model}");
        assert_eq!(order(cut(0, model, gib, &[]), three, 2), [4, 0], "{model}");
        assert_eq!(order(cut(0, model, gib, &[]), four, 1), [0], "{model}");
    }
    // Nothing is better than another on an empty one of these; then the half that is begun is filled.
    for (model, gib, one, units) in [("A30", 24, "1g.6gb", 1u8), ("RTX PRO 6000", 95, "1g.24gb", 3)] {
        let starts = order(cut(0, model, gib, &[]), one, 4);
        let half = |at: u8| starts[usize::from(at)] / (2 * units);
        assert_eq!(half(0), half(1), "{model}: {starts:?}");
        assert_eq!(half(2), half(3), "{model}: {starts:?}");
    }
}

#[test]
fn a_large_slice_stays_possible_beside_small_ones() {
    let mut lab = lab(vec![cut(0, "A100", 80, &[])], true);
    for _ in 0..3 {
        lab.submit(slice_shape("1g.10gb", 1));
    }
    lab.start();
    let large = lab.submit(slice_shape("4g.40gb", 1));
    lab.start();
    assert!(lab.is_running(large));
}

#[test]
fn the_card_that_is_begun_is_filled_before_another_is_cut() {
    let mut lab = lab(vec![cut(0, "A100", 80, &[]), cut(1, "A100", 80, &[])], true);
    let jobs: Vec<JobId> = (0..3).map(|_| lab.submit(slice_shape("1g.10gb", 1))).collect();
    lab.start();
    let cards: Vec<u32> = jobs.iter().map(|job| uses(&lab, *job)[0].index).collect();
    assert_eq!(cards, [cards[0]; 3]);
    let whole = lab.submit(slice_shape("7g.80gb", 1));
    lab.start();
    assert!(lab.is_running(whole), "one card is left for it");
}

#[test]
fn by_memory_the_smallest_slice_is_taken_and_else_the_smallest_card() {
    let cards = || vec![cut(0, "A100", 80, &[]), card(1, "RTX 3090", 24), card(2, "A100-PCIE-40GB", 40)];
    let profile = |lab: &Lab, job| uses(lab, job)[0].slice.clone();
    for (gib, recut, name) in
        [(6, true, Some("1g.10gb")), (20, true, Some("1g.20gb")), (40, true, Some("3g.40gb"))]
    {
        let mut lab = lab(cards(), recut);
        let job = lab.submit(by_memory(gib, 1, true));
        lab.start();
        assert_eq!(profile(&lab, job).as_deref(), name, "{gib}");
    }
    // No slice is there, and none may be cut: the smallest card.
    let mut lab_ = lab(cards(), false);
    let (small, large) = (lab_.submit(by_memory(20, 1, true)), lab_.submit(by_memory(30, 1, true)));
    lab_.start();
    assert_eq!((lab_.cards_of(small), lab_.cards_of(large)), (vec![1], vec![2]));
    // The partition says no slices, or no cards.
    let mut lab_ = lab(cards(), true);
    let job = lab_.submit(by_memory(20, 1, false));
    lab_.start();
    assert_eq!(profile(&lab_, job), None);
    let mut lab_ = lab(vec![card(0, "RTX 3090", 24)], true);
    lab_.policy.partitions[0].cards_by_memory = false;
    let job = lab_.submit(by_memory(20, 1, true));
    lab_.start();
    assert!(!lab_.is_running(job));
}

#[test]
fn slices_that_are_there_are_used_before_others_are_cut_where_it_costs_nothing() {
    let there = cut(0, "A100", 80, &[("1g.10gb", 6)]);
    let mut lab = lab(vec![there], true);
    let job = lab.submit(slice_shape("1g.10gb", 1));
    lab.start();
    assert_eq!(uses(&lab, job)[0].uuid.as_deref(), Some("MIG-0-6-1"));
}

#[test]
fn a_slice_that_is_gone_keeps_only_from_what_needs_it() {
    let mut lab = lab(vec![cut(0, "A100", 80, &[("1g.10gb", 6), ("3g.40gb", 0)])], false);
    let small = lab.submit(slice_shape("1g.10gb", 1));
    lab.start();
    lab.apply(Event::NodeFound {
        node: crate::lab::name("ws0"),
        boot: Some(BootId([1; 16])),
        id: None,
        cpus: 64,
        memory: MiB(65_536),
        features: Vec::new(),
        cards: vec![cut(0, "A100", 80, &[("3g.40gb", 0)])],
    });
    let (again, large) = (lab.submit(slice_shape("1g.10gb", 1)), lab.submit(slice_shape("3g.40gb", 1)));
    lab.start();
    assert!(lab.is_running(small) && lab.is_running(large) && !lab.is_running(again));
}

/// A card as it is cut: profiles and where they lie, none over another.
fn cuts() -> impl Strategy<Value = Vec<(usize, usize)>> {
    prop::collection::vec((0..7usize, 0..7usize), 0..6)
}

proptest! {
    #![proptest_config(cases(192))]
    /// Every card and every set of requests: no unit twice, static slices only as they are, and whoever is left would not fit.
    #[test]
    fn slices_never_overlap_and_static_ones_are_used_as_they_are(
        kinds in prop::collection::vec((0..4usize, cuts()), 1..4),
        recut in any::<bool>(),
        asks in prop::collection::vec((0..12usize, 1..3u32), 1..14),
    ) {
        let models = [("A100", 80), ("A30", 24), ("RTX PRO 6000", 95)];
        let mut cards = Vec::new();
        for (index, (kind, cuts)) in (0u32..).zip(&kinds) {
            let Some((model, gib)) = models.get(*kind) else {
                cards.push(declared(index, 3));
                continue;
            };
            let grid = known_grid(model, MiB(gib * 1024)).unwrap();
            let (mut taken, mut slices) = (0u16, Vec::new());
            for (profile, at) in cuts {
                let profile = &grid.profiles[*profile % grid.profiles.len()];
                let places: Vec<_> = profile.placements().collect();
                let place = places[*at % places.len()];
                if place.mask() & taken == 0 {
                    taken |= place.mask();
                    slices.push((profile.name.as_str(), place.start));
                }
            }
            cards.push(cut(index, model, *gib, &slices));
        }
        let names = ["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb", "1g.6gb", "2g.12gb",
            "4g.24gb", "1g.24gb", "2g.48gb", "4g.96gb"];
        let mut lab = lab(cards, recut);
        for (name, count) in asks {
            lab.submit(slice_shape(names[name], count));
        }
        lab.policy.depth = gq_cluster::Depth::First(0);
        lab.pass(crate::audit::check_starts)?;
        // Whoever waits finds no place: by trying all.
        for job in lab.cluster.jobs().filter(|job| !job.waiting.is_empty()) {
            let ask = &job.shape.demand.cards;
            let used = crate::audit::in_use(&lab.cluster).remove("ws0").unwrap_or_default().units;
            let node = lab.cluster.node(&crate::lab::name("ws0")).unwrap();
            let mut free = 0;
            for card in &node.cards {
                // Places of one profile either are the same or share nothing: they can be counted.
                let wanted = ask.profile.as_deref().unwrap();
                let is_free = |at: &gq_model::Placement| {
                    (at.start..at.start + at.size).all(|unit| !used.contains(&(card.index, unit)))
                };
                let there = (0..card.slices.len())
                    .filter(|at| card.slices[*at].profile == wanted)
                    .filter_map(|at| gq_cluster::slice_place(card, at));
                let profile = card.grid.as_ref().and_then(|grid| grid.profile(wanted));
                let places: std::collections::BTreeSet<_> = match profile.filter(|_| recut) {
                    Some(profile) => profile.placements().filter(is_free).collect(),
                    None => there.filter(is_free).collect(),
                };
                free += u32::try_from(places.len()).unwrap();
            }
            prop_assert!(free < ask.count, "{} waits and {} places are free", job.id, free);
        }
    }
}
