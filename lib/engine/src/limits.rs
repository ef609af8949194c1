//! Limits at submission: what one job may ask for, and how many jobs may live. How many may run is the plan's to see to.

use crate::{Refusal, RefusalKind, possible};
use alloc::{
    format,
    string::{String, ToString},
};
use gq_cluster::{Cluster, Payer, Policy, Scope, Shape, UsedUp, WHOLE_CARD, Whose};
use gq_model::{Seconds, Timestamp};

/// What a scope is called.
fn words(scope: Scope<'_>) -> String {
    match scope {
        Scope::Partition(partition) => format!("partition {}", partition.name),
        Scope::Qos(qos) => format!("QOS {}", qos.name),
        Scope::Account(account) => format!("account {}", account.name),
    }
}

/// Whether so many more tasks of this shape and payer may be taken; if not, says which limit of whom they would pass, and how many there are.
pub(crate) fn within(
    cluster: &Cluster,
    policy: &Policy,
    shape: &Shape,
    payer: &Payer,
    (tasks, now): (u64, Timestamp),
) -> Result<(), Refusal> {
    for scope in policy.scopes(payer) {
        one_job(cluster, policy, shape, scope)?;
        if tasks > 0 {
            so_many_more(cluster, policy, payer, scope, tasks)?;
        }
    }
    if tasks > 0 && shape.demand.cards.count > 0 { in_budget(cluster, policy, payer, now) } else { Ok(()) }
}

/// Whether no budget of a payer is used up that takes no new jobs then.
fn in_budget(cluster: &Cluster, policy: &Policy, payer: &Payer, now: Timestamp) -> Result<(), Refusal> {
    for budget in policy.budgets.iter().filter(|budget| budget.then == UsedUp::Refuse) {
        let Some(purse) = budget.purse(policy, payer) else { continue };
        let spending = cluster.spending(policy, budget, purse, now);
        if !spending.is_over() {
            continue;
        }
        let whose = match &budget.whose {
            Whose::Account(account) => format!("account {account}"),
            Whose::User(_) | Whose::EveryUser => String::from("its user"),
        };
        let text = format!(
            "budget {} of {whose} is used up: {} of {} card-hours of this {}, and no new job that asks for cards is taken",
            budget.name,
            spending.used,
            spending.most,
            budget.period.name(),
        );
        let left = Seconds(spending.span.until.micros_since(now).div_ceil(1_000_000));
        let ask = match budget.tell.is_empty() || matches!(budget.whose, Whose::User(_)) {
            true => String::from("an admin"),
            false => budget.tell.join(", "),
        };
        let hint = format!("it begins anew in {left} (gqacct budgets); for more ask {ask}");
        return Err(Refusal::new(RefusalKind::Policy, text).hint(hint));
    }
    Ok(())
}

fn one_job(cluster: &Cluster, policy: &Policy, shape: &Shape, scope: Scope<'_>) -> Result<(), Refusal> {
    let limits = scope.limits();
    let cpus = u64::from(shape.demand.cpus);
    if let Some(most) = limits.max_cpus_per_job.filter(|most| cpus > *most) {
        let text = format!(
            "{}: a job may ask for {most} cpus at most (max_cpus_per_job), and this one asks for {cpus}",
            words(scope)
        );
        return Err(Refusal::new(RefusalKind::Policy, text));
    }
    if let Some(most) = limits.max_cards_per_job {
        let cards = possible::least_worth(cluster, policy, shape);
        if cards > most {
            let text = format!(
                "{}: a job may ask for {} cards at most (max_cards_per_job), and this one asks for {}",
                words(scope),
                thousandths(most),
                thousandths(cards),
            );
            return Err(Refusal::new(RefusalKind::Policy, text).hint("a slice counts as its share of a card"));
        }
    }
    alone(cluster, policy, shape, scope)
}

/// Whether it could start if nothing else ran: what is past a limit all alone would wait for ever.
fn alone(cluster: &Cluster, policy: &Policy, shape: &Shape, scope: Scope<'_>) -> Result<(), Refusal> {
    let limits = scope.limits();
    let refused = |limit: &str, text: String| {
        let text = format!("{}: {text} ({limit})", words(scope));
        Err(Refusal::new(RefusalKind::Policy, text).hint("it could never start"))
    };
    for (limit, whose, most) in
        [("max_jobs_per_user", "of one user ", limits.max_jobs_per_user), ("max_jobs", "", limits.max_jobs)]
    {
        if most == Some(0) {
            return refused(limit, format!("{whose}no job may run"));
        }
    }
    let cpus = u64::from(shape.demand.cpus);
    for (limit, whose, most) in [
        ("max_cpus_per_user", "one user", limits.max_cpus_per_user),
        ("max_cpus", "all jobs together", limits.max_cpus),
    ] {
        if let Some(most) = most.filter(|most| cpus > *most) {
            return refused(limit, format!("{whose} may have {most} cpus, and this job asks for {cpus}"));
        }
    }
    // No job is worth more than so many whole cards: only one that might be too much is looked at closely.
    let at_most = u64::from(shape.demand.cards.count).saturating_mul(u64::from(WHOLE_CARD));
    for (limit, whose, most) in [
        ("max_cards_per_user", "one user", limits.max_cards_per_user),
        ("max_cards", "all jobs together", limits.max_cards),
    ] {
        let Some(most) = most.filter(|most| at_most > *most) else { continue };
        let cards = possible::least_worth(cluster, policy, shape);
        if cards > most {
            let (most, cards) = (thousandths(most), thousandths(cards));
            return refused(limit, format!("{whose} may have {most} cards, and this job asks for {cards}"));
        }
    }
    Ok(())
}

fn so_many_more(
    cluster: &Cluster,
    policy: &Policy,
    payer: &Payer,
    scope: Scope<'_>,
    tasks: u64,
) -> Result<(), Refusal> {
    let limits = scope.limits();
    if limits.max_submit.is_none() && limits.max_submit_per_user.is_none() {
        return Ok(());
    }
    let (mut all, mut mine) = (0u64, 0u64);
    for (other, has) in cluster.ledger().payers().filter(|(other, _)| scope.has(policy, other)) {
        all = all.saturating_add(has.submitted);
        if other.uid == payer.uid {
            mine = mine.saturating_add(has.submitted);
        }
    }
    let refused = |limit: &str, most: u64, whose: &str, there: u64| {
        let text =
            format!("{}: {whose}{most} jobs may live at a time ({limit}), and {there} do", words(scope));
        let hint = if tasks > 1 { "each task of an array counts" } else { "submit it when one has ended" };
        Err(Refusal::new(RefusalKind::Policy, text).hint(hint))
    };
    if let Some(most) = limits.max_submit_per_user.filter(|most| mine.saturating_add(tasks) > *most) {
        return refused("max_submit_per_user", most, "of one user ", mine);
    }
    match limits.max_submit.filter(|most| all.saturating_add(tasks) > *most) {
        Some(most) => refused("max_submit", most, "", all),
        None => Ok(()),
    }
}

/// `2`, `0.5`, `1.125`.
fn thousandths(count: u64) -> String {
    let (whole, rest) = (count / u64::from(WHOLE_CARD), count % u64::from(WHOLE_CARD));
    match rest {
        0 => whole.to_string(),
        rest => format!("{whole}.{rest:03}").trim_end_matches('0').to_string(),
    }
}
