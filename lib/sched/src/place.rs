//! Placement: which node, and which cards of it. Never decides whose turn it is.

use crate::space::Space;
use alloc::vec::Vec;
use core::cmp::Reverse;
use gq_cluster::{Memory, Node, Policy, Shape};
use gq_model::{Card, CardAsk, CardUse, MiB, NodeName, Timestamp};

/// Whether a job of this shape may be on this node at all, by partition, node lists and features.
pub fn eligible_by_name(shape: &Shape, node: &Node, policy: &Policy) -> bool {
    policy.partition(&shape.partition).is_some_and(|p| p.has(&node.name))
        && (shape.nodelist.is_empty() || shape.nodelist.contains(&node.name))
        && !shape.exclude.contains(&node.name)
        && shape.features.iter().all(|f| node.features.contains(f))
}

/// Whether a node with these things, empty and well, could run a job of this shape.
pub fn could_ever(shape: &Shape, cpus: u32, memory: MiB, cards: &[Card]) -> bool {
    let fits_memory = match shape.demand.memory {
        Memory::Amount(m) => m <= memory,
        Memory::WholeNode => true,
    };
    let whole = cards.iter().filter(|c| !c.mig && is_wanted(&shape.demand.cards, c)).count();
    shape.demand.cpus <= cpus && fits_memory && whole >= shape.demand.cards.count as usize
}

fn is_wanted(ask: &CardAsk, card: &Card) -> bool {
    ask.model.as_ref().is_none_or(|model| card.is_model(model))
        && ask.memory.is_none_or(|least| card.offers(least))
}

/// Whether this node, empty and with the cards that are well now, could run a job of this shape.
pub(crate) fn could_now(shape: &Shape, node: &Node) -> bool {
    let well = node.whole_cards().filter(|card| is_wanted(&shape.demand.cards, card)).count();
    could_ever(shape, node.cpus, node.memory, &node.cards) && well >= shape.demand.cards.count as usize
}

/// Chooses cards among free ones: the smallest that fit, and of those the ones nearest to each other by NVLink; a single card is
/// taken where it breaks the fewest links. Returns `None` when there are too few.
pub(crate) fn choose_cards<'a>(ask: &CardAsk, free: Vec<&'a Card>) -> Option<Vec<&'a Card>> {
    let count = ask.count as usize;
    let mut pool: Vec<&Card> = free.into_iter().filter(|card| is_wanted(ask, card)).collect();
    if pool.len() < count {
        return None;
    }
    if count == 0 {
        return Some(Vec::new());
    }
    pool.sort_by_key(|card| (card.memory, card.index));
    let largest = pool.get(count - 1)?.memory;
    pool.retain(|card| card.memory <= largest);
    let links = |card: &Card, others: &[&Card]| -> u32 {
        let near = card.nvlink.iter().filter(|(peer, _)| others.iter().any(|o| o.index == *peer));
        near.fold(0, |sum, (_, n)| sum.saturating_add(*n))
    };
    if count == 1 {
        return pool
            .iter()
            .min_by_key(|card| (card.memory, links(card, &pool), card.index))
            .map(|card| alloc::vec![*card]);
    }
    let grow = |seed: &&'a Card| {
        let mut chosen = alloc::vec![*seed];
        let mut total = 0u32;
        while chosen.len() < count {
            let rest = pool.iter().filter(|card| !chosen.iter().any(|c| c.index == card.index));
            let next =
                rest.max_by_key(|card| (Reverse(card.memory), links(card, &chosen), Reverse(card.index)))?;
            total = total.saturating_add(links(next, &chosen));
            chosen.push(*next);
        }
        chosen.sort_by_key(|card| card.index);
        Some((total, chosen))
    };
    let sets = pool.iter().filter_map(grow);
    // Of equally near sets the one with the lowest indices, so that the same input gives the same plan.
    sets.max_by_key(|(total, set)| {
        let memory: u64 = set.iter().map(|c| c.memory.0).sum();
        (Reverse(memory), *total, Reverse(set.iter().map(|c| c.index).collect::<Vec<_>>()))
    })
    .map(|(_, set)| set)
}

/// Where a job would be put.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    pub(crate) space: usize,
    pub(crate) node: NodeName,
    pub(crate) cards: Vec<CardUse>,
}

/// Finds the best node for a job of this shape at `start` among `candidates` (indices into `spaces`).
///
/// The order of preference: the smallest cards; for jobs without cards, nodes with the fewest cards; then the node that is left
/// with the fewest free cards and cpus (fill what is begun); then the name.
pub(crate) fn best_spot(
    spaces: &[Space<'_>],
    candidates: &[usize],
    shape: &Shape,
    start: Timestamp,
    now: Timestamp,
) -> Option<Spot> {
    let fit = |index: usize| {
        let space = spaces.get(index)?;
        let free = space.free_cards_at(shape, start, now)?;
        let free_count = free.len();
        let cards = choose_cards(&shape.demand.cards, free)?;
        let largest = cards.iter().map(|c| c.memory).max().unwrap_or_default();
        let idle_cards =
            if cards.is_empty() { space.node.whole_cards().count() } else { free_count - cards.len() };
        let cpus_left = space.cpus_free().saturating_sub(space.cpus_for(shape));
        let uses = cards
            .iter()
            .map(|c| CardUse { index: c.index, uuid: c.uuid.clone(), slice: None, placement: None })
            .collect();
        Some(((largest, idle_cards, cpus_left, &space.node.name), index, uses))
    };
    let (_, index, cards): (_, usize, Vec<CardUse>) =
        candidates.iter().filter_map(|i| fit(*i)).min_by(|a, b| a.0.cmp(&b.0))?;
    Some(Spot { space: index, node: spaces.get(index)?.node.name.clone(), cards })
}
