//! The declared nodes and their cards. What `gqnode` finds is not known here.

use super::slices::{self, NoRoom};
use crate::{
    config::Node,
    keys,
    mistake::{Notes, Span},
    section::{Read, Section, list},
};
use gq_model::{Card, CardHealth, Grid, MAX_HOSTS, MiB, NodeName, Slice, known_grid};
use std::collections::BTreeMap;

/// Most cards of one node.
const MAX_NODE_CARDS: usize = 256;

/// The declared nodes.
pub(crate) struct Nodes {
    pub(crate) nodes: Vec<Node>,
    /// Whether the names of all could be read; else what names a node may mean one of the others.
    pub(crate) all_named: bool,
}

/// The `[[node]]` tables.
pub(crate) fn read(top: &Section<'_>, notes: &mut Notes<'_>) -> Nodes {
    let mut nodes: Vec<Node> = Vec::new();
    let mut all_named = true;
    let mut places: BTreeMap<NodeName, Span> = BTreeMap::new();
    for section in list(top, "node", notes) {
        let names = section.read(&keys::NODE_NAME, notes);
        let model = NodeParts::read(&section, notes);
        all_named &= !names.value.is_empty();
        let Some(at) = names.at else {
            let hint = Some("name = \"ws1\"".to_string());
            notes.add_missing(&section.at, "this [[node]] has no `name`", hint);
            continue;
        };
        if let Some((name, first)) = names.value.iter().find_map(|n| places.get(n).map(|at| (n, at))) {
            let line = notes.line(first);
            notes.add(&at, format!("node `{name}` is declared already, in line {line}"), None);
        }
        for name in names.value {
            if nodes.len() >= MAX_HOSTS {
                notes.add(&at, format!("more than {MAX_HOSTS} nodes"), None);
                return Nodes { nodes, all_named: false };
            }
            if !places.contains_key(&name) {
                places.insert(name.clone(), at.clone());
                nodes.push(model.name(name));
            }
        }
    }
    Nodes { nodes, all_named }
}

/// What the nodes of one `[[node]]` have in common.
struct NodeParts {
    cpus: Option<u32>,
    memory: Option<MiB>,
    gpu_share: u8,
    features: Vec<String>,
    cards: Vec<Card>,
}

impl NodeParts {
    fn read(section: &Section<'_>, notes: &mut Notes<'_>) -> Self {
        let gpu_share = section.get(&keys::GPU_SHARE, notes);
        let mut cards = cards(section, notes);
        gq_model::share_in(&mut cards, gpu_share);
        Self {
            cpus: section.get(&keys::CPUS, notes),
            memory: section.get(&keys::MEMORY, notes),
            gpu_share,
            features: section.get(&keys::FEATURES, notes),
            cards,
        }
    }

    fn name(&self, name: NodeName) -> Node {
        Node {
            name,
            cpus: self.cpus,
            memory: self.memory,
            gpu_share: self.gpu_share,
            features: self.features.clone(),
            cards: self.cards.clone(),
        }
    }
}

fn cards(node: &Section<'_>, notes: &mut Notes<'_>) -> Vec<Card> {
    let mut cards: Vec<Card> = Vec::new();
    for section in list(node, "node.gpu", notes) {
        let count = section.get(&keys::COUNT, notes);
        let Some(card) = card(&section, notes) else { continue };
        for _ in 0..count {
            if cards.len() >= MAX_NODE_CARDS {
                notes.add(&section.at, format!("more than {MAX_NODE_CARDS} cards on a node"), None);
                return cards;
            }
            let index = u32::try_from(cards.len()).unwrap_or(u32::MAX);
            cards.push(Card { index, ..card.clone() });
        }
    }
    cards
}

/// The card of one `[[node.gpu]]`; its index is 0.
fn card(section: &Section<'_>, notes: &mut Notes<'_>) -> Option<Card> {
    let model = section.read(&keys::MODEL, notes);
    let memory = section.read(&keys::CARD_MEMORY, notes);
    let mig = section.read(&keys::MIG, notes);
    let mut slices = section.read(&keys::SLICES, notes);
    for (name, absent, sample) in
        [("model", model.at.is_none(), "A100-SXM4-80GB"), ("memory", memory.at.is_none(), "80G")]
    {
        if absent {
            let hint = Some(format!("{name} = \"{sample}\""));
            notes.add_missing(&section.at, format!("this [[node.gpu]] has no `{name}`"), hint);
        }
    }
    let is_cut = !slices.value.is_empty();
    if let (Some(at), false, true) = (&mig.at, mig.value, is_cut) {
        notes.add(at, "a card with `slices` is in MIG mode", Some("true, or leave `mig` out".to_string()));
    }
    let (model, memory) = (model.value?, memory.value?);
    let grid = if mig.value || is_cut { known_grid(&model, memory) } else { None };
    check_slices(section, &mut slices, &model, memory, grid.as_ref(), notes);
    Some(Card {
        index: 0,
        uuid: None,
        model,
        memory,
        minor: None,
        nvlink: Vec::new(),
        mig: mig.value || is_cut,
        slices: slices.value,
        grid,
        fixed: is_cut,
        parts: 0,
        health: CardHealth::Good,
    })
}

/// Notes slices that cannot be on a card of this memory and grid, and gives those that can their places.
fn check_slices(
    section: &Section<'_>,
    slices: &mut Read<Vec<Slice>>,
    model: &str,
    memory: MiB,
    grid: Option<&Grid>,
    notes: &mut Notes<'_>,
) {
    let at = slices.at.as_ref().unwrap_or(&section.at);
    let cut = slices.value.iter().fold(MiB(0), |sum, s| sum.saturating_add(s.memory));
    // Profile names round memory up, so that a full card of slices may seem a little larger than the card.
    if cut > memory.saturating_add(MiB(memory.0 / 16)) {
        notes.add(at, format!("the slices take {cut} together, and the card has {memory}"), None);
        return;
    }
    let Some(grid) = grid else { return };
    match slices::lay(&mut slices.value, grid) {
        Ok(()) => {}
        Err(NoRoom::TooMany) => {
            notes.add(at, "more slices than the card can hold together", None);
        }
        Err(NoRoom::Unknown(profile)) => {
            let names: Vec<&str> = grid.profiles.iter().map(|p| p.name.as_str()).collect();
            let hint = Some(format!("one of {}", names.join(", ")));
            notes.add(at, format!("{model} with {memory} has no profile {profile}"), hint);
        }
    }
}
