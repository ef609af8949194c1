//! What the controller wants of a run that lives, kept until its supervisor can be told, and said again by a later life of
//! the node where that does no harm. Never decides what becomes of the run.

use crate::{Control, Effect, Order, Stop};
use alloc::vec::Vec;
use gq_model::{EndReason, RunKey, Seconds};

/// The last wish of each kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wishes {
    /// That it is stopped.
    pub(crate) stop: Option<Stop>,
    /// What its time limit is now.
    limit: Option<Option<Seconds>>,
    /// Whether it is to be suspended.
    suspend: Option<bool>,
    /// That it is warned: told once, since its script would take a second time for another warning.
    warning: Option<EndReason>,
}

impl Wishes {
    /// Nothing is wanted.
    pub(crate) const NONE: Self = Self { stop: None, limit: None, suspend: None, warning: None };

    /// Takes an order in; a signal is for who is there to hear it, and a start is no wish.
    pub(crate) const fn take(&mut self, order: &Order) {
        match order {
            Order::Stop(_, stop) => self.stop = Some(*stop),
            Order::Limit(_, limit) => self.limit = Some(*limit),
            Order::Suspend(_) => self.suspend = Some(true),
            Order::Resume(_) => self.suspend = Some(false),
            Order::Warn(_, reason) => self.warning = Some(*reason),
            Order::Start(_) | Order::Signal(..) => {}
        }
    }

    /// The supervisor was up when the warning was taken, so that it has been told.
    pub(crate) const fn was_warned(&mut self) {
        self.warning = None;
    }

    /// Tells a supervisor that is up all of it.
    pub(crate) fn tell(&mut self, key: RunKey, todo: &mut Vec<Effect>) {
        let suspend = self.suspend.map(|wanted| if wanted { Control::Suspend } else { Control::Resume });
        let all = [
            self.limit.map(Control::Limit),
            suspend,
            self.warning.take().map(Control::Warn),
            self.stop.map(Control::Stop),
        ];
        todo.extend(all.into_iter().flatten().map(|control| Effect::Control(key, control)));
    }
}

/// What a supervisor is told of an order; none of a start.
pub(crate) fn control(order: &Order) -> Option<(RunKey, Control)> {
    match *order {
        Order::Start(_) => None,
        Order::Stop(key, stop) => Some((key, Control::Stop(stop))),
        Order::Signal(key, signal, to) => Some((key, Control::Signal(signal, to))),
        Order::Warn(key, reason) => Some((key, Control::Warn(reason))),
        Order::Limit(key, limit) => Some((key, Control::Limit(limit))),
        Order::Suspend(key) => Some((key, Control::Suspend)),
        Order::Resume(key) => Some((key, Control::Resume)),
    }
}
