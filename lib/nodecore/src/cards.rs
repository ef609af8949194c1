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

    /// Whether the script of a run runs, is not suspended, and is not being ended.
    pub fn is_at_work(&self, key: RunKey) -> bool {
        self.runs.get(&key).is_some_and(Run::is_at_work)
    }

    /// The cards of a run were found idle, or in use again.
    pub(crate) fn found_idle(&mut self, key: RunKey, since: Option<Timestamp>) {
        if let Some(run) = self.runs.get_mut(&key) {
            run.idle.1 = since;
            self.tell_idle(key);
        }
    }

    /// Tells whether the cards of a run that is at work are idle, when it is not as it was told last. One report of it is on its way at a time.
    fn tell_idle(&mut self, key: RunKey) {
        let Some(run) = self.runs.get_mut(&key) else { return };
        let (told, is) = run.idle;
        if self.joined && run.is_at_work() && told != is && !self.outbox.owes_idle(key) {
            run.idle.0 = is;
            self.outbox.push(Report::Idle { key, since: is });
        }
    }

    /// Tells what is not told yet of runs whose cards are idle, or are not any more.
    pub(crate) fn tell_all_idle(&mut self) {
        let differ = self.runs.iter().filter(|(_, run)| run.idle.0 != run.idle.1);
        let differ: Vec<RunKey> = differ.map(|(key, _)| *key).collect();
        differ.into_iter().for_each(|key| self.tell_idle(key));
    }

    /// A new link: whoever lost sight of this node has forgotten which cards were idle.
    pub(crate) fn tell_idle_again(&mut self) {
        let outbox = &self.outbox;
        let owed = |key: &RunKey| outbox.owes_idle(*key);
        self.runs.iter_mut().filter(|(key, _)| !owed(key)).for_each(|(_, run)| run.idle.0 = None);
        self.tell_all_idle();
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
