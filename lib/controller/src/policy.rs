//! The conf as the engine's policy. Names of accounts of the system and of its groups become uids here; what has none is logged and
//! passed over.

use gq_cluster::{
    Access, Account, DeclaredNode, Depth, Limits, Partition, PartitionState, Policy, Preempt, Qos, Serves,
    SliceRule, WHOLE_CARD, Weights,
};
use gq_conf::{Backfill, Config};
use gq_model::Uid;
use nix::unistd::{Group, User};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

/// Where primary groups are looked up: no library lists the members of a group that is theirs by their account alone.
const PASSWD: &str = "/etc/passwd";

/// Makes the policy of a conf.
pub(crate) fn policy_of(config: &Config, serves: Serves) -> Policy {
    let mut names = Names::default();
    let family = Family::of(config);
    let mut partitions: Vec<Partition> =
        config.partitions.iter().map(|p| partition_of(p, &family, &mut names)).collect();
    let default = &config.default_partition().name;
    partitions.sort_by_key(|p| p.name != *default);
    Policy {
        cluster: config.cluster.name.clone(),
        partitions,
        declared: config.nodes.iter().map(|node| (node.name.clone(), declared(node))).collect(),
        qos: config.qos.iter().map(qos_of).collect(),
        accounts: config.accounts.iter().map(|account| account_of(account, &mut names)).collect(),
        licences: config.licences.iter().map(|licence| (licence.name.clone(), licence.count)).collect(),
        weights: weights_of(&config.scheduler.weights),
        half_life: config.scheduler.half_life,
        cpu_charge: config.scheduler.cpu_charge,
        preempt_exempt: config.scheduler.preempt_exempt,
        // Other rules are for simulations to compare with.
        slice_rule: SliceRule::default(),
        depth: depth_of(config.scheduler.backfill),
        default_mem_per_cpu: config.scheduler.default_mem_per_cpu,
        kill_wait: config.scheduler.kill_wait,
        max_array_size: config.scheduler.max_array_size,
        max_job_count: config.scheduler.max_job_count,
        lost_after: config.cluster.lost_after,
        serves,
        admins: names.users("[cluster] admins", &config.cluster.admins),
        allow_test_run: config.cluster.allow_test_run,
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

fn partition_of(p: &gq_conf::Partition, family: &Family<'_>, names: &mut Names) -> Partition {
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
        access: access_of(&p.name, &p.access, family, names),
        qos: p.qos.clone(),
        allow_qos: Some(p.allow_qos.clone()).filter(|names| !names.is_empty()),
        tier: p.tier,
        preempt: preempt_of(p.preempt),
        grace: p.grace,
        limits: limits_of(&p.limits),
    }
}

fn access_of(partition: &str, access: &gq_conf::Access, family: &Family<'_>, names: &mut Names) -> Access {
    let mut people = |users: &[String], groups: &[String], key: &str| -> BTreeSet<Uid> {
        let mut all = names.users(&format!("partition {partition}: {key}_users"), users);
        all.extend(names.members(&format!("partition {partition}: {key}_groups"), groups));
        all
    };
    let is_open = access.allow_users.is_empty() && access.allow_groups.is_empty();
    // A list of which nothing was found lets nobody through: it was not meant to let everybody through.
    let allowed = people(&access.allow_users, &access.allow_groups, "allow");
    Access {
        allow_users: (!is_open).then_some(allowed),
        deny_users: people(&access.deny_users, &access.deny_groups, "deny"),
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

fn account_of(account: &gq_conf::Account, names: &mut Names) -> Account {
    Account {
        name: account.name.clone(),
        parent: account.parent.clone(),
        shares: u64::from(account.shares),
        users: names.users(&format!("account {}: users", account.name), &account.users).into_iter().collect(),
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

/// Names of the system, each asked for once.
#[derive(Default)]
struct Names {
    users: BTreeMap<String, Option<Uid>>,
    /// Users by their primary group.
    by_group: Option<BTreeMap<u32, Vec<Uid>>>,
}

impl Names {
    /// The uids of users; `place` is where the conf names them.
    fn users(&mut self, place: &str, users: &[String]) -> BTreeSet<Uid> {
        users.iter().filter_map(|name| self.user(place, name)).collect()
    }

    fn user(&mut self, place: &str, name: &str) -> Option<Uid> {
        if let Some(known) = self.users.get(name) {
            return *known;
        }
        let found = match User::from_name(name) {
            Ok(Some(user)) => Some(Uid(user.uid.as_raw())),
            Ok(None) => {
                log::warn!("{place}: there is no account {name:?} on this host");
                None
            }
            Err(error) => {
                log::warn!("{place}: {name:?}: {error}");
                None
            }
        };
        self.users.insert(name.to_owned(), found);
        found
    }

    /// The uids of the members of groups, those whose primary group it is among them.
    fn members(&mut self, place: &str, groups: &[String]) -> BTreeSet<Uid> {
        let mut all = BTreeSet::new();
        for name in groups {
            match Group::from_name(name) {
                Ok(Some(group)) => {
                    let gid = group.gid.as_raw();
                    all.extend(self.users(&format!("{place}: {name}"), &group.mem));
                    let primary = self.by_group.get_or_insert_with(|| by_primary_group(place));
                    all.extend(primary.get(&gid).into_iter().flatten());
                }
                Ok(None) => log::warn!("{place}: there is no group {name:?} on this host"),
                Err(error) => log::warn!("{place}: {name:?}: {error}"),
            }
        }
        all
    }
}

fn by_primary_group(place: &str) -> BTreeMap<u32, Vec<Uid>> {
    let text = fs::read(PASSWD).unwrap_or_else(|error| {
        log::warn!("{place}: {PASSWD}: {error}: only members that the group itself names are known");
        Vec::new()
    });
    let mut all: BTreeMap<u32, Vec<Uid>> = BTreeMap::new();
    for line in String::from_utf8_lossy(&text).lines() {
        let mut fields = line.split(':').skip(2);
        let mut number = || fields.next()?.parse::<u32>().ok();
        if let (Some(uid), Some(gid)) = (number(), number()) {
            all.entry(gid).or_default().push(Uid(uid));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> Policy {
        let base = "[cluster]\nname = \"lab\"\nspool_dir = \"/x/spool\"\nstate_dir = \"/x/state\"\nrun_dir = \"/x/run\"\n";
        let config = gq_conf::parse(&format!("{base}{text}"), std::path::Path::new("gq.conf")).unwrap();
        policy_of(&config, Serves::Everyone)
    }

    #[test]
    fn limits_count_cards_in_thousandths() {
        let policy = policy("[[partition]]\nname = \"main\"\nmax_cards_per_user = 2\nmax_jobs = 7\n");
        let limits = &policy.partitions[0].limits;
        assert_eq!(
            (limits.max_cards_per_user, limits.max_jobs, limits.max_cards),
            (Some(2000), Some(7), None)
        );
    }

    #[test]
    fn lists_of_names_become_uids_and_what_is_unknown_lets_nobody_through() {
        let policy = policy(
            "[[partition]]\nname = \"main\"\n[[partition]]\nname = \"root\"\nallow_groups = [\"root\"]\n\
             [[partition]]\nname = \"none\"\nallow_users = [\"no-such-user-here\"]\n\
             [[partition]]\nname = \"few\"\ndeny_users = [\"root\", \"no-such-user-here\"]\n",
        );
        let access = |name: &str| policy.partition(name).unwrap().access.clone();
        assert_eq!(access("main"), Access::default());
        assert_eq!(access("root").allow_users, Some(BTreeSet::from([Uid(0)])), "his primary group");
        assert_eq!(access("none").allow_users, Some(BTreeSet::new()));
        assert_eq!(access("few").deny_users, BTreeSet::from([Uid(0)]));
    }

    #[test]
    fn a_partition_for_an_account_is_one_for_those_below_it() {
        let policy = policy(
            "[[account]]\nname = \"lab\"\n[[account]]\nname = \"vision\"\nparent = \"lab\"\nusers = [\"root\"]\n\
             [[account]]\nname = \"other\"\n[[partition]]\nname = \"main\"\nallow_accounts = [\"lab\"]\n",
        );
        let allowed = policy.partitions[0].access.allow_accounts.clone().unwrap();
        assert_eq!(allowed, BTreeSet::from(["lab".to_owned(), "vision".to_owned()]));
        assert_eq!(policy.account("vision").unwrap().users, [Uid(0)]);
    }
}
