//! Tests of declared cards in MIG mode: what they can be cut into, and where their slices lie.

use super::{bad, good};
use gq_model::{Card, Placement};

fn card(model: &str, memory: &str, lines: &str) -> String {
    format!("[[node]]\nname = \"n\"\n[[node.gpu]]\nmodel = \"{model}\"\nmemory = \"{memory}\"\n{lines}\n")
}

fn read(model: &str, memory: &str, lines: &str) -> Card {
    good(&card(model, memory, lines)).nodes[0].cards[0].clone()
}

#[test]
fn a_card_in_mig_mode_knows_what_it_can_be_cut_into() {
    let whole = read("A100-SXM4-80GB", "80G", "");
    assert!(!whole.mig && whole.grid.is_none());
    let bare = read("A100-SXM4-80GB", "80G", "mig = true");
    assert!(bare.mig && bare.slices.is_empty());
    let grid = bare.grid.unwrap();
    assert_eq!(grid.units, 8);
    assert!(grid.profile("3g.40gb").is_some());
    let cut = read("NVIDIA A30", "24G", "slices = [\"2g.12gb\"]");
    assert_eq!((cut.mig, cut.grid.map(|grid| grid.units)), (true, Some(4)));
    // Of a card in no table nothing is known, and it may be cut by hand.
    let strange = read("X1", "80G", "slices = [\"3g.40gb\"]");
    assert!(strange.mig && strange.grid.is_none() && strange.slices[0].placement.is_none());
    let found = bad(&card("A30", "24G", "mig = false\nslices = [\"2g.12gb\"]"));
    assert_eq!((found.len(), found[0].0, found[0].1), (1, 6, 7), "{found:?}");
}

#[test]
fn whole_cards_of_a_node_may_be_shared() {
    let cut = "[[node.gpu]]\nmodel = \"A30\"\nmemory = \"24G\"\nmig = true";
    let text = card("A100", "80G", cut)
        .replace("[[node.gpu]]\nmodel = \"A100", "gpu_share = 8\n[[node.gpu]]\nmodel = \"A100");
    let node = good(&text).nodes.remove(0);
    assert_eq!((node.gpu_share, node.cards[0].parts, node.cards[1].parts), (8, 8, 0));
    assert_eq!(good(&card("A100", "80G", "")).nodes[0].cards[0].parts, 0);
    for parts in ["1", "17", "-1", "true"] {
        let found = bad(&format!("[[node]]\nname = \"n\"\ngpu_share = {parts}\n"));
        assert_eq!((found.len(), found[0].0, found[0].1), (1, 3, 13), "{found:?}");
    }
}

#[test]
fn declared_slices_lie_apart_whatever_their_order() {
    let sets: &[(&str, &str, &[&str])] = &[
        ("A100-SXM4-80GB", "80G", &["7g.80gb"]),
        ("A100-SXM4-80GB", "80G", &["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"]),
        ("A100-SXM4-80GB", "80G", &["1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"]),
        ("A100-SXM4-80GB", "80G", &["3g.40gb", "3g.40gb"]),
        ("A100-SXM4-80GB", "80G", &["3g.40gb", "4g.40gb"]),
        ("A100-SXM4-80GB", "80G", &["1g.10gb"; 7]),
        ("A100-SXM4-80GB", "80G", &["1g.20gb"; 4]),
        ("A100-SXM4-80GB", "80G", &["2g.20gb", "1g.10gb", "2g.20gb", "2g.20gb"]),
        ("NVIDIA A30", "24G", &["1g.6gb", "2g.12gb", "1g.6gb"]),
        ("RTX PRO 6000", "96G", &["1g.24gb", "2g.48gb", "1g.24gb-me"]),
    ];
    for (model, memory, profiles) in sets {
        let card = read(model, memory, &format!("slices = {profiles:?}"));
        let grid = card.grid.unwrap();
        let mut taken = 0u16;
        for (slice, name) in card.slices.iter().zip(*profiles) {
            let place = slice.placement.unwrap_or_else(|| panic!("{profiles:?}: {name} has no place"));
            assert_eq!(slice.profile, *name);
            assert!(
                grid.profile(name).unwrap().placements().any(|known| known == place),
                "{name} at {place:?}"
            );
            assert_eq!(taken & place.mask(), 0, "{profiles:?} overlap");
            taken |= place.mask();
        }
    }
    let alone = read("A100-SXM4-80GB", "80G", "slices = [\"1G.10GB\"]");
    assert_eq!(alone.slices[0].placement, Some(Placement { start: 6, size: 1 }));
}

#[test]
fn slices_that_cannot_lie_on_the_card_are_refused() {
    for profiles in [
        &["4g.40gb", "4g.40gb"][..],
        &["1g.10gb+me", "1g.10gb+me"],
        &["2g.20gb", "2g.20gb", "2g.20gb", "2g.20gb"],
        // As many units as the card has, and the last cannot begin in its last unit.
        &["2g.20gb", "1g.10gb", "2g.20gb", "1g.10gb", "2g.20gb"],
    ] {
        let found = bad(&card("A100-SXM4-80GB", "80G", &format!("slices = {profiles:?}")));
        let text = "more slices than the card can hold together".to_string();
        assert_eq!(found, [(6, 10, text, String::new())], "{profiles:?}");
    }
    let found = bad(&card("A100-SXM4-40GB", "40G", "slices = [\"3g.40gb\"]"));
    let hint = "one of 1g.5gb, 1g.5gb+me, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb, 7g.40gb".to_string();
    let text = "A100-SXM4-40GB with 40G has no profile 3g.40gb".to_string();
    assert_eq!(found, [(6, 10, text, hint)]);
}
