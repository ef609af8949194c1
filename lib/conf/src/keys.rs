//! The declaration of every key: table, name, type, reader, default, words. Whoever adds a key adds it here, uses it in
//! `check`, and tells of it in `gq.conf(5)`; a test holds them together.

use crate::{
    config::PartitionState,
    mistake::Notes,
    rules::Backfill,
    value::{self, HostLists},
};
use gq_model::{MiB, NodeName, Seconds, Slice};
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
        "The account that gqd becomes." USER: String = "user", value::account, "gq".to_string();
        "How long a job file is kept after the end of its job." JOB_FILE_KEEP: Seconds =
            "job_file_keep", value::duration, Seconds(30 * 86_400);
        "Whether --test-run is taken." ALLOW_TEST_RUN: bool = "allow_test_run", value::flag, false;
        "Path of libnvidia-ml.so." NVML_LIBRARY: Option<PathBuf> = "nvml_library", value::some_path, None;
        "After how long a silent node counts as lost." LOST_AFTER: Seconds =
            "lost_after", value::some_duration, Seconds(120);
    }
    "scheduler" {
        "How many blocked jobs get a reservation." BACKFILL: Backfill = "backfill", value::backfill, Backfill::Easy;
        "Memory for each cpu of a job that asks for none." DEFAULT_MEM_PER_CPU: Option<MiB> =
            "default_mem_per_cpu", value::memory, None;
        "Time from the first signal to the last." KILL_WAIT: Seconds = "kill_wait", value::kill_wait, Seconds(30);
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
    }
    "node" {
        "The node's name, or those of several alike." NODE_NAME: Vec<NodeName> = "name", value::hosts, Vec::new();
        "How many cpus it has." CPUS: Option<u32> = "cpus", value::cpus, None;
        "How much memory it has." MEMORY: Option<MiB> = "memory", value::memory, None;
        "What jobs may ask of it with -C." FEATURES: Vec<String> = "features", value::features, Vec::new();
    }
    "node.gpu" {
        "The card's model." MODEL: Option<String> = "model", value::model, None;
        "How many such cards." COUNT: u32 = "count", value::card_count, 1;
        "Memory of each." CARD_MEMORY: Option<MiB> = "memory", value::memory, None;
        "The slices each is cut in." SLICES: Vec<Slice> = "slices", value::slices, Vec::new();
    }
}

/// The tables, each with the one it is in; the file itself has no name.
pub(crate) const TABLES: &[(&str, &str)] =
    &[("", "cluster"), ("", "scheduler"), ("", "partition"), ("", "node"), ("node", "gpu")];

/// Every key that a conf file may hold: its table (such as `cluster` or `node.gpu`), its name, what it is in words.
pub fn known_keys() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    DECLARED.iter().copied()
}

/// The names that may stand in `table`: keys, and tables below it.
pub(crate) fn names_in(table: &str) -> impl Iterator<Item = &'static str> {
    let below = TABLES.iter().filter(move |(above, _)| *above == table).map(|(_, name)| *name);
    known_keys().filter(move |(t, ..)| *t == table).map(|(_, name, _)| name).chain(below)
}
