//! The house: nodes with every card and slice and who holds it, and partitions, as tables.

use super::table::{Column, Table};
use crate::{out::Out, trouble::Trouble};
use anstyle::{AnsiColor, Style};
use gq_model::{MiB, format_limit, format_size};
use gq_proto::{CardView, NodeView, PartitionView};
use std::{borrow::Cow, fmt::Write};

/// A line of the table of nodes: a node without cards, a card, or a slice or share of a card.
struct Line<'a> {
    node: &'a NodeView,
    gpu: String,
    kind: &'a str,
    memory: Option<MiB>,
    holder: &'a str,
    trouble: Option<Cow<'a, str>>,
}

#[derive(Clone, Copy)]
enum NodeColumn {
    Node,
    State,
    Partitions,
    Cpus,
    Memory,
    Gpu,
    Kind,
    GpuMemory,
    Holder,
    Reason,
}

const NONE: &str = "-";

fn lines(node: &NodeView) -> Vec<Line<'_>> {
    if node.cards.is_empty() {
        let (gpu, kind, holder) = (NONE.to_owned(), NONE, NONE);
        let trouble = node.reason.as_deref().map(Cow::from).or_else(|| unbound(node));
        return vec![Line { node, gpu, kind, memory: None, holder, trouble }];
    }
    node.cards.iter().flat_map(|view| card_lines(node, view)).collect()
}

/// What a node cannot keep its jobs within.
fn unbound(node: &NodeView) -> Option<Cow<'_, str>> {
    let names: Vec<&str> = node.unbound.iter().map(|bound| bound.name()).collect();
    (!names.is_empty()).then(|| format!("not bounded: {}", names.join(", ")).into())
}

fn card_lines<'a>(node: &'a NodeView, view: &'a CardView) -> Vec<Line<'a>> {
    let card = &view.card;
    let trouble = card.health.trouble().or(node.reason.as_deref()).map(Cow::from);
    let whole = Line {
        node,
        gpu: card.index.to_string(),
        kind: &card.model,
        memory: Some(card.memory),
        holder: view.job.as_deref().unwrap_or(match (card.mig, view.parts.is_empty()) {
            (true, _) => "(slices)",
            (false, false) => "(shares)",
            (false, true) => NONE,
        }),
        trouble: trouble.clone().or_else(|| room(view).map(Cow::from)).or_else(|| unbound(node)),
    };
    let slices = view.slices.iter().enumerate().map(|(at, slice)| Line {
        node,
        gpu: format!("{}:{at}", card.index),
        kind: &slice.profile,
        memory: slice.memory_mib,
        holder: slice.job.as_deref().unwrap_or(NONE),
        trouble: trouble.clone().or_else(|| slice.trouble.as_deref().map(Cow::from)),
    });
    let shares = view.parts.iter().enumerate().map(|(at, part)| Line {
        node,
        gpu: format!("{}:{at}", card.index),
        kind: "share",
        memory: Some(part.memory_mib),
        holder: &part.job,
        trouble: trouble.clone(),
    });
    std::iter::once(whole).chain(slices).chain(shares).collect()
}

/// Most sets of slices that a line names.
const MOST_SETS: usize = 3;

/// What can still be had of a card in MIG mode: `free: 3g.40gb or 2g.20gb+1g.10gb`; and of one that is shared: `free: 3 of 4 parts`.
fn room(view: &CardView) -> Option<String> {
    if let Some(free) = view.free_parts {
        return Some(format!("free: {free} of {} parts", view.card.parts));
    }
    if !view.card.mig {
        return None;
    }
    let sets = view.free.get(..MOST_SETS).unwrap_or(&view.free).join(" or ");
    let more = if view.free.len() > MOST_SETS { " or \u{2026}" } else { "" };
    match (sets.as_str(), view.free_units) {
        ("", None) => None,
        ("", Some(0)) => Some("free: nothing".to_owned()),
        ("", Some(units)) => Some(format!("free: nothing ({units} units)")),
        (sets, _) => Some(format!("free: {sets}{more}")),
    }
}

fn node_cell(column: NodeColumn, line: &Line<'_>, out: &mut String) {
    let node = line.node;
    // Writing to a string does not fail.
    let _ = match column {
        NodeColumn::Node => out.write_str(node.name.as_str()),
        NodeColumn::State => out.write_str(&node.state),
        NodeColumn::Partitions => out.write_str(&node.partitions.join(",")),
        NodeColumn::Cpus => write!(out, "{}/{}", node.cpus_used, node.cpus),
        NodeColumn::Memory => {
            write!(out, "{}/{}", format_size(node.memory_used_mib), format_size(node.memory_mib))
        }
        NodeColumn::Gpu => out.write_str(&line.gpu),
        NodeColumn::Kind => out.write_str(line.kind),
        NodeColumn::GpuMemory => out.write_str(&line.memory.map_or_else(|| NONE.to_owned(), format_size)),
        NodeColumn::Holder => out.write_str(line.holder),
        NodeColumn::Reason => out.write_str(line.trouble.as_deref().unwrap_or_default()),
    };
}

/// The colour of a node's state.
fn node_style(state: &str) -> Option<Style> {
    let colour = match state {
        "idle" => AnsiColor::Green,
        "mixed" | "allocated" => return None,
        "draining" | "drained" | "suspect" => AnsiColor::Yellow,
        _ => AnsiColor::Red,
    };
    Some(colour.on_default())
}

/// Prints nodes: a line for every card and slice (one for a node without), with what is used of what there is.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn print_nodes(nodes: &[NodeView], header: bool, out: &mut Out) -> Result<(), Trouble> {
    let mut columns = vec![
        Column::new(NodeColumn::Node, "NODE"),
        Column::new(NodeColumn::State, "STATE"),
        Column::new(NodeColumn::Partitions, "PARTITIONS"),
        Column::new(NodeColumn::Cpus, "CPUS"),
        Column::new(NodeColumn::Memory, "MEMORY"),
        Column::new(NodeColumn::Gpu, "GPU"),
        Column::new(NodeColumn::Kind, "TYPE"),
        Column::new(NodeColumn::GpuMemory, "GPUMEM"),
        Column::new(NodeColumn::Holder, "JOB"),
        Column::new(NodeColumn::Reason, "REASON"),
    ];
    for column in &mut columns {
        column.least = match column.of {
            NodeColumn::Partitions => Some(6),
            NodeColumn::Kind => Some(8),
            _ => None,
        };
    }
    let rows: Vec<Line<'_>> = nodes.iter().flat_map(lines).collect();
    Table::new(columns, header).print(&rows, out, node_cell, |column, line| match column {
        NodeColumn::State => node_style(&line.node.state),
        NodeColumn::Holder if line.holder == NONE => Some(Style::new().dimmed()),
        _ => None,
    })
}

#[derive(Clone, Copy)]
enum PartitionColumn {
    Name,
    State,
    MaxTime,
    DefaultTime,
    Nodes,
}

/// Prints partitions; the one of jobs without `-p` has a `*`.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn print_partitions(
    partitions: &[PartitionView],
    header: bool,
    out: &mut Out,
) -> Result<(), Trouble> {
    let mut columns = vec![
        Column::new(PartitionColumn::Name, "PARTITION"),
        Column::new(PartitionColumn::State, "STATE"),
        Column::new(PartitionColumn::MaxTime, "TIMELIMIT"),
        Column::new(PartitionColumn::DefaultTime, "DEFAULTTIME"),
        Column::new(PartitionColumn::Nodes, "NODELIST"),
    ];
    for column in &mut columns {
        column.right = matches!(column.of, PartitionColumn::MaxTime | PartitionColumn::DefaultTime);
    }
    let cell = |column, p: &PartitionView, out: &mut String| match column {
        PartitionColumn::Name => {
            out.push_str(&p.name);
            out.push_str(if p.default { "*" } else { "" });
        }
        PartitionColumn::State => out.push_str(&p.state),
        PartitionColumn::MaxTime => out.push_str(&format_limit(p.max_time)),
        PartitionColumn::DefaultTime => out.push_str(&format_limit(p.default_time.or(p.max_time))),
        PartitionColumn::Nodes => out.push_str(&p.nodes),
    };
    Table::new(columns, header).print(partitions, out, cell, |_, _| None)
}
