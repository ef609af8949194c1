//! Cards: which cards, slices or shares of a node a job would get of those that are free. Never decides which node.

use crate::options::Options;
use alloc::vec::Vec;
use core::cmp::Reverse;
use gq_cluster::{Layout, Node, Shape, SliceRule, Units, slice_place};
use gq_model::{Card, CardAsk, CardHealth, CardUse, MiB, Placement, Share, Slice};

/// The cards of a node and how they lie.
#[derive(Clone, Copy)]
pub(crate) struct Deck<'a> {
    pub(crate) cards: &'a [Card],
    pub(crate) layout: &'a Layout,
}

impl Deck<'_> {
    /// All units there are.
    pub(crate) fn all_units(self) -> Units {
        let slots = (0..self.cards.len()).filter_map(|at| self.layout.slot(at));
        slots.fold(0, |sum, slot| sum | slot.mask())
    }

    /// How many cards are free as a whole.
    fn idle_cards(self, free: Units) -> u32 {
        let slots = (0..self.cards.len()).filter_map(|at| self.layout.slot(at));
        slots.fold(0, |count, slot| count + u32::from(slot.units > 0 && slot.mask() & !free == 0))
    }
}

impl<'a> From<&'a Node> for Deck<'a> {
    fn from(node: &'a Node) -> Self {
        Self { cards: &node.cards, layout: node.layout() }
    }
}

/// What a partition allows its jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Allows {
    pub(crate) recut: bool,
    pub(crate) cards_by_memory: bool,
    pub(crate) shares: bool,
}

/// How good a choice is: lower is better, the first difference decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cost {
    /// Memory of the largest card or slice given: the smallest that fits goes first.
    pub(crate) memory: MiB,
    /// How many have to be cut anew: slices that are there are used first.
    pub(crate) cuts: u32,
    /// What others could get less of.
    pub(crate) lost: u32,
    /// Cards (or units, for slices; parts of the card, for shares) that stay free: fill what is begun.
    pub(crate) left: u32,
}

/// One thing of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pick {
    /// The whole card at this position.
    Whole(usize),
    /// The slice that exists at this position of the card's list.
    Exists(usize, usize),
    /// A slice to be cut: profile by position in the grid.
    Cut(usize, usize, Placement),
    /// Parts of the card at this position.
    Share(usize, Share),
}

/// Cards, slices or a share of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) units: Units,
    pub(crate) cost: Cost,
    picks: Vec<Pick>,
}

impl Choice {
    /// What the run is given, in words of its assignment.
    pub(crate) fn uses(&self, deck: Deck<'_>) -> Vec<CardUse> {
        let mut uses: Vec<CardUse> = self.picks.iter().filter_map(|pick| use_of(deck, *pick)).collect();
        uses.sort_by_key(|one| (one.index, one.placement));
        uses
    }
}

fn use_of(deck: Deck<'_>, pick: Pick) -> Option<CardUse> {
    let whole = |card: &Card| CardUse::whole(card.index, card.uuid.clone());
    Some(match pick {
        Pick::Whole(at) => whole(deck.cards.get(at)?),
        Pick::Share(at, share) => CardUse { share: Some(share), ..whole(deck.cards.get(at)?) },
        Pick::Exists(at, position) => {
            let card = deck.cards.get(at)?;
            let slice = card.slices.get(position)?;
            CardUse {
                uuid: slice.uuid.clone(),
                slice: Some(slice.profile.clone()),
                placement: slice_place(card, position),
                ..whole(card)
            }
        }
        Pick::Cut(at, profile, placement) => {
            let card = deck.cards.get(at)?;
            let profile = card.grid.as_ref()?.profiles.get(profile)?;
            CardUse {
                uuid: None,
                slice: Some(profile.name.clone()),
                placement: Some(placement),
                ..whole(card)
            }
        }
    })
}

/// Whether a card is of the kind that is asked for.
pub(crate) fn is_wanted(ask: &CardAsk, card: &Card) -> bool {
    ask.names(card) && ask.memory.is_none_or(|least| card.offers(least))
}

/// How slices are looked for.
pub(crate) struct Cutting<'a> {
    pub(crate) allows: Allows,
    pub(crate) rule: SliceRule,
    pub(crate) options: &'a Options,
}

/// Chooses among `free` units of a node what a job of this shape asks for; none if there is too little.
pub(crate) fn choose(deck: Deck<'_>, shape: &Shape, free: Units, cutting: &Cutting<'_>) -> Option<Choice> {
    let ask = &shape.demand.cards;
    if ask.count == 0 {
        let left = deck.cards.iter().filter(|card| card.health == CardHealth::Good).count();
        let cost = Cost { left: u32::try_from(left).unwrap_or(u32::MAX), ..Cost::default() };
        return Some(Choice { cost, ..Choice::default() });
    }
    if let Some(memory) = ask.share {
        return if cutting.allows.shares { choose_share(deck, ask, memory, free) } else { None };
    }
    if ask.profile.is_some() {
        return choose_slices(deck, ask, free, cutting);
    }
    let slices = if shape.slices_by_memory { choose_slices(deck, ask, free, cutting) } else { None };
    let may_be_cards = ask.memory.is_none() || cutting.allows.cards_by_memory;
    slices.or_else(|| if may_be_cards { choose_whole(deck, ask, free) } else { None })
}

/// Whole cards: the smallest that fit, and of those the ones nearest to each other by NVLink; a single card is taken where it breaks
/// the fewest links.
fn choose_whole(deck: Deck<'_>, ask: &CardAsk, free: Units) -> Option<Choice> {
    let is_free = |at: usize| deck.layout.slot(at).is_some_and(|slot| slot.mask() & !free == 0);
    let pool: Vec<(usize, &Card)> =
        deck.cards.iter().enumerate().filter(|(at, card)| !card.mig && is_free(*at)).collect();
    let count = ask.count as usize;
    if pool.len() < count {
        return None;
    }
    let left = u32::try_from(pool.len() - count).unwrap_or(u32::MAX);
    let wanted: Vec<(usize, &Card)> = pool.into_iter().filter(|(_, card)| is_wanted(ask, card)).collect();
    let cards = nearest(count, wanted)?;
    let memory = cards.iter().map(|(_, card)| card.memory).max().unwrap_or_default();
    let units =
        cards.iter().filter_map(|(at, _)| deck.layout.slot(*at)).fold(0, |sum, slot| sum | slot.mask());
    let picks = cards.into_iter().map(|(at, _)| Pick::Whole(at)).collect();
    Some(Choice { units, cost: Cost { memory, left, ..Cost::default() }, picks })
}

/// A share: of the smallest card that has enough free parts, and of those the one that is left with the fewest. Which of its parts does
/// not matter.
fn choose_share(deck: Deck<'_>, ask: &CardAsk, memory: MiB, free: Units) -> Option<Choice> {
    let mut best: Option<((MiB, u32, usize), Choice)> = None;
    for (at, card) in deck.cards.iter().enumerate().filter(|(_, card)| ask.names(card)) {
        let Some((count, slot)) = card.parts_for(memory).zip(deck.layout.slot(at)) else { continue };
        let on_card = (free & slot.mask()) >> slot.offset;
        let Some(left) = on_card.count_ones().checked_sub(u32::from(count)) else { continue };
        let key = (card.memory, left, at);
        if best.as_ref().is_some_and(|(other, _)| *other <= key) {
            continue;
        }
        let share = Share { parts: lowest(on_card, count), of: card.parts, memory };
        let cost = Cost { memory: card.memory, left, ..Cost::default() };
        let picks = alloc::vec![Pick::Share(at, share)];
        best = Some((key, Choice { units: slot.shared(&share), cost, picks }));
    }
    best.map(|(_, choice)| choice)
}

/// The lowest `count` of these units of a card.
fn lowest(units: Units, count: u8) -> u16 {
    let bits = (0..u16::BITS).map(|bit| 1u16 << bit).filter(|bit| units & Units::from(*bit) != 0);
    bits.take(usize::from(count)).fold(0, |sum, bit| sum | bit)
}

fn nearest<'a>(count: usize, mut pool: Vec<(usize, &'a Card)>) -> Option<Vec<(usize, &'a Card)>> {
    if pool.len() < count {
        return None;
    }
    pool.sort_by_key(|(_, card)| (card.memory, card.index));
    let largest = pool.get(count - 1)?.1.memory;
    pool.retain(|(_, card)| card.memory <= largest);
    if pool.len() == count {
        return Some(pool);
    }
    let links = |card: &Card, others: &[(usize, &Card)]| -> u32 {
        let near = card.nvlink.iter().filter(|(peer, _)| others.iter().any(|(_, o)| o.index == *peer));
        near.fold(0, |sum, (_, n)| sum.saturating_add(*n))
    };
    if are_all_alike(&pool) {
        pool.truncate(count);
        return Some(pool);
    }
    if count == 1 {
        let best = pool.iter().min_by_key(|(_, card)| (card.memory, links(card, &pool), card.index));
        return best.map(|card| alloc::vec![*card]);
    }
    let grow = |seed: &(usize, &'a Card)| {
        let mut chosen = alloc::vec![*seed];
        let mut total = 0u32;
        while chosen.len() < count {
            let rest = pool.iter().filter(|(_, card)| !chosen.iter().any(|(_, c)| c.index == card.index));
            let next = rest
                .max_by_key(|(_, card)| (Reverse(card.memory), links(card, &chosen), Reverse(card.index)))?;
            total = total.saturating_add(links(next.1, &chosen));
            chosen.push(*next);
        }
        chosen.sort_by_key(|(_, card)| card.index);
        Some((total, chosen))
    };
    // Of equally near sets the one with the lowest indices, so that the same input gives the same plan.
    let sets = pool.iter().filter_map(grow);
    sets.max_by_key(|(total, set)| {
        let memory: u64 = set.iter().map(|(_, c)| c.memory.0).sum();
        (Reverse(memory), *total, Reverse(set.iter().map(|(_, c)| c.index).collect::<Vec<_>>()))
    })
    .map(|(_, set)| set)
}

/// Whether every card reaches every other by as many links, as behind a switch, or none reaches any: then any set is as near.
fn are_all_alike(pool: &[(usize, &Card)]) -> bool {
    let Some((_, first)) = pool.first() else { return true };
    let links = first.nvlink.first().map(|(_, links)| *links);
    let reaches = |card: &Card, other: &Card| card.nvlink.iter().any(|(peer, _)| *peer == other.index);
    pool.iter().all(|(_, card)| {
        card.nvlink.iter().all(|(_, count)| Some(*count) == links)
            && (links.is_none()
                || pool.iter().all(|(_, other)| other.index == card.index || reaches(card, other)))
    })
}

/// Slices, one after the other, each where it costs least.
fn choose_slices(deck: Deck<'_>, ask: &CardAsk, free: Units, cutting: &Cutting<'_>) -> Option<Choice> {
    let mut choice = Choice::default();
    for _ in 0..ask.count {
        let (cost, units, pick) = best_slice(deck, ask, free & !choice.units, cutting, &choice.picks)?;
        choice.cost.memory = choice.cost.memory.max(cost.memory);
        choice.cost.lost = choice.cost.lost.saturating_add(cost.lost);
        choice.cost.cuts = choice.cost.cuts.saturating_add(cost.cuts);
        choice.units |= units;
        choice.picks.push(pick);
    }
    let rest = free & !choice.units;
    if cutting.rule == SliceRule::LeastLoss {
        let lost = cutting.options.wide.lost(deck.idle_cards(free), deck.idle_cards(rest));
        choice.cost.lost = choice.cost.lost.saturating_add(lost);
    }
    choice.cost.left = rest.count_ones();
    Some(choice)
}

/// How good a slice is among others: its cost, a draw, the card's position, the place on it.
type Rank = (Cost, u64, usize, Reverse<u8>);

/// A slice that would do: where, with the profile's memory.
struct Candidate {
    pick: Pick,
    placement: Placement,
    memory: MiB,
    exists: bool,
}

fn best_slice(
    deck: Deck<'_>,
    ask: &CardAsk,
    free: Units,
    cutting: &Cutting<'_>,
    chosen: &[Pick],
) -> Option<(Cost, Units, Pick)> {
    let mut best: Option<(Rank, Units, Pick)> = None;
    for (at, card) in deck.cards.iter().enumerate().filter(|(_, card)| card.mig) {
        let Some(slot) = deck.layout.slot(at) else { continue };
        let on_card = (free & slot.mask()) >> slot.offset;
        if on_card == 0 || !ask.names(card) {
            continue;
        }
        let bits = u16::try_from(on_card).unwrap_or(u16::MAX);
        let options = card.grid.as_ref().and_then(|grid| cutting.options.of_grid(grid));
        let is_least_loss = cutting.rule == SliceRule::LeastLoss;
        for_candidates(at, card, ask, bits, cutting.allows.recut, chosen, |candidate| {
            let taken = candidate.placement.mask();
            let lost = options.filter(|_| is_least_loss).map_or(0, |options| options.lost(bits, taken));
            let left = (bits & !taken).count_ones();
            let (draw, left) = match cutting.rule {
                SliceRule::Random(seed) => {
                    let what = (u64::from(card.index) << 16) ^ u64::from(taken) ^ (chosen.len() as u64) << 40;
                    (draw(seed, what), 0)
                }
                SliceRule::LeastLoss | SliceRule::BestFit => (0, left),
                SliceRule::FirstFit => (0, 0),
            };
            let cost = Cost { memory: candidate.memory, cuts: u32::from(!candidate.exists), lost, left };
            // Of equal ones the card that comes first, and the highest place on it, but for the plain rules.
            let start = candidate.placement.start;
            let key = (cost, draw, at, Reverse(if is_least_loss { start } else { u8::MAX - start }));
            if best.as_ref().is_none_or(|(other, ..)| key < *other) {
                best = Some((key, slot.placed(candidate.placement), candidate.pick));
            }
        });
    }
    best.map(|((cost, ..), units, pick)| (cost, units, pick))
}

/// Shows the free slices of a card that serve a request, and with leave to cut, those that could be made. `chosen`: what the request is
/// given already.
fn for_candidates(
    at: usize,
    card: &Card,
    ask: &CardAsk,
    free: u16,
    recut: bool,
    chosen: &[Pick],
    mut show: impl FnMut(Candidate),
) {
    let is_free = |placement: &Placement| placement.mask() & !free == 0 && placement.mask() != 0;
    let serves = |name: &str, offers: &dyn Fn(MiB) -> bool| match (&ask.profile, ask.memory) {
        (Some(wanted), _) => wanted.eq_ignore_ascii_case(name),
        (None, Some(least)) => !name.contains(['+', '-']) && offers(least),
        (None, None) => false,
    };
    for (position, slice) in card.slices.iter().enumerate() {
        if !serves(&slice.profile, &|least| slice.offers(least)) {
            continue;
        }
        let profile = card.grid.as_ref().and_then(|grid| grid.profile(&slice.profile));
        let memory = profile.map_or(slice.memory, |profile| profile.memory);
        if let Some(placement) = slice_place(card, position).filter(is_free) {
            show(Candidate { pick: Pick::Exists(at, position), placement, memory, exists: true });
        }
    }
    let Some(grid) = card.grid.as_ref().filter(|_| recut && !card.fixed) else { return };
    for (number, profile) in grid.profiles.iter().enumerate() {
        if u32::from(profile.size) > free.count_ones()
            || !serves(&profile.name, &|least| profile.offers(least))
        {
            continue;
        }
        // One that is there already was shown above, and costs less.
        let being_cut =
            chosen.iter().filter(|pick| matches!(pick, Pick::Cut(a, n, _) if (*a, *n) == (at, number)));
        let room = usize::from(profile.most).saturating_sub(being_cut.count());
        for placement in profile.placements().filter(is_free) {
            // Of some profiles, such as 1g.10gb+me, a card holds fewer than there are places. What lies in the way goes first.
            let is_beside = |slice: &&Slice| {
                slice.profile.eq_ignore_ascii_case(&profile.name)
                    && slice.placement.is_none_or(|place| !place.overlaps(placement))
            };
            if card.slices.iter().filter(is_beside).count() >= room {
                continue;
            }
            let pick = Pick::Cut(at, number, placement);
            show(Candidate { pick, placement, memory: profile.memory, exists: false });
        }
    }
}

/// A number without pattern made of two others (the finaliser of SplitMix64).
fn draw(seed: u64, what: u64) -> u64 {
    let mut z = seed.wrapping_add(what.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
