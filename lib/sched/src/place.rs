//! Placement: which node, and when. Never decides whose turn it is.

use crate::{
    cards::{Allows, Choice, Cost, Cutting, Deck, choose, is_wanted},
    memo::Known,
    need::Need,
    options::Options,
    seats::{Seat, Seats},
    timeline::{Claim, Load, Timeline},
};
use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use gq_cluster::{Booking, Cluster, Layout, Memory, Node, Policy, Shape, Units};
use gq_model::{Card, JobId, MiB, Seconds, Timestamp};

/// Whether a job of this shape may be on this node at all, by partition, node lists and features.
pub fn eligible_by_name(shape: &Shape, node: &Node, policy: &Policy) -> bool {
    policy.partition(&shape.partition).is_some_and(|p| p.has(&node.name))
        && (shape.nodelist.is_empty() || shape.nodelist.contains(&node.name))
        && !shape.exclude.contains(&node.name)
        && shape.features.iter().all(|f| node.features.contains(f))
}

/// Whether a node with these things, empty and well, could run a job of this shape.
pub fn could_ever(shape: &Shape, cpus: u32, memory: MiB, cards: &[Card], policy: &Policy) -> bool {
    let layout = Layout::of(cards);
    could_ever_with(shape, (cpus, memory), Deck { cards, layout: &layout }, policy)
}

/// The same with the cards laid out already. A card that fails may be well again: as if all were.
pub(crate) fn could_ever_with(shape: &Shape, size: (u32, MiB), deck: Deck<'_>, policy: &Policy) -> bool {
    let fits_memory = match shape.demand.memory {
        Memory::Amount(m) => m <= size.1,
        Memory::WholeNode => true,
    };
    if shape.demand.cpus > size.0 || !fits_memory {
        return false;
    }
    let ask = &shape.demand.cards;
    if ask.count == 0 {
        return true;
    }
    if ask.profile.is_none() && ask.share.is_none() && !shape.slices_by_memory {
        // Which of the cards it would be does not matter: counting is enough, and there may be many nodes.
        let may_be_cards = ask.memory.is_none() || allows(policy, shape).cards_by_memory;
        let wanted = |(at, card): &(usize, &Card)| {
            !card.mig && deck.layout.slot(*at).is_some() && is_wanted(ask, card)
        };
        let mut whole = deck.cards.iter().enumerate().filter(wanted);
        return may_be_cards && whole.nth(ask.count as usize - 1).is_some();
    }
    let options = Options::default();
    let rule = gq_cluster::SliceRule::FirstFit;
    let cutting = Cutting { allows: allows(policy, shape), rule, options: &options };
    choose(deck, shape, deck.all_units(), &cutting).is_some()
}

/// What the partition of a shape allows.
pub(crate) fn allows(policy: &Policy, shape: &Shape) -> Allows {
    policy.partition(&shape.partition).map_or(Allows::default(), |p| Allows {
        recut: p.recut,
        cards_by_memory: p.cards_by_memory,
        shares: p.shares,
    })
}

/// Where a task would be put.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    pub(crate) seat: u32,
    pub(crate) choice: Choice,
}

/// Nodes with what is in use of them now and later, as one pass sees them.
pub(crate) struct Ground<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) policy: &'a Policy,
    pub(crate) now: Timestamp,
    pub(crate) seats: &'a mut Seats,
    /// Of seats where something is reserved.
    pub(crate) timelines: BTreeMap<u32, Timeline>,
    /// What this pass starts, by seat.
    pub(crate) started: BTreeMap<u32, Vec<Claim>>,
    /// Advance reservations that are not over, by seat.
    pub(crate) bookings: BTreeMap<u32, Vec<&'a Arc<Booking>>>,
    pub(crate) options: &'a Options,
    pub(crate) asked: u32,
}

/// With so few nodes all are asked.
const FEW: usize = 16;

/// What there is for a task on a seat: the units it may choose among, and how good the best of them are.
#[derive(Clone, Copy, Debug)]
struct Offer {
    cost: Cost,
    free: Units,
}

/// How good a spot is: lower is better.
pub(crate) type Key = (Cost, u32, u32);

/// What advance reservations leave of a node for a span of time.
pub(crate) enum Left {
    /// All of it but these units.
    Without(Units),
    /// Nothing before this time.
    NotBefore(Timestamp),
    /// Nothing at all.
    Nothing,
}

impl<'a> Ground<'a> {
    pub(crate) fn node(&self, seat: &Seat) -> Option<&'a Arc<Node>> {
        self.cluster.node_at(seat.place)
    }

    pub(crate) fn cutting(&self, shape: &Shape) -> Cutting<'a> {
        Cutting { allows: allows(self.policy, shape), rule: self.policy.slice_rule, options: self.options }
    }

    /// The timeline of a seat, made if there is none yet.
    pub(crate) fn timeline(&mut self, index: u32) -> Option<&mut Timeline> {
        if !self.timelines.contains_key(&index) {
            let node = self.cluster.node_at(self.seats.get(index)?.place)?;
            let mut timeline = Timeline::of(node, self.now);
            self.started.get(&index).into_iter().flatten().for_each(|claim| timeline.claim(claim));
            self.timelines.insert(index, timeline);
        }
        self.timelines.get_mut(&index)
    }

    /// What advance reservations leave a job of this shape of the node from `from` until `until`.
    pub(crate) fn left(
        &self,
        index: u32,
        node: &Node,
        shape: &Shape,
        from: Timestamp,
        until: Timestamp,
    ) -> Left {
        let Some(bookings) = self.bookings.get(&index) else {
            return if shape.reservation.is_some() { Left::Nothing } else { Left::Without(0) };
        };
        let (mut taken, mut inside) = (0, shape.reservation.is_none());
        for booking in bookings {
            let Some(booked) = booking.of_node(&node.name) else { continue };
            let units = booked.cards.as_ref().map(|cards| units_of_cards(node, cards));
            if shape.reservation.as_ref() == Some(&booking.name) {
                if from < booking.start {
                    return Left::NotBefore(booking.start);
                }
                if until > booking.end {
                    return Left::Nothing;
                }
                inside = true;
                taken |= units.map_or(0, |units| !units);
            } else if booking.start < until && booking.end > from {
                match units {
                    None => return Left::NotBefore(booking.end),
                    Some(units) => taken |= units,
                }
            }
        }
        if inside { Left::Without(taken) } else { Left::Nothing }
    }

    /// Whether a task fits on this seat now and until its limit, and what it would get.
    ///
    /// `bookings`: whether advance reservations count.
    pub(crate) fn fits_now(&mut self, index: u32, shape: &Shape, bookings: bool) -> Option<Choice> {
        let offer = self.offer_now(index, shape, bookings)?;
        self.accept(index, shape, &offer)
    }

    /// What an offer gives.
    fn accept(&self, index: u32, shape: &Shape, offer: &Offer) -> Option<Choice> {
        let node = self.node(self.seats.get(index)?)?;
        choose((&**node).into(), shape, offer.free, &self.cutting(shape))
    }

    /// What there is for a task among these free units of a seat, without choosing yet: of cards all alike it is enough to count.
    fn offer(&self, seat: &Seat, node: &Node, shape: &Shape, free: Units) -> Option<Offer> {
        let count = shape.demand.cards.count;
        if free.count_ones() < count {
            return None;
        }
        let class = seat.class.and_then(|class| self.seats.classes.get(class as usize));
        let by_memory = shape.demand.cards.memory.is_some() || shape.demand.cards.share.is_some();
        let cost = match class {
            Some(class) if count == 0 => Cost { left: class.cards, ..Cost::default() },
            Some(class) if shape.demand.cards.profile.is_none() && !by_memory => {
                Cost { memory: class.memory, left: free.count_ones() - count, ..Cost::default() }
            }
            _ => choose(node.into(), shape, free, &self.cutting(shape))?.cost,
        };
        Some(Offer { cost, free })
    }

    fn offer_now(&mut self, index: u32, shape: &Shape, bookings: bool) -> Option<Offer> {
        self.asked = self.asked.saturating_add(1);
        let seat = self.seats.get(index)?;
        let node = self.node(seat)?;
        let need = Need::of(shape, node);
        if !need.fits(&seat.load, node) {
            return None;
        }
        let until = self.now.after(need.span);
        let mut load = seat.load;
        if let Some(timeline) = self.timelines.get(&index) {
            load = load.or(&timeline.peak_from_now(until));
            if !need.fits(&load, node) {
                return None;
            }
        }
        let taken = match self.left(index, node, shape, self.now, until) {
            _ if !bookings => 0,
            Left::Without(taken) => taken,
            Left::NotBefore(_) | Left::Nothing => return None,
        };
        self.offer(seat, node, shape, seat.good & !load.units & !taken)
    }

    /// The earliest time from `from` on at which a task can run to its limit on this seat, and what it would get.
    pub(crate) fn earliest_on(
        &mut self,
        index: u32,
        shape: &Shape,
        from: Timestamp,
        not_after: Timestamp,
    ) -> Option<(Timestamp, Choice)> {
        let (at, offer) = self.earliest_offer(index, shape, from, not_after)?;
        Some((at, self.accept(index, shape, &offer)?))
    }

    fn earliest_offer(
        &mut self,
        index: u32,
        shape: &Shape,
        from: Timestamp,
        not_after: Timestamp,
    ) -> Option<(Timestamp, Offer)> {
        if !self.timelines.contains_key(&index)
            && !self.bookings.contains_key(&index)
            && shape.reservation.is_none()
        {
            return self.earliest_release(index, shape, from, not_after);
        }
        self.timeline(index)?;
        let timeline = self.timelines.get(&index)?;
        let seat = self.seats.get(index)?;
        let node = self.node(seat)?;
        let need = Need::of(shape, node);
        let mut from = from.max(self.now);
        let mut first = timeline.step_at(from);
        'start: loop {
            let (begin, _) = timeline.step(first)?;
            let at = (*begin).max(from);
            if at > not_after {
                return None;
            }
            let until = at.after(need.span);
            let mut peak = Load::default();
            let mut step = first;
            while let Some((_, load)) = timeline.step(step).filter(|(begin, _)| *begin < until) {
                if !need.fits(load, node) {
                    first = step + 1;
                    continue 'start;
                }
                peak = peak.or(load);
                step += 1;
            }
            match self.left(index, node, shape, at, until) {
                Left::Nothing => return None,
                Left::NotBefore(later) => {
                    from = later;
                    first = timeline.step_at(from);
                }
                Left::Without(taken) => {
                    if let Some(offer) = self.offer(seat, node, shape, seat.good & !peak.units & !taken) {
                        return Some((at, offer));
                    }
                    // What others have booked is free when their time is over, be that between two steps.
                    let over = if taken == 0 { None } else { self.booking_over(index, at) };
                    match (over, timeline.step(first + 1)) {
                        (Some(over), next) if next.is_none_or(|(begin, _)| over < *begin) => from = over,
                        _ => first += 1,
                    }
                }
            }
        }
    }

    /// The same on a seat where nothing is reserved: what is free there only grows, so the first moment that has enough will do.
    fn earliest_release(
        &self,
        index: u32,
        shape: &Shape,
        from: Timestamp,
        not_after: Timestamp,
    ) -> Option<(Timestamp, Offer)> {
        let seat = self.seats.get(index)?;
        let node = self.node(seat)?;
        let need = Need::of(shape, node);
        let fits = |load: &Load| {
            if need.fits(load, node) { self.offer(seat, node, shape, seat.good & !load.units) } else { None }
        };
        let started = self.started.get(&index).map_or(&[][..], Vec::as_slice);
        let mut begun: Vec<(Timestamp, Load)> =
            started.iter().map(|claim| (claim.until, claim.load)).collect();
        begun.sort_unstable_by_key(|(until, _)| *until);
        let soonest = self.now.after(Seconds(1));
        let held = node.ends().map(|((until, ..), hold)| ((*until).max(soonest), Load::of(hold)));
        let (mut held, mut begun) = (held.peekable(), begun.into_iter().peekable());
        let (mut load, mut at) = (seat.load, self.now);
        loop {
            let ends = [held.peek().map(|(until, _)| *until), begun.peek().map(|(until, _)| *until)];
            let next = ends.into_iter().flatten().min();
            // `load` lasts from `at` until `next`.
            if next.is_none_or(|next| next > from) {
                let start = at.max(from);
                if start > not_after {
                    return None;
                }
                if let Some(offer) = fits(&load) {
                    return Some((start, offer));
                }
            }
            at = next?;
            while let Some((_, gone)) = held.next_if(|(until, _)| *until <= at) {
                load = load.minus(&gone);
            }
            while let Some((_, gone)) = begun.next_if(|(until, _)| *until <= at) {
                load = load.minus(&gone);
            }
        }
    }

    /// When the next advance reservation of a seat is over.
    fn booking_over(&self, index: u32, after: Timestamp) -> Option<Timestamp> {
        let ends = self.bookings.get(&index).into_iter().flatten().map(|booking| booking.end);
        ends.filter(|end| *end > after).min()
    }

    /// Takes a start into account.
    pub(crate) fn start(&mut self, seat: u32, claim: Claim) {
        self.seats.take(seat, &claim.load);
        if let Some(timeline) = self.timelines.get_mut(&seat) {
            timeline.claim(&claim);
        }
        self.started.entry(seat).or_default().push(claim);
    }

    /// The best spot for a task now: the smallest cards or slices that fit; for jobs without cards, nodes with the fewest cards; then the
    /// node that is left with the fewest free cards and cpus (fill what is begun); then the name. Free is what nobody uses now: what is
    /// reserved or booked of cards all alike does not make their node fuller.
    ///
    /// `not_again`: a job that is not to be tried on nodes where its start failed.
    pub(crate) fn best_now(
        &mut self,
        known: &Known,
        shape: &Shape,
        not_again: Option<JobId>,
    ) -> Option<Spot> {
        if self.seats.len() <= FEW || not_again.is_some() {
            let all: Vec<u32> = known.seats().collect();
            return self.best_of(&all, shape, not_again);
        }
        let mut best: Option<(Key, Offer)> = None;
        let cards = shape.demand.cards.count;
        let mut leading: Option<(MiB, u32)> = None;
        for class in &known.classes {
            let Some(kind) = self.seats.classes.get(*class as usize) else { continue };
            let lead = if cards > 0 { (kind.memory, 0) } else { (MiB(0), kind.cards) };
            if best.is_some() && leading.is_some_and(|first| lead > first) {
                break;
            }
            let found = self.first_of_class(known, shape, *class);
            if let Some(found) = found {
                leading.get_or_insert(lead);
                if best.as_ref().is_none_or(|(key, _)| found.0 < *key) {
                    best = Some(found);
                }
            }
        }
        let others = self.best_offer(&known.others, shape, None);
        let (key, offer) = match (best, others) {
            (Some(a), Some(b)) => {
                if b.0 < a.0 {
                    b
                } else {
                    a
                }
            }
            (a, b) => a.or(b)?,
        };
        Some(Spot { seat: key.2, choice: self.accept(key.2, shape, &offer)? })
    }

    /// The fullest node of a class on which a task fits.
    fn first_of_class(&mut self, known: &Known, shape: &Shape, class: u32) -> Option<(Key, Offer)> {
        let (cards, cpus) = (shape.demand.cards.count, shape.demand.cpus);
        let mut cursor: Option<u32> = None;
        loop {
            // The index is asked anew after every try: it cannot be walked while a node is looked at.
            let next = if cards > 0 {
                self.seats.next_with_cards(class, cards, cursor)
            } else {
                self.seats.next_with_cpus(class, cpus, cursor)
            };
            let index = next?;
            cursor = Some(index);
            if !known.may_be_on(index) {
                continue;
            }
            if let Some(found) = self.keyed(index, shape) {
                return Some(found);
            }
        }
    }

    /// How good what there is for a task on a seat now would be.
    fn keyed(&mut self, index: u32, shape: &Shape) -> Option<(Key, Offer)> {
        let mut offer = self.offer_now(index, shape, true)?;
        let (seat, cards) = (self.seats.get(index)?, shape.demand.cards.count);
        if seat.class.is_some() && cards > 0 {
            // As the index has them, so that asking all nodes finds the same one.
            offer.cost.left = seat.cards_free().saturating_sub(cards);
        }
        let left = self.lack_of_cpus(index, shape, &offer)?;
        Some(((offer.cost, left, index), offer))
    }

    /// What a task would leave of a seat's cpus. Of cards in several sizes those cards count for more that would stay without cpus: how much
    /// less of the cpus is left than of the cards, in thousandths, and then the cpus.
    fn lack_of_cpus(&self, index: u32, shape: &Shape, offer: &Offer) -> Option<u32> {
        let seat = self.seats.get(index)?;
        let left = seat.cpus_free().saturating_sub(shape.demand.cpus);
        if seat.class.is_some() || shape.demand.cards.count == 0 {
            return Some(left);
        }
        let node = self.node(seat)?;
        let part = |of: u32, all: u32| of.saturating_mul(1000) / all.max(1);
        let cards = part(offer.cost.left, seat.good.count_ones());
        Some(cards.saturating_sub(part(left, node.cpus)).saturating_mul(4096).saturating_add(left.min(4095)))
    }

    /// The best of these seats for a task now.
    pub(crate) fn best_of(&mut self, seats: &[u32], shape: &Shape, not_again: Option<JobId>) -> Option<Spot> {
        let (key, offer) = self.best_offer(seats, shape, not_again)?;
        Some(Spot { seat: key.2, choice: self.accept(key.2, shape, &offer)? })
    }

    fn best_offer(&mut self, seats: &[u32], shape: &Shape, not_again: Option<JobId>) -> Option<(Key, Offer)> {
        let mut best: Option<(Key, Offer)> = None;
        for index in seats {
            let Some(seat) = self.seats.get(*index).filter(|seat| seat.open) else { continue };
            let failed = |job: &JobId| self.node(seat).is_none_or(|node| node.failed_starts.contains(job));
            if not_again.as_ref().is_some_and(failed) {
                continue;
            }
            if let Some(found) = self.keyed(*index, shape)
                && best.as_ref().is_none_or(|(key, _)| found.0 < *key)
            {
                best = Some(found);
            }
        }
        best
    }

    /// The earliest time between these two at which a task can run to its limit on one of these seats, and the best spot then.
    pub(crate) fn earliest_of(
        &mut self,
        seats: impl Iterator<Item = u32>,
        shape: &Shape,
        (from, until): (Timestamp, Timestamp),
    ) -> Option<(Timestamp, Spot)> {
        let mut best: Option<((Timestamp, Key), Offer)> = None;
        for index in seats {
            let Some(seat) = self.seats.get(index).filter(|seat| seat.open) else { continue };
            let left = seat.cpus_free().saturating_sub(shape.demand.cpus);
            let not_after = best.as_ref().map_or(until, |((at, _), _)| *at);
            let Some((at, offer)) = self.earliest_offer(index, shape, from, not_after) else { continue };
            let key = (at, (offer.cost, left, index));
            if best.as_ref().is_none_or(|(other, _)| key < *other) {
                best = Some((key, offer));
            }
        }
        let ((at, (.., seat)), offer) = best?;
        Some((at, Spot { seat, choice: self.accept(seat, shape, &offer)? }))
    }

    /// Whether some node in sight would do for a job of this shape by its name, cpus and memory, whatever its cards are.
    pub(crate) fn has_open_but_for_cards(&self, shape: &Shape) -> bool {
        let open = self.seats.iter().filter(|(_, seat)| seat.open);
        open.filter_map(|(_, seat)| self.node(seat)).any(|node| {
            eligible_by_name(shape, node, self.policy) && Need::of(shape, node).fits(&Load::default(), node)
        })
    }

    /// Whether a node, empty and with the cards that are well now, could run a job of this shape.
    pub(crate) fn could_now(&self, index: u32, shape: &Shape) -> bool {
        let Some(seat) = self.seats.get(index).filter(|seat| seat.open) else { return false };
        let Some(node) = self.node(seat) else { return false };
        let need = Need::of(shape, node);
        need.fits(&Load::default(), node)
            && choose((&**node).into(), shape, seat.good, &self.cutting(shape)).is_some()
    }
}

fn units_of_cards(node: &Node, cards: &[u32]) -> Units {
    let layout: &Layout = node.layout();
    let slots = node.cards.iter().enumerate().filter(|(_, card)| cards.contains(&card.index));
    slots.filter_map(|(at, _)| layout.slot(at)).fold(0, |sum, slot| sum | slot.mask())
}
