//! Links of nodes: one that is welcome is taken, and why another is not is said once.

use crate::{
    hub::Hub,
    post::{Bundle, LinkId},
    welcome::Known,
};
use crossbeam_channel::Sender;
use gq_model::{NodeName, Seq};
use gq_proto::{Head, Refusal};
use std::collections::BTreeMap;

/// Why nodes were turned away last, so that it is said aloud once.
#[derive(Default)]
pub(crate) struct TurnedAway(BTreeMap<NodeName, String>);

impl TurnedAway {
    fn say(&mut self, node: &NodeName, refusal: &Refusal) {
        if self.0.get(node) != Some(&refusal.text) {
            log::error!("node {node} is turned away: {}", refusal.text);
            self.0.insert(node.clone(), refusal.text.clone());
        }
    }
}

impl Hub {
    /// Takes a node's link, or says why not.
    pub(crate) fn take_link(
        &mut self,
        head: &Head,
        link: LinkId,
        out: Sender<Bundle>,
    ) -> Result<Head, Refusal> {
        let node = self.cluster.node(&head.node).map(|node| &**node);
        let known = Known {
            cluster: self.keeper.store.cluster_id(),
            epoch: self.keeper.store.epoch(),
            node,
            linked: self.couriers.post.linked(&head.node),
        };
        if let Err(refusal) = known.welcome(head) {
            self.turned_away.say(&head.node, &refusal);
            return Err(refusal);
        }
        self.turned_away.0.remove(&head.node);
        if node.is_some_and(|node| node.id.is_some() && node.id != head.node_id) {
            log::warn!(
                "{}: its log is new, so that it knows nothing of what ran there before: that is UNKNOWN until it boots or is fenced",
                head.node
            );
        }
        if self.couriers.post.acknowledged(&head.node, head.ack) {
            self.keeper.acknowledged.push((head.node.clone(), head.ack));
        }
        let ordered = node.map_or(Seq(0), |node| node.last_order);
        self.couriers.post.connect(&head.node, (link, head.epoch), out, known.taken(head), ordered);
        self.silent.is_back(&head.node);
        log::info!("{}: linked (life {})", head.node, head.epoch);
        Ok(known.answer(head, self.couriers.post.span(&head.node, ordered)))
    }
}
