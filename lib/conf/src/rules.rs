//! Who may use how much, and who goes first: weights, limits, access, QOS, accounts, licences, preemption. Only the words
//! of the conf; who is over a limit is the engine's business.

use gq_model::{CardTime, Period, Seconds};

/// How far ahead the plan promises starts to blocked jobs, and whether later jobs may start before blocked ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backfill {
    /// No job starts before one of a higher place.
    Fcfs,
    /// So many of the first blocked jobs get a reservation that later jobs may not delay; 0 is greedy.
    Depth(u32),
    /// The first blocked job gets one.
    Easy,
    /// Every blocked job gets one.
    Conservative,
}

/// What the parts of a priority weigh. Age, fair share and size are factors from 0 to 1000 thousandths; the priorities of
/// partition and QOS are taken as they stand in the conf, times their weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// Of the time that a job has waited.
    pub priority_age: i64,
    /// After how long the age counts in full; at least a second.
    pub priority_age_max: Seconds,
    /// Of what the job's account has used less than its share.
    pub priority_fair_share: i64,
    /// Of how little the job asks for, by the logarithm of cards and cpus times time; below 0 large jobs go first.
    pub priority_size: i64,
    /// Of the partition's `priority`.
    pub priority_partition: i64,
    /// Of the QOS's `priority`.
    pub priority_qos: i64,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            priority_age: 1000,
            priority_age_max: Seconds(21 * 86_400),
            priority_fair_share: 0,
            priority_size: 1000,
            priority_partition: 10_000,
            priority_qos: 10_000,
        }
    }
}

/// What happens to a running job when it has to make room for one of a higher tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preempt {
    /// Nothing: it runs on.
    #[default]
    Off,
    /// It is cancelled.
    Cancel,
    /// It goes back into the queue.
    Requeue,
}

impl Preempt {
    /// All of them with the words of the conf.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Off, "off"), (Self::Cancel, "cancel"), (Self::Requeue, "requeue")];
}

/// What happens to a job whose cards stay idle though it was warned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdleAction {
    /// It runs on; its user is told, and it counts in the report.
    #[default]
    Report,
    /// It is cancelled.
    Cancel,
    /// It goes back into the queue.
    Requeue,
}

impl IdleAction {
    /// All of them with the words of the conf.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Report, "report"), (Self::Cancel, "cancel"), (Self::Requeue, "requeue")];
}

/// What a partition does about jobs whose cards are idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// How long they are so before a job is warned; at least a second.
    pub after: Seconds,
    /// Percent, from 1 to 100; a card that is used less is idle.
    pub below: u8,
    /// What happens then.
    pub action: IdleAction,
    /// Time from the warning to that.
    pub grace: Seconds,
    /// Whether memory of a card that the job's processes have is use.
    pub memory_is_use: bool,
    /// Whether jobs may excuse themselves (`--idle-ok`).
    pub may_excuse: bool,
}

/// What of others may be kept from users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Private {
    /// Their jobs.
    Jobs,
    /// What they have used.
    Usage,
    /// Advance reservations that are for others.
    Reservations,
}

impl Private {
    /// All of them with the words of the conf.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Jobs, "jobs"), (Self::Usage, "usage"), (Self::Reservations, "reservations")];
}

/// Bounds of what the jobs of a partition, QOS or account may hold; none means no bound, and 0 lets none through.
///
/// Cards are whole cards; a slice counts as its share of a card, rounded up to thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Most jobs of one user that run.
    pub max_jobs_per_user: Option<u32>,
    /// Most cards that the running jobs of one user hold.
    pub max_cards_per_user: Option<u32>,
    /// Most cpus that the running jobs of one user hold.
    pub max_cpus_per_user: Option<u32>,
    /// Most jobs of one user that have not ended.
    pub max_submit_per_user: Option<u32>,
    /// Most jobs that run.
    pub max_jobs: Option<u32>,
    /// Most cards that the running jobs hold.
    pub max_cards: Option<u32>,
    /// Most cpus that the running jobs hold.
    pub max_cpus: Option<u32>,
    /// Most jobs that have not ended.
    pub max_submit: Option<u32>,
    /// Most cards of one job.
    pub max_cards_per_job: Option<u32>,
    /// Most cpus of one job.
    pub max_cpus_per_job: Option<u32>,
}

/// Who may use a partition. An empty `allow_…` list lets everybody through. A user must be let through by accounts and by
/// users or groups: `allow_users` and `allow_groups` together mean those whom either names. What is denied is denied
/// whatever is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Only these users (or the members of `allow_groups`).
    pub allow_users: Vec<String>,
    /// Only members of these groups of the system (or `allow_users`).
    pub allow_groups: Vec<String>,
    /// Only jobs of these accounts, or of those below them.
    pub allow_accounts: Vec<String>,
    /// None of these users.
    pub deny_users: Vec<String>,
    /// No member of these groups of the system.
    pub deny_groups: Vec<String>,
    /// No jobs of these accounts, or of those below them.
    pub deny_accounts: Vec<String>,
}

impl Access {
    /// Whether everybody may.
    pub fn is_open(&self) -> bool {
        let lists = [
            &self.allow_users,
            &self.allow_groups,
            &self.allow_accounts,
            &self.deny_users,
            &self.deny_groups,
            &self.deny_accounts,
        ];
        lists.iter().all(|list| list.is_empty())
    }
}

/// One `[[qos]]`: a quality of service, which a job asks for with `-q`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qos {
    /// Its name.
    pub name: String,
    /// Adds to the priority of its jobs, times the weight.
    pub priority: i64,
    /// The tier of its jobs; none means their partition's.
    pub tier: Option<u32>,
    /// What happens to its jobs when they make room; none means what their partition says.
    pub preempt: Option<Preempt>,
    /// Time from the first signal to the last when they make room; none means what their partition says.
    pub grace: Option<Seconds>,
    /// Longest time limit of its jobs; none means the partition's alone.
    pub max_time: Option<Seconds>,
    /// Its bounds; those of the partition and of the account hold as well.
    pub limits: Limits,
}

/// One `[[account]]`: a node of the tree by which shares are handed down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// The account it is a part of; none at the top. The tree has no loops.
    pub parent: Option<String>,
    /// Its share among the accounts beside it.
    pub shares: u32,
    /// Its members. A user may be in several; the first of the file is his default.
    pub users: Vec<String>,
    /// Who steers the jobs of its members, and of the accounts below it.
    pub coordinators: Vec<String>,
    /// The bounds of it and of the accounts below it together.
    pub limits: Limits,
    /// Budget of decayed card-minutes of it and of the accounts below it together; none means no bound.
    pub card_minutes: Option<u64>,
}

/// What happens when a budget is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UsedUp {
    /// It is told, and nothing else.
    #[default]
    Report,
    /// Jobs that it pays for stand behind all others.
    LowPriority,
    /// No new jobs are taken that it would pay for, and none that wait are started.
    Refuse,
}

impl UsedUp {
    /// All of them with the words of the conf.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Report, "report"), (Self::LowPriority, "low_priority"), (Self::Refuse, "refuse")];
}

/// Whose runs count in a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Those of an account and of the accounts below it.
    Account(String),
    /// Those of a user.
    User(String),
    /// Every user has one of his own.
    EveryUser,
}

/// One `[[budget]]`: card time of an account or a user in a period of the calendar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Its name.
    pub name: String,
    /// Whose runs count.
    pub whose: Whose,
    /// How much card time there is in each period.
    pub most: CardTime,
    /// How long a period is.
    pub period: Period,
    /// What happens when it is used up.
    pub then: UsedUp,
}

/// One `[[price]]`: what cards of a model cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    /// The model, as in `--gpus=MODEL`.
    pub model: String,
    /// What a card-hour costs, in millionths.
    pub card_hour: u64,
}

/// One `[[licence]]`: something that the cluster has only so many of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Licence {
    /// Its name.
    pub name: String,
    /// How many there are.
    pub count: u32,
}
