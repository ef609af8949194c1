//! Keeping: what becomes of reservations made in an earlier pass while others are looked at. Whoever goes before them may lift them; those
//! that can be kept beside what he takes are laid back, so that nobody's promise is undone without need.

use crate::{
    cards::Choice,
    limits::{More, worth},
    need::Need,
    pass::Pass,
    planner::Kept,
};
use alloc::collections::VecDeque;
use gq_cluster::{Payer, Shape, Units};
use gq_model::{JobId, Reason, Timestamp};

impl Pass<'_> {
    /// A reservation as it can be kept: it moves to the next time at which its seat has room when what it waits for there takes longer
    /// than was said. None when that never is.
    pub(crate) fn slide(&mut self, kept: Kept, shape: &Shape) -> Option<Kept> {
        if self.has_room(&kept, shape) {
            return Some(kept);
        }
        let (at, choice) = self.ground.earliest_on(kept.seat, shape, kept.at, Timestamp::NEVER)?;
        let Choice { units, .. } = choice;
        self.freed.push(kept.seat);
        Some(Kept { at, units, ..kept })
    }

    /// Whether the very units of a reservation are free for it, and all else that it needs on its seat.
    fn has_room(&mut self, kept: &Kept, shape: &Shape) -> bool {
        let Some(node) = self.ground.seats.get(kept.seat).and_then(|seat| self.ground.node(seat)) else {
            return false;
        };
        let need = Need::of(shape, node);
        let Some(timeline) = self.ground.timeline(kept.seat) else { return false };
        let peak = timeline.peak(kept.at, kept.at.after(need.span));
        peak.units & kept.units == 0 && need.fits(&peak, node)
    }

    /// Takes back, for the time being, the reservations that have not been reached and were made when `job` was not there yet; says
    /// whether there are any.
    pub(crate) fn lift(&mut self, job: JobId) -> bool {
        let is_new = |kept: &Kept| kept.seen < job;
        let (lifted, old): (VecDeque<Kept>, VecDeque<Kept>) =
            core::mem::take(&mut self.old).into_iter().partition(is_new);
        self.old = old;
        for kept in &lifted {
            if let Some(job) = self.ground.cluster.job(kept.job) {
                self.unclaim(kept, &job.shape);
            }
        }
        let any = !lifted.is_empty();
        self.lifted.extend(lifted);
        any
    }

    /// Lays back the reservations that were lifted. `taken`: somebody took something meanwhile, and some may have to be given up.
    pub(crate) fn lay_back(&mut self, taken: bool) {
        for kept in core::mem::take(&mut self.lifted) {
            match self.ground.cluster.job(kept.job) {
                Some(job) if !taken || self.still_holds(&kept, &job.shape) => {
                    self.claim(&kept, &job.shape);
                    self.old.push_back(kept);
                }
                _ => self.freed.push(kept.seat),
            }
        }
    }

    /// The limit that these very units of a seat would pass.
    pub(crate) fn over_limit(&self, seat: u32, units: Units, shape: &Shape, payer: &Payer) -> Option<Reason> {
        let node = self.ground.seats.get(seat).and_then(|seat| self.ground.node(seat))?;
        let cpus = Need::of(shape, node).cpus.into();
        self.bounds.reached(payer, More { cpus, cards: worth(node, units).into() })
    }
}
