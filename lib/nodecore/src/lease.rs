//! Leases: runs that may go on only as long as the controller sees their node. They end themselves, by their supervisors; here is said until
//! when they may live. No clock: a sign of life carries its time.

use crate::{Control, Effect, Node, run::Stage};
use alloc::vec::Vec;
use gq_model::{Beat, RunKey, Seconds, Seq};

/// For how long a run may go on when the controller does not see its node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    span: Seconds,
    /// Until when it may go on as far as this life of the node knows, in seconds after the boot; it does not begin before that is known.
    pub(crate) until: Option<Seconds>,
}

impl Lease {
    pub(crate) const fn of(span: Seconds) -> Self {
        Self { span, until: None }
    }

    /// The controller has seen this node at `beat`. Says until when the run may go on, if that is news.
    pub(crate) fn renew(&mut self, beat: Beat) -> Option<Seconds> {
        // Rounded down: it ends a moment early rather than late.
        let until = Seconds((beat.0 / 1000).saturating_add(self.span.0));
        let is_news = self.until.is_none_or(|old| old < until);
        is_news.then(|| *self.until.insert(until))
    }
}

impl Node {
    /// Until when a run may go on if nothing more is heard, in seconds after the boot; none when it has no lease.
    pub fn leased_until(&self, key: RunKey) -> Option<Seconds> {
        self.runs.get(&key)?.lease?.until
    }

    /// The controller has seen this node: what has a lease may go on, unless an order that was written before says otherwise. So
    /// whatever it gave up while this node was out of sight is not brought to life by its seeing it again.
    pub(crate) fn seen(&mut self, beat: Beat, up_to: Seq, todo: &mut Vec<Effect>) {
        if up_to > self.taken {
            // The first one that waits: if later ones took its place, a node that gets orders all the time would never hear of any.
            self.unheard.get_or_insert((beat, up_to));
            return;
        }
        let mut wait = Vec::new();
        for (key, run) in self.runs.iter_mut().filter(|(_, run)| !run.is_over()) {
            let Some(until) = run.lease.as_mut().and_then(|lease| lease.renew(beat)) else { continue };
            match run.stage {
                Stage::Up => todo.push(Effect::Control(*key, Control::Lease(until))),
                Stage::Held => wait.push(*key),
                // It is told when it is up.
                Stage::Unsure { .. }
                | Stage::Launching
                | Stage::Lost(_)
                | Stage::Vacating(_)
                | Stage::Over { .. } => {}
            }
        }
        wait.into_iter().for_each(|key| self.go(key, todo));
    }

    /// Launches a run, or holds it until no earlier run of its task lives and its lease has begun.
    pub(crate) fn go(&mut self, key: RunKey, todo: &mut Vec<Effect>) {
        let waits = self.earlier_lives(key);
        let Some(run) = self.runs.get_mut(&key) else { return };
        if waits || !run.has_leave() {
            run.stage = Stage::Held;
        } else {
            self.launch(key, todo);
        }
    }
}
