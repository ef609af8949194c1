//! Baselines: plain rules of placement, to hold the planner's own against. They place what arrives and never wait, without the engine;
//! only for workloads in which nothing ends (see `fill`).

use crate::{
    fill::Dice,
    fragmentation::{CardState, NodeState, Wish},
    options::PlacementAsk,
};
use gq_model::{MiB, Placement};

/// Places a job by a plain rule. Returns whether it fitted anywhere.
pub(crate) fn place(nodes: &mut [NodeState], wish: &Wish, rule: PlacementAsk, dice: &mut Dice) -> bool {
    let fits = |node: &NodeState| node.takes(wish);
    let chosen = match rule {
        PlacementAsk::First | PlacementAsk::Frag => nodes.iter().position(fits),
        PlacementAsk::Best => {
            let all = nodes.iter().enumerate().filter(|(_, node)| fits(node));
            all.min_by_key(|(at, node)| (node.free(), node.cpus_free, *at)).map(|(at, _)| at)
        }
        PlacementAsk::Random => {
            let all: Vec<usize> =
                nodes.iter().enumerate().filter(|(_, node)| fits(node)).map(|(at, _)| at).collect();
            if all.is_empty() { None } else { all.get(dice.below(all.len())).copied() }
        }
    };
    let Some(node) = chosen.and_then(|at| nodes.get_mut(at)) else { return false };
    node.cpus_free = node.cpus_free.saturating_sub(wish.cpus);
    node.memory_free = MiB(node.memory_free.0.saturating_sub(wish.memory.0));
    for _ in 0..wish.count {
        take_one(&mut node.cards, wish.profile.as_deref(), rule, dice);
    }
    true
}

/// Takes one card or slice of a node on which one is free.
fn take_one(cards: &mut [CardState], profile: Option<&str>, rule: PlacementAsk, dice: &mut Dice) {
    let open = |card: &CardState| card.places(profile).next().is_some();
    let all: Vec<usize> = cards.iter().enumerate().filter(|(_, card)| open(card)).map(|(at, _)| at).collect();
    let chosen = match rule {
        PlacementAsk::First | PlacementAsk::Frag => all.first().copied(),
        PlacementAsk::Best => all.iter().copied().min_by_key(|at| (cards.get(*at).map(CardState::free), *at)),
        PlacementAsk::Random if all.is_empty() => None,
        PlacementAsk::Random => all.get(dice.below(all.len())).copied(),
    };
    let Some(card) = chosen.and_then(|at| cards.get_mut(at)) else { return };
    let places: Vec<Placement> = card.places(profile).collect();
    let place = match rule {
        PlacementAsk::Random if !places.is_empty() => places.get(dice.below(places.len())),
        _ => places.first(),
    };
    card.taken |= place.map_or(0, |place| place.mask());
}
