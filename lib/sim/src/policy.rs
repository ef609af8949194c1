//! The policy of a conf, as the daemon has it, but for accounts of the system: every user of a log is an ordinary one.

use gq_cluster::{DeclaredNode, Depth, Partition, PartitionState, Policy, Serves};
use gq_conf::{Backfill, Config};
use std::collections::BTreeSet;

/// Makes the policy of a conf.
pub(crate) fn policy_of(config: &Config) -> Policy {
    let mut partitions: Vec<Partition> = config.partitions.iter().map(partition_of).collect();
    let default = &config.default_partition().name;
    partitions.sort_by_key(|p| p.name != *default);
    Policy {
        cluster: config.cluster.name.clone(),
        partitions,
        declared: config.nodes.iter().map(|node| (node.name.clone(), declared(node))).collect(),
        depth: match config.scheduler.backfill {
            Backfill::Fcfs | Backfill::Easy => Depth::First(1),
            Backfill::Depth(n) => Depth::First(n),
            Backfill::Conservative => Depth::All,
        },
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

fn partition_of(p: &gq_conf::Partition) -> Partition {
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
