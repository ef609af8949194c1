//! From a TOML document to a `Config`: walks the tables, reads each key by its declaration, and checks what the values say
//! together. Every mistake is noted and the walk goes on with the default.

mod around;
mod budgets;
mod declared;
mod nodes;
mod partitions;
mod rights;
mod slices;

use crate::{
    config::{Cluster, Config, Hooks, Scheduler},
    keys,
    mistake::Notes,
    rules::Weights,
    section::{Section, single},
};
use gq_model::{NodeName, Seconds};
use nodes::Nodes;
use partitions::Known;
use std::{collections::BTreeSet, path::PathBuf};
use toml_edit::Table;

/// Builds the conf from the document's root. Returns nothing only when no sense can be made of it.
pub(crate) fn config(root: &Table, notes: &mut Notes<'_>) -> Option<Config> {
    let top = Section { table: "", at: 0..0, entries: root };
    top.refuse_unknown(notes);
    let cluster = cluster(&single(&top, "cluster", notes), notes);
    let scheduler = scheduler(&single(&top, "scheduler", notes), cluster.beat, notes);
    let Nodes { nodes, all_named } = nodes::read(&top, notes);
    let names: BTreeSet<&NodeName> = nodes.iter().map(|n| &n.name).collect();
    let (qos, known_qos) = rights::qos(&top, notes);
    let (accounts, known_accounts) = rights::accounts(&top, notes);
    let licences = rights::licences(&top, notes);
    let budgets = budgets::read(&top, &known_accounts, notes);
    let (prices, currency) = budgets::prices(&top, notes);
    let around_runs = single(&top, "hooks", notes);
    let (hooks, node_hooks) = (hooks(&around_runs, notes), around::node_hooks(&around_runs, notes));
    let fence = around::fence(&single(&top, "fence", notes), &cluster, notes);
    let container = around::container(&single(&top, "container", notes), notes);
    let known = Known {
        nodes: Some(&names).filter(|names| all_named && !names.is_empty()),
        qos: &known_qos,
        accounts: &known_accounts,
    };
    let partitions = partitions::read(&top, &known, notes);
    Some(Config {
        cluster,
        scheduler,
        partitions,
        nodes,
        qos,
        accounts,
        licences,
        budgets,
        prices,
        currency,
        hooks,
        fence,
        node_hooks,
        container,
    })
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
    let (beat, suspect_after) = signs_of_life(section, notes);
    Cluster {
        name: section.get(&keys::CLUSTER_NAME, notes),
        spool_dir: spool_dir.value,
        state_dir: state_dir.value,
        run_dir: run_dir.value,
        node_dir: node_dir.value,
        admins: section.get(&keys::ADMINS, notes),
        operators: section.get(&keys::OPERATORS, notes),
        private: section.get(&keys::PRIVATE_DATA, notes),
        user: section.get(&keys::USER, notes),
        job_file_keep: section.get(&keys::JOB_FILE_KEEP, notes),
        history_keep: section.get(&keys::HISTORY_KEEP, notes),
        allow_test_run: section.get(&keys::ALLOW_TEST_RUN, notes),
        nvml_library: section.get(&keys::NVML_LIBRARY, notes),
        beat,
        suspect_after,
        lost_after: section.get(&keys::LOST_AFTER, notes),
    }
}

/// How often nodes give a sign of life, and how long one may stay away: longer than from one to the next.
fn signs_of_life(section: &Section<'_>, notes: &mut Notes<'_>) -> (Seconds, Seconds) {
    let beat = section.read(&keys::BEAT, notes);
    let suspect_after = section.read(&keys::SUSPECT_AFTER, notes);
    if suspect_after.value <= beat.value {
        let at = suspect_after.at.as_ref().or(beat.at.as_ref()).unwrap_or(&section.at);
        let text = format!(
            "`suspect_after` ({}) is not longer than `beat` ({}): every node would be suspect between two signs of life",
            suspect_after.value, beat.value
        );
        notes.add(at, text, Some("`suspect_after` of three beats, as by default".to_string()));
    }
    (beat.value, suspect_after.value)
}

/// How long a run goes on whose node is cut off: long enough for signs of life that are late.
fn lease(section: &Section<'_>, beat: Seconds, notes: &mut Notes<'_>) -> Seconds {
    let lease = section.read(&keys::LEASE, notes);
    if lease.value.0 < beat.0.saturating_mul(3) {
        let text = format!(
            "`lease` ({}) is shorter than three times the `beat` of [cluster] ({beat}): runs would end while their node is in sight",
            lease.value
        );
        notes.add(lease.at.as_ref().unwrap_or(&section.at), text, None);
    }
    lease.value
}

fn scheduler(section: &Section<'_>, beat: Seconds, notes: &mut Notes<'_>) -> Scheduler {
    Scheduler {
        backfill: section.get(&keys::BACKFILL, notes),
        weights: Weights {
            priority_age: section.get(&keys::PRIORITY_AGE, notes),
            priority_age_max: section.get(&keys::PRIORITY_AGE_MAX, notes),
            priority_fair_share: section.get(&keys::PRIORITY_FAIR_SHARE, notes),
            priority_size: section.get(&keys::PRIORITY_SIZE, notes),
            priority_partition: section.get(&keys::PRIORITY_PARTITION, notes),
            priority_qos: section.get(&keys::PRIORITY_QOS, notes),
        },
        half_life: section.get(&keys::HALF_LIFE, notes),
        cpu_charge: section.get(&keys::CPU_CHARGE, notes),
        preempt_exempt: section.get(&keys::PREEMPT_EXEMPT, notes),
        default_mem_per_cpu: section.get(&keys::DEFAULT_MEM_PER_CPU, notes),
        kill_wait: section.get(&keys::KILL_WAIT, notes),
        over_time_limit: section.get(&keys::OVER_TIME_LIMIT, notes),
        requeue: section.get(&keys::REQUEUE, notes),
        lease: lease(section, beat, notes),
        kill_on_invalid_dep: section.get(&keys::KILL_ON_INVALID_DEP, notes),
        max_array_size: section.get(&keys::MAX_ARRAY_SIZE, notes),
        max_job_count: section.get(&keys::MAX_JOB_COUNT, notes),
    }
}

fn hooks(section: &Section<'_>, notes: &mut Notes<'_>) -> Hooks {
    Hooks {
        submit: section.get(&keys::SUBMIT, notes),
        submit_time: section.get(&keys::SUBMIT_TIME, notes),
        notify: section.get(&keys::NOTIFY, notes),
        notify_time: section.get(&keys::NOTIFY_TIME, notes),
        mail: section.get(&keys::MAIL, notes),
        mail_time: section.get(&keys::MAIL_TIME, notes),
        mail_from: section.get(&keys::MAIL_FROM, notes),
        mail_domain: section.get(&keys::MAIL_DOMAIN, notes),
    }
}
