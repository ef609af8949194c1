//! The conf as the daemons and clients use it: typed, complete, defaults filled in. Nothing here reads a file.

use crate::around::{Container, Fence, NodeHooks};
use crate::rules::{
    Access, Account, Backfill, Budget, Idle, Licence, Limits, Preempt, Price, Private, Qos, Weights,
};
use gq_model::{Card, MiB, NodeName, Seconds};
use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

/// A whole conf file, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `[cluster]`.
    pub cluster: Cluster,
    /// `[scheduler]`.
    pub scheduler: Scheduler,
    /// The partitions in the order written; never empty, and exactly one is the default.
    pub partitions: Vec<Partition>,
    /// The declared nodes, one for each name; empty when none is declared.
    pub nodes: Vec<Node>,
    /// The QOS in the order written, each name once.
    pub qos: Vec<Qos>,
    /// The accounts in the order written, each name once; they are a forest.
    pub accounts: Vec<Account>,
    /// The licences in the order written, each name once.
    pub licences: Vec<Licence>,
    /// The budgets in the order written, each name once.
    pub budgets: Vec<Budget>,
    /// The prices in the order written, each model once.
    pub prices: Vec<Price>,
    /// In what prices are paid; none when nobody says.
    pub currency: Option<String>,
    /// What holds a run together (`[fence]`).
    pub fence: Fence,
    /// What nodes run before and after each run (`[hooks]`).
    pub node_hooks: NodeHooks,
    /// How a script is run in an image (`[container]`); none when jobs may not ask for it.
    pub container: Option<Container>,
    /// `[hooks]`.
    pub hooks: Hooks,
}

/// `[cluster]`: names, folders, accounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The cluster's name.
    pub name: String,
    /// The spool, shared by all nodes.
    pub spool_dir: PathBuf,
    /// The controller's own disk.
    pub state_dir: PathBuf,
    /// Where the socket is.
    pub run_dir: PathBuf,
    /// The node's own disk, when said; see [`Cluster::node_dir`].
    pub node_dir: Option<PathBuf>,
    /// Accounts with an admin's rights, besides root and `user`.
    pub admins: Vec<String>,
    /// Accounts that steer what is everybody's.
    pub operators: Vec<String>,
    /// What is kept from other users, each once.
    pub private: Vec<Private>,
    /// The account that `gqd` started by root becomes; `root` means personal mode for root.
    pub user: String,
    /// How long a job file is kept after the end of its job.
    pub job_file_keep: Seconds,
    /// How long what has ended stays in the state, before it goes to the file of its year; none means for ever.
    pub history_keep: Option<Seconds>,
    /// Whether `--test-run` is taken.
    pub allow_test_run: bool,
    /// Path of `libnvidia-ml.so`, when it is not where the loader looks.
    pub nvml_library: Option<PathBuf>,
    /// How often a node gives a sign of life; less than `suspect_after`.
    pub beat: Seconds,
    /// After how long a node without a sign of life is suspect.
    pub suspect_after: Seconds,
    /// After how long a silent node counts as lost.
    pub lost_after: Seconds,
}

impl Cluster {
    /// The folder of the nodes on this host: the one of the conf, else `/var/lib/gq-node`, or `<state_dir>/node` in
    /// personal mode.
    pub fn node_dir(&self, personal: bool) -> PathBuf {
        match &self.node_dir {
            Some(dir) => dir.clone(),
            None if personal => self.state_dir.join("node"),
            None => Path::new("/var/lib/gq-node").to_path_buf(),
        }
    }
}

/// `[scheduler]`: defaults and bounds of jobs, and how the plan is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduler {
    /// How far ahead the plan promises, where a partition says nothing else.
    pub backfill: Backfill,
    /// What the parts of a priority weigh.
    pub weights: Weights,
    /// After how long a use counts half; at least a second.
    pub half_life: Seconds,
    /// How many thousandths of a card a cpu counts in what is used.
    pub cpu_charge: u32,
    /// How long a job has run at least before it may have to make room.
    pub preempt_exempt: Seconds,
    /// Memory for each cpu of a job that asks for none; none means memory ÷ cpus, the least of the partition's nodes.
    pub default_mem_per_cpu: Option<MiB>,
    /// From the first signal to the last when a job is ended.
    pub kill_wait: Seconds,
    /// What a run gets beyond its time limit before it is ended.
    pub over_time_limit: Seconds,
    /// Whether jobs that say nothing of it run again after their node failed.
    pub requeue: bool,
    /// How long a run with `--requeue=on-lost` goes on when its node is cut off; at least three beats.
    pub lease: Seconds,
    /// Whether jobs that say nothing of it are ended when what they wait for can no longer come.
    pub kill_on_invalid_dep: bool,
    /// Most tasks of one array.
    pub max_array_size: u32,
    /// Most records of live jobs; an array is one record.
    pub max_job_count: u64,
}

/// `[hooks]`: the site's own programs. Each is an argument vector whose first word is an absolute path; an empty one is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hooks {
    /// The program that may change or refuse requests.
    pub submit: Vec<String>,
    /// How long it may take; at least a second.
    pub submit_time: Seconds,
    /// The program that is told what happens.
    pub notify: Vec<String>,
    /// How long it may take; at least a second.
    pub notify_time: Seconds,
    /// The program that sends messages: it reads one, with its head, on standard input.
    pub mail: Vec<String>,
    /// How long it may take; at least a second.
    pub mail_time: Seconds,
    /// From whom messages are.
    pub mail_from: String,
    /// What stands behind the `@` of users; none means that there is no `@`.
    pub mail_domain: Option<String>,
}

/// What a partition does with jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionState {
    /// Takes submissions and starts jobs.
    Up,
    /// Takes no submissions; starts and runs what it has.
    Drain,
    /// Takes submissions; starts nothing.
    Down,
    /// Neither takes nor starts.
    Inactive,
}

impl PartitionState {
    /// All states with the words of the conf.
    pub const ALL: [(Self, &'static str); 4] =
        [(Self::Up, "up"), (Self::Drain, "drain"), (Self::Down, "down"), (Self::Inactive, "inactive")];

    /// Whether new jobs may be submitted to it.
    pub const fn takes_jobs(self) -> bool {
        matches!(self, Self::Up | Self::Down)
    }
    /// Whether its jobs may start.
    pub const fn starts_jobs(self) -> bool {
        matches!(self, Self::Up | Self::Drain)
    }
}

/// One `[[partition]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its name.
    pub name: String,
    /// Its nodes; none means every node.
    pub nodes: Option<Vec<NodeName>>,
    /// Whether it is the one of jobs that name none.
    pub default: bool,
    /// Longest time limit of its jobs; none means unlimited.
    pub max_time: Option<Seconds>,
    /// Time limit of jobs that ask for none; none means `max_time`.
    pub default_time: Option<Seconds>,
    /// What it does with jobs.
    pub state: PartitionState,
    /// Adds to the priority of its jobs, times the weight.
    pub priority: i64,
    /// How far ahead the plan promises to its jobs; none means what the cluster says.
    pub backfill: Option<Backfill>,
    /// Whether the plan may have cards in MIG mode cut anew for its jobs.
    pub recut: bool,
    /// Whether slices may serve those who ask for memory of a card (`--gpu-mem`).
    pub gpu_mem_slices: bool,
    /// Whether whole cards may serve them.
    pub gpu_mem_cards: bool,
    /// Whether its jobs may share cards (`--gpu-share`), where nodes let theirs be shared.
    pub gpu_share: bool,
    /// Who may use it.
    pub access: Access,
    /// QOS of its jobs that name none; declared.
    pub qos: Option<String>,
    /// The QOS that its jobs may have, all declared, `qos` among them; empty means any.
    pub allow_qos: Vec<String>,
    /// Its jobs may have running jobs of lower tiers make room.
    pub tier: u32,
    /// What happens to its jobs when they make room.
    pub preempt: Preempt,
    /// Time from the first signal to the last when they make room.
    pub grace: Seconds,
    /// What is done about its jobs whose cards are idle; none means nothing.
    pub idle: Option<Idle>,
    /// Bounds of its jobs.
    pub limits: Limits,
}

impl Partition {
    /// The partition of a conf that declares none: `main`, of every node, without limits.
    pub fn of_every_node() -> Self {
        Self {
            name: "main".to_string(),
            nodes: None,
            default: true,
            max_time: None,
            default_time: None,
            state: PartitionState::Up,
            priority: 0,
            backfill: None,
            recut: false,
            gpu_mem_slices: true,
            gpu_mem_cards: true,
            gpu_share: false,
            access: Access::default(),
            qos: None,
            allow_qos: Vec::new(),
            tier: 1,
            preempt: Preempt::Off,
            grace: Seconds(0),
            idle: None,
            limits: Limits::default(),
        }
    }
}

/// One declared node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: NodeName,
    /// Its cpus; none means what the node finds.
    pub cpus: Option<u32>,
    /// Its memory; none means what the node finds.
    pub memory: Option<MiB>,
    /// In how many parts its cards may be shared; 0 means not at all.
    pub gpu_share: u8,
    /// What `-C` may ask of it.
    pub features: Vec<String>,
    /// Its declared cards, indices from 0 in the order written.
    pub cards: Vec<Card>,
}

impl Config {
    /// The partition of jobs that name none.
    pub fn default_partition(&self) -> &Partition {
        static EVERY_NODE: LazyLock<Partition> = LazyLock::new(Partition::of_every_node);
        let chosen = self.partitions.iter().find(|p| p.default).or_else(|| self.partitions.first());
        chosen.unwrap_or_else(|| &EVERY_NODE)
    }

    /// The partition of this name.
    pub fn partition(&self, name: &str) -> Option<&Partition> {
        self.partitions.iter().find(|p| p.name == name)
    }

    /// The declared node of this name.
    pub fn node(&self, name: &NodeName) -> Option<&Node> {
        self.nodes.iter().find(|n| n.name == *name)
    }

    /// The QOS of this name.
    pub fn qos(&self, name: &str) -> Option<&Qos> {
        self.qos.iter().find(|q| q.name == name)
    }

    /// The account of this name.
    pub fn account(&self, name: &str) -> Option<&Account> {
        self.accounts.iter().find(|a| a.name == name)
    }

    /// The account of a user who names none: the first of the file that he is a member of.
    pub fn default_account(&self, user: &str) -> Option<&Account> {
        self.accounts.iter().find(|a| a.users.iter().any(|u| u == user))
    }

    /// The licence of this name.
    pub fn licence(&self, name: &str) -> Option<&Licence> {
        self.licences.iter().find(|l| l.name == name)
    }

    /// The controller's socket.
    pub fn sock(&self) -> PathBuf {
        self.cluster.run_dir.join("gqd.sock")
    }
}
