//! Metrics: the figures of this moment and what the meters have counted, in the text form of Prometheus (version 0.0.4). Read off the board; never
//! asks the state's own thread.

use crate::{
    board::Board,
    meters::Meters,
    view::{self, state_of},
    viewer::Viewer,
};
use gq_model::{JobState, MiB, Timestamp, Uid};
use gq_proto::{CardView, NodeView};
use gq_store::Room;
use prometheus::{Error, GaugeVec, Opts, Registry, TextEncoder};
use std::collections::BTreeMap;

/// Whatever is looked at here tells nothing of whose it is, so all of it is looked at.
const ALL: Uid = Uid(0);

/// All metrics as text.
///
/// # Errors
/// When two of them have the same name.
pub(crate) fn text(board: &Board, meters: &Meters, room: &Room, now: Timestamp) -> Result<String, Error> {
    let sheet = Sheet(Registry::new());
    whole(&sheet, board)?;
    jobs(&sheet, board, now)?;
    let viewer = Viewer::new(&board.policy, ALL);
    let nodes: Vec<NodeView> = board.nodes.iter().map(|node| view::node(board, &viewer, node)).collect();
    machines(&sheet, &nodes)?;
    cards(&sheet, board, &nodes)?;
    disk(&sheet, room)?;
    let mut all = sheet.0.gather();
    all.extend(meters.gather());
    TextEncoder::new().encode_to_string(&all)
}

/// Gauges of one moment.
struct Sheet(Registry);

/// The values of the labels of a gauge, and its figure.
type Row = (Vec<String>, f64);

impl Sheet {
    /// Puts a gauge with its rows; those with the same labels are added up.
    fn put(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
        rows: impl IntoIterator<Item = Row>,
    ) -> Result<(), Error> {
        let gauge = GaugeVec::new(Opts::new(name, help), labels)?;
        self.0.register(Box::new(gauge.clone()))?;
        for (values, figure) in rows {
            gauge.get_metric_with_label_values(&values)?.add(figure);
        }
        Ok(())
    }
}

fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}

fn bytes(of: MiB) -> f64 {
    of.0 as f64 * f64::from(1 << 20)
}

fn whole(sheet: &Sheet, board: &Board) -> Result<(), Error> {
    let names = vec![board.policy.cluster.clone(), env!("CARGO_PKG_VERSION").to_owned()];
    sheet.put(
        "gq_info",
        "Which cluster, and which version of gqd.",
        &["cluster", "version"],
        [(names, 1.0)],
    )?;
    let degraded = flag(board.takes_none().is_some());
    sheet.put(
        "gq_degraded",
        "Whether no new jobs are taken, for want of room or safety.",
        &[],
        [(vec![], degraded)],
    )
}

fn jobs(sheet: &Sheet, board: &Board, now: Timestamp) -> Result<(), Error> {
    let mut tasks: BTreeMap<(&str, JobState), u64> = BTreeMap::new();
    let mut oldest: BTreeMap<&str, u64> = BTreeMap::new();
    for partition in &board.policy.partitions {
        tasks.extend(JobState::LIVE.map(|state| ((partition.name.as_str(), state), 0)));
        oldest.insert(&partition.name, 0);
    }
    for job in board.jobs() {
        let partition = job.shape.partition.as_str();
        *tasks.entry((partition, JobState::Pending)).or_default() += job.waiting.len();
        for run in job.runs.values() {
            *tasks.entry((partition, state_of(board, run))).or_default() += 1;
        }
        if job.is_eligible() {
            let waited = oldest.entry(partition).or_default();
            *waited = (*waited).max(now.micros_since(job.submitted));
        }
    }
    let rows = tasks.into_iter().map(|((partition, state), tasks)| {
        (vec![partition.to_owned(), state.name().to_owned()], tasks as f64)
    });
    sheet.put(
        "gq_tasks",
        "Tasks that live, by state; a job that is no array is one.",
        &["partition", "state"],
        rows,
    )?;
    let rows =
        oldest.into_iter().map(|(partition, micros)| (vec![partition.to_owned()], micros as f64 / 1e6));
    sheet.put(
        "gq_oldest_wait_seconds",
        "For how long the job has waited that has waited longest of those that could start; 0 for none.",
        &["partition"],
        rows,
    )
}

fn machines(sheet: &Sheet, nodes: &[NodeView]) -> Result<(), Error> {
    let of = |figure: fn(&NodeView) -> f64| {
        nodes.iter().map(move |node| (vec![node.name.to_string()], figure(node)))
    };
    let states = nodes.iter().map(|node| (vec![node.name.to_string(), node.state.clone()], 1.0));
    sheet.put("gq_node_state", "How each node stands.", &["node", "state"], states)?;
    sheet.put("gq_node_cpus", "Cpus of a node.", &["node"], of(|node| f64::from(node.cpus)))?;
    sheet.put(
        "gq_node_cpus_held",
        "Cpus that runs hold.",
        &["node"],
        of(|node| f64::from(node.cpus_used)),
    )?;
    sheet.put("gq_node_memory_bytes", "Memory of a node.", &["node"], of(|node| bytes(node.memory_mib)))?;
    sheet.put(
        "gq_node_memory_held_bytes",
        "Memory that runs hold.",
        &["node"],
        of(|node| bytes(node.memory_used_mib)),
    )
}

/// How a card, or a slice, stands.
fn standing(is_good: bool, is_held: bool) -> &'static str {
    match (is_good, is_held) {
        (false, _) => "failing",
        (true, true) => "held",
        (true, false) => "free",
    }
}

fn cards(sheet: &Sheet, board: &Board, nodes: &[NodeView]) -> Result<(), Error> {
    let all =
        || nodes.iter().flat_map(|node| node.cards.iter().map(move |view| (node.name.to_string(), view)));
    let rows = all().map(|(node, view)| {
        let state = standing(view.card.health.is_good(), view.is_held());
        (vec![node, view.card.model.clone(), state.to_owned()], 1.0)
    });
    sheet.put(
        "gq_cards",
        "Cards, by whether somebody holds any of them.",
        &["node", "model", "state"],
        rows,
    )?;
    let rows = all().flat_map(|(node, view)| {
        view.slices.iter().map(move |slice| {
            let state = standing(slice.trouble.is_none(), slice.job.is_some());
            (vec![node.clone(), slice.profile.clone(), state.to_owned()], 1.0)
        })
    });
    let told = |figure: fn(&CardView) -> Option<f64>| {
        all().filter_map(move |(node, view)| Some((vec![node, view.card.index.to_string()], figure(view)?)))
    };
    sheet.put(
        "gq_card_utilization",
        "How busy a card is now, from 0 to 1, where its driver tells that.",
        &["node", "card"],
        told(|view| view.busy.map(|busy| f64::from(busy) / 100.0)),
    )?;
    sheet.put(
        "gq_card_memory_used_bytes",
        "How much memory of a card is taken now, by whomever.",
        &["node", "card"],
        told(|view| view.memory_taken.map(bytes)),
    )?;
    sheet.put("gq_slices", "Slices of cards.", &["node", "profile", "state"], rows)?;
    let worths = board.jobs().flat_map(|job| job.runs.values());
    let worths = worths.map(|run| (vec![run.node.to_string()], f64::from(run.worth) / 1000.0));
    sheet.put(
        "gq_cards_held",
        "What runs hold of cards, each slice and share counted as its part of a card.",
        &["node"],
        nodes.iter().map(|node| (vec![node.name.to_string()], 0.0)).chain(worths),
    )
}

fn disk(sheet: &Sheet, room: &Room) -> Result<(), Error> {
    let files = [("database", room.database), ("journal", room.journal), ("history", room.history)];
    let rows = files.map(|(file, size)| (vec![file.to_owned()], size as f64));
    sheet.put("gq_state_bytes", "Size of the files of the state.", &["file"], rows)?;
    let one = |figure: u64| [(vec![], figure as f64)];
    sheet.put("gq_reserve_bytes", "Room kept for results on a full disk.", &[], one(room.reserve))?;
    sheet.put("gq_state_free_bytes", "Room left where the state is.", &[], one(room.free))
}
