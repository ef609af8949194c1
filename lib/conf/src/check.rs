//! From a TOML document to a `Config`: walks the tables, reads each key by its declaration, and checks what the values say
//! together. Every mistake is noted and the walk goes on with the default.

use crate::{
    config::{Cluster, Config, Node, Partition, Scheduler},
    keys::{self, Key},
    mistake::{Notes, Span, nearest},
    value,
};
use gq_model::{Card, CardHealth, MAX_HOSTS, MiB, NodeName};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};
use toml_edit::{Item, Table, TableLike, Value};

/// Most cards of one node.
const MAX_NODE_CARDS: usize = 256;
/// Most partitions.
const MAX_PARTITIONS: usize = 1000;
/// Most nodes of all partitions together, a node counted in each that names it.
const MAX_MEMBERS: usize = 1 << 20;

/// One table of the file, and where it begins.
struct Section<'d> {
    table: &'static str,
    at: Span,
    entries: &'d dyn TableLike,
}

/// A value as read, and its place when it was written.
struct Read<T> {
    value: T,
    at: Option<Span>,
}

impl Section<'_> {
    /// Reads a key; what is absent or wrong becomes the default.
    fn read<T>(&self, key: &Key<T>, notes: &mut Notes<'_>) -> Read<T> {
        debug_assert_eq!(self.table, key.table);
        let absent = || Read { value: (key.default)(), at: None };
        let Some((name, item)) = self.entries.get_key_value(key.name) else { return absent() };
        match item {
            Item::Value(value) => {
                let at = Some(value::span_of(value));
                (key.read)(value, notes).map_or_else(
                    || Read { at: at.clone(), ..absent() },
                    |value| Read { value, at: at.clone() },
                )
            }
            Item::None | Item::Table(_) | Item::ArrayOfTables(_) => {
                let at = name.span().or_else(|| item.span()).unwrap_or_else(|| self.at.clone());
                notes.add(&at, format!("`{}` is a key with a value, no table", key.name), None);
                Read { at: Some(at), ..absent() }
            }
        }
    }

    fn get<T>(&self, key: &Key<T>, notes: &mut Notes<'_>) -> T {
        self.read(key, notes).value
    }

    /// Notes every name that may not stand in this table, with the nearest that may.
    fn refuse_unknown(&self, notes: &mut Notes<'_>) {
        for (name, item) in self.entries.iter() {
            if keys::names_in(self.table).any(|known| known == name) {
                continue;
            }
            let key = self.entries.get_key_value(name).and_then(|(key, _)| key.span());
            let at = key.or_else(|| item.span()).unwrap_or_else(|| self.at.clone());
            let kind = if item.is_value() { "key" } else { "table" };
            let place = if self.table.is_empty() { String::new() } else { format!(" in [{}]", self.table) };
            notes.add(&at, format!("unknown {kind} `{}`{place}", name.escape_debug()), self.suggestion(name));
        }
    }

    fn suggestion(&self, name: &str) -> Option<String> {
        let here = nearest(name, keys::names_in(self.table)).map(|k| format!("`{k}`"));
        let elsewhere = || {
            let mut tables = keys::known_keys().filter(|(_, key, _)| *key == name).map(|(table, ..)| table);
            tables.next().map(|table| format!("`{name}` belongs in [{table}]"))
        };
        let all = || {
            let names: Vec<&str> = keys::names_in(self.table).collect();
            format!("one of {}", names.join(", "))
        };
        Some(here.or_else(elsewhere).unwrap_or_else(all))
    }
}

/// Builds the conf from the document's root. Returns nothing only when no sense can be made of it.
pub(crate) fn config(root: &Table, notes: &mut Notes<'_>) -> Option<Config> {
    let top = Section { table: "", at: 0..0, entries: root };
    top.refuse_unknown(notes);
    let cluster = cluster(&single(&top, "cluster", notes), notes);
    let scheduler = scheduler(&single(&top, "scheduler", notes), notes);
    let Nodes { nodes, all_named } = nodes(&top, notes);
    let declared: BTreeSet<&NodeName> = nodes.iter().map(|n| &n.name).collect();
    let known = Some(&declared).filter(|d| all_named && !d.is_empty());
    let partitions = partitions(&top, known, notes);
    Some(Config {
        cluster,
        scheduler,
        partitions,
        nodes,
        qos: Vec::new(),
        accounts: Vec::new(),
        licences: Vec::new(),
    })
}

static NOTHING: std::sync::LazyLock<Table> = std::sync::LazyLock::new(Table::new);

/// The table `name` below `above`, empty when it is not written.
fn single<'d>(above: &Section<'d>, name: &'static str, notes: &mut Notes<'_>) -> Section<'d> {
    let empty = || Section { table: name, at: 0..0, entries: &*NOTHING };
    let Some((key, item)) = above.entries.get_key_value(name) else { return empty() };
    let at = item.span().or_else(|| key.span()).unwrap_or(0..0);
    let section = match item.as_table_like() {
        Some(entries) => Section { table: name, at, entries },
        None => {
            notes.add(&at, format!("`{name}` stands once: expected [{name}]"), Some(format!("[{name}]")));
            empty()
        }
    };
    section.refuse_unknown(notes);
    section
}

/// All tables of the list `table` (its full name, such as `node.gpu`) below `above`, in the order written.
fn list<'d>(above: &Section<'d>, table: &'static str, notes: &mut Notes<'_>) -> Vec<Section<'d>> {
    let name = table.rsplit('.').next().unwrap_or(table);
    let Some((key, item)) = above.entries.get_key_value(name) else { return Vec::new() };
    let whole = item.span().or_else(|| key.span()).unwrap_or_else(|| above.at.clone());
    let section = |entries: &'d dyn TableLike, at: Option<Span>| {
        let at = at.unwrap_or_else(|| whole.clone());
        Section { table, at, entries }
    };
    let sections: Option<Vec<Section<'d>>> = match item {
        Item::ArrayOfTables(tables) => Some(tables.iter().map(|t| section(t, t.span())).collect()),
        Item::Value(Value::Array(values)) => {
            let inline = |v: &'d Value| v.as_inline_table().map(|t| section(t, t.span()));
            values.iter().map(inline).collect()
        }
        Item::Value(_) | Item::Table(_) | Item::None => None,
    };
    let Some(sections) = sections else {
        let hint = Some(format!("[[{table}]] with two brackets"));
        notes.add(&whole, format!("there may be several of `{table}`: expected [[{table}]]"), hint);
        return Vec::new();
    };
    for section in &sections {
        section.refuse_unknown(notes);
    }
    sections
}

fn cluster(section: &Section<'_>, notes: &mut Notes<'_>) -> Cluster {
    let spool_dir = section.read(&keys::SPOOL_DIR, notes);
    let state_dir = section.read(&keys::STATE_DIR, notes);
    let run_dir = section.read(&keys::RUN_DIR, notes);
    let node_dir = section.read(&keys::NODE_DIR, notes);
    let mut taken: Vec<(&str, PathBuf)> = Vec::new();
    let own_node_dir = node_dir.value.clone().unwrap_or_default();
    for (name, dir, at) in [
        ("spool_dir", &spool_dir.value, &spool_dir.at),
        ("state_dir", &state_dir.value, &state_dir.at),
        ("run_dir", &run_dir.value, &run_dir.at),
        ("node_dir", &own_node_dir, &node_dir.at),
    ] {
        let at = at.as_ref().unwrap_or(&section.at);
        if let Some((other, _)) = taken.iter().find(|(_, d)| d == dir) {
            notes.add(at, format!("`{name}` and `{other}` are the same folder: each needs its own"), None);
        }
        taken.push((name, dir.clone()));
    }
    Cluster {
        name: section.get(&keys::CLUSTER_NAME, notes),
        spool_dir: spool_dir.value,
        state_dir: state_dir.value,
        run_dir: run_dir.value,
        node_dir: node_dir.value,
        admins: section.get(&keys::ADMINS, notes),
        user: section.get(&keys::USER, notes),
        job_file_keep: section.get(&keys::JOB_FILE_KEEP, notes),
        allow_test_run: section.get(&keys::ALLOW_TEST_RUN, notes),
        nvml_library: section.get(&keys::NVML_LIBRARY, notes),
        lost_after: section.get(&keys::LOST_AFTER, notes),
    }
}

fn scheduler(section: &Section<'_>, notes: &mut Notes<'_>) -> Scheduler {
    Scheduler {
        backfill: section.get(&keys::BACKFILL, notes),
        weights: crate::rules::Weights::default(),
        half_life: gq_model::Seconds(7 * 86_400),
        cpu_charge: 10,
        preempt_exempt: gq_model::Seconds(0),
        default_mem_per_cpu: section.get(&keys::DEFAULT_MEM_PER_CPU, notes),
        kill_wait: section.get(&keys::KILL_WAIT, notes),
        max_array_size: section.get(&keys::MAX_ARRAY_SIZE, notes),
        max_job_count: section.get(&keys::MAX_JOB_COUNT, notes),
    }
}

/// The declared nodes.
struct Nodes {
    nodes: Vec<Node>,
    /// Whether the names of all could be read; else what names a node may mean one of the others.
    all_named: bool,
}

fn nodes(top: &Section<'_>, notes: &mut Notes<'_>) -> Nodes {
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
    features: Vec<String>,
    cards: Vec<Card>,
}

impl NodeParts {
    fn read(section: &Section<'_>, notes: &mut Notes<'_>) -> Self {
        Self {
            cpus: section.get(&keys::CPUS, notes),
            memory: section.get(&keys::MEMORY, notes),
            features: section.get(&keys::FEATURES, notes),
            cards: cards(section, notes),
        }
    }

    fn name(&self, name: NodeName) -> Node {
        Node {
            name,
            cpus: self.cpus,
            memory: self.memory,
            features: self.features.clone(),
            cards: self.cards.clone(),
        }
    }
}

fn cards(node: &Section<'_>, notes: &mut Notes<'_>) -> Vec<Card> {
    let mut cards: Vec<Card> = Vec::new();
    for section in list(node, "node.gpu", notes) {
        let model = section.read(&keys::MODEL, notes);
        let memory = section.read(&keys::CARD_MEMORY, notes);
        let slices = section.read(&keys::SLICES, notes);
        let count = section.get(&keys::COUNT, notes);
        for (name, absent, sample) in
            [("model", model.at.is_none(), "A100-SXM4-80GB"), ("memory", memory.at.is_none(), "80G")]
        {
            if absent {
                let hint = Some(format!("{name} = \"{sample}\""));
                notes.add_missing(&section.at, format!("this [[node.gpu]] has no `{name}`"), hint);
            }
        }
        let (Some(model), Some(memory)) = (model.value, memory.value) else { continue };
        let cut = slices.value.iter().fold(MiB(0), |sum, s| sum.saturating_add(s.memory));
        // Profile names round memory up, so that a full card of slices may seem a little larger than the card.
        if cut > memory.saturating_add(MiB(memory.0 / 16)) {
            let at = slices.at.as_ref().unwrap_or(&section.at);
            notes.add(at, format!("the slices take {cut} together, and the card has {memory}"), None);
        }
        for _ in 0..count {
            if cards.len() >= MAX_NODE_CARDS {
                notes.add(&section.at, format!("more than {MAX_NODE_CARDS} cards on a node"), None);
                return cards;
            }
            cards.push(Card {
                index: u32::try_from(cards.len()).unwrap_or(u32::MAX),
                uuid: None,
                model: model.clone(),
                memory,
                minor: None,
                nvlink: Vec::new(),
                mig: !slices.value.is_empty(),
                slices: slices.value.clone(),
                grid: None,
                health: CardHealth::Good,
            });
        }
    }
    cards
}

/// The places of partitions' names and of the default, to tell the second of each where the first is.
#[derive(Default)]
struct Firsts {
    names: BTreeMap<String, Span>,
    default: Option<Span>,
}

impl Firsts {
    fn check_name(&mut self, section: &Section<'_>, name: &Read<String>, notes: &mut Notes<'_>) {
        let Some(at) = &name.at else {
            let hint = Some("name = \"main\"".to_string());
            return notes.add_missing(&section.at, "this [[partition]] has no `name`", hint);
        };
        let name = &name.value;
        match self.names.get(name) {
            Some(first) => {
                let line = notes.line(first);
                notes.add(at, format!("partition `{name}` is declared already, in line {line}"), None);
            }
            // An empty name is one that could not be read, which has been told.
            None if name.is_empty() => {}
            None => {
                self.names.insert(name.clone(), at.clone());
            }
        }
    }

    fn check_default(&mut self, section: &Section<'_>, default: &Read<bool>, notes: &mut Notes<'_>) {
        let at = default.at.as_ref().unwrap_or(&section.at);
        match &self.default {
            _ if !default.value => {}
            Some(first) => {
                let line = notes.line(first);
                notes.add(at, format!("there is a default partition already, in line {line}"), None);
            }
            None => self.default = Some(at.clone()),
        }
    }
}

/// The partitions; `known` are the nodes they may name, when that can be told.
fn partitions(
    top: &Section<'_>,
    known: Option<&BTreeSet<&NodeName>>,
    notes: &mut Notes<'_>,
) -> Vec<Partition> {
    let mut partitions: Vec<Partition> = Vec::new();
    let mut firsts = Firsts::default();
    let mut members = 0usize;
    for section in list(top, "partition", notes) {
        let name = section.read(&keys::PARTITION_NAME, notes);
        let default = section.read(&keys::DEFAULT, notes);
        firsts.check_name(&section, &name, notes);
        firsts.check_default(&section, &default, notes);
        if partitions.len() >= MAX_PARTITIONS {
            notes.add(&section.at, format!("more than {MAX_PARTITIONS} partitions"), None);
            break;
        }
        let nodes = partition_nodes(&section, known, notes);
        members = members.saturating_add(nodes.as_ref().map_or(0, Vec::len));
        if members > MAX_MEMBERS {
            let hint = Some("leave `nodes` out of a partition of every node".to_string());
            notes.add(
                &section.at,
                format!("the partitions name more than {MAX_MEMBERS} nodes together"),
                hint,
            );
            break;
        }
        let max_time = section.get(&keys::MAX_TIME, notes);
        partitions.push(Partition {
            name: name.value,
            nodes,
            default: default.value,
            max_time,
            default_time: default_time(&section, max_time, notes),
            state: section.get(&keys::STATE, notes),
            priority: section.get(&keys::PRIORITY, notes),
            ..Partition::of_every_node()
        });
    }
    if partitions.is_empty() {
        partitions.push(Partition::of_every_node());
    }
    if firsts.default.is_none()
        && let Some(first) = partitions.first_mut()
    {
        first.default = true;
    }
    partitions
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
