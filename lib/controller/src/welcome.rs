//! Links of nodes: which one is taken, and why another is not. One name is one node: whoever is linked is not disturbed by another.

use crate::{
    hub::Hub,
    post::{Bundle, LinkId},
};
use crossbeam_channel::Sender;
use gq_model::{Epoch, NodeName, Seq};
use gq_proto::{Head, LETTER_VERSION, Refusal, RefusalKind};
use std::collections::BTreeMap;

/// What admins are to do when nodes know more than the controller.
const OLD_STATE: &str = "put back gqd's newer state; or, on the node, stop gqnode, see that none of its jobs runs, and remove its \
                         folder below node_dir: it is another node then";

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
    pub(crate) fn welcome(
        &mut self,
        head: &Head,
        link: LinkId,
        out: Sender<Bundle>,
    ) -> Result<Head, Refusal> {
        if let Err(refusal) = self.may_link(head) {
            self.turned_away.say(&head.node, &refusal);
            return Err(refusal);
        }
        self.turned_away.0.remove(&head.node);
        let node = self.cluster.node(&head.node);
        let (epoch, taken, ordered) =
            node.map_or((Epoch(0), Seq(0), Seq(0)), |n| (n.epoch, n.last_report, n.last_order));
        if node.is_some_and(|node| node.id.is_some() && node.id != head.node_id) {
            log::warn!(
                "{}: its log is new, so that it knows nothing of what ran there before: that is UNKNOWN until it boots or is fenced",
                head.node
            );
        }
        if self.couriers.post.acknowledged(&head.node, head.ack) {
            self.keeper.acknowledged.push((head.node.clone(), head.ack));
        }
        let ack = if head.epoch == epoch { taken } else { Seq(0) };
        self.couriers.post.connect(&head.node, (link, head.epoch), out, ack, ordered);
        self.silent.is_back(&head.node);
        log::info!("{}: linked (life {})", head.node, head.epoch);
        let (lowest, highest) = self.couriers.post.span(&head.node, ordered);
        Ok(Head {
            epoch: self.keeper.store.epoch(),
            boot: None,
            beat: 0,
            lowest,
            highest,
            // The last life that was heard of: a node that knows nothing of it has lost what it knew.
            ack_epoch: epoch,
            ack: taken,
            ..head.clone()
        })
    }

    fn may_link(&self, head: &Head) -> Result<(), Refusal> {
        let refuse = |text: String, hint: Option<&str>| {
            Err(Refusal { kind: RefusalKind::Policy, text, hint: hint.map(str::to_owned) })
        };
        if head.version != LETTER_VERSION {
            let text =
                format!("letters of version {}; this gqd speaks version {LETTER_VERSION}", head.version);
            return refuse(text, None);
        }
        if head.cluster != self.keeper.store.cluster_id() {
            return refuse("it belongs to another cluster".into(), None);
        }
        let own = self.keeper.store.epoch();
        if head.ack_epoch > own {
            let text = format!(
                "it has obeyed life {} of gqd, and this is life {own}: gqd's state was put back to an older copy",
                head.ack_epoch
            );
            return refuse(text, Some(OLD_STATE));
        }
        if let Some(linked) = self.couriers.post.linked(&head.node) {
            let text =
                format!("a node of this name is linked already (its life {linked}): one name is one node");
            return refuse(text, Some("gqnode --name gives this one another"));
        }
        let Some(node) = self.cluster.node(&head.node) else { return Ok(()) };
        if head.epoch < node.epoch {
            let text = format!(
                "an older life of it (epoch {}, seen {}): is it a copy of its disk?",
                head.epoch, node.epoch
            );
            return refuse(text, None);
        }
        if head.ack > node.last_order {
            let text = format!(
                "it has taken order {}, and gqd has written {} only: gqd's state was put back to an older copy",
                head.ack, node.last_order
            );
            return refuse(text, Some(OLD_STATE));
        }
        Ok(())
    }
}
