//! Could it ever run: whether some declared or ever-seen node could meet a request, and if none could, in words what there is. Never
//! asks what is free.

use crate::{Refusal, RefusalKind};
use alloc::{
    borrow::Cow,
    collections::BTreeSet,
    format,
    string::{String, ToString},
    vec::Vec,
};
use gq_cluster::{Booking, Cluster, Layout, Memory, Node, Policy, Shape, WHOLE_CARD, slice_place};
use gq_model::{Card, CardAsk, MiB, NodeName, Placement};
use gq_sched::{could_ever, eligible_by_name};

/// Most kinds of nodes, or of slices, that words list.
const MOST_KINDS: usize = 8;
const MOST_PROFILES: usize = 24;
/// Most slices that one node can hold together.
const MOST_SLICES: u32 = gq_cluster::MAX_NODE_UNITS;

/// A node, and of its cards those that jobs like the one in question may have.
struct Site<'a> {
    node: &'a Node,
    cards: Cow<'a, [Card]>,
}

/// The nodes of the shape's partition, as far as its advance reservation has them.
fn sites<'a>(cluster: &'a Cluster, policy: &Policy, shape: &Shape) -> Vec<Site<'a>> {
    let partition = policy.partition(&shape.partition);
    let booking = shape.reservation.as_deref().and_then(|name| cluster.booking(name));
    let in_partition = cluster.nodes().filter(|node| partition.is_some_and(|p| p.has(&node.name)));
    in_partition.filter_map(|node| site(node, booking.map(|b| &**b))).collect()
}

fn site<'a>(node: &'a Node, booking: Option<&Booking>) -> Option<Site<'a>> {
    let Some(booking) = booking else { return Some(Site { node, cards: Cow::Borrowed(&node.cards) }) };
    let cards = match &booking.of_node(&node.name)?.cards {
        None => Cow::Borrowed(node.cards.as_slice()),
        Some(cards) => node.cards.iter().filter(|card| cards.contains(&card.index)).cloned().collect(),
    };
    Some(Site { node, cards })
}

impl Site<'_> {
    fn fits(&self, shape: &Shape, policy: &Policy) -> bool {
        eligible_by_name(shape, self.node, policy)
            && self.may_hold(shape)
            && could_ever(shape, self.node.cpus, self.node.memory, &self.cards, policy)
    }
    /// Whether its cards may hold so many slices of the profile together, whatever their places: of some, such as `1g.10gb+me`, a card
    /// holds one, though there is room for more.
    fn may_hold(&self, shape: &Shape) -> bool {
        let Some(profile) = &shape.demand.cards.profile else { return true };
        let most = |card: &Card| match card.grid.as_ref().and_then(|grid| grid.profile(profile)) {
            Some(profile) => usize::from(profile.most),
            None => card.slices.iter().filter(|slice| slice.profile.eq_ignore_ascii_case(profile)).count(),
        };
        let sum: usize = self.cards.iter().filter(|card| card.mig).map(most).sum();
        sum >= shape.demand.cards.count as usize
    }
    /// A node that is declared without its size, and was never seen, may have anything.
    fn is_unknown(&self) -> bool {
        self.node.boot.is_none() && (self.node.cpus == 0 || self.node.memory == MiB(0))
    }
}

/// Whether some declared or ever-seen node could meet it; if none could, says what there is. A partition none of whose nodes is
/// known yet refuses nothing.
pub(crate) fn possible(cluster: &Cluster, policy: &Policy, shape: &Shape) -> Result<(), Refusal> {
    let sites = sites(cluster, policy, shape);
    let unknown = |site: &Site<'_>| site.is_unknown() && eligible_by_name(shape, site.node, policy);
    let nobody_knows = sites.is_empty() && shape.reservation.is_none();
    if nobody_knows || sites.iter().any(|site| unknown(site) || site.fits(shape, policy)) {
        return Ok(());
    }
    if let Some(refusal) = no_slices(cluster, policy, shape, &sites) {
        return Err(refusal);
    }
    let place = place(shape);
    let text = format!("no node of {place} could ever run this: {}", wish(shape));
    let recut = recuts(policy, shape);
    Err(Refusal::new(RefusalKind::Policy, text).hint(format!("what there is: {}", offer(&sites, recut))))
}

/// Where the job would be: its partition, or its advance reservation.
fn place(shape: &Shape) -> String {
    match &shape.reservation {
        Some(name) => format!("reservation {}", name.escape_debug()),
        None => format!("partition {}", shape.partition),
    }
}

fn recuts(policy: &Policy, shape: &Shape) -> bool {
    policy.partition(&shape.partition).is_some_and(|partition| partition.recut)
}

/// Why the slices alone cannot be had, when that is why.
fn no_slices(cluster: &Cluster, policy: &Policy, shape: &Shape, sites: &[Site<'_>]) -> Option<Refusal> {
    let ask = &shape.demand.cards;
    let profile = ask.profile.as_deref()?;
    let recut = recuts(policy, shape);
    let here: BTreeSet<&str> =
        sites.iter().flat_map(|site| &*site.cards).flat_map(|card| profiles(card, recut)).collect();
    let named = profile.escape_debug();
    if !here.iter().any(|name| name.eq_ignore_ascii_case(profile)) {
        let all = || cluster.nodes().flat_map(|node| &node.cards);
        let is_there = |recut| {
            all().flat_map(|card| profiles(card, recut)).any(|name| name.eq_ignore_ascii_case(profile))
        };
        let what = if is_there(recut) {
            format!("no card of {} has this profile", place(shape))
        } else if is_there(true) {
            format!(
                "no card is cut so at present, and partition {} does not have its cards cut anew",
                shape.partition
            )
        } else {
            format!("no card here has the profile {named}")
        };
        let refusal = Refusal::new(RefusalKind::Policy, format!("--slice={named}: {what}"));
        return Some(refusal.hint(match here.is_empty() {
            true => format!("no card of {} is cut into slices", place(shape)),
            false => format!("profiles of {}: {}", place(shape), listed(here.into_iter())),
        }));
    }
    let mut alone = shape.clone();
    (alone.demand.cpus, alone.demand.memory) = (0, Memory::Amount(MiB(0)));
    let holds = |count: u32, alone: &mut Shape| {
        alone.demand.cards.count = count;
        sites.iter().any(|site| site.fits(alone, policy))
    };
    if holds(ask.count, &mut alone) {
        return None;
    }
    let most = (1..ask.count.min(MOST_SLICES)).rev().find(|count| holds(*count, &mut alone))?;
    let text = format!(
        "--slice={named}:{}: no node of {} holds more than {most} of them together",
        ask.count,
        place(shape)
    );
    Some(Refusal::new(RefusalKind::Policy, text).hint("ask for fewer in one job, or submit several jobs"))
}

/// The profiles of slices that can be had of a card: those it is cut into, and with leave to cut, those it can be cut into.
fn profiles(card: &Card, recut: bool) -> impl Iterator<Item = &str> {
    let recut = recut && !card.fixed;
    let cut = card.slices.iter().map(|slice| slice.profile.as_str());
    let grid = card.grid.as_ref().filter(|_| recut);
    let could_be = grid.into_iter().flat_map(|grid| &grid.profiles).map(|profile| profile.name.as_str());
    cut.chain(could_be).filter(|_| card.mig)
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.take(MOST_PROFILES).collect();
    names.join(" ").escape_debug().to_string()
}

/// What a job of this shape is worth at least, in thousandths of a card: with its slices on the cards where they count least.
pub(crate) fn least_worth(cluster: &Cluster, policy: &Policy, shape: &Shape) -> u64 {
    let ask = &shape.demand.cards;
    let is_for_slices = ask.profile.is_some() || shape.slices_by_memory;
    let each = if let Some(memory) = ask.share {
        let sites = sites(cluster, policy, shape);
        let cards = sites.iter().flat_map(|site| &*site.cards);
        cards.filter_map(|card| share_worth(card, ask, memory)).min().unwrap_or(1)
    } else if is_for_slices {
        let recut = recuts(policy, shape);
        let sites = sites(cluster, policy, shape);
        let cards = sites.iter().flat_map(|site| &*site.cards);
        cards.filter_map(|card| slice_worth(card, shape, recut)).min().unwrap_or(WHOLE_CARD)
    } else {
        WHOLE_CARD
    };
    u64::from(ask.count).saturating_mul(u64::from(each))
}

/// What a share of this card with so much memory is worth, if there can be one.
fn share_worth(card: &Card, ask: &CardAsk, memory: MiB) -> Option<u32> {
    let count = card.parts_for(memory).filter(|_| ask.names(card))?;
    Some((u32::from(count) * WHOLE_CARD).div_ceil(u32::from(card.parts)))
}

/// The least that a slice of this card that serves the job is worth.
fn slice_worth(card: &Card, shape: &Shape, recut: bool) -> Option<u32> {
    let ask = &shape.demand.cards;
    let serves = |name: &str, offers: &dyn Fn(MiB) -> bool| match &ask.profile {
        Some(wanted) => name.eq_ignore_ascii_case(wanted),
        None => ask.memory.is_some_and(offers),
    };
    let slices = card
        .slices
        .iter()
        .enumerate()
        .filter(|(_, slice)| card.mig && serves(&slice.profile, &|least| slice.offers(least)));
    let places = slices.filter_map(|(at, _)| slice_place(card, at));
    let grid = card.grid.as_ref().filter(|_| recut && card.mig);
    let profiles = grid.into_iter().flat_map(|grid| &grid.profiles);
    let cuts = profiles.filter(|profile| serves(&profile.name, &|least| profile.offers(least)));
    let all = places.chain(cuts.filter_map(|profile| profile.placements().next()));
    all.map(|placement| worth(card, placement)).min()
}

fn worth(card: &Card, placement: Placement) -> u32 {
    let layout = Layout::of(core::slice::from_ref(card));
    layout.slot(0).map_or(0, |slot| layout.worth(slot.placed(placement)))
}

fn wish(shape: &Shape) -> String {
    let demand = &shape.demand;
    let mut parts = alloc::vec![counted(demand.cpus, "cpu")];
    if let Memory::Amount(amount) = demand.memory {
        parts.push(format!("{amount} of memory"));
    }
    if demand.cards.count > 0 {
        parts.push(cards_wish(shape));
    }
    if !shape.features.is_empty() {
        parts.push(format!("features {}", shape.features.join("&").escape_debug()));
    }
    let mut text = format!("{} on one node", parts.join(", "));
    if !shape.nodelist.is_empty() {
        text.push_str(&format!(" among {}", gq_model::compress_hosts(&shape.nodelist)));
    }
    if !shape.exclude.is_empty() {
        text.push_str(&format!(" other than {}", gq_model::compress_hosts(&shape.exclude)));
    }
    text
}

/// `2 whole A100 cards with at least 40G`, `2 slices 1g.10gb`, `1 slice or card with at least 20G`, `10G of a shared A100 card`.
fn cards_wish(shape: &Shape) -> String {
    let ask = &shape.demand.cards;
    let model = ask.model.as_deref().map(|m| format!("{} ", m.escape_debug())).unwrap_or_default();
    let least = ask.memory.map(|m| format!(" with at least {m}")).unwrap_or_default();
    if let Some(memory) = ask.share {
        return format!("{memory} of a shared {model}card");
    }
    match &ask.profile {
        Some(profile) => {
            let of = ask.model.as_deref().map(|m| format!(" of {}", m.escape_debug())).unwrap_or_default();
            format!("{} {}{of}", counted(ask.count, "slice"), profile.escape_debug())
        }
        None if shape.slices_by_memory => {
            let nouns = if ask.count == 1 { "slice or card" } else { "slices or cards" };
            format!("{} {model}{nouns}{least}", ask.count)
        }
        None => format!("{}{least}", counted(ask.count, &format!("whole {model}card"))),
    }
}

/// `1 cpu`, `2 cpus`.
fn counted(count: u32, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// What nodes have, each kind once: `ws[1-2]: 32 cpus, 256G, 2 A100-SXM4-80GB (80G), 1 A30 (24G) cut into 2g.12gb 2g.12gb`.
fn offer(sites: &[Site<'_>], recut: bool) -> String {
    let mut kinds: Vec<(String, Vec<&NodeName>)> = Vec::new();
    for site in sites {
        let node = site.node;
        let mut cards: Vec<(String, u32)> = Vec::new();
        for card in &*site.cards {
            let kind = card_kind(card, recut);
            match cards.iter_mut().find(|(k, _)| *k == kind) {
                Some((_, count)) => *count = count.saturating_add(1),
                None => cards.push((kind, 1)),
            }
        }
        let mut words = format!("{}, {}", counted(node.cpus, "cpu"), node.memory);
        for (kind, count) in cards {
            words.push_str(&format!(", {count} {kind}"));
        }
        if !node.features.is_empty() {
            words.push_str(&format!(", features {}", node.features.join(" ").escape_debug()));
        }
        match kinds.iter_mut().find(|(k, _)| *k == words) {
            Some((_, names)) => names.push(&node.name),
            None => kinds.push((words, alloc::vec![&node.name])),
        }
    }
    let lines = kinds.into_iter().take(MOST_KINDS);
    lines
        .map(|(words, names)| format!("{}: {words}", gq_model::compress_hosts(names)))
        .collect::<Vec<_>>()
        .join("; ")
}

fn card_kind(card: &Card, recut: bool) -> String {
    let kind = format!("{} ({})", card.model.escape_debug(), card.memory);
    if card.is_shared() {
        return format!("{kind} shared in {} parts", card.parts);
    }
    if !card.mig {
        return kind;
    }
    match &card.grid {
        Some(grid) if recut => {
            let profiles = listed(grid.profiles.iter().map(|profile| profile.name.as_str()));
            format!("{kind} for slices {profiles}")
        }
        _ if card.slices.is_empty() => format!("{kind} without slices"),
        _ => format!("{kind} cut into {}", listed(card.slices.iter().map(|slice| slice.profile.as_str()))),
    }
}
