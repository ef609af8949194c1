//! Seats: what is free on every node now, kept from pass to pass and brought up to date from the journal of changes; and an index by
//! how full nodes are, so that the best one is found without asking all. Never decides who gets what.

use crate::timeline::Load;
use alloc::{collections::BTreeSet, string::String, vec::Vec};
use gq_cluster::{Cluster, Link, Node, Units};
use gq_model::{Grid, MiB};

/// A node as the plan sees it.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    /// The node's place in the cluster.
    pub(crate) place: u32,
    /// Whether anything may be started there.
    pub(crate) open: bool,
    /// What is in use now, with what this pass starts.
    pub(crate) load: Load,
    /// Units of cards that are well.
    pub(crate) good: Units,
    cpus: u32,
    /// The kind of its cards, when they are whole, not shared and all alike.
    pub(crate) class: Option<u32>,
    opened: u64,
    fitted: u64,
}

impl Seat {
    /// Units of cards that are free now.
    pub(crate) fn units_free(&self) -> Units {
        self.good & !self.load.units
    }
    /// How many cards are free now, of a node whose cards are whole and not shared.
    pub(crate) fn cards_free(&self) -> u32 {
        self.units_free().count_ones()
    }
    /// Cpus that are free now.
    pub(crate) fn cpus_free(&self) -> u32 {
        self.cpus.saturating_sub(self.load.cpus)
    }
}

/// A kind of node: whole cards all alike, or none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Class {
    /// How many cards.
    pub(crate) cards: u32,
    /// Memory of each.
    pub(crate) memory: MiB,
    /// Their model.
    pub(crate) model: String,
}

/// All nodes, in order of name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seats {
    seats: Vec<Seat>,
    /// From a node's place in the cluster to its seat.
    by_place: Vec<u32>,
    /// Kinds of nodes, those with the fewest cards first.
    pub(crate) classes: Vec<Class>,
    /// Open nodes of a class: class, free cards, free cpus, seat.
    by_cards: BTreeSet<(u32, u32, u32, u32)>,
    /// Open nodes of a class: class, free cpus, seat.
    by_cpus: BTreeSet<(u32, u32, u32)>,
    journal: u64,
    /// What cards in MIG mode can be cut into, each once.
    pub(crate) grids: Vec<Grid>,
    /// A number that grows whenever a node comes in sight or goes, or its cards do.
    pub(crate) health: u64,
    /// Seats that may have more room than in the pass before.
    pub(crate) opened: Vec<u32>,
    /// Seats where anything changed since the pass before.
    pub(crate) changed: Vec<u32>,
}

impl Seats {
    /// Brings the seats up to date; says whether what nodes have changed, so that nothing known of them holds any more.
    pub(crate) fn refresh(&mut self, cluster: &Cluster) -> bool {
        self.opened.clear();
        self.changed.clear();
        let journal = cluster.journal();
        let places =
            if self.by_place.len() == cluster.node_count() { journal.since(self.journal) } else { None };
        self.journal = journal.count();
        let Some(places) = places else {
            self.rebuild(cluster);
            return true;
        };
        // A node is in the journal as often as it changed: for every run it was given, and every order.
        let mut places: Vec<u32> = places.collect();
        places.sort_unstable();
        places.dedup();
        let mut refitted = false;
        for place in places {
            let (Some(node), Some(index)) =
                (cluster.node_at(place), self.by_place.get(place as usize).copied())
            else {
                continue;
            };
            let Some(seat) = self.seats.get(index as usize) else {
                // It was forgotten; if it has come again, everything is looked at anew.
                refitted |= node.link != Link::Forgotten;
                continue;
            };
            refitted |= seat.fitted != node.fitted();
            if seat.opened != node.opened() {
                self.opened.push(index);
            }
            self.changed.push(index);
            if seat.open != node.is_open() || seat.good != node.layout().good() {
                self.health += 1;
            }
            self.unlist(index);
            if let Some(seat) = self.seats.get_mut(index as usize) {
                *seat = Seat { class: seat.class, ..seat_of(node) };
            }
            self.list(index);
        }
        if refitted {
            self.rebuild(cluster);
        }
        refitted
    }

    fn rebuild(&mut self, cluster: &Cluster) {
        let mut classes: Vec<Class> = cluster.nodes().filter_map(|node| class_of(node)).collect();
        classes.sort();
        classes.dedup();
        self.classes = classes;
        self.health += 1;
        self.grids.clear();
        for grid in cluster.nodes().flat_map(|node| &node.cards).filter_map(|card| card.grid.as_ref()) {
            if !self.grids.contains(grid) {
                self.grids.push(grid.clone());
            }
        }
        self.by_place = alloc::vec![u32::MAX; cluster.node_count()];
        self.seats.clear();
        self.by_cards.clear();
        self.by_cpus.clear();
        for node in cluster.nodes() {
            let index = u32::try_from(self.seats.len()).unwrap_or(u32::MAX);
            if let Some(slot) = self.by_place.get_mut(node.place() as usize) {
                *slot = index;
            }
            let class = class_of(node).and_then(|class| self.classes.binary_search(&class).ok());
            let class = class.and_then(|class| u32::try_from(class).ok());
            self.seats.push(Seat { class, ..seat_of(node) });
            self.list(index);
        }
        self.opened = (0..u32::try_from(self.seats.len()).unwrap_or(u32::MAX)).collect();
        self.changed = self.opened.clone();
    }

    fn list(&mut self, index: u32) {
        let Some(seat) = self.seats.get(index as usize).filter(|seat| seat.open) else { return };
        if let Some(class) = seat.class {
            self.by_cards.insert((class, seat.cards_free(), seat.cpus_free(), index));
            self.by_cpus.insert((class, seat.cpus_free(), index));
        }
    }

    fn unlist(&mut self, index: u32) {
        let Some(seat) = self.seats.get(index as usize) else { return };
        if let Some(class) = seat.class {
            self.by_cards.remove(&(class, seat.cards_free(), seat.cpus_free(), index));
            self.by_cpus.remove(&(class, seat.cpus_free(), index));
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.seats.len()
    }
    /// A seat.
    pub(crate) fn get(&self, index: u32) -> Option<&Seat> {
        self.seats.get(index as usize)
    }
    /// All seats with their indices.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Seat)> {
        (0u32..).zip(self.seats.iter())
    }
    /// The seat of the node at this place.
    pub(crate) fn of_place(&self, place: u32) -> Option<u32> {
        self.by_place.get(place as usize).copied().filter(|index| *index != u32::MAX)
    }

    /// Takes a start into account.
    pub(crate) fn take(&mut self, index: u32, load: &Load) {
        self.unlist(index);
        if let Some(seat) = self.seats.get_mut(index as usize) {
            seat.load = seat.load.plus(load);
        }
        self.list(index);
    }

    /// The open node of a class that comes after `last` among those with at least so many free cards, the fullest first.
    pub(crate) fn next_with_cards(&self, class: u32, cards: u32, last: Option<u32>) -> Option<u32> {
        let after = last.and_then(|index| Some((index, self.get(index)?)));
        let from = after.map_or((class, cards, 0, 0), |(index, seat)| {
            (class, seat.cards_free(), seat.cpus_free(), index.saturating_add(1))
        });
        self.by_cards.range(from..=(class, u32::MAX, u32::MAX, u32::MAX)).next().map(|(.., index)| *index)
    }
    /// The open node of a class that comes after `last` among those with at least so many free cpus, the fullest first.
    pub(crate) fn next_with_cpus(&self, class: u32, cpus: u32, last: Option<u32>) -> Option<u32> {
        let after = last.and_then(|index| Some((index, self.get(index)?)));
        let from = after
            .map_or((class, cpus, 0), |(index, seat)| (class, seat.cpus_free(), index.saturating_add(1)));
        self.by_cpus.range(from..=(class, u32::MAX, u32::MAX)).next().map(|(.., index)| *index)
    }
}

fn seat_of(node: &Node) -> Seat {
    Seat {
        place: node.place(),
        open: node.is_open(),
        load: Load::now(node),
        good: node.layout().good(),
        cpus: node.cpus,
        class: None,
        opened: node.opened(),
        fitted: node.fitted(),
    }
}

/// The class of a node whose cards are whole, not shared and all alike.
fn class_of(node: &Node) -> Option<Class> {
    let Some(first) = node.cards.first() else {
        return Some(Class { cards: 0, memory: MiB(0), model: String::new() });
    };
    let alike = |card: &gq_model::Card| {
        !card.mig && !card.is_shared() && card.memory == first.memory && card.model == first.model
    };
    let all_laid_out = (0..node.cards.len()).all(|at| node.layout().slot(at).is_some());
    (node.cards.iter().all(alike) && all_laid_out).then(|| Class {
        cards: node.layout().good().count_ones(),
        memory: first.memory,
        model: first.model.clone(),
    })
}
