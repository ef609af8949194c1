//! Whether a node that comes with its head is spoken to, and from which of its reports on. Decides by what is known of the node; touches
//! nothing.

use gq_cluster::Node;
use gq_model::{ClusterId, Epoch, Seq};
use gq_proto::{Head, LETTER_VERSION};

/// What a node that says `head` of itself is to say again: everything after the number returned.
///
/// `known` is what the state says of the node, `linked` the life of it that has a link already.
///
/// # Errors
/// In words for people, when it is not spoken to.
pub fn welcome(
    head: &Head,
    cluster: ClusterId,
    known: Option<&Node>,
    linked: Option<Epoch>,
) -> Result<Seq, String> {
    let (epoch, taken) = known.map_or((Epoch(0), Seq(0)), |node| (node.epoch, node.last_report));
    if head.version != LETTER_VERSION {
        return Err(format!("letters of version {}; this gqd speaks version {LETTER_VERSION}", head.version));
    }
    if head.cluster != cluster {
        return Err("it belongs to another cluster".into());
    }
    if linked.is_some_and(|linked| linked >= head.epoch) {
        return Err("a node of this name is linked already".into());
    }
    if head.epoch < epoch {
        return Err(format!(
            "an older life of it (epoch {}, seen {epoch}): is it a copy of its disk?",
            head.epoch
        ));
    }
    Ok(if head.epoch == epoch { taken } else { Seq(0) })
}
