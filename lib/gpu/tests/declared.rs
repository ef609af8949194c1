//! Declared cards beside found ones.

use gq_gpu::merge;
use gq_model::{Card, CardHealth, MiB, Placement, Slice, known_grid};

fn slice(profile: &str, real: Option<u32>) -> Slice {
    Slice {
        profile: profile.to_string(),
        uuid: real.map(|id| format!("MIG-{id}")),
        memory: MiB(10_240),
        gpu_instance: real,
        compute_instance: real.map(|_| 0),
        placement: None,
        health: CardHealth::Good,
    }
}

fn declared(model: &str, slices: &[&str]) -> Card {
    Card {
        mig: !slices.is_empty(),
        slices: slices.iter().map(|profile| slice(profile, None)).collect(),
        ..Card::whole(0, model, MiB(81_920))
    }
}

fn found(index: u32, model: &str) -> Card {
    Card {
        uuid: Some(format!("GPU-{index}")),
        minor: Some(7 - index),
        nvlink: (0..4).filter(|other| *other != index).map(|other| (other, 12)).collect(),
        ..Card::whole(index, model, MiB(81_559))
    }
}

const A100: &str = "NVIDIA A100-SXM4-80GB";

fn four() -> Vec<Card> {
    (0..4).map(|index| found(index, A100)).collect()
}

#[test]
fn with_nothing_declared_the_found_cards_stand() {
    assert_eq!(merge(four(), &[]), four());
    assert_eq!(merge(Vec::new(), &[]), []);
}

#[test]
fn with_nothing_found_the_declared_cards_are_numbered_from_0() {
    let cards = merge(
        Vec::new(),
        &[declared("MI300X", &[]), declared("A100", &["1g.10gb"]), declared("MI300X", &[])],
    );
    assert_eq!(cards.iter().map(|card| card.index).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(cards.iter().map(|card| card.mig).collect::<Vec<_>>(), [false, true, false]);
    assert!(cards.iter().all(|card| card.uuid.is_none() && card.health == CardHealth::Good));
}

#[test]
fn a_declared_card_is_the_found_one_of_its_index_when_the_model_fits() {
    let cards = merge(four(), &[declared("a100", &[]), declared("A100-SXM4", &[]), declared("H100", &[])]);
    assert_eq!(cards.len(), 3, "exactly the declared ones");
    assert_eq!(
        (cards[0].uuid.as_deref(), cards[0].minor, cards[0].memory),
        (Some("GPU-0"), Some(7), MiB(81_920))
    );
    assert_eq!(cards[0].model, "a100", "what is declared wins");
    assert_eq!(cards[0].nvlink, [(1, 12)], "no link to a card that is not declared, or is another one");
    assert_eq!(cards[1].nvlink, [(0, 12)]);
    assert_eq!((cards[2].uuid.as_ref(), cards[2].minor, cards[2].nvlink.len()), (None, None, 0));
}

#[test]
fn more_cards_may_be_declared_than_are_found() {
    let cards = merge(vec![found(0, A100)], &[declared("A100", &[]), declared("A100", &[])]);
    assert_eq!(cards.iter().map(|card| card.uuid.as_deref()).collect::<Vec<_>>(), [Some("GPU-0"), None]);
    assert!(cards[0].nvlink.is_empty());
}

#[test]
fn a_failed_card_is_failed_as_a_declared_one_too() {
    let mut cards = four();
    cards[0].health = CardHealth::Failed("lost".to_string());
    cards[1] = Card {
        model: String::new(),
        uuid: None,
        health: CardHealth::Failed("mute".to_string()),
        ..cards[1].clone()
    };
    let merged = merge(cards, &[declared("A100", &[]), declared("A100", &[]), declared("A100", &[])]);
    assert_eq!(merged[0].health, CardHealth::Failed("lost".to_string()));
    assert_eq!(
        merged[1].health,
        CardHealth::Failed("mute".to_string()),
        "it never told that it is another model"
    );
    assert_eq!(merged[2].health, CardHealth::Good);
}

#[test]
fn declared_slices_are_the_found_ones_of_their_profile_each_once() {
    let mut card = found(0, A100);
    card.mig = true;
    card.slices = vec![slice("1g.10gb", Some(9)), slice("3g.40gb", Some(2)), slice("1g.10gb", Some(10))];
    let merge_with = |slices: &[&str]| merge(vec![card.clone()], &[declared("A100", slices)]).remove(0);

    let whole_cut = merge_with(&["3g.40gb", "1g.10gb", "1g.10gb"]);
    assert_eq!(whole_cut.health, CardHealth::Good);
    let uuids: Vec<_> = whole_cut.slices.iter().filter_map(|it| it.uuid.as_deref()).collect();
    assert_eq!(uuids, ["MIG-2", "MIG-9", "MIG-10"]);
    assert_eq!(whole_cut.slices[0].gpu_instance, Some(2));

    assert_eq!(merge_with(&["1G.10GB"]).slices.len(), 1, "fewer may be declared than there are");

    for (slices, word) in [
        (["3g.40gb", "3g.40gb"].as_slice(), "3g.40gb"),
        (["2g.20gb"].as_slice(), "2g.20gb"),
        ([].as_slice(), "MIG mode"),
    ] {
        let bad = merge_with(slices);
        assert!(matches!(&bad.health, CardHealth::Failed(words) if words.contains(word)), "{bad:?}");
    }
    let bad = merge(four(), &[declared("A100", &["1g.10gb"])]).remove(0);
    assert!(matches!(&bad.health, CardHealth::Failed(words) if words.contains("not in MIG mode")), "{bad:?}");
}

#[test]
fn a_card_declared_in_mig_mode_is_cut_as_it_was_found() {
    let placed = |slice: Slice, start| Slice { placement: Some(Placement { start, size: 1 }), ..slice };
    let mut real = found(0, A100);
    (real.mig, real.grid) = (true, known_grid(A100, MiB(81_920)));
    real.slices = vec![placed(slice("1g.10gb", Some(9)), 5)];
    // Without slices: those that are there now, whatever they are; the driver's grid.
    let open = Card { mig: true, grid: known_grid("A30", MiB(24_576)), ..declared("A100", &[]) };
    let merged = merge(vec![real.clone()], std::slice::from_ref(&open)).remove(0);
    assert_eq!((&merged.slices, &merged.grid, merged.mig), (&real.slices, &real.grid, true));
    assert_eq!(merged.health, CardHealth::Good);
    // With slices: each lies where the found one does, not where the conf guessed.
    let mut guessed = declared("A100", &["1g.10gb"]);
    guessed.slices[0].placement = Some(Placement { start: 6, size: 1 });
    let merged = merge(vec![real.clone()], &[guessed.clone()]).remove(0);
    assert_eq!(merged.slices[0].placement, Some(Placement { start: 5, size: 1 }));
    // One that stands for itself keeps what was declared.
    let alone = merge(Vec::new(), &[open.clone(), guessed.clone()]);
    assert_eq!((alone[0].mig, &alone[0].grid), (true, &open.grid));
    assert_eq!(alone[1].slices, guessed.slices);
}
