//! The partitions, and whether what they name is there.

use super::{declared::Declared, rights};
use crate::{
    config::Partition,
    keys,
    mistake::{Notes, Span, nearest},
    rules::Idle,
    section::{Read, Section, list},
};
use gq_model::NodeName;
use std::collections::BTreeSet;

/// Most partitions.
const MAX_PARTITIONS: usize = 1000;
/// Most nodes of all partitions together, a node counted in each that names it.
const MAX_MEMBERS: usize = 1 << 20;

/// What partitions may name.
pub(crate) struct Known<'k> {
    /// The nodes, when that can be told.
    pub(crate) nodes: Option<&'k BTreeSet<&'k NodeName>>,
    pub(crate) qos: &'k Declared,
    pub(crate) accounts: &'k Declared,
}

/// Notes a second default partition; `first` is the place of the first.
fn check_default(
    section: &Section<'_>,
    default: &Read<bool>,
    first: &mut Option<Span>,
    notes: &mut Notes<'_>,
) {
    let at = default.at.as_ref().unwrap_or(&section.at);
    match first {
        _ if !default.value => {}
        Some(first) => {
            let line = notes.line(first);
            notes.add(at, format!("there is a default partition already, in line {line}"), None);
        }
        None => *first = Some(at.clone()),
    }
}

/// The partitions: the `[[partition]]` tables, or one of every node.
pub(crate) fn read(top: &Section<'_>, known: &Known<'_>, notes: &mut Notes<'_>) -> Vec<Partition> {
    let mut partitions: Vec<Partition> = Vec::new();
    let mut declared = Declared::new("partition", "main");
    let mut first_default = None;
    let mut members = 0usize;
    for section in list(top, "partition", notes) {
        let name = declared.take(&section, &keys::PARTITION_NAME, notes);
        let default = section.read(&keys::DEFAULT, notes);
        check_default(&section, &default, &mut first_default, notes);
        if partitions.len() >= MAX_PARTITIONS {
            notes.add(&section.at, format!("more than {MAX_PARTITIONS} partitions"), None);
            break;
        }
        let nodes = partition_nodes(&section, known.nodes, notes);
        members = members.saturating_add(nodes.as_ref().map_or(0, Vec::len));
        if members > MAX_MEMBERS {
            let text = format!("the partitions name more than {MAX_MEMBERS} nodes together");
            let hint = Some("leave `nodes` out of a partition of every node".to_string());
            notes.add(&section.at, text, hint);
            break;
        }
        let name = name.map(|(name, _)| name).unwrap_or_default();
        partitions.push(partition(&section, name, nodes, default.value, known, notes));
    }
    if partitions.is_empty() {
        partitions.push(Partition::of_every_node());
    }
    if first_default.is_none()
        && let Some(first) = partitions.first_mut()
    {
        first.default = true;
    }
    partitions
}

/// One partition; its name and nodes have been read.
fn partition(
    section: &Section<'_>,
    name: String,
    nodes: Option<Vec<NodeName>>,
    default: bool,
    known: &Known<'_>,
    notes: &mut Notes<'_>,
) -> Partition {
    let max_time = section.get(&keys::MAX_TIME, notes);
    let (qos, allow_qos) = rights::partition_qos(section, known.qos, notes);
    Partition {
        name,
        nodes,
        default,
        max_time,
        default_time: default_time(section, max_time, notes),
        state: section.get(&keys::STATE, notes),
        priority: section.get(&keys::PRIORITY, notes),
        backfill: section.get(&keys::OWN_BACKFILL, notes),
        recut: section.get(&keys::RECUT, notes),
        gpu_mem_slices: section.get(&keys::GPU_MEM_SLICES, notes),
        gpu_mem_cards: section.get(&keys::GPU_MEM_CARDS, notes),
        gpu_share: section.get(&keys::PARTITION_GPU_SHARE, notes),
        access: rights::access(section, known.accounts, notes),
        qos,
        allow_qos,
        tier: section.get(&keys::TIER, notes),
        preempt: section.get(&keys::PREEMPT, notes),
        grace: section.get(&keys::GRACE, notes),
        idle: idle(section, notes),
        limits: rights::limits(section, notes),
    }
}

/// What is done about jobs whose cards are idle. What is said of it without `idle_after` would do nothing.
fn idle(section: &Section<'_>, notes: &mut Notes<'_>) -> Option<Idle> {
    let after = section.get(&keys::IDLE_AFTER, notes);
    let below = section.read(&keys::IDLE_BELOW, notes);
    let action = section.read(&keys::IDLE_ACTION, notes);
    let grace = section.read(&keys::IDLE_GRACE, notes);
    let memory_is_use = section.read(&keys::IDLE_MEMORY_IS_USE, notes);
    let may_excuse = section.read(&keys::IDLE_OK, notes);
    let written =
        [&below.at, &action.at, &grace.at, &memory_is_use.at, &may_excuse.at].into_iter().flatten().next();
    let Some(after) = after else {
        if let Some(at) = written {
            let hint = Some("say with `idle_after` how long cards may be idle, such as \"1h\"".to_string());
            notes.add(at, "without `idle_after` nobody looks for idle cards", hint);
        }
        return None;
    };
    Some(Idle {
        after,
        below: below.value,
        action: action.value,
        grace: grace.value,
        memory_is_use: memory_is_use.value,
        may_excuse: may_excuse.value,
    })
}

fn default_time(
    section: &Section<'_>,
    max_time: Option<gq_model::Seconds>,
    notes: &mut Notes<'_>,
) -> Option<gq_model::Seconds> {
    let default_time = section.read(&keys::DEFAULT_TIME, notes);
    if let (Some(default), Some(max), Some(at)) = (default_time.value, max_time, &default_time.at)
        && default > max
    {
        notes.add(at, format!("`default_time` {default} is longer than `max_time` {max}"), None);
    }
    default_time.value
}

fn partition_nodes(
    section: &Section<'_>,
    known: Option<&BTreeSet<&NodeName>>,
    notes: &mut Notes<'_>,
) -> Option<Vec<NodeName>> {
    let lists = section.read(&keys::PARTITION_NODES, notes);
    let written = lists.value?;
    if let (true, Some(at)) = (written.is_empty(), &lists.at) {
        let hint = Some("leave `nodes` out for every node".to_string());
        notes.add(at, "this partition has no nodes", hint);
    }
    let mut names: Vec<NodeName> = Vec::new();
    let mut seen: BTreeSet<NodeName> = BTreeSet::new();
    for (list, at) in written {
        let unknown = |known: &BTreeSet<&NodeName>| list.iter().find(|n| !known.contains(n)).cloned();
        if let Some((known, unknown)) = known.and_then(|k| unknown(k).map(|u| (k, u))) {
            let near = || nearest(unknown.as_str(), known.iter().map(|n| n.as_str()));
            let hint = match if notes.is_full() { None } else { near() } {
                Some(near) => format!("`{near}`, or a [[node]] of this name"),
                None => "declare it with a [[node]]".to_string(),
            };
            notes.add_missing(&at, format!("node `{unknown}` is not declared"), Some(hint));
        }
        names.extend(list.into_iter().filter(|n| seen.insert(n.clone())));
    }
    Some(names)
}
