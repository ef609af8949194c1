//! The pulse: what the cards of nodes do now, as they told it last. Kept in memory as long as a node's link lives, by whoever reads that link; never
//! a part of the state, and written nowhere.

use crate::post::LinkId;
use gq_model::{MiB, NodeName};
use gq_proto::{CardNow, MAX_CARDS_NOW};
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

/// What the cards of one node do, and over which link it was told.
type Told = (LinkId, BTreeMap<String, (Option<u8>, Option<MiB>)>);

/// What the cards of all nodes do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pulse(Arc<RwLock<BTreeMap<NodeName, Told>>>);

impl Pulse {
    /// A node has told it.
    pub(crate) fn take(&self, node: &NodeName, link: LinkId, cards: Vec<CardNow>) {
        let bounded = |busy: Option<u8>| busy.map(|percent| percent.min(100));
        let cards = cards.into_iter().take(MAX_CARDS_NOW);
        let cards = cards.map(|card| (card.uuid, (bounded(card.busy), card.memory))).collect();
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(node.clone(), (link, cards));
    }

    /// A link has ended: what was told over it is not known any more.
    pub(crate) fn forget(&self, node: &NodeName, link: LinkId) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if all.get(node).is_some_and(|(told, _)| *told == link) {
            all.remove(node);
        }
    }

    /// How busy a card is, in percent, and how much of its memory is taken, as far as that is known.
    pub(crate) fn of(&self, node: &NodeName, uuid: Option<&str>) -> (Option<u8>, Option<MiB>) {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let card = all.get(node).zip(uuid).and_then(|((_, cards), uuid)| cards.get(uuid).copied());
        card.unwrap_or((None, None))
    }
}
