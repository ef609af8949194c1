//! The site of all worlds: its partitions, QOS, accounts, licences, budgets and prices.

use crate::world::{ANN, CAROL, OLIVE};
use gq_cluster::{
    Account, Depth, Idle, IdleAction, Limits, Partition, PartitionState, Policy, Preempt, Qos, Serves,
    SliceRule, Weights,
};
use gq_model::{IdleRule, Seconds};
use std::collections::{BTreeMap, BTreeSet};

/// A partition of every node whose cards may be cut anew.
pub fn partition(name: &str) -> Partition {
    Partition {
        name: name.into(),
        nodes: None,
        max_time: None,
        default_time: Some(Seconds(600)),
        state: PartitionState::Up,
        priority: 0,
        depth: None,
        recut: true,
        slices_by_memory: true,
        cards_by_memory: true,
        shares: true,
        access: Default::default(),
        qos: None,
        allow_qos: None,
        tier: 1,
        preempt: Preempt::Off,
        grace: Seconds(0),
        idle: None,
        limits: Limits::default(),
    }
}

/// Jobs of `main` make room for those of `high`, after a minute; their idle cards are taken after half of one; a QOS and an account with limits; two licences.
pub fn policy() -> Policy {
    let idle = |action, grace| {
        let rule = IdleRule { after: Seconds(60), below: 5, memory_is_use: false };
        Some(Idle { rule, action, grace: Seconds(grace), may_excuse: true })
    };
    let main = Partition {
        preempt: Preempt::Requeue,
        grace: Seconds(60),
        idle: idle(IdleAction::Requeue, 30),
        ..partition("main")
    };
    let high = Partition { priority: 10, tier: 2, idle: idle(IdleAction::Report, 0), ..partition("high") };
    let low = Partition {
        preempt: Preempt::Cancel,
        tier: 0,
        priority: -10,
        idle: idle(IdleAction::Cancel, 0),
        ..partition("low")
    };
    let quick = Qos {
        name: "quick".into(),
        max_time: Some(Seconds(120)),
        limits: Limits {
            max_jobs_per_user: Some(1),
            max_submit_per_user: Some(4),
            max_cpus_per_job: Some(2),
            ..Limits::default()
        },
        ..Qos::default()
    };
    let physics =
        Account { name: "physics".into(), shares: 1, coordinators: vec![CAROL], ..Account::default() };
    let optics = Account {
        name: "optics".into(),
        parent: Some("physics".into()),
        shares: 1,
        users: vec![ANN],
        limits: Limits { max_cards: Some(2500), ..Limits::default() },
        ..Account::default()
    };
    Policy {
        cluster: "lab".into(),
        partitions: vec![main, high, low],
        declared: BTreeMap::new(),
        qos: vec![quick],
        accounts: vec![physics, optics],
        licences: BTreeMap::from([("matlab".into(), 2)]),
        budgets: crate::budgets::of_all_worlds(),
        prices: vec![("A100".into(), 2_000_000)],
        currency: None,
        calendar: gq_model::Calendar::default(),
        weights: Weights { partition: 1, ..Weights::default() },
        half_life: Seconds(0),
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
        max_array_size: 1000,
        max_job_count: 40,
        suspect_after: Seconds(30),
        lost_after: Seconds(120),
        serves: Serves::Everyone,
        admins: BTreeSet::new(),
        operators: BTreeSet::from([OLIVE]),
        private: gq_cluster::Private::default(),
        allow_test_run: false,
        containers: true,
    }
}
