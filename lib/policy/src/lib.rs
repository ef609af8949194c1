//! The conf as the policy that decisions depend on: the border between what an admin writes and what the engine reads. Who a name of the
//! system is, whoever asks has to know ([`People`]). Reads no file, asks no directory.

use gq_cluster::{
    Access, Account, Budget, DeclaredNode, Depth, Idle, IdleAction, Limits, Partition, PartitionState,
    Policy, Preempt, Private, Qos, Serves, SliceRule, UsedUp, WHOLE_CARD, Weights, Whose,
};
use gq_conf::{Backfill, Config};
use gq_model::{Calendar, IdleRule, Uid};
use std::collections::{BTreeMap, BTreeSet};

/// Knows who names are.
pub trait People {
    /// The uids of users, as far as they are known; `place` is where the conf names them, for the log.
    fn users(&mut self, place: &str, names: &[String]) -> BTreeSet<Uid>;
    /// The uids of the members of groups; none when nobody here knows who is in a group: then groups let everybody through.
    fn members(&mut self, place: &str, groups: &[String]) -> Option<BTreeSet<Uid>>;
}

/// Makes the policy of a conf.
pub fn policy_of(config: &Config, serves: Serves, people: &mut impl People) -> Policy {
    let family = Family::of(config);
    let mut partitions: Vec<Partition> =
        config.partitions.iter().map(|p| partition_of(p, &family, people)).collect();
    let default = &config.default_partition().name;
    partitions.sort_by_key(|p| p.name != *default);
    Policy {
        cluster: config.cluster.name.clone(),
        partitions,
        declared: config.nodes.iter().map(|node| (node.name.clone(), declared(node))).collect(),
        qos: config.qos.iter().map(qos_of).collect(),
        accounts: config.accounts.iter().map(|account| account_of(account, people)).collect(),
        licences: config.licences.iter().map(|licence| (licence.name.clone(), licence.count)).collect(),
        budgets: config.budgets.iter().filter_map(|budget| budget_of(budget, config, people)).collect(),
        prices: config.prices.iter().map(|price| (price.model.clone(), price.card_hour)).collect(),
        currency: config.currency.clone(),
        // Whoever asks knows where he is.
        calendar: Calendar::default(),
        weights: weights_of(&config.scheduler.weights),
        half_life: config.scheduler.half_life,
        cpu_charge: config.scheduler.cpu_charge,
        preempt_exempt: config.scheduler.preempt_exempt,
        // Other rules are for simulations to compare with.
        slice_rule: SliceRule::default(),
        depth: depth_of(config.scheduler.backfill),
        default_mem_per_cpu: config.scheduler.default_mem_per_cpu,
        kill_wait: config.scheduler.kill_wait,
        over_limit: config.scheduler.over_time_limit,
        requeue: config.scheduler.requeue,
        lease: config.scheduler.lease,
        kill_on_invalid_dep: config.scheduler.kill_on_invalid_dep,
        max_array_size: config.scheduler.max_array_size,
        max_job_count: config.scheduler.max_job_count,
        suspect_after: config.cluster.suspect_after,
        lost_after: config.cluster.lost_after,
        serves,
        admins: people.users("[cluster] admins", &config.cluster.admins),
        operators: people.users("[cluster] operators", &config.cluster.operators),
        private: private_of(&config.cluster.private),
        allow_test_run: config.cluster.allow_test_run,
        containers: config.container.is_some(),
    }
}

fn private_of(words: &[gq_conf::Private]) -> Private {
    let has = |word| words.contains(&word);
    Private {
        jobs: has(gq_conf::Private::Jobs),
        usage: has(gq_conf::Private::Usage),
        reservations: has(gq_conf::Private::Reservations),
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

fn weights_of(weights: &gq_conf::Weights) -> Weights {
    Weights {
        age: weights.priority_age,
        age_max: weights.priority_age_max,
        fair_share: weights.priority_fair_share,
        size: weights.priority_size,
        partition: weights.priority_partition,
        qos: weights.priority_qos,
    }
}

fn partition_of(p: &gq_conf::Partition, family: &Family<'_>, people: &mut impl People) -> Partition {
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
        shares: p.gpu_share,
        access: access_of(&p.name, &p.access, family, people),
        qos: p.qos.clone(),
        allow_qos: Some(p.allow_qos.clone()).filter(|names| !names.is_empty()),
        tier: p.tier,
        preempt: preempt_of(p.preempt),
        grace: p.grace,
        idle: p.idle.map(idle_of),
        limits: limits_of(&p.limits),
    }
}

fn idle_of(idle: gq_conf::Idle) -> Idle {
    let gq_conf::Idle { after, below, action, grace, memory_is_use, may_excuse } = idle;
    let action = match action {
        gq_conf::IdleAction::Report => IdleAction::Report,
        gq_conf::IdleAction::Cancel => IdleAction::Cancel,
        gq_conf::IdleAction::Requeue => IdleAction::Requeue,
    };
    Idle { rule: IdleRule { after, below, memory_is_use }, action, grace, may_excuse }
}

fn access_of(
    partition: &str,
    access: &gq_conf::Access,
    family: &Family<'_>,
    people: &mut impl People,
) -> Access {
    let mut all = |users: &[String], groups: &[String], key: &str| {
        let named = people.users(&format!("partition {partition}: {key}_users"), users);
        if groups.is_empty() {
            return (named, true);
        }
        match people.members(&format!("partition {partition}: {key}_groups"), groups) {
            Some(members) => (named.into_iter().chain(members).collect(), true),
            None => (named, false),
        }
    };
    let is_open = access.allow_users.is_empty() && access.allow_groups.is_empty();
    // A list of which nothing was found lets nobody through: it was not meant to let everybody through.
    let (allowed, is_known): (BTreeSet<Uid>, bool) = all(&access.allow_users, &access.allow_groups, "allow");
    Access {
        allow_users: (!is_open && is_known).then_some(allowed),
        deny_users: all(&access.deny_users, &access.deny_groups, "deny").0,
        allow_accounts: (!access.allow_accounts.is_empty())
            .then(|| family.with_those_below(&access.allow_accounts)),
        deny_accounts: family.with_those_below(&access.deny_accounts),
    }
}

fn preempt_of(preempt: gq_conf::Preempt) -> Preempt {
    match preempt {
        gq_conf::Preempt::Off => Preempt::Off,
        gq_conf::Preempt::Cancel => Preempt::Cancel,
        gq_conf::Preempt::Requeue => Preempt::Requeue,
    }
}

/// Limits count cards in thousandths, because slices are parts of them.
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

fn account_of(account: &gq_conf::Account, people: &mut impl People) -> Account {
    Account {
        name: account.name.clone(),
        parent: account.parent.clone(),
        shares: u64::from(account.shares),
        users: people
            .users(&format!("account {}: users", account.name), &account.users)
            .into_iter()
            .collect(),
        coordinators: people
            .users(&format!("account {}: coordinators", account.name), &account.coordinators)
            .into_iter()
            .collect(),
        limits: limits_of(&account.limits),
        card_minutes: account.card_minutes,
    }
}

/// A budget; none when it is that of a user who is not known here.
fn budget_of(budget: &gq_conf::Budget, config: &Config, people: &mut impl People) -> Option<Budget> {
    let (whose, tell) = match &budget.whose {
        gq_conf::Whose::Account(name) => (Whose::Account(name.clone()), coordinators_above(config, name)),
        gq_conf::Whose::User(name) => {
            let names = std::slice::from_ref(name);
            let uid = people.users(&format!("budget {}: user", budget.name), names).into_iter().next()?;
            (Whose::User(uid), vec![name.clone()])
        }
        gq_conf::Whose::EveryUser => (Whose::EveryUser, Vec::new()),
    };
    let then = match budget.then {
        gq_conf::UsedUp::Report => UsedUp::Report,
        gq_conf::UsedUp::LowPriority => UsedUp::LowPriority,
        gq_conf::UsedUp::Refuse => UsedUp::Refuse,
    };
    Some(Budget { name: budget.name.clone(), whose, most: budget.most, period: budget.period, then, tell })
}

/// Who answers for an account: its coordinators, else those of the nearest account above that has some, else its members.
fn coordinators_above(config: &Config, name: &str) -> Vec<String> {
    let find = |name: &str| config.accounts.iter().find(|account| account.name == name);
    let above = std::iter::successors(find(name), |account| find(account.parent.as_deref()?));
    let answers = above.map(|account| &account.coordinators).find(|names| !names.is_empty());
    answers.or(find(name).map(|account| &account.users)).cloned().unwrap_or_default()
}

fn declared(node: &gq_conf::Node) -> DeclaredNode {
    DeclaredNode {
        cpus: node.cpus,
        memory: node.memory,
        features: node.features.clone(),
        cards: node.cards.clone(),
    }
}

/// The accounts of the conf with what is below each: a partition for an account is one for those too.
struct Family<'a>(BTreeMap<&'a str, Vec<&'a str>>);

impl<'a> Family<'a> {
    fn of(config: &'a Config) -> Self {
        let mut below: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for account in &config.accounts {
            if let Some(parent) = &account.parent {
                below.entry(parent).or_default().push(&account.name);
            }
        }
        Self(below)
    }

    fn with_those_below(&self, accounts: &[String]) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        let mut next: Vec<&str> = accounts.iter().map(String::as_str).collect();
        while let Some(account) = next.pop() {
            if all.insert(account.to_owned()) {
                next.extend(self.0.get(account).into_iter().flatten());
            }
        }
        all
    }
}
