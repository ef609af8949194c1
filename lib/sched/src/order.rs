//! Order: hands out waiting jobs by place, whatever their shape, and forgets a shape when told so. Never decides whether they start.

use alloc::{
    collections::{BTreeSet, BinaryHeap, btree_set},
    sync::Arc,
};
use core::cmp::Reverse;
use gq_cluster::{Place, Queue, Shape};

/// The next waiting job of one shape.
pub(crate) struct Head<'a> {
    place: Place,
    shape: &'a Arc<Shape>,
    rest: btree_set::Iter<'a, Place>,
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}
impl Eq for Head<'_> {}
impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Head<'_> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.place.cmp(&other.place)
    }
}

/// Waiting jobs in order of place. Costs the logarithm of the number of shapes for each job handed out.
pub(crate) struct Order<'a> {
    heads: BinaryHeap<Reverse<Head<'a>>>,
}

impl<'a> Order<'a> {
    pub(crate) fn of(queue: &'a Queue) -> Self {
        let head = |(shape, group): (&'a Arc<Shape>, &'a BTreeSet<Place>)| {
            let mut rest = group.iter();
            let place = *rest.next()?;
            Some(Reverse(Head { place, shape, rest }))
        };
        Self { heads: queue.shapes().filter_map(head).collect() }
    }

    /// The next job of all. Unless [`Order::go_on`] is called with it, its shape is not handed out again.
    pub(crate) fn next(&mut self) -> Option<Head<'a>> {
        self.heads.pop().map(|Reverse(head)| head)
    }

    /// Puts the following job of the same shape in line.
    pub(crate) fn go_on(&mut self, mut head: Head<'a>) {
        if let Some(place) = head.rest.next() {
            head.place = *place;
            self.heads.push(Reverse(head));
        }
    }
}

impl<'a> Head<'a> {
    pub(crate) fn place(&self) -> Place {
        self.place
    }
    pub(crate) fn shape(&self) -> &'a Arc<Shape> {
        self.shape
    }
}
