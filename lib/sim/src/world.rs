//! The world: the cluster that is simulated, as the text of a conf, and what its nodes say of themselves. Drives nothing.

use crate::{
    alibaba::{NodeRow, read_nodes},
    options::{Machine, Options, PlacementAsk},
    policy::policy_of,
    settings,
    trace::Names,
    trouble::Trouble,
};
use gq_cluster::{Policy, SliceRule};
use gq_conf::{ConfErrors, Config};
use gq_model::{Card, MiB, NodeName};
use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

/// Memory of a pool, and of a node whose conf does not say it: more than anybody asks for.
const PLENTY: MiB = MiB(1 << 40);
/// The kind of card that a list of nodes is taken to have, so that parts of cards can be slices.
const CUT_LIKE: &str = "A100-SXM4-80GB";
const CUT_MEMORY: &str = "80G";

/// A virtual node, as it tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VirtualNode {
    pub(crate) name: NodeName,
    pub(crate) cpus: u32,
    pub(crate) memory: MiB,
    pub(crate) cards: Vec<Card>,
}

/// A cluster to be simulated.
#[derive(Debug)]
pub(crate) struct World {
    /// What decisions depend on beside the state.
    pub(crate) policy: Policy,
    /// The nodes.
    pub(crate) nodes: Vec<VirtualNode>,
    /// Whether requests for memory mean something here.
    pub(crate) counts_memory: bool,
    /// How the machine was taken, where it matters for the figures.
    pub(crate) taken_as: Vec<String>,
}

impl World {
    /// Makes the world that is asked for. Users that the conf names come to `names`.
    ///
    /// # Errors
    /// When a file cannot be read, or the conf is wrong.
    pub(crate) fn of(options: &Options, names: &mut Names) -> Result<Self, Trouble> {
        let mut taken_as = Vec::new();
        let (mut text, file) = match &options.machine {
            Machine::Pool(procs) => (pool(*procs), PathBuf::from("the pool")),
            Machine::Nodes(path) => {
                taken_as.push(format!(
                    "every card is in MIG mode and can be cut like one of {CUT_LIKE}; a whole card is its largest slice"
                ));
                (listed(&read_nodes(path)?), path.clone())
            }
            Machine::Conf(path) => {
                let path = gq_conf::find_conf(path.as_deref());
                (fs::read_to_string(&path).map_err(|e| no_conf(&path, &e))?, path)
            }
        };
        let settings: Vec<String> = plainly(options).chain(options.settings.iter().cloned()).collect();
        text = settings::apply(&text, &settings, &file.display().to_string())?;
        let config = gq_conf::parse(&text, &file).map_err(|errors| wrong_conf(&errors))?;
        let nodes = nodes(&config, &file, &mut taken_as)?;
        let policy = Policy { slice_rule: rule_of(options), ..policy_of(&config, names, &mut taken_as) };
        Ok(Self { policy, nodes, counts_memory: !matches!(options.machine, Machine::Pool(_)), taken_as })
    }
}

/// The settings that a policy is. Without a conf a policy that is named means the plain one of the books, in order of submission; what
/// a conf says of priorities stays.
fn plainly(options: &Options) -> impl Iterator<Item = String> {
    let key = options.policy.key().map(|value| format!("scheduler.backfill={value}"));
    let is_plain = key.is_some() && !matches!(options.machine, Machine::Conf(_));
    let weights = ["priority_age", "priority_size", "priority_fair_share"];
    let weights = weights.into_iter().filter(move |_| is_plain).map(|weight| format!("scheduler.{weight}=0"));
    key.into_iter().chain(weights)
}

/// The rule by which the planner chooses slices.
fn rule_of(options: &Options) -> SliceRule {
    match options.placement {
        PlacementAsk::Frag => SliceRule::LeastLoss,
        PlacementAsk::Best => SliceRule::BestFit,
        PlacementAsk::First => SliceRule::FirstFit,
        PlacementAsk::Random => SliceRule::Random(options.seed),
    }
}

fn no_conf(path: &Path, error: &std::io::Error) -> Trouble {
    Trouble::unread(path, error).hint("--procs N for a pool of processors, --nodes FILE, or --conf FILE")
}

fn wrong_conf(errors: &ConfErrors) -> Trouble {
    Trouble::usage(errors.to_string().trim_end())
}

/// One node with so many cpus, and memory for all.
fn pool(procs: u32) -> String {
    format!(
        "[cluster]\nname = \"pool\"\n\n[scheduler]\nmax_job_count = 100000000\n\n[[node]]\nname = \"pool\"\ncpus = {procs}\n"
    )
}

/// The nodes of a list.
fn listed(rows: &[NodeRow]) -> String {
    let mut text = String::from(
        "[cluster]\nname = \"list\"\n\n[scheduler]\nmax_job_count = 100000000\n\n[[partition]]\nname = \"main\"\nrecut = true\n",
    );
    for row in rows {
        // Writing to a text does not fail.
        let _ = write!(
            text,
            "\n[[node]]\nname = \"{}\"\ncpus = {}\nmemory = \"{}M\"\n",
            row.name.escape_default(),
            row.cpus,
            row.memory.0
        );
        if row.cards > 0 {
            let _ = write!(
                text,
                "[[node.gpu]]\nmodel = \"{} {CUT_LIKE}\"\ncount = {}\nmemory = \"{CUT_MEMORY}\"\nmig = true\n",
                row.model.escape_default(),
                row.cards
            );
        }
    }
    text
}

/// The virtual nodes of a conf. What a real node would find is not known: cpus must be declared.
fn nodes(config: &Config, file: &Path, taken_as: &mut Vec<String>) -> Result<Vec<VirtualNode>, Trouble> {
    if config.nodes.is_empty() {
        let text = format!("{}: no [[node]] is declared", file.display());
        return Err(Trouble::usage(text).hint("declare the nodes, or --set node[ws1].cpus=64"));
    }
    let mut endless = 0u64;
    let node = |node: &gq_conf::Node| {
        let cpus = node.cpus.ok_or_else(|| {
            let text = format!("{}: node {}: its cpus are not declared", file.display(), node.name);
            Trouble::usage(text).hint(format!("--set node[{}].cpus=64", node.name))
        })?;
        endless += u64::from(node.memory.is_none());
        let memory = node.memory.unwrap_or(PLENTY);
        Ok(VirtualNode { name: node.name.clone(), cpus, memory, cards: node.cards.clone() })
    };
    let nodes: Vec<VirtualNode> = config.nodes.iter().map(node).collect::<Result<_, Trouble>>()?;
    if endless > 0 && config.cluster.name != "pool" {
        taken_as.push(format!("{endless} nodes do not declare their memory: they have enough"));
    }
    Ok(nodes)
}
