//! Heads and signs of life: what this node tells of itself, and what it makes of what `gqd` tells of itself. What follows for runs is the
//! mind's to say.

use crate::{
    border,
    household::{Household, Stop, turned_away},
    life::Life,
    site::{StartError, new_id},
};
use gq_model::{Beat, Epoch, Seq};
use gq_nodecore::{Effect, Input};
use gq_proto::{CardNow, Head, LETTER_VERSION};
use std::time::{Duration, Instant};

impl Household {
    /// Takes in a controller's head. A controller that knows a life of this node that its log knows nothing of ends this one: its numbers
    /// could not be told from those of a later one, and what ran since is not known.
    pub(crate) fn hear(&mut self, head: &Head, todo: &mut Vec<Effect>) -> Result<(), Stop> {
        let (known, Life { epoch, past, .. }) = (head.ack_epoch, self.life);
        if self.life.is_outlived_by(known) {
            self.log.append(&self.life.as_another(known, new_id()?).record(self.site.boot, &self.node))?;
            self.log.sync()?;
            let why = if known > epoch {
                StartError::LaterLife(known, epoch)
            } else {
                StartError::OldCopy(known, past)
            };
            return Err(Stop::Broken(why));
        }
        let before = todo.len();
        self.decide(Input::Head(border::from_head(head)), todo);
        if known == epoch && turned_away(todo.get(before..).unwrap_or_default()).is_none() {
            self.seen(head.seen, head.highest, todo);
        }
        Ok(())
    }

    /// The controller has seen this node.
    pub(crate) fn seen(&mut self, beat: Beat, up_to: Seq, todo: &mut Vec<Effect>) {
        if beat > Beat(0) {
            self.decide(Input::Seen { beat, up_to }, todo);
        }
    }

    /// A sign of life: the boot clock, and never the same twice.
    fn next_beat(&mut self) -> Beat {
        self.loose.beat = Beat(boot_millis().max(self.loose.beat.0.saturating_add(1)));
        self.loose.beat
    }

    /// Gives the sign of life that is due.
    pub(crate) fn beat(&mut self, time: Instant) {
        if self.loose.beat_due.is_some_and(|due| due <= time) {
            self.loose.beat_due = Some(time + Duration::from_secs(self.site.config.cluster.beat.0));
            let beat = self.next_beat();
            self.send_with(beat, Vec::new());
        }
    }

    /// Tells what the cards do, when it is another than was told last.
    pub(crate) fn tell_now(&mut self, cards: Vec<CardNow>) {
        if self.loose.now != cards {
            (self.loose.now, self.loose.now_told) = (cards, false);
        }
        if !self.loose.now_told {
            self.send_with(Beat(0), Vec::new());
        }
    }

    pub(crate) fn head(&mut self) -> Head {
        Head {
            version: LETTER_VERSION,
            cluster: self.site.parties.cluster,
            node: self.site.parties.node.clone(),
            epoch: self.life.epoch,
            boot: Some(self.site.boot),
            node_id: Some(self.life.id),
            beat: self.next_beat().0,
            seen: Beat(0),
            refusal: None,
            cards: None,
            past: Epoch(0),
            lowest: self.node.lowest(),
            highest: self.node.highest(),
            ack_epoch: self.node.controller(),
            ack: self.node.taken(),
        }
    }
}

/// The boot clock. A kernel that does not tell it gives no sign of life that would keep a lease.
pub fn boot_millis() -> u64 {
    gq_host::boot_clock().map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
