//! Shared cards: who holds parts of one, and how many are free, for people to read. Who gets any is the plan's to say.

use gq_cluster::{Node, Run};
use gq_model::{JobId, TaskIndex};
use gq_proto::PartView;

/// Who holds parts of the card at this position of the node's list, in order.
///
/// `run`: what a task holds there; `name`: how the task is called.
pub(crate) fn held<'a>(
    node: &Node,
    position: usize,
    run: impl Fn((JobId, TaskIndex)) -> Option<&'a Run>,
    name: impl Fn((JobId, TaskIndex)) -> String,
) -> Vec<PartView> {
    let mut all = Vec::new();
    for who in node.runs() {
        let held = run(who).into_iter().flat_map(|run| &run.cards);
        let its = held.filter(|held| gq_cluster::position_of(&node.cards, held) == Some(position));
        all.extend(its.filter_map(|held| {
            let share = held.share?;
            Some(PartView { job: name(who), parts: share.parts.count_ones(), memory_mib: share.memory })
        }));
    }
    all
}

/// How many parts of the card at this position of the node's list are free; none when it is not shared.
pub(crate) fn free(node: &Node, position: usize) -> Option<u32> {
    let slot = node.layout().slot(position)?;
    let card = node.cards.get(position).filter(|card| card.is_shared())?;
    let free = if card.health.is_good() { slot.mask() & !node.used().units } else { 0 };
    Some(free.count_ones())
}
