//! Access: on whose account a job runs, in which QOS, which licences and which advance reservation it may name. Never counts what
//! others have; see `limits`.

use crate::{Actor, Context, Refusal, RefusalKind};
use alloc::{
    borrow::ToOwned,
    collections::BTreeMap,
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use gq_cluster::{Booking, Cluster, Partition, Payer, Policy};
use gq_model::{JobSpec, LicenceAsk, Seconds};

/// Most licences that one job may name.
const MOST_LICENCES: usize = 64;
/// Most names that a hint lists.
const MOST_NAMES: usize = 16;

/// On whose account the job runs, in this partition.
pub(crate) fn payer(
    policy: &Policy,
    partition: &Partition,
    by: Actor,
    spec: &JobSpec,
) -> Result<Payer, Refusal> {
    let account = account(policy, by, spec)?;
    may_use(policy, partition, by, account.as_deref())?;
    let qos = qos(policy, partition, spec)?;
    Ok(Payer { uid: by.uid, partition: partition.name.clone(), account, qos })
}

fn account(policy: &Policy, by: Actor, spec: &JobSpec) -> Result<Option<String>, Refusal> {
    let asked = spec.account.as_deref().filter(|name| !name.is_empty());
    if policy.accounts.is_empty() {
        return Ok(asked.map(ToOwned::to_owned));
    }
    let mut mine = policy.accounts.iter().filter(|account| account.users.contains(&by.uid));
    let Some(name) = asked else { return Ok(mine.next().map(|account| account.name.clone())) };
    let (kind, what) = match policy.account(name) {
        Some(account) if by.is_admin() || account.users.contains(&by.uid) => {
            return Ok(Some(name.to_owned()));
        }
        Some(_) => (RefusalKind::NotPermitted, "you are no member of this account"),
        None => (RefusalKind::Policy, "there is no such account"),
    };
    let text = format!("--account={}: {what}", name.escape_debug());
    let hint = match names(mine.map(|account| account.name.as_str())) {
        mine if mine.is_empty() => "you are a member of none; an admin names members in the conf".to_string(),
        mine => format!("your accounts: {mine}"),
    };
    Err(Refusal::new(kind, text).hint(hint))
}

/// Whoever is denied may not use the partition; whoever a list that is there does not name may not either.
fn may_use(policy: &Policy, partition: &Partition, by: Actor, account: Option<&str>) -> Result<(), Refusal> {
    let Some(why) = barred(policy, partition, by, account) else { return Ok(()) };
    let others = policy.partitions.iter().filter(|other| barred(policy, other, by, account).is_none());
    let text = format!("partition {}: {why}", partition.name);
    let refusal = Refusal::new(RefusalKind::NotPermitted, text);
    Err(match names(others.map(|other| other.name.as_str())) {
        others if others.is_empty() => refusal,
        others => refusal.hint(format!("partitions you may use so: {others}")),
    })
}

fn barred(policy: &Policy, partition: &Partition, by: Actor, account: Option<&str>) -> Option<String> {
    let access = &partition.access;
    if access.deny_users.contains(&by.uid) {
        return Some("you may not use it".into());
    }
    if access.allow_users.as_ref().is_some_and(|users| !users.contains(&by.uid)) {
        return Some("it is for other users".into());
    }
    // What holds for an account holds for those below it.
    let above = account.into_iter().flat_map(|name| policy.accounts_above(name));
    let names: Vec<&str> = above.map(|a| a.name.as_str()).chain(account).collect();
    let is_named =
        |list: &alloc::collections::BTreeSet<String>| names.iter().any(|name| list.contains(*name));
    match account {
        Some(name) if is_named(&access.deny_accounts) => {
            Some(format!("account {} may not use it", name.escape_debug()))
        }
        Some(name) if !access.allow_accounts.as_ref().is_none_or(is_named) => {
            Some(format!("it is for other accounts than {}", name.escape_debug()))
        }
        None if access.allow_accounts.is_some() => {
            Some("it is for members of some accounts, and the job has none".into())
        }
        Some(_) | None => None,
    }
}

fn qos(policy: &Policy, partition: &Partition, spec: &JobSpec) -> Result<Option<String>, Refusal> {
    let Some(name) = spec.qos.as_ref() else { return Ok(partition.qos.clone()) };
    let is_allowed = |name: &String| {
        let listed = partition.allow_qos.as_ref().is_none_or(|allowed| allowed.contains(name));
        listed || partition.qos.as_ref() == Some(name)
    };
    let what = match policy.qos(name) {
        Some(_) if is_allowed(name) => return Ok(Some(name.clone())),
        Some(_) => format!("partition {} does not have this QOS", partition.name),
        None => "there is no such QOS".into(),
    };
    let refusal = Refusal::new(RefusalKind::Policy, format!("--qos={}: {what}", name.escape_debug()));
    let there = policy.qos.iter().map(|qos| &qos.name).filter(|name| is_allowed(name));
    Err(match names(there.map(String::as_str)) {
        none if none.is_empty() => {
            refusal.hint(format!("leave it out: partition {} has no QOS", partition.name))
        }
        there => refusal.hint(format!("QOS of partition {}: {there}", partition.name)),
    })
}

/// The licences the job holds while it runs: each name once, in order of name.
pub(crate) fn licences(policy: &Policy, spec: &JobSpec) -> Result<Vec<LicenceAsk>, Refusal> {
    let mut sums: BTreeMap<&str, u32> = BTreeMap::new();
    for ask in spec.licences.iter().filter(|ask| ask.count > 0) {
        let sum = sums.entry(&ask.name).or_default();
        *sum = sum.saturating_add(ask.count);
    }
    for (name, count) in &sums {
        let what = match policy.licences.get(*name) {
            Some(most) if count <= most => continue,
            Some(most) => format!("there {} {most} of it", if *most == 1 { "is" } else { "are" }),
            None => "there is no such licence".into(),
        };
        let here = policy.licences.iter().take(MOST_NAMES).map(|(name, most)| format!("{name}:{most}"));
        let here: Vec<String> = here.collect();
        let text = format!("--licenses={}:{count}: {what}", name.escape_debug());
        let refusal = Refusal::new(RefusalKind::Policy, text);
        return Err(match here.is_empty() {
            true => refusal.hint("there are no licences here"),
            false => refusal.hint(format!("licences here: {}", here.join(" "))),
        });
    }
    if sums.len() > MOST_LICENCES {
        let text = format!("a job may name {MOST_LICENCES} licences at most");
        return Err(Refusal::new(RefusalKind::Usage, text));
    }
    Ok(sums.into_iter().map(|(name, count)| LicenceAsk { name: name.to_owned(), count }).collect())
}

/// The advance reservation that the job runs in, when it names one: it is to be over before that is.
pub(crate) fn reservation(
    cluster: &Cluster,
    policy: &Policy,
    context: &Context,
    by: Actor,
    payer: &Payer,
    time_limit: Option<Seconds>,
    spec: &JobSpec,
) -> Result<Option<String>, Refusal> {
    let Some(name) = spec.reservation.as_ref() else { return Ok(None) };
    let admits = |booking: &Booking| {
        booking.end > context.now
            && (booking.admits_below(policy, by.uid, payer.account.as_deref())
                || (by.is_admin() && !booking.maintenance))
    };
    let is_hidden = |booking: &&Arc<Booking>| {
        let seen = booking.maintenance || by.is_operator();
        policy.private.reservations
            && !seen
            && !booking.admits_below(policy, by.uid, payer.account.as_deref())
    };
    let (kind, what) = match cluster.booking(name).filter(|booking| !is_hidden(booking)) {
        Some(booking) if admits(booking) => {
            return lasts(context, booking, time_limit).map(|()| Some(name.clone()));
        }
        None => (RefusalKind::Policy, "there is no such reservation"),
        Some(booking) if booking.end <= context.now => (RefusalKind::Policy, "this reservation is over"),
        Some(booking) if booking.maintenance => {
            (RefusalKind::NotPermitted, "it is a maintenance window: nobody runs in it")
        }
        Some(_) => (RefusalKind::NotPermitted, "this reservation is for others"),
    };
    let refusal = Refusal::new(kind, format!("--reservation={}: {what}", name.escape_debug()));
    let mine = cluster.bookings().filter(|booking| admits(booking));
    Err(match names(mine.map(|booking| booking.name.as_str())) {
        none if none.is_empty() => refusal.hint("there is none that you may use"),
        mine => refusal.hint(format!("reservations you may use: {mine}")),
    })
}

/// Whether a job of this time limit can be over before the reservation is. One that starts later than it could has less.
fn lasts(context: &Context, booking: &Booking, time_limit: Option<Seconds>) -> Result<(), Refusal> {
    let has_begun = booking.start < context.now;
    let most = Seconds(booking.end.micros_since(booking.start.max(context.now)) / 1_000_000);
    let what = match time_limit {
        Some(limit) if limit <= most => return Ok(()),
        Some(limit) => format!("the job's time limit is {limit}"),
        None => "the job has no time limit".into(),
    };
    let name = booking.name.escape_debug();
    let lasts = if has_begun { "lasts only" } else { "lasts" };
    let more = if has_begun { " more" } else { "" };
    let text = format!("--reservation={name}: it {lasts} {most}{more}, and {what}");
    Err(Refusal::new(RefusalKind::Policy, text).hint(format!("--time={most} or less would do")))
}

/// The first names of a list, for a hint.
pub(crate) fn names<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let mut words: Vec<&str> = all.take(MOST_NAMES + 1).collect();
    if words.len() > MOST_NAMES {
        words.truncate(MOST_NAMES);
        words.push("...");
    }
    words.join(" ").escape_debug().to_string()
}
