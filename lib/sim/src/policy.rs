//! The policy of a conf, as the daemon makes it, but for accounts of the system: users are those of the log, whose names the conf may
//! use, and groups have no members here.

use crate::trace::{Name, Names};
use gq_cluster::{
    Access, Account, DeclaredNode, Depth, Limits, Partition, PartitionState, Policy, Preempt, Qos, Serves,
    SliceRule, WHOLE_CARD, Weights,
};
use gq_conf::{Backfill, Config};
use gq_model::Uid;
use std::collections::BTreeSet;

/// The uid of the first user of a log.
const FIRST_UID: u32 = 1000;

/// The uid of a user of a log.
pub(crate) fn uid_of(user: Name) -> Uid {
    Uid(FIRST_UID.saturating_add(user.0))
}

/// Makes the policy of a conf. Says in `taken_as` what of it cannot be had here.
pub(crate) fn policy_of(config: &Config, names: &mut Names, taken_as: &mut Vec<String>) -> Policy {
    let mut partitions: Vec<Partition> =
        config.partitions.iter().map(|p| partition_of(p, config, names, taken_as)).collect();
    let default = &config.default_partition().name;
    partitions.sort_by_key(|p| p.name != *default);
    let weights = &config.scheduler.weights;
    Policy {
        cluster: config.cluster.name.clone(),
        partitions,
        declared: config.nodes.iter().map(|node| (node.name.clone(), declared(node))).collect(),
        qos: config.qos.iter().map(qos_of).collect(),
        accounts: config.accounts.iter().map(|account| account_of(account, names)).collect(),
        licences: config.licences.iter().map(|licence| (licence.name.clone(), licence.count)).collect(),
        weights: Weights {
            age: weights.priority_age,
            age_max: weights.priority_age_max,
            fair_share: weights.priority_fair_share,
            size: weights.priority_size,
            partition: weights.priority_partition,
            qos: weights.priority_qos,
        },
        half_life: config.scheduler.half_life,
        cpu_charge: config.scheduler.cpu_charge,
        preempt_exempt: config.scheduler.preempt_exempt,
        depth: depth_of(config.scheduler.backfill),
        slice_rule: SliceRule::default(),
        default_mem_per_cpu: config.scheduler.default_mem_per_cpu,
        kill_wait: config.scheduler.kill_wait,
        max_array_size: config.scheduler.max_array_size,
        max_job_count: config.scheduler.max_job_count,
        lost_after: config.cluster.lost_after,
        serves: Serves::Everyone,
        admins: BTreeSet::new(),
        allow_test_run: false,
    }
}

fn depth_of(backfill: Backfill) -> Depth {
    match backfill {
        Backfill::Fcfs => Depth::Fcfs,
        Backfill::Easy => Depth::First(1),
        Backfill::Depth(n) => Depth::First(n),
        Backfill::Conservative => Depth::All,
    }
}

fn partition_of(
    p: &gq_conf::Partition,
    config: &Config,
    names: &mut Names,
    taken_as: &mut Vec<String>,
) -> Partition {
    Partition {
        name: p.name.clone(),
        nodes: p.nodes.as_ref().map(|nodes| nodes.iter().cloned().collect()),
        max_time: p.max_time,
        default_time: p.default_time,
        state: match p.state {
            gq_conf::PartitionState::Up => PartitionState::Up,
            gq_conf::PartitionState::Drain => PartitionState::Drain,
            gq_conf::PartitionState::Down => PartitionState::Down,
            gq_conf::PartitionState::Inactive => PartitionState::Inactive,
        },
        priority: p.priority,
        depth: p.backfill.map(depth_of),
        recut: p.recut,
        slices_by_memory: p.gpu_mem_slices,
        cards_by_memory: p.gpu_mem_cards,
        access: access_of(p, config, names, taken_as),
        qos: p.qos.clone(),
        allow_qos: Some(p.allow_qos.clone()).filter(|names| !names.is_empty()),
        tier: p.tier,
        preempt: preempt_of(p.preempt),
        grace: p.grace,
        limits: limits_of(&p.limits),
    }
}

fn access_of(
    p: &gq_conf::Partition,
    config: &Config,
    names: &mut Names,
    taken_as: &mut Vec<String>,
) -> Access {
    let access = &p.access;
    let mut people = |users: &[String]| users.iter().map(|user| uid_of(names.of(user))).collect();
    let groups = !access.allow_groups.is_empty() || !access.deny_groups.is_empty();
    if groups {
        taken_as.push(format!(
            "partition {}: who is in a group is not known: groups let everybody through",
            p.name
        ));
    }
    let is_open = access.allow_users.is_empty() || !access.allow_groups.is_empty();
    Access {
        allow_users: (!is_open).then(|| people(&access.allow_users)),
        deny_users: people(&access.deny_users),
        allow_accounts: (!access.allow_accounts.is_empty()).then(|| below(config, &access.allow_accounts)),
        deny_accounts: below(config, &access.deny_accounts),
    }
}

/// These accounts and all that are below them. The conf's tree has no loops.
fn below(config: &Config, accounts: &[String]) -> BTreeSet<String> {
    let is_below = |name: &str| {
        let above = |account: &&gq_conf::Account| account.parent.as_deref().and_then(|up| config.account(up));
        let mut line = std::iter::successors(config.account(name), above);
        line.any(|account| accounts.contains(&account.name))
    };
    let known = config.accounts.iter().filter(|account| is_below(&account.name));
    known.map(|account| account.name.clone()).chain(accounts.iter().cloned()).collect()
}

fn preempt_of(preempt: gq_conf::Preempt) -> Preempt {
    match preempt {
        gq_conf::Preempt::Off => Preempt::Off,
        gq_conf::Preempt::Cancel => Preempt::Cancel,
        gq_conf::Preempt::Requeue => Preempt::Requeue,
    }
}

fn limits_of(limits: &gq_conf::Limits) -> Limits {
    let number = |limit: Option<u32>| limit.map(u64::from);
    let cards =
        |limit: Option<u32>| limit.map(|cards| u64::from(cards).saturating_mul(u64::from(WHOLE_CARD)));
    Limits {
        max_jobs_per_user: number(limits.max_jobs_per_user),
        max_cards_per_user: cards(limits.max_cards_per_user),
        max_cpus_per_user: number(limits.max_cpus_per_user),
        max_submit_per_user: number(limits.max_submit_per_user),
        max_jobs: number(limits.max_jobs),
        max_cards: cards(limits.max_cards),
        max_cpus: number(limits.max_cpus),
        max_submit: number(limits.max_submit),
        max_cards_per_job: cards(limits.max_cards_per_job),
        max_cpus_per_job: number(limits.max_cpus_per_job),
    }
}

fn qos_of(qos: &gq_conf::Qos) -> Qos {
    Qos {
        name: qos.name.clone(),
        priority: qos.priority,
        tier: qos.tier,
        preempt: qos.preempt.map(preempt_of),
        grace: qos.grace,
        max_time: qos.max_time,
        limits: limits_of(&qos.limits),
    }
}

fn account_of(account: &gq_conf::Account, names: &mut Names) -> Account {
    Account {
        name: account.name.clone(),
        parent: account.parent.clone(),
        shares: u64::from(account.shares),
        users: account.users.iter().map(|user| uid_of(names.of(user))).collect(),
        limits: limits_of(&account.limits),
        card_minutes: account.card_minutes,
    }
}

fn declared(node: &gq_conf::Node) -> DeclaredNode {
    DeclaredNode {
        cpus: node.cpus,
        memory: node.memory,
        features: node.features.clone(),
        cards: node.cards.clone(),
    }
}
