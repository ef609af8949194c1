//! Advance reservations: what admins make and take back. How jobs keep out of them is the plan's.

use crate::{Actor, Answer, ClientId, Context, Decision, Refusal, RefusalKind, access};
use alloc::{
    boxed::Box,
    collections::BTreeSet,
    format,
    string::{String, ToString},
    vec::Vec,
};
use gq_cluster::{Booked, Booking, Cluster, Event, Node, Policy, Units};
use gq_model::NodeName;

/// Longest name, in bytes.
const MAX_NAME: usize = 64;
/// Most reservations at a time: every pass looks at those of its nodes.
const MOST: usize = 1000;
/// Most nodes, users and accounts of one.
const MOST_NAMED: usize = 16_384;
/// Most jobs that a refusal names.
const MOST_SHOWN: usize = 8;

/// Makes a reservation, or says why not. `leave` says whether it takes the place of the one of its name, and whether jobs that could
/// still run when it begins are let run on.
pub(crate) fn book(
    cluster: &Cluster,
    policy: &Policy,
    context: &Context,
    client: ClientId,
    by: Actor,
    booking: &Booking,
    (replace, ignore_jobs): (bool, bool),
) -> Decision {
    let good = may(by)
        .and_then(|()| well_formed(context, booking))
        .and_then(|()| known(cluster, policy, booking))
        .and_then(|()| room(cluster, context, booking, replace))
        .and_then(|()| if ignore_jobs { Ok(()) } else { idle(cluster, booking) });
    match good {
        Ok(()) => {
            let mut decision = Decision::reply(client, Answer::Done { count: 1, failures: Vec::new() });
            decision.events.push(Event::Booked(Box::new(booking.clone())));
            decision
        }
        Err(refusal) => Decision::reply(client, Answer::Refused(refusal)),
    }
}

/// Takes a reservation back. Jobs that run in it go on; jobs that wait for it wait.
pub(crate) fn unbook(cluster: &Cluster, client: ClientId, by: Actor, name: &str) -> Decision {
    if let Err(refusal) = may(by) {
        return Decision::reply(client, Answer::Refused(refusal));
    }
    if cluster.booking(name).is_none() {
        let text = format!("there is no reservation {}", name.escape_debug());
        let refusal = Refusal::new(RefusalKind::Policy, text);
        let there = access::names(cluster.bookings().map(|booking| booking.name.as_str()));
        let refusal = match there.is_empty() {
            true => refusal.hint("there is none at all"),
            false => refusal.hint(format!("reservations here: {there}")),
        };
        return Decision::reply(client, Answer::Refused(refusal));
    }
    let mut decision = Decision::reply(client, Answer::Done { count: 1, failures: Vec::new() });
    decision.events.push(Event::Unbooked { name: name.to_string() });
    decision
}

fn may(by: Actor) -> Result<(), Refusal> {
    if by.is_admin() {
        return Ok(());
    }
    Err(Refusal::new(RefusalKind::NotPermitted, "only admins make and take back reservations")
        .hint("admins are named in the conf: [cluster] admins"))
}

fn usage(text: impl Into<String>) -> Refusal {
    Refusal::new(RefusalKind::Usage, text)
}

fn well_formed(context: &Context, booking: &Booking) -> Result<(), Refusal> {
    let name = &booking.name;
    let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(good) {
        let text = format!(
            "{}: a reservation's name is 1 to {MAX_NAME} letters, digits, -, _ and .",
            name.escape_debug()
        );
        return Err(usage(text));
    }
    if booking.end <= booking.start {
        return Err(usage(format!("reservation {name} ends before it begins")));
    }
    if booking.end <= context.now {
        return Err(usage(format!("reservation {name} would be over already")));
    }
    let named = [booking.takes.len(), booking.users.len(), booking.accounts.len()];
    if booking.takes.is_empty() || named.iter().any(|count| *count > MOST_NAMED) {
        let text = format!(
            "reservation {name} takes 1 to {MOST_NAMED} nodes, and names so many users and accounts at most"
        );
        return Err(usage(text));
    }
    let nodes: BTreeSet<&NodeName> = booking.takes.iter().map(|booked| &booked.node).collect();
    if nodes.len() != booking.takes.len() {
        return Err(usage(format!("reservation {name} names a node twice")));
    }
    Ok(())
}

/// Whether all that it names is there.
fn known(cluster: &Cluster, policy: &Policy, booking: &Booking) -> Result<(), Refusal> {
    for booked in &booking.takes {
        let Some(node) = cluster.node(&booked.node) else {
            let text = format!("there is no node {}", booked.node);
            return Err(Refusal::new(RefusalKind::Policy, text).hint("gqstat --nodes lists them"));
        };
        let Some(cards) = &booked.cards else { continue };
        let distinct: BTreeSet<u32> = cards.iter().copied().collect();
        if cards.is_empty() || distinct.len() != cards.len() {
            return Err(usage(format!("cards of node {}: none, or one twice", node.name)));
        }
        let missing = distinct.into_iter().find(|index| node.cards.iter().all(|card| card.index != *index));
        if let Some(index) = missing {
            let text = format!("node {} has no card {index}", node.name);
            return Err(Refusal::new(RefusalKind::Policy, text).hint("gqstat --nodes lists them"));
        }
    }
    let unknown = |name: &&String| !policy.accounts.is_empty() && policy.account(name).is_none();
    match booking.accounts.iter().find(unknown) {
        Some(name) => {
            let text = format!("there is no account {}", name.escape_debug());
            Err(Refusal::new(RefusalKind::Policy, text))
        }
        None => Ok(()),
    }
}

/// Whether nothing else was promised of what it takes; maintenance may come upon anything.
fn room(cluster: &Cluster, context: &Context, booking: &Booking, replace: bool) -> Result<(), Refusal> {
    let name = &booking.name;
    let there = cluster.booking(name).filter(|other| other.end > context.now);
    if there.is_some() && !replace {
        let text = format!("there is a reservation {name} already");
        return Err(Refusal::new(RefusalKind::Policy, text).hint("--replace puts the new one in its place"));
    }
    if there.is_none() && cluster.bookings().count() >= MOST {
        let text = format!("there are {MOST} reservations: no more are made");
        return Err(Refusal::new(RefusalKind::Policy, text));
    }
    let clash = |other: &&alloc::sync::Arc<Booking>| {
        other.name != *name
            && !other.maintenance
            && other.start < booking.end
            && other.end > booking.start
            && booking.takes.iter().any(|mine| other.of_node(&mine.node).is_some_and(|its| shares(mine, its)))
    };
    if booking.maintenance {
        return Ok(());
    }
    match cluster.bookings().find(clash) {
        Some(other) => {
            let text = format!("reservation {} has some of that in the same time", other.name);
            Err(Refusal::new(RefusalKind::Policy, text).hint("gqctl reservations shows them"))
        }
        None => Ok(()),
    }
}

/// Whether two take something in common of one node.
fn shares(a: &Booked, b: &Booked) -> bool {
    match (&a.cards, &b.cards) {
        (Some(a), Some(b)) => a.iter().any(|card| b.contains(card)),
        (None, _) | (_, None) => true,
    }
}

/// Whether nobody can still run on what it takes when it begins.
fn idle(cluster: &Cluster, booking: &Booking) -> Result<(), Refusal> {
    let mut names = Vec::new();
    let mut count = 0u64;
    for booked in &booking.takes {
        let Some(node) = cluster.node(&booked.node) else { continue };
        let units = booked.cards.as_ref().map(|cards| units_of(node, cards));
        let runs = node.ends().rev().take_while(|(_, hold)| hold.until > booking.start);
        for ((_, id, task), hold) in runs {
            if units.is_some_and(|units| units & hold.units == 0 && !hold.alone) {
                continue;
            }
            count = count.saturating_add(1);
            if let Some(job) = cluster.job(*id).filter(|_| names.len() < MOST_SHOWN) {
                names.push(format!("{} on {}", job.task_name(*task), node.name));
            }
        }
    }
    if count == 0 {
        return Ok(());
    }
    let more = match count.saturating_sub(names.len() as u64) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let text = format!("jobs may still run there when it begins: {}{more}", names.join(", "));
    Err(Refusal::new(RefusalKind::Policy, text).hint("--ignore-jobs lets them run on"))
}

fn units_of(node: &Node, cards: &[u32]) -> Units {
    let named = node.cards.iter().enumerate().filter(|(_, card)| cards.contains(&card.index));
    named.filter_map(|(at, _)| node.layout().slot(at)).fold(0, |sum, slot| sum | slot.mask())
}
