//! The declaration of every key: table, name, type, reader, default, words. Whoever adds a key adds it here, uses it in
//! `check`, and tells of it in `gq.conf(5)`; a test holds them together.

use crate::{
    config::PartitionState,
    mistake::Notes,
    rules::{Backfill, IdleAction, Limits, Preempt, Private, UsedUp, Weights},
    value::{self, Arguments, HostLists, Names},
};
use gq_model::{CardTime, MiB, NodeName, Period, Seconds, Slice};
use std::path::PathBuf;
use toml_edit::Value;

/// A key whose value is a `T`.
pub(crate) struct Key<T> {
    /// Its table.
    pub(crate) table: &'static str,
    /// Its name.
    pub(crate) name: &'static str,
    /// Reads a value, or notes what is wrong with it.
    pub(crate) read: fn(&Value, &mut Notes<'_>) -> Option<T>,
    /// What it is when it is not written.
    pub(crate) default: fn() -> T,
}

macro_rules! keys {
    ($($table:literal { $($doc:literal $konst:ident: $type:ty = $name:literal, $read:path, $default:expr;)* })*) => {
        $($(
            #[doc = $doc]
            pub(crate) const $konst: Key<$type> =
                Key { table: $table, name: $name, read: $read, default: || $default };
        )*)*
        const DECLARED: &[(&str, &str, &str)] = &[$($(($table, $name, $doc),)*)*];
    };
}

keys! {
    "cluster" {
        "The cluster's name, as jobs see it." CLUSTER_NAME: String = "name", value::name, "gq".to_string();
        "The spool, shared by all nodes." SPOOL_DIR: PathBuf = "spool_dir", value::path, PathBuf::from("/var/spool/gq");
        "The controller's own disk." STATE_DIR: PathBuf = "state_dir", value::path, PathBuf::from("/var/lib/gq");
        "Where the socket is." RUN_DIR: PathBuf = "run_dir", value::path, PathBuf::from("/run/gq");
        "A node's own disk." NODE_DIR: Option<PathBuf> = "node_dir", value::some_path, None;
        "Accounts with an admin's rights." ADMINS: Vec<String> = "admins", value::accounts, Vec::new();
        "Accounts that steer what is everybody's." OPERATORS: Vec<String> = "operators", value::accounts, Vec::new();
        "What is kept from other users." PRIVATE_DATA: Vec<Private> = "private_data", value::private, Vec::new();
        "The account that gqd becomes." USER: String = "user", value::account, "gq".to_string();
        "How long a job file is kept after the end of its job." JOB_FILE_KEEP: Seconds =
            "job_file_keep", value::duration, Seconds(30 * 86_400);
        "How long what has ended stays in the state." HISTORY_KEEP: Option<Seconds> =
            "history_keep", value::limit, Some(Seconds(400 * 86_400));
        "Whether --test-run is taken." ALLOW_TEST_RUN: bool = "allow_test_run", value::flag, false;
        "Path of libnvidia-ml.so." NVML_LIBRARY: Option<PathBuf> = "nvml_library", value::some_path, None;
        "How often a node gives a sign of life." BEAT: Seconds = "beat", value::some_duration, Seconds(10);
        "After how long a node without a sign of life is suspect." SUSPECT_AFTER: Seconds =
            "suspect_after", value::some_duration, Seconds(30);
        "After how long a silent node counts as lost." LOST_AFTER: Seconds =
            "lost_after", value::some_duration, Seconds(120);
    }
    "scheduler" {
        "How many blocked jobs get a reservation." BACKFILL: Backfill = "backfill", value::backfill, Backfill::Easy;
        "Weight of the time that a job has waited." PRIORITY_AGE: i64 =
            "priority_age", value::priority, Weights::default().priority_age;
        "After how long the age counts in full." PRIORITY_AGE_MAX: Seconds =
            "priority_age_max", value::some_duration, Weights::default().priority_age_max;
        "Weight of what the account has used less than its share." PRIORITY_FAIR_SHARE: i64 =
            "priority_fair_share", value::priority, Weights::default().priority_fair_share;
        "Weight of how little the job asks for." PRIORITY_SIZE: i64 =
            "priority_size", value::priority, Weights::default().priority_size;
        "Weight of the partition's priority." PRIORITY_PARTITION: i64 =
            "priority_partition", value::priority, Weights::default().priority_partition;
        "Weight of the QOS's priority." PRIORITY_QOS: i64 =
            "priority_qos", value::priority, Weights::default().priority_qos;
        "After how long a use counts half." HALF_LIFE: Seconds =
            "half_life", value::some_duration, Seconds(7 * 86_400);
        "Thousandths of a card that a cpu counts in what is used." CPU_CHARGE: u32 =
            "cpu_charge", value::cpu_charge, 10;
        "How long a job has run before it may have to make room." PREEMPT_EXEMPT: Seconds =
            "preempt_exempt", value::duration, Seconds(0);
        "Memory for each cpu of a job that asks for none." DEFAULT_MEM_PER_CPU: Option<MiB> =
            "default_mem_per_cpu", value::memory, None;
        "Time from the first signal to the last." KILL_WAIT: Seconds = "kill_wait", value::kill_wait, Seconds(30);
        "Time a run gets beyond its limit." OVER_TIME_LIMIT: Seconds = "over_time_limit", value::kill_wait, Seconds(0);
        "Whether jobs run again after their node failed." REQUEUE: bool = "requeue", value::flag, false;
        "How long a run with --requeue=on-lost goes on when its node is cut off." LEASE: Seconds =
            "lease", value::some_duration, Seconds(600);
        "Whether jobs end whose dependency can no longer be met." KILL_ON_INVALID_DEP: bool =
            "kill_on_invalid_dep", value::flag, false;
        "Most tasks of one array." MAX_ARRAY_SIZE: u32 = "max_array_size", value::array_size, 1_000_000;
        "Most records of live jobs." MAX_JOB_COUNT: u64 = "max_job_count", value::job_count, 1_000_000;
    }
    "partition" {
        "The partition's name." PARTITION_NAME: String = "name", value::name, String::new();
        "Its nodes." PARTITION_NODES: Option<HostLists> = "nodes", value::host_lists, None;
        "Whether jobs that name no partition go here." DEFAULT: bool = "default", value::flag, false;
        "Longest time limit of its jobs." MAX_TIME: Option<Seconds> = "max_time", value::limit, None;
        "Time limit of jobs that ask for none." DEFAULT_TIME: Option<Seconds> = "default_time", value::limit, None;
        "What it does with jobs." STATE: PartitionState = "state", value::state, PartitionState::Up;
        "Adds to the priority of its jobs." PRIORITY: i64 = "priority", value::priority, 0;
        "How many blocked jobs of it get a reservation." OWN_BACKFILL: Option<Backfill> =
            "backfill", value::some_backfill, None;
        "Whether cards in MIG mode may be cut anew for its jobs." RECUT: bool = "recut", value::flag, false;
        "Whether slices may serve --gpu-mem." GPU_MEM_SLICES: bool = "gpu_mem_slices", value::flag, true;
        "Whether whole cards may serve --gpu-mem." GPU_MEM_CARDS: bool = "gpu_mem_cards", value::flag, true;
        "Whether jobs may share cards (--gpu-share)." PARTITION_GPU_SHARE: bool = "gpu_share", value::flag, false;
        "Users who may use it." ALLOW_USERS: Vec<String> = "allow_users", value::only_accounts, Vec::new();
        "Groups whose members may use it." ALLOW_GROUPS: Vec<String> =
            "allow_groups", value::only_groups, Vec::new();
        "Accounts whose jobs may use it." ALLOW_ACCOUNTS: Names =
            "allow_accounts", value::only_names, Vec::new();
        "Users who may not use it." DENY_USERS: Vec<String> = "deny_users", value::accounts, Vec::new();
        "Groups whose members may not use it." DENY_GROUPS: Vec<String> =
            "deny_groups", value::groups, Vec::new();
        "Accounts whose jobs may not use it." DENY_ACCOUNTS: Names =
            "deny_accounts", value::names, Vec::new();
        "QOS of its jobs that name none." DEFAULT_QOS: Option<String> = "qos", value::some_name, None;
        "The QOS its jobs may have." ALLOW_QOS: Names = "allow_qos", value::only_names, Vec::new();
        "Its jobs may have jobs of lower tiers make room." TIER: u32 = "tier", value::tier, 1;
        "What happens to its jobs when they make room." PREEMPT: Preempt = "preempt", value::preempt, Preempt::Off;
        "Time its jobs get to end when they make room." GRACE: Seconds = "grace", value::kill_wait, Seconds(0);
        "After how long a job is warned whose cards are all idle." IDLE_AFTER: Option<Seconds> =
            "idle_after", value::idle_after, None;
        "Percent; a card that is used less is idle." IDLE_BELOW: u8 = "idle_below", value::percent, 5;
        "What happens to its jobs whose cards stay idle." IDLE_ACTION: IdleAction =
            "idle_action", value::idle_action, IdleAction::Report;
        "Time from the warning to that." IDLE_GRACE: Seconds = "idle_grace", value::kill_wait, Seconds(600);
        "Whether memory of a card in use counts as use." IDLE_MEMORY_IS_USE: bool =
            "idle_memory_is_use", value::flag, false;
        "Whether jobs may excuse themselves (--idle-ok)." IDLE_OK: bool = "idle_ok", value::flag, false;
    }
    "qos" {
        "The QOS's name." QOS_NAME: String = "name", value::name, String::new();
        "Adds to the priority of its jobs." QOS_PRIORITY: i64 = "priority", value::priority, 0;
        "The tier of its jobs." QOS_TIER: Option<u32> = "tier", value::some_tier, None;
        "What happens to its jobs when they make room." QOS_PREEMPT: Option<Preempt> =
            "preempt", value::some_preempt, None;
        "Time its jobs get to end when they make room." QOS_GRACE: Option<Seconds> =
            "grace", value::some_grace, None;
        "Longest time limit of its jobs." QOS_MAX_TIME: Option<Seconds> = "max_time", value::limit, None;
    }
    "account" {
        "The account's name." ACCOUNT_NAME: String = "name", value::name, String::new();
        "The account it is a part of." PARENT: Option<String> = "parent", value::some_name, None;
        "Its share among the accounts beside it." SHARES: u32 = "shares", value::shares, 1;
        "Its members." USERS: Vec<String> = "users", value::accounts, Vec::new();
        "Who steers the jobs of its members." COORDINATORS: Vec<String> =
            "coordinators", value::accounts, Vec::new();
        "Budget of decayed card-minutes." CARD_MINUTES: Option<u64> = "card_minutes", value::card_minutes, None;
    }
    "fence" {
        "Whether runs get control groups." CGROUPS: bool = "cgroups", value::flag, true;
        "How many processes and threads a run may have." PROCESSES: Option<u32> = "processes", value::processes, None;
        "Folders of which each run sees its own." PRIVATE: Vec<PathBuf> = "private", value::paths, Vec::new();
        "Whether programs give a run's processes no other rights." NO_NEW_PRIVS: bool = "no_new_privs", value::flag, false;
        "Whether cards are set back after each run." SET_BACK_CARDS: bool = "set_back_cards", value::flag, false;
    }
    "hooks" {
        "A program that may change or refuse requests." SUBMIT: Vec<String> = "submit", value::program, Vec::new();
        "How long it may take." SUBMIT_TIME: Seconds = "submit_time", value::hook_time, Seconds(5);
        "A program that is told what happens." NOTIFY: Vec<String> = "notify", value::program, Vec::new();
        "How long it may take." NOTIFY_TIME: Seconds = "notify_time", value::hook_time, Seconds(30);
        "The program that sends messages to users." MAIL: Vec<String> = "mail", value::program, usual_mail();
        "How long it may take." MAIL_TIME: Seconds = "mail_time", value::hook_time, Seconds(30);
        "From whom messages are." MAIL_FROM: String = "mail_from", value::address, "gq".to_string();
        "The domain of users." MAIL_DOMAIN: Option<String> = "mail_domain", value::some_domain, None;
        "Folder of the programs that are run before each run." PROLOG_DIR: Option<PathBuf> =
            "prolog_dir", value::some_path, None;
        "How long these may take together." PROLOG_TIME: Seconds = "prolog_time", value::folder_time, Seconds(300);
        "Folder of the programs that are run after each run." EPILOG_DIR: Option<PathBuf> =
            "epilog_dir", value::some_path, None;
        "How long these may take together." EPILOG_TIME: Seconds = "epilog_time", value::folder_time, Seconds(300);
    }
    "container" {
        "The arguments that run a script in an image." CONTAINER_COMMAND: Arguments =
            "command", value::arguments, Vec::new();
        "Arguments for the cards of a job." CONTAINER_GPUS: Arguments = "gpus", value::arguments, Vec::new();
        "Arguments for each card of a job." CONTAINER_EACH_GPU: Arguments =
            "each_gpu", value::arguments, Vec::new();
        "Arguments for the checkpoints of a job." CONTAINER_CHECKPOINT: Arguments =
            "checkpoint", value::arguments, Vec::new();
        "Arguments for each variable of a job." CONTAINER_ENV: Arguments = "env", value::arguments, Vec::new();
    }
    "licence" {
        "The licence's name." LICENCE_NAME: String = "name", value::name, String::new();
        "How many there are." LICENCE_COUNT: Option<u32> = "count", value::bound, None;
    }
    "budget" {
        "The budget's name." BUDGET_NAME: String = "name", value::name, String::new();
        "The account whose runs count." BUDGET_ACCOUNT: Option<String> = "account", value::some_name, None;
        "The user whose runs count." BUDGET_USER: Option<String> = "user", value::some_account, None;
        "Whether every user has one of his own." EVERY_USER: bool = "every_user", value::flag, false;
        "Card-hours of each period." CARD_HOURS: Option<CardTime> = "card_hours", value::card_hours, None;
        "How long a period is." PERIOD: Period = "period", value::period, Period::Month;
        "What happens when it is used up." WHEN_USED_UP: UsedUp = "when_used_up", value::used_up, UsedUp::Report;
    }
    "price" {
        "The model of cards." PRICE_MODEL: Option<String> = "model", value::model, None;
        "What a card-hour costs." CARD_HOUR: Option<u64> = "card_hour", value::price, None;
        "In what it is paid." CURRENCY: Option<String> = "currency", value::some_name, None;
    }
    "node" {
        "The node's name, or those of several alike." NODE_NAME: Vec<NodeName> = "name", value::hosts, Vec::new();
        "How many cpus it has." CPUS: Option<u32> = "cpus", value::cpus, None;
        "How much memory it has." MEMORY: Option<MiB> = "memory", value::memory, None;
        "In how many parts its cards may be shared." GPU_SHARE: u8 = "gpu_share", value::parts, 0;
        "What jobs may ask of it with -C." FEATURES: Vec<String> = "features", value::features, Vec::new();
    }
    "node.gpu" {
        "The card's model." MODEL: Option<String> = "model", value::model, None;
        "How many such cards." COUNT: u32 = "count", value::card_count, 1;
        "Memory of each." CARD_MEMORY: Option<MiB> = "memory", value::memory, None;
        "Whether each is in MIG mode." MIG: bool = "mig", value::flag, false;
        "The slices each is cut in." SLICES: Vec<Slice> = "slices", value::slices, Vec::new();
    }
}

/// What every mail system brings along: it reads recipients in the head of the message, and a line with a dot alone is no end.
fn usual_mail() -> Vec<String> {
    ["/usr/sbin/sendmail", "-t", "-i"].map(String::from).to_vec()
}

/// Where the value of a bound goes.
type Field = fn(&mut Limits) -> &mut Option<u32>;

/// The bounds, which may stand in each of [`BOUNDED`]: name, words, where the value goes.
pub(crate) const BOUNDS: &[(&str, &str, Field)] = &[
    ("max_jobs_per_user", "Most running jobs of one user.", |l| &mut l.max_jobs_per_user),
    ("max_cards_per_user", "Most cards in use by one user.", |l| &mut l.max_cards_per_user),
    ("max_cpus_per_user", "Most cpus in use by one user.", |l| &mut l.max_cpus_per_user),
    ("max_submit_per_user", "Most live jobs of one user.", |l| &mut l.max_submit_per_user),
    ("max_jobs", "Most running jobs.", |l| &mut l.max_jobs),
    ("max_cards", "Most cards in use.", |l| &mut l.max_cards),
    ("max_cpus", "Most cpus in use.", |l| &mut l.max_cpus),
    ("max_submit", "Most live jobs.", |l| &mut l.max_submit),
    ("max_cards_per_job", "Most cards of one job.", |l| &mut l.max_cards_per_job),
    ("max_cpus_per_job", "Most cpus of one job.", |l| &mut l.max_cpus_per_job),
];

/// The tables that may hold [`BOUNDS`].
const BOUNDED: &[&str] = &["partition", "qos", "account"];

/// The key of a bound in a table of [`BOUNDED`].
pub(crate) fn bound(table: &'static str, name: &'static str) -> Key<Option<u32>> {
    Key { table, name, read: value::bound, default: || None }
}

/// The tables, each with the one it is in; the file itself has no name.
pub(crate) const TABLES: &[(&str, &str)] = &[
    ("", "cluster"),
    ("", "scheduler"),
    ("", "partition"),
    ("", "qos"),
    ("", "account"),
    ("", "licence"),
    ("", "budget"),
    ("", "price"),
    ("", "fence"),
    ("", "hooks"),
    ("", "container"),
    ("", "node"),
    ("node", "gpu"),
];

/// Every key that a conf file may hold: its table (such as `cluster` or `node.gpu`), its name, what it is in words.
pub fn known_keys() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let bounds =
        BOUNDED.iter().flat_map(|table| BOUNDS.iter().map(move |(name, words, _)| (*table, *name, *words)));
    DECLARED.iter().copied().chain(bounds)
}

/// The names that may stand in `table`: keys, and tables below it.
pub(crate) fn names_in(table: &str) -> impl Iterator<Item = &'static str> {
    let below = TABLES.iter().filter(move |(above, _)| *above == table).map(|(_, name)| *name);
    known_keys().filter(move |(t, ..)| *t == table).map(|(_, name, _)| name).chain(below)
}
