//! Reads Alibaba's GPU cluster log of 2023: a list of pods, and a list of nodes. Parts of a card (`gpu_milli`) are read as they
//! stand; [`slice_of`] says which slice of a card a part becomes.
//!
//! Source: Weng et al., "Beware of Fragmentation", ATC'23.

use crate::{
    table::{Row, Table, wrong},
    trace::{Gather, Reading, Trace, TraceJob, WHOLE, open},
    trouble::Trouble,
};
use gq_model::MiB;
use std::{io::BufRead, path::Path};

/// The columns of the pods that are read.
pub(crate) const COLUMNS: [&str; 10] = [
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "creation_time",
    "deletion_time",
    "scheduled_time",
];
/// The columns of the nodes.
pub(crate) const NODE_COLUMNS: [&str; 5] = ["sn", "cpu_milli", "memory_mib", "gpu", "model"];
/// Most nodes of a list.
const MAX_NODES: usize = 100_000;

/// Up to so many thousandths of a card become a slice of so many sevenths; what is larger becomes a whole card.
const SLICES: [(u32, u8); 4] = [(143, 1), (286, 2), (429, 3), (571, 4)];

/// How many sevenths of a card a part of it becomes; none when it becomes a whole card.
pub(crate) fn slice_of(milli: u32) -> Option<u8> {
    SLICES.iter().find(|(most, _)| milli > 0 && milli <= *most).map(|(_, sevenths)| *sevenths)
}

/// Reads a whole list of pods.
///
/// # Errors
/// When it cannot be read; when a row does not parse and the reading is strict.
pub(crate) fn read(from: impl BufRead, path: &Path, reading: Reading) -> Result<Trace, Trouble> {
    let mut gather = Gather::new(path, reading);
    let mut table = Table::open(from, path, COLUMNS)?;
    let (mut number, mut unscheduled, mut choices) = (0, 0u64, 0u64);
    while !gather.is_full() {
        let Some(row) = table.next()? else { break };
        match row {
            Row::Malformed(line, what) => gather.malformed(line, what)?,
            Row::Cells(cells, line) => match job(cells, number, line, &mut gather) {
                Ok(pod) => {
                    unscheduled += u64::from(pod.is_unscheduled);
                    choices += u64::from(pod.is_choice);
                    gather.take(pod.job)?;
                }
                Err(what) => gather.malformed(line, what)?,
            },
        }
        number += 1;
    }
    let mut trace = gather.trace;
    let notes = &mut trace.notes.taken_as;
    notes.push("a pod's time limit is its run time: the log has none".to_owned());
    notes.push("thousandths of a cpu are rounded up to whole cpus".to_owned());
    if unscheduled > 0 {
        notes.push(format!("{unscheduled} pods were never scheduled: they run from creation to deletion"));
    }
    if choices > 0 {
        notes.push(format!("{choices} pods name several models: they take any"));
    }
    Ok(trace)
}

/// A pod as it was read.
struct Pod {
    job: TraceJob,
    is_unscheduled: bool,
    is_choice: bool,
}

fn job(cells: [&str; 10], row: u64, line: u64, gather: &mut Gather<'_>) -> Result<Pod, String> {
    let [name, cpu, memory, cards, milli, models, qos, created, deleted, scheduled] = cells;
    let created_at: i64 = created.parse().map_err(|_| wrong("creation_time", created))?;
    let deleted_at: i64 = deleted.parse().map_err(|_| wrong("deletion_time", deleted))?;
    let from = match scheduled {
        "" => created_at,
        some => some.parse().map_err(|_| wrong("scheduled_time", some))?,
    };
    let cpu_milli: u32 = cpu.parse().map_err(|_| wrong("cpu_milli", cpu))?;
    let cards: u32 = cards.parse().map_err(|_| wrong("num_gpu", cards))?;
    let milli: u32 = milli.parse().map_err(|_| wrong("gpu_milli", milli))?;
    if cards > 0 && (milli == 0 || milli > WHOLE || (cards > 1 && milli < WHOLE)) {
        return Err(format!("{milli} thousandths of {cards} cards are no request"));
    }
    let run = deleted_at.saturating_sub(from);
    let is_choice = models.contains('|');
    // The pods are numbered in their names; rows of another making are numbered as they stand.
    let id = name.rsplit('-').next().and_then(|digits| digits.parse().ok()).unwrap_or(row);
    let names = &mut gather.trace.names;
    let job = TraceJob {
        id,
        submit: created_at,
        run,
        estimate: run,
        cpus: cpu_milli.div_ceil(1000),
        memory: MiB(memory.parse().map_err(|_| wrong("memory_mib", memory))?),
        cards,
        card_milli: if cards > 0 { milli } else { 0 },
        model: if is_choice { names.of("") } else { names.of(models) },
        user: names.of(qos),
        account: names.of(qos),
        line,
        ..TraceJob::default()
    };
    Ok(Pod { job, is_unscheduled: scheduled.is_empty(), is_choice })
}

/// A node of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeRow {
    /// Its name.
    pub(crate) name: String,
    /// Its cpus: thousandths rounded down.
    pub(crate) cpus: u32,
    /// Its memory.
    pub(crate) memory: MiB,
    /// How many cards it has.
    pub(crate) cards: u32,
    /// Their model; empty when it has none.
    pub(crate) model: String,
}

/// Reads a list of nodes.
///
/// # Errors
/// When it cannot be read or a row does not parse: a cluster is not guessed at.
pub(crate) fn read_nodes(path: &Path) -> Result<Vec<NodeRow>, Trouble> {
    let mut table = Table::open(open(path)?, path, NODE_COLUMNS)?;
    let mut nodes = Vec::new();
    let wrong_row = |line: u64, what: String| Trouble::usage(format!("{}:{line}: {what}", path.display()));
    while let Some(row) = table.next()? {
        let (cells, line) = match row {
            Row::Malformed(line, what) => return Err(wrong_row(line, what)),
            Row::Cells(cells, line) => (cells, line),
        };
        let [name, cpu, memory, cards, model] = cells;
        let number = |column, cell: &str| -> Result<u64, Trouble> {
            cell.parse().map_err(|_| wrong_row(line, wrong(column, cell)))
        };
        let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        if nodes.len() >= MAX_NODES {
            return Err(wrong_row(line, format!("more than {MAX_NODES} nodes")));
        }
        nodes.push(NodeRow {
            name: name.to_owned(),
            cpus: small(number("cpu_milli", cpu)? / 1000),
            memory: MiB(number("memory_mib", memory)?),
            cards: small(number("gpu", cards)?),
            model: model.to_owned(),
        });
    }
    Ok(nodes)
}
