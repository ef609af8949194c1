//! A run as the node's mind keeps it: what it is to be, how far it is, what is wanted of it. It moves nothing.

use crate::{Report, lease::Lease, wishes::Wishes};
use alloc::{boxed::Box, string::String};
use gq_model::{Assignment, BootId, Fault, RunKey, Seq, Timestamp};

/// How far a run is.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Restored; whether its supervisor lives has not been looked at.
    Unsure {
        /// Whether its supervisor was up.
        up: bool,
    },
    /// It waits until an earlier run of its task is over, and until its lease begins.
    Held,
    /// Its supervisor was launched and is not up.
    Launching,
    /// Its supervisor is up.
    Up,
    /// Its supervisor is dead; its processes are being killed.
    Lost(After),
    /// Nothing of it is left, and its cards are looked at before its end is said.
    Vacating(Report),
    /// It has ended, and the controller has not acknowledged it.
    Over {
        /// Its end.
        end: Report,
        /// The number under which the end was reported last, if it was in this life.
        seq: Option<Seq>,
    },
}

/// What becomes of a run whose supervisor is dead, when nothing of it is left.
#[derive(Clone, Copy, Debug)]
pub(crate) enum After {
    /// It has ended: its supervisor was up, so its script may have run.
    End,
    /// It is refused: its supervisor never was up.
    Refuse,
    /// It begins: an earlier life of this node may have been killed before it launched it.
    Begin,
}

/// A run.
#[derive(Debug)]
pub(crate) struct Run {
    /// What it is to be; none once its supervisor is up.
    pub(crate) assignment: Option<Box<Assignment>>,
    /// The boot it was meant for; none of a run that never was.
    pub(crate) boot: Option<BootId>,
    /// Why it will not be launched, as things stood when its start was taken; none when it will.
    pub(crate) refusal: Option<(Fault, String)>,
    /// Whether it holds cards.
    pub(crate) has_cards: bool,
    /// How far it is.
    pub(crate) stage: Stage,
    pub(crate) started: Option<Timestamp>,
    pub(crate) exited: Option<Timestamp>,
    /// Whether it was suspended (or let go on) last, and when; none when never.
    pub(crate) suspended: Option<(bool, Timestamp)>,
    /// Since when its cards are idle: as it was told last, and as it is.
    pub(crate) idle: (Option<Timestamp>, Option<Timestamp>),
    pub(crate) wishes: Wishes,
    pub(crate) lease: Option<Lease>,
}

impl Run {
    pub(crate) const fn unknown() -> Self {
        Self {
            assignment: None,
            boot: None,
            refusal: None,
            has_cards: false,
            stage: Stage::Unsure { up: false },
            started: None,
            exited: None,
            suspended: None,
            idle: (None, None),
            wishes: Wishes::NONE,
            lease: None,
        }
    }
    /// Whether it may be launched as far as its lease goes.
    pub(crate) fn has_leave(&self) -> bool {
        self.lease.is_none_or(|lease| lease.until.is_some())
    }
    /// Whether its script runs, is not suspended, and is not being ended.
    pub(crate) fn is_at_work(&self) -> bool {
        let stands_still = self.suspended.is_some_and(|(is_so, _)| is_so);
        let is_begun = matches!(self.stage, Stage::Up) && self.started.is_some() && self.exited.is_none();
        is_begun && !stands_still && self.wishes.stop.is_none()
    }
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over { .. })
    }
    /// Whether its end is known, be it that it was not said yet.
    pub(crate) const fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Vacating(_) | Stage::Over { .. })
    }
    /// Whether it is suspended or goes on again, as it was said last.
    pub(crate) fn pause(&self, key: RunKey) -> Option<Report> {
        self.suspended.map(|(is_so, at)| match is_so {
            true => Report::Suspended { key, at },
            false => Report::Resumed { key, at },
        })
    }
}
