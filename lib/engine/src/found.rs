//! What a node has: as the conf declares it, else as the node found it, with what it has lost since it was booted. Never says who gets it.

use crate::Decision;
use alloc::{string::ToString, vec::Vec};
use gq_cluster::{Cluster, Event, Link, Node, Policy};
use gq_model::{BootId, Card, CardHealth, MiB, NodeId, NodeName};

/// What a node has to say of itself: boot and identity, cpus, memory, cards.
type Has<'a> = ((Option<BootId>, Option<NodeId>), u32, MiB, &'a [Card]);

/// What a node has: as declared, else as found. `before`: the node as it was known.
pub(crate) fn found(policy: &Policy, before: Option<&Node>, name: &NodeName, has: Has<'_>) -> Event {
    let ((boot, id), cpus, memory, cards) = has;
    let declared = policy.declared.get(name);
    // A card that was there since the machine was booted has gone, and nobody can have taken it out; what the conf declares is all there is.
    let known = before.filter(|node| node.boot == boot && declared.is_none_or(|d| d.cards.is_empty()));
    Event::NodeFound {
        node: name.clone(),
        boot,
        id,
        cpus: declared.and_then(|d| d.cpus).unwrap_or(cpus),
        memory: declared.and_then(|d| d.memory).unwrap_or(memory),
        features: declared.map(|d| d.features.clone()).unwrap_or_default(),
        cards: known.map_or_else(|| cards.to_vec(), |node| with_lost(cards, &node.cards)),
    }
}

/// The cards that were found, and those known `before` that were not: these fail. A card that does not tell its name is the one that had its
/// number.
fn with_lost(found: &[Card], before: &[Card]) -> Vec<Card> {
    let mut all = found.to_vec();
    let lost =
        before.iter().filter(|card| card.uuid.is_some() && !found.iter().any(|it| it.uuid == card.uuid));
    for card in lost {
        let is_nameless = |it: &&mut Card| {
            it.index == card.index && it.uuid.is_none() && it.model.is_empty() && !it.health.is_good()
        };
        if let Some(nameless) = all.iter_mut().find(is_nameless) {
            *nameless = Card { health: nameless.health.clone(), ..card.clone() };
            continue;
        }
        let is_used =
            |index: u32| all.iter().chain(before).any(|it| it.index == index && it.uuid != card.uuid);
        let index =
            core::iter::once(card.index).chain(0..).find(|index| !is_used(*index)).unwrap_or(card.index);
        let health = CardHealth::Failed("its node no longer finds it".to_string());
        all.push(Card { index, health, ..card.clone() });
    }
    all.sort_by_key(|card| card.index);
    all
}

/// Nodes that the conf declares become known; what it says of nodes that were seen replaces what they had.
pub(crate) fn declared(cluster: &Cluster, policy: &Policy) -> Decision {
    let mut decision = Decision::default();
    for (name, declared) in &policy.declared {
        let event = match cluster.node(name) {
            Some(node) if node.boot.is_some() => {
                found(policy, None, name, ((node.boot, None), node.cpus, node.memory, &node.cards))
            }
            _ => {
                let (cpus, memory) = (declared.cpus.unwrap_or(0), declared.memory.unwrap_or_default());
                found(policy, None, name, ((None, None), cpus, memory, &declared.cards))
            }
        };
        let unchanged = |node: &Node| match &event {
            Event::NodeFound { cpus, memory, features, cards, .. } => {
                (node.cpus, node.memory, &node.features, &node.cards) == (*cpus, *memory, features, cards)
            }
            _ => false,
        };
        if !cluster.node(name).is_some_and(|node| unchanged(node)) {
            decision.events.push(event);
        }
        // What was forgotten and is declared is listed as one that was never seen.
        if cluster.node(name).is_some_and(|node| node.link == Link::Forgotten) {
            decision.events.push(Event::NodeSeen { node: name.clone(), link: Link::Absent });
        }
    }
    decision
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn card(index: u32, name: &str) -> Card {
        let uuid = (!name.is_empty()).then(|| format!("GPU-{name}"));
        Card { uuid, ..Card::whole(index, if name.is_empty() { "" } else { "A100" }, MiB(1)) }
    }

    fn told(cards: &[Card]) -> Vec<(u32, Option<&str>, Option<&str>)> {
        cards.iter().map(|card| (card.index, card.uuid.as_deref(), card.health.trouble())).collect()
    }

    #[test]
    fn a_card_that_is_found_no_more_is_failing_and_not_forgotten() {
        let before = [card(0, "a"), card(1, "b"), card(2, "c")];
        let gone = Some("its node no longer finds it");
        assert_eq!(with_lost(&before, &before), before);
        // Begun anew, the node numbers them as it finds them.
        let found = with_lost(&[card(0, "a"), card(1, "c")], &before);
        assert_eq!(
            told(&found),
            [(0, Some("GPU-a"), None), (1, Some("GPU-c"), None), (3, Some("GPU-b"), gone)]
        );
        // The next report says no more of it, and it stays.
        let next = with_lost(&[card(0, "a"), card(1, "c")], &found);
        assert_eq!(told(&next), told(&found));
        assert_eq!(with_lost(&before, &found), before, "it is back");
        let all_gone = with_lost(&[], &before);
        assert_eq!(
            told(&all_gone),
            [(0, Some("GPU-a"), gone), (1, Some("GPU-b"), gone), (2, Some("GPU-c"), gone)]
        );
        // One that does not tell its name is the one that was there.
        let lost = Card { health: CardHealth::Failed("XID 79".into()), ..card(1, "") };
        let found = with_lost(&[card(0, "a"), lost, card(2, "c")], &before);
        assert_eq!(told(&found)[1], (1, Some("GPU-b"), Some("XID 79")));
    }
}
