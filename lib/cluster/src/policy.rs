//! The policy: what the conf says, as far as decisions depend on it.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};
use gq_model::{Card, MiB, NodeName, Seconds, Uid};

/// Whether a partition takes and starts jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartitionState {
    /// Both.
    #[default]
    Up,
    /// Starts what it has, takes no new ones.
    Drain,
    /// Takes new ones, starts nothing.
    Down,
    /// Neither.
    Inactive,
}

impl PartitionState {
    /// Whether it takes new jobs.
    pub const fn takes(self) -> bool {
        matches!(self, Self::Up | Self::Down)
    }
    /// Whether it starts jobs.
    pub const fn starts(self) -> bool {
        matches!(self, Self::Up | Self::Drain)
    }
    /// Its name in the conf.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Drain => "drain",
            Self::Down => "down",
            Self::Inactive => "inactive",
        }
    }
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its name.
    pub name: String,
    /// Its nodes; none means every node.
    pub nodes: Option<BTreeSet<NodeName>>,
    /// Longest time limit; none means unlimited.
    pub max_time: Option<Seconds>,
    /// Time limit of jobs that name none.
    pub default_time: Option<Seconds>,
    /// Whether it takes and starts jobs.
    pub state: PartitionState,
    /// Added to the priority of its jobs.
    pub priority: i64,
}

impl Partition {
    /// Whether the node is one of its nodes.
    pub fn has(&self, node: &NodeName) -> bool {
        self.nodes.as_ref().is_none_or(|nodes| nodes.contains(node))
    }
}

/// A node as the conf declares it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeclaredNode {
    /// Cpus; none means what the node finds.
    pub cpus: Option<u32>,
    /// Memory; none means what the node finds.
    pub memory: Option<MiB>,
    /// Features.
    pub features: Vec<String>,
    /// Cards; empty means what the node finds.
    pub cards: Vec<Card>,
}

/// How many of the first jobs that cannot start get a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// So many: 0 is greedy, 1 is EASY.
    First(u32),
    /// All: conservative.
    All,
}

/// Whom the queue serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// Every user but root.
    Everyone,
    /// One user: personal mode.
    Only(Uid),
}

/// What decisions depend on beside the state.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The cluster's name.
    pub cluster: String,
    /// Partitions, the first being the default.
    pub partitions: Vec<Partition>,
    /// Nodes as declared.
    pub declared: BTreeMap<NodeName, DeclaredNode>,
    /// How many reservations.
    pub depth: Depth,
    /// Memory per cpu of jobs that name none; none means memory divided by cpus.
    pub default_mem_per_cpu: Option<MiB>,
    /// From the first signal to the last.
    pub kill_wait: Seconds,
    /// Most tasks of one array.
    pub max_array_size: u32,
    /// Most live jobs.
    pub max_job_count: u64,
    /// A node silent for so long is lost.
    pub lost_after: Seconds,
    /// Whom the queue serves.
    pub serves: Serves,
    /// Users who may do everything, besides root and the controller's own user.
    pub admins: BTreeSet<Uid>,
    /// Whether `--test-run` is allowed.
    pub allow_test_run: bool,
}

impl Policy {
    /// The partition of this name.
    pub fn partition(&self, name: &str) -> Option<&Partition> {
        self.partitions.iter().find(|p| p.name == name)
    }
}
