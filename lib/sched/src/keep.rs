//! Keeping: when and where a job is reserved for, and what becomes of reservations made in an earlier pass while others are looked at.
//! Whoever came later and goes before them may lift them; those that can be kept beside what he takes are laid back, so that nobody's
//! promise is undone without need.

use crate::{
    cards::Choice,
    licences::Licences,
    limits::More,
    memo::Known,
    need::Need,
    pass::Pass,
    place::{Ground, Spot},
    planner::Kept,
};
use alloc::{collections::VecDeque, vec::Vec};
use gq_cluster::{Job, Key, Payer, Shape, Units};
use gq_model::{JobId, Reason, Timestamp};

impl Pass<'_> {
    /// Brings a reservation of the pass before into this one, if its job still waits and its node is still there.
    pub(crate) fn bring(&mut self, kept: Kept) {
        let job = self.ground.cluster.job(kept.job).filter(|job| job.is_eligible());
        let open =
            self.ground.seats.get(kept.seat).is_some_and(|seat| seat.open && kept.units & !seat.good == 0);
        let seat = kept.seat;
        let kept = Kept { at: kept.at.max(self.ground.now), ..kept };
        match job.filter(|_| open).and_then(|job| Some((job, self.slide(kept, &job.shape)?))) {
            Some((job, kept)) => {
                self.claim(&kept, &job.shape);
                self.old.push_back(kept);
            }
            None => self.freed.push(seat),
        }
    }

    fn need(&self, seat: u32, shape: &Shape) -> Option<Need> {
        let seat = self.ground.seats.get(seat)?;
        self.ground.node(seat).map(|node| Need::of(shape, node))
    }

    pub(crate) fn claim(&mut self, kept: &Kept, shape: &Shape) {
        let Some(need) = self.need(kept.seat, shape) else { return };
        if let Some(timeline) = self.ground.timeline(kept.seat) {
            timeline.claim(&need.claim(kept.units, kept.at));
        }
        self.licences.claim(&shape.licences, kept.at, need.span);
    }

    pub(crate) fn unclaim(&mut self, kept: &Kept, shape: &Shape) {
        let Some(need) = self.need(kept.seat, shape) else { return };
        if let Some(timeline) = self.ground.timeline(kept.seat) {
            timeline.unclaim(&need.claim(kept.units, kept.at));
        }
        self.licences.unclaim(&shape.licences, kept.at, need.span);
    }

    /// Takes back the reservation that this pass made for `job`.
    pub(crate) fn withdraw(&mut self, job: &Job) {
        if let Some(at) = self.kept.iter().position(|kept| kept.job == job.id) {
            let kept = self.kept.remove(at);
            self.unclaim(&kept, &job.shape);
        }
    }

    /// The reservation that `job` had, taken back for the time being.
    pub(crate) fn take_old(&mut self, job: &Job) -> Option<Kept> {
        let at = self.old.iter().position(|kept| kept.job == job.id)?;
        let kept = self.old.remove(at)?;
        self.unclaim(&kept, &job.shape);
        Some(kept)
    }

    /// Gives up the reservations of all that have not been reached.
    pub(crate) fn drop_old(&mut self) {
        while let Some(kept) = self.old.pop_front() {
            if let Some(job) = self.ground.cluster.job(kept.job) {
                self.unclaim(&kept, &job.shape);
            }
            self.freed.push(kept.seat);
        }
    }

    /// When and where a job can start at the earliest: where it was promised to, unless it can be earlier.
    pub(crate) fn place_later(
        &mut self,
        job: &Job,
        shape: &Shape,
        key: Key,
        old: Option<Kept>,
    ) -> Option<Kept> {
        let now = self.ground.now;
        let old = old.filter(|kept| kept.at > now);
        let sure = self.memo.is_sure() && shape.licences.is_empty();
        let changed = |seat: u32| self.ground.seats.changed.contains(&seat);
        let quiet = sure && self.ground.seats.opened.is_empty() && self.freed.is_empty();
        if let Some(kept) = old.as_ref().filter(|kept| quiet && !changed(kept.seat)) {
            return Some(kept.clone());
        }
        let holds = old.as_ref().is_some_and(|kept| self.still_holds(kept, shape));
        let known = self.memo.at(key)?;
        // Elsewhere there is no more room than when the reservation was made.
        let found = if holds && sure {
            let more: Vec<u32> = self.ground.seats.opened.iter().chain(&self.freed).copied().collect();
            let more = more.into_iter().filter(|seat| known.may_be_on(*seat));
            self.ground.earliest_of(more, shape, (now, old.as_ref().map_or(now, |kept| kept.at)))
        } else {
            earliest(&mut self.ground, &self.licences, known, shape)
        };
        let old = match old {
            Some(kept) if !holds => {
                self.freed.push(kept.seat);
                None
            }
            old => old,
        };
        let seen = old.as_ref().map_or(self.ground.cluster.last_job(), |old| old.seen);
        let new = found.map(|(at, spot)| {
            let units = spot.choice.units;
            Kept { job: job.id, seat: spot.seat, at, units, seen }
        });
        // What would be above a limit is no better than what was reserved.
        let new = new
            .filter(|new| old.is_none() || self.over_limit(new.seat, new.units, shape, &job.payer).is_none());
        match (new, old) {
            (Some(new), Some(old)) if new.at < old.at => {
                self.freed.push(old.seat);
                Some(new)
            }
            (new, old) => old.or(new),
        }
    }

    /// Whether a reservation that was taken back could be made again as it was.
    pub(crate) fn still_holds(&mut self, kept: &Kept, shape: &Shape) -> bool {
        let found = self.ground.earliest_on(kept.seat, shape, kept.at, kept.at);
        let Some(need) = self.need(kept.seat, shape) else { return false };
        let Some(timeline) = self.ground.timelines.get(&kept.seat) else { return false };
        let peak = timeline.peak(kept.at, kept.at.after(need.span));
        found.is_some()
            && peak.units & kept.units == 0
            && self.licences.are_free(&shape.licences, kept.at, need.span)
    }

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
        self.bounds.reached(payer, More { cpus, cards: node.layout().worth(units).into() })
    }
}

/// The earliest time at which a task of a shape can run to its limit, and the best spot then.
pub(crate) fn earliest(
    ground: &mut Ground<'_>,
    licences: &Licences,
    known: &Known,
    shape: &Shape,
) -> Option<(Timestamp, Spot)> {
    let span = crate::need::span(shape.time_limit);
    let mut from = ground.now;
    loop {
        let (at, spot) = ground.earliest_of(known.seats(), shape, (from, Timestamp::NEVER))?;
        if shape.licences.is_empty() {
            return Some((at, spot));
        }
        let free = licences.earliest(&shape.licences, at, span)?;
        if free == at {
            return Some((at, spot));
        }
        from = free;
    }
}
