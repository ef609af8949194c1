//! The policy: what the conf says, as far as decisions depend on it.

use crate::{Budget, Private};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};
use gq_model::{Calendar, Card, IdleRule, MiB, NodeName, Seconds, Uid};

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
    /// Its part of the priority of its jobs.
    pub priority: i64,
    /// How many reservations are made for its jobs, when it has a rule of its own.
    pub depth: Option<Depth>,
    /// Whether its jobs may have idle slices destroyed and others cut.
    pub recut: bool,
    /// Whether `--gpu-mem` may be met by slices.
    pub slices_by_memory: bool,
    /// Whether `--gpu-mem` may be met by whole cards.
    pub cards_by_memory: bool,
    /// Whether its jobs may share cards (`--gpu-share`).
    pub shares: bool,
    /// Who may use it.
    pub access: Access,
    /// The QOS of jobs that name none.
    pub qos: Option<String>,
    /// QOS its jobs may name; none means any.
    pub allow_qos: Option<Vec<String>>,
    /// Jobs of a higher tier may preempt running jobs of a lower one.
    pub tier: u32,
    /// What happens to its jobs that are preempted.
    pub preempt: Preempt,
    /// What its preempted jobs get between the signal and their end.
    pub grace: Seconds,
    /// What is done about its jobs whose cards are idle; none means nothing.
    pub idle: Option<Idle>,
    /// Limits of its jobs.
    pub limits: Limits,
}

/// What happens to a job that makes room for a more important one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preempt {
    /// It never has to.
    #[default]
    Off,
    /// It is ended.
    Cancel,
    /// It is ended and waits again.
    Requeue,
}

/// What happens to a job whose cards stay idle though it was warned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdleAction {
    /// Nothing more.
    #[default]
    Report,
    /// It is ended.
    Cancel,
    /// It is ended and waits again, a few times.
    Requeue,
}

/// What a partition does about jobs whose cards are idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// When cards are idle.
    pub rule: IdleRule,
    /// What happens when they stay so.
    pub action: IdleAction,
    /// From the warning to that.
    pub grace: Seconds,
    /// Whether jobs may excuse themselves.
    pub may_excuse: bool,
}

/// Who may use a partition. Whoever is denied may not; whoever a list that is there does not name may not either.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Users allowed, by name or by group.
    pub allow_users: Option<BTreeSet<Uid>>,
    /// Users denied, by name or by group.
    pub deny_users: BTreeSet<Uid>,
    /// Accounts allowed.
    pub allow_accounts: Option<BTreeSet<String>>,
    /// Accounts denied.
    pub deny_accounts: BTreeSet<String>,
}

/// Bounds of what jobs may have together; none means unlimited. Cards count in thousandths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Running jobs of one user.
    pub max_jobs_per_user: Option<u64>,
    /// Cards of one user, in thousandths.
    pub max_cards_per_user: Option<u64>,
    /// Cpus of one user.
    pub max_cpus_per_user: Option<u64>,
    /// Live jobs of one user.
    pub max_submit_per_user: Option<u64>,
    /// Running jobs of all together.
    pub max_jobs: Option<u64>,
    /// Cards of all together, in thousandths.
    pub max_cards: Option<u64>,
    /// Cpus of all together.
    pub max_cpus: Option<u64>,
    /// Live jobs of all together.
    pub max_submit: Option<u64>,
    /// Cards of one job, in thousandths.
    pub max_cards_per_job: Option<u64>,
    /// Cpus of one job.
    pub max_cpus_per_job: Option<u64>,
}

/// A quality of service: a priority, a tier and limits that jobs may name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qos {
    /// Its name.
    pub name: String,
    /// Its part of the priority of its jobs.
    pub priority: i64,
    /// Its tier, when it has one: it counts instead of the partition's.
    pub tier: Option<u32>,
    /// What happens to its jobs that are preempted; none means as the partition says.
    pub preempt: Option<Preempt>,
    /// Their grace; none means as the partition says.
    pub grace: Option<Seconds>,
    /// Longest time limit; none means as the partition says.
    pub max_time: Option<Seconds>,
    /// Limits of its jobs.
    pub limits: Limits,
}

/// An account: whom use is charged to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// The account it belongs to.
    pub parent: Option<String>,
    /// Its share among the children of its parent.
    pub shares: u64,
    /// Its members.
    pub users: Vec<Uid>,
    /// Who steers the jobs of its members, and of the accounts below.
    pub coordinators: Vec<Uid>,
    /// Limits of its jobs and those of the accounts below.
    pub limits: Limits,
    /// Card-minutes (halved with the half-life) that it may use; none means any number.
    pub card_minutes: Option<u64>,
}

/// How much each factor counts for priority. Age, fair share and size are thousandths times the weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weights {
    /// Of the time waited.
    pub age: i64,
    /// After so long, age counts in full.
    pub age_max: Seconds,
    /// Of having used less than one's share.
    pub fair_share: i64,
    /// Of asking for little; below 0 large jobs go first.
    pub size: i64,
    /// Of the partition's priority.
    pub partition: i64,
    /// Of the QOS's priority.
    pub qos: i64,
}

impl Partition {
    /// A partition of every node, without limits.
    pub fn plain(name: &str) -> Self {
        Self {
            name: String::from(name),
            nodes: None,
            max_time: None,
            default_time: None,
            state: PartitionState::Up,
            priority: 0,
            depth: None,
            recut: false,
            slices_by_memory: true,
            cards_by_memory: true,
            shares: false,
            access: Access::default(),
            qos: None,
            allow_qos: None,
            tier: 1,
            preempt: Preempt::Off,
            grace: Seconds(0),
            idle: None,
            limits: Limits::default(),
        }
    }
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
    /// None, and nobody passes a job of his partition that cannot start.
    Fcfs,
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

/// How a slice is chosen among those that would do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SliceRule {
    /// Where it takes least of what others could still get.
    #[default]
    LeastLoss,
    /// On the card with the fewest free units, lowest place first.
    BestFit,
    /// On the first card, lowest place first.
    FirstFit,
    /// Anywhere: a number that changes with every choice picks one.
    Random(u64),
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
    /// Qualities of service.
    pub qos: Vec<Qos>,
    /// Accounts.
    pub accounts: Vec<Account>,
    /// Licences of the cluster: how many of each.
    pub licences: BTreeMap<String, u32>,
    /// Budgets of card time.
    pub budgets: Vec<Budget>,
    /// What a card of a model costs an hour, in millionths; the first that fits counts.
    pub prices: Vec<(String, u64)>,
    /// In what that is paid, when it is said.
    pub currency: Option<String>,
    /// The calendar by which the periods of budgets are.
    pub calendar: Calendar,
    /// What counts for priority.
    pub weights: Weights,
    /// Use of cards counts half after so long.
    pub half_life: Seconds,
    /// What a cpu is charged, in thousandths of a card.
    pub cpu_charge: u32,
    /// A job that has run for less is not preempted.
    pub preempt_exempt: Seconds,
    /// How a slice is chosen among those that would do.
    pub slice_rule: SliceRule,
    /// How many reservations.
    pub depth: Depth,
    /// Memory per cpu of jobs that name none; none means memory divided by cpus.
    pub default_mem_per_cpu: Option<MiB>,
    /// From the first signal to the last.
    pub kill_wait: Seconds,
    /// What a run gets beyond its time limit before it is ended.
    pub over_limit: Seconds,
    /// Whether jobs that say nothing of it run again after their node failed.
    pub requeue: bool,
    /// How long a run that is to run again when its node is lost goes on while that node is cut off.
    pub lease: Seconds,
    /// Whether jobs that say nothing of it are ended when what they wait for can no longer come.
    pub kill_on_invalid_dep: bool,
    /// Most tasks of one array.
    pub max_array_size: u32,
    /// Most live jobs.
    pub max_job_count: u64,
    /// A node of which nothing was heard for so long is suspect.
    pub suspect_after: Seconds,
    /// A node silent for so long is lost.
    pub lost_after: Seconds,
    /// Whom the queue serves.
    pub serves: Serves,
    /// Users who may do everything besides root, the controller's own among them; see [`Policy::role`].
    pub admins: BTreeSet<Uid>,
    /// Users who steer what is everybody's.
    pub operators: BTreeSet<Uid>,
    /// What is kept from others.
    pub private: Private,
    /// Whether `--test-run` is allowed.
    pub allow_test_run: bool,
    /// Whether nodes can run a script in an image (`--container`).
    pub containers: bool,
}

impl Policy {
    /// A policy of one partition `main` of every node, without limits: what an empty conf means.
    pub fn plain(cluster: &str) -> Self {
        Self {
            cluster: String::from(cluster),
            partitions: alloc::vec![Partition::plain("main")],
            declared: BTreeMap::new(),
            qos: Vec::new(),
            accounts: Vec::new(),
            licences: BTreeMap::new(),
            budgets: Vec::new(),
            prices: Vec::new(),
            currency: None,
            calendar: Calendar::default(),
            weights: Weights { partition: 1, qos: 1, age_max: Seconds(7 * 86_400), ..Weights::default() },
            half_life: Seconds(7 * 86_400),
            cpu_charge: 10,
            preempt_exempt: Seconds(0),
            slice_rule: SliceRule::LeastLoss,
            depth: Depth::First(1),
            default_mem_per_cpu: None,
            kill_wait: Seconds(30),
            over_limit: Seconds(0),
            requeue: false,
            lease: Seconds(600),
            kill_on_invalid_dep: false,
            max_array_size: 1_000_000,
            max_job_count: 1_000_000,
            suspect_after: Seconds(30),
            lost_after: Seconds(120),
            serves: Serves::Everyone,
            admins: BTreeSet::new(),
            operators: BTreeSet::new(),
            private: Private::default(),
            allow_test_run: false,
            containers: false,
        }
    }
    /// The partition of this name.
    pub fn partition(&self, name: &str) -> Option<&Partition> {
        self.partitions.iter().find(|p| p.name == name)
    }
    /// The quality of service of this name.
    pub fn qos(&self, name: &str) -> Option<&Qos> {
        self.qos.iter().find(|q| q.name == name)
    }
    /// The account of this name.
    pub fn account(&self, name: &str) -> Option<&Account> {
        self.accounts.iter().find(|a| a.name == name)
    }
    /// The account of this name and those above it, nearest first. A loop ends where it closes.
    pub fn accounts_above<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Account> {
        let above = |account: &&'a Account| account.parent.as_deref().and_then(|parent| self.account(parent));
        core::iter::successors(self.account(name), above).take(self.accounts.len())
    }
    /// Whether an account is another or below it.
    pub fn is_within(&self, account: &str, other: &str) -> bool {
        self.accounts_above(account).any(|above| above.name == other)
    }
}
