//! What a node tells of itself: its cards, and whether it can start anything; and that the cards of a run are looked at before its end is said. Never
//! decides whether a card fails.

use crate::{
    Effect, Node, Record, Report,
    run::{Run, Stage},
};
use alloc::vec::Vec;
use gq_model::{Card, CardUsed, RunKey, Timestamp};

impl Node {
    /// Takes in a look at the cards. What they are is told when the report of them before is acknowledged, so that a card that comes and goes
    /// makes no heap of reports.
    pub(crate) fn look_at_cards(&mut self, cards: Vec<Card>) {
        if !self.joined {
            return;
        }
        if self.outbox.owes_cards() {
            self.cards_next = Some(cards);
        } else {
            self.tell_cards(cards);
        }
    }

    /// Tells the cards as they were looked at last, whatever is owed: whoever is given the cards of a run whose end is said next must not be
    /// given what was found to fail.
    pub(crate) fn tell_cards_first(&mut self) {
        if let Some(cards) = self.cards_next.take() {
            self.tell_cards(cards);
        }
    }

    fn tell_cards(&mut self, cards: Vec<Card>) {
        if cards != self.cards {
            self.cards.clone_from(&cards);
            self.outbox.push(Report::Cards(cards));
        }
    }

    /// Tells why nothing can be started, or that it can, when it is not as it was told last. One report of it is on its way at a time.
    pub(crate) fn tell_trouble(&mut self) {
        let (told, is) = &mut self.trouble;
        if self.joined && told != is && !self.outbox.owes_trouble() {
            told.clone_from(is);
            self.outbox.push(Report::Trouble(told.clone()));
        }
    }

    /// The cards of a run that has ended were looked at. What was measured of them stands in the log, since its end may be said by a later life.
    pub(crate) fn vacated(
        &mut self,
        key: RunKey,
        used: Vec<CardUsed>,
        at: Timestamp,
        todo: &mut Vec<Effect>,
    ) {
        let Some(Run { stage: Stage::Vacating(end), .. }) = self.runs.get(&key) else { return };
        let mut end = end.clone();
        if !used.is_empty() {
            todo.push(Effect::Append(Record::Vacated { key, used: used.clone(), at }));
        }
        add_use(&mut end, used, at);
        self.tell_cards_first();
        self.say_end(key, end, todo);
    }
}

/// Adds to the end of a run what it used of its cards, and when they were free.
pub(crate) fn add_use(end: &mut Report, cards: Vec<CardUsed>, at: Timestamp) {
    if let Report::Ended { outcome, .. } = end {
        outcome.measured(|used| (used.cards, used.released) = (cards, Some(at)));
    }
}
