//! Whether a node that comes with its head is spoken to, and what it is told. One name is one node: whoever is linked is not disturbed by
//! another. Decides by what is known of the node; touches nothing.

use gq_cluster::Node;
use gq_model::{ClusterId, Epoch, Seq};
use gq_proto::{Head, LETTER_VERSION, Refusal, RefusalKind};

/// What admins are to do when nodes know more than the controller.
const OLD_STATE: &str = "put back gqd's newer state; or, on the node, stop gqnode, see that none of its jobs runs, and remove its \
                         folder below node_dir: it is another node then";

/// What admins are to do when the node has read the name of another cluster.
const OTHER_CLUSTER: &str = "see that spool_dir in its gq.conf is the spool of this gqd: a node belongs to the cluster whose cluster.uuid is there";

/// What admins are to do when another node of the same name has come later.
const LATER_NODE: &str =
    "gqnode --name gives this one another; or, if the other one is gone for good, start this one again";

/// What is known when a node comes.
pub struct Known<'a> {
    /// The cluster.
    pub cluster: ClusterId,
    /// The controller's own life.
    pub epoch: Epoch,
    /// What the state says of the node.
    pub node: Option<&'a Node>,
    /// The life of the node that has a link.
    pub linked: Option<Epoch>,
}

impl Known<'_> {
    /// Up to which of its reports nothing is to be said again by a node in the life that `head` tells of.
    pub fn taken(&self, head: &Head) -> Seq {
        self.node.filter(|node| node.epoch == head.epoch).map_or(Seq(0), |node| node.last_report)
    }

    /// What a node that is spoken to is told. `span`: the lowest order that is kept for it, and the highest that was written.
    pub fn answer(&self, head: &Head, (lowest, highest): (Seq, Seq)) -> Head {
        Head {
            epoch: self.epoch,
            boot: None,
            cards: None,
            beat: 0,
            lowest,
            highest,
            // The last life that was heard of: a node that knows nothing of it has lost what it knew.
            ack_epoch: self.node.map_or(Epoch(0), |node| node.epoch),
            ack: self.node.map_or(Seq(0), |node| node.last_report),
            ..head.clone()
        }
    }

    /// Whether the node that says `head` of itself is spoken to.
    ///
    /// # Errors
    /// Why not, in words for people.
    pub fn welcome(&self, head: &Head) -> Result<(), Refusal> {
        let refuse = |text: String, hint: Option<&str>| {
            Err(Refusal { kind: RefusalKind::Policy, text, hint: hint.map(str::to_owned) })
        };
        if head.version != LETTER_VERSION {
            let text =
                format!("letters of version {}; this gqd speaks version {LETTER_VERSION}", head.version);
            return refuse(text, None);
        }
        if head.cluster != self.cluster {
            let text = format!("it belongs to another cluster ({}; this is {})", head.cluster, self.cluster);
            return refuse(text, Some(OTHER_CLUSTER));
        }
        if head.ack_epoch > self.epoch {
            let text = format!(
                "it has obeyed life {} of gqd, and this is life {}: gqd's state was put back to an older copy",
                head.ack_epoch, self.epoch
            );
            return refuse(text, Some(OLD_STATE));
        }
        if let Some(linked) = self.linked {
            let text =
                format!("a node of this name is linked already (its life {linked}): one name is one node");
            return refuse(text, Some("gqnode --name gives this one another"));
        }
        let Some(node) = self.node else { return Ok(()) };
        if head.epoch < node.epoch {
            let (seen, came) = (node.epoch, head.epoch);
            if node.id != head.node_id {
                let text = format!(
                    "another node of this name has come since (its life {seen}; this is {came}): one name is one node"
                );
                return refuse(text, Some(LATER_NODE));
            }
            let text = format!("an older life of it ({came}; seen was {seen}): a copy of its disk");
            return refuse(text, Some("stop one of the two"));
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
