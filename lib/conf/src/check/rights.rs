//! QOS, accounts and licences, and the bounds and lists that say who may use how much. Never says who is over a bound.

use super::declared::Declared;
use crate::{
    keys::{self, Key},
    mistake::{Notes, Span},
    rules::{Access, Account, Licence, Limits, Qos},
    section::{Section, list},
    value::Names,
};
use std::collections::BTreeMap;

/// Most levels of the tree of accounts.
const MAX_LEVELS: usize = 32;

/// The `[[qos]]` tables, and their names.
pub(crate) fn qos(top: &Section<'_>, notes: &mut Notes<'_>) -> (Vec<Qos>, Declared) {
    let mut declared = Declared::new("qos", "normal");
    let mut all = Vec::new();
    for section in list(top, "qos", notes) {
        let name = declared.take(&section, &keys::QOS_NAME, notes);
        let qos = Qos {
            name: name.as_ref().map(|(name, _)| name.clone()).unwrap_or_default(),
            priority: section.get(&keys::QOS_PRIORITY, notes),
            tier: section.get(&keys::QOS_TIER, notes),
            preempt: section.get(&keys::QOS_PREEMPT, notes),
            grace: section.get(&keys::QOS_GRACE, notes),
            max_time: section.get(&keys::QOS_MAX_TIME, notes),
            limits: limits(&section, notes),
        };
        all.extend(name.map(|_| qos));
    }
    (all, declared)
}

/// The `[[licence]]` tables.
pub(crate) fn licences(top: &Section<'_>, notes: &mut Notes<'_>) -> Vec<Licence> {
    let mut declared = Declared::new("licence", "houdini");
    let mut all = Vec::new();
    for section in list(top, "licence", notes) {
        let name = declared.take(&section, &keys::LICENCE_NAME, notes);
        let count = section.read(&keys::LICENCE_COUNT, notes);
        if count.at.is_none() {
            let hint = Some("count = 1".to_string());
            notes.add_missing(&section.at, "this [[licence]] has no `count`", hint);
        }
        if let (Some((name, _)), Some(count)) = (name, count.value) {
            all.push(Licence { name, count });
        }
    }
    all
}

/// The `[[account]]` tables, and their names.
pub(crate) fn accounts(top: &Section<'_>, notes: &mut Notes<'_>) -> (Vec<Account>, Declared) {
    let mut declared = Declared::new("account", "lab");
    let mut all: Vec<Account> = Vec::new();
    let mut parents: Vec<Span> = Vec::new();
    for section in list(top, "account", notes) {
        let name = declared.take(&section, &keys::ACCOUNT_NAME, notes);
        let parent = section.read(&keys::PARENT, notes);
        let account = Account {
            name: name.as_ref().map(|(name, _)| name.clone()).unwrap_or_default(),
            parent: parent.value,
            shares: section.get(&keys::SHARES, notes),
            users: section.get(&keys::USERS, notes),
            coordinators: section.get(&keys::COORDINATORS, notes),
            limits: limits(&section, notes),
            card_minutes: section.get(&keys::CARD_MINUTES, notes),
        };
        if name.is_some() {
            all.push(account);
            parents.push(parent.at.unwrap_or_else(|| section.at.clone()));
        }
    }
    for (account, at) in all.iter().zip(&parents) {
        if let Some(parent) = &account.parent {
            declared.check(parent, at, notes);
        }
    }
    check_tree(&all, &parents, notes);
    (all, declared)
}

/// Notes loops, each at the first of its accounts in the file, and what is nested too deep. `places`: of the parents.
fn check_tree(accounts: &[Account], places: &[Span], notes: &mut Notes<'_>) {
    let index: BTreeMap<&str, usize> =
        accounts.iter().enumerate().map(|(at, account)| (account.name.as_str(), at)).collect();
    let above = |at: usize| {
        accounts
            .get(at)
            .and_then(|account| account.parent.as_deref())
            .and_then(|name| index.get(name))
            .copied()
    };
    for (start, (account, at)) in accounts.iter().zip(places).enumerate() {
        let mut chain: Vec<usize> = vec![start];
        let mut next = above(start);
        while let Some(up) = next.filter(|up| chain.len() < MAX_LEVELS && !chain.contains(up)) {
            chain.push(up);
            next = above(up);
        }
        let name = &account.name;
        match next {
            None => {}
            Some(up) if up == start && chain.iter().all(|other| *other >= start) => {
                let names = chain.iter().chain([&start]).filter_map(|at| accounts.get(*at));
                let names: Vec<&str> = names.map(|account| account.name.as_str()).collect();
                let text = format!("account `{name}` is a part of itself: {}", names.join(" in "));
                notes.add(at, text, Some("leave `parent` out at the top".to_string()));
            }
            // It leads into a loop, which is told where that begins.
            Some(up) if chain.contains(&up) => {}
            Some(_) => {
                let text = format!("account `{name}` is more than {MAX_LEVELS} levels deep");
                notes.add(at, text, None);
            }
        }
    }
}

/// The bounds of a table.
pub(crate) fn limits(section: &Section<'_>, notes: &mut Notes<'_>) -> Limits {
    let mut limits = Limits::default();
    for (name, _, field) in keys::BOUNDS {
        *field(&mut limits) = section.get(&keys::bound(section.table, name), notes);
    }
    limits
}

/// Who may use a partition.
pub(crate) fn access(section: &Section<'_>, accounts: &Declared, notes: &mut Notes<'_>) -> Access {
    Access {
        allow_users: section.get(&keys::ALLOW_USERS, notes),
        allow_groups: section.get(&keys::ALLOW_GROUPS, notes),
        allow_accounts: declared_names(section, &keys::ALLOW_ACCOUNTS, accounts, notes),
        deny_users: section.get(&keys::DENY_USERS, notes),
        deny_groups: section.get(&keys::DENY_GROUPS, notes),
        deny_accounts: declared_names(section, &keys::DENY_ACCOUNTS, accounts, notes),
    }
}

/// The names of a list, all of which must be `declared`.
fn declared_names(
    section: &Section<'_>,
    key: &Key<Names>,
    declared: &Declared,
    notes: &mut Notes<'_>,
) -> Vec<String> {
    let names = section.get(key, notes);
    for (name, at) in &names {
        declared.check(name, at, notes);
    }
    names.into_iter().map(|(name, _)| name).collect()
}

/// A partition's own QOS, and those that its jobs may have.
pub(crate) fn partition_qos(
    section: &Section<'_>,
    declared: &Declared,
    notes: &mut Notes<'_>,
) -> (Option<String>, Vec<String>) {
    let own = section.read(&keys::DEFAULT_QOS, notes);
    let allowed = declared_names(section, &keys::ALLOW_QOS, declared, notes);
    if let (Some(name), Some(at)) = (&own.value, &own.at) {
        declared.check(name, at, notes);
        if !allowed.is_empty() && !allowed.contains(name) {
            notes.add(at, format!("qos `{name}` is not in `allow_qos` of this partition"), None);
        }
    }
    (own.value, allowed)
}
