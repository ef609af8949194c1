//! Which card is which from look to look: a card is its UUID, whatever number the driver gives it now. Asks no driver.

use gq_model::{Card, CardHealth, MiB};

/// The cards that were ever known in this life, each with an index of its own that stays.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    /// The number under which the driver listed it last.
    place: u32,
    card: Card,
}

impl Roster {
    /// Cards that were known when the driver was open before.
    pub(crate) fn of(cards: &[Card]) -> Self {
        Self { entries: cards.iter().map(|card| Entry { place: card.index, card: card.clone() }).collect() }
    }

    /// All cards, by their indices.
    pub(crate) fn cards(&self) -> Vec<Card> {
        self.entries.iter().map(|entry| entry.card.clone()).collect()
    }

    /// The card of this UUID as it was known last.
    pub(crate) fn named(&self, uuid: &str) -> Option<&Card> {
        let mut cards = self.entries.iter().map(|entry| &entry.card);
        cards.find(|card| card.uuid.as_deref() == Some(uuid))
    }

    /// The index of the card that the driver lists at `place`.
    pub(crate) fn index_at(&self, place: u32) -> Option<u32> {
        let mut here = self.entries.iter().filter(|entry| entry.place == place);
        here.find(|entry| entry.card.health == CardHealth::Good).map(|entry| entry.card.index)
    }

    /// The card of this index as it was known last.
    pub(crate) fn card(&self, index: u32) -> Option<&Card> {
        self.entries.iter().map(|entry| &entry.card).find(|card| card.index == index)
    }

    /// Where the driver lists the card of this index.
    pub(crate) fn place_of(&self, index: u32) -> Option<u32> {
        self.entries.iter().find(|entry| entry.card.index == index).map(|entry| entry.place)
    }

    /// The card of this index, to be changed.
    pub(crate) fn card_mut(&mut self, index: u32) -> Option<&mut Card> {
        self.entries.iter_mut().map(|entry| &mut entry.card).find(|card| card.index == index)
    }

    /// Every card fails so.
    pub(crate) fn fail_all(&mut self, why: &str) {
        self.entries.iter_mut().for_each(|entry| fail(&mut entry.card, why.to_owned()));
    }

    /// Takes in what the driver said at each place from 0: the card there, or why it does not answer. A card that was known keeps its index
    /// though another is gone; one that is listed no more is failed.
    pub(crate) fn take(&mut self, said: Vec<Result<Card, String>>) {
        let known = std::mem::take(&mut self.entries);
        let mut rest: Vec<Entry> = known.clone();
        let mut strange: Vec<(u32, Result<Card, String>)> = Vec::new();
        for (place, said) in (0..).zip(said) {
            let is_it = |entry: &Entry| match &said {
                Ok(card) => entry.card.uuid.is_some() && entry.card.uuid == card.uuid,
                Err(_) => false,
            };
            match (rest.iter().position(is_it), said) {
                (Some(at), Ok(card)) => {
                    let index = rest.swap_remove(at).card.index;
                    self.entries.push(Entry { place, card: Card { index, ..card } });
                }
                (_, said) => strange.push((place, said)),
            }
        }
        for (place, said) in strange {
            // One without an answer is the one that was there, and one that never had a name may have it now.
            let is_it = |entry: &Entry| entry.place == place && (said.is_err() || entry.card.uuid.is_none());
            let before = rest.iter().position(is_it).map(|at| rest.swap_remove(at).card);
            let index = before.as_ref().map_or_else(|| self.unused(&known, place), |card| card.index);
            let card = match said {
                Ok(card) => Card { index, ..card },
                Err(why) => {
                    let mut card = before.unwrap_or_else(|| nameless(index));
                    fail(&mut card, why);
                    card
                }
            };
            self.entries.push(Entry { place, card });
        }
        for mut entry in rest {
            fail(&mut entry.card, "the driver no longer lists it".to_owned());
            self.entries.push(entry);
        }
        self.entries.sort_by_key(|entry| entry.card.index);
    }

    /// An index that no card has or had: `wanted`, if that can be.
    fn unused(&self, known: &[Entry], wanted: u32) -> u32 {
        let is_used = |index: u32| known.iter().chain(&self.entries).any(|entry| entry.card.index == index);
        std::iter::once(wanted).chain(0..).find(|index| !is_used(*index)).unwrap_or(wanted)
    }
}

fn fail(card: &mut Card, why: String) {
    card.health = CardHealth::Failed(why);
}

/// A card of which nothing was ever known.
fn nameless(index: u32) -> Card {
    Card::whole(index, String::new(), MiB(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(uuid: &str) -> Result<Card, String> {
        Ok(Card { uuid: Some(uuid.to_owned()), ..nameless(0) })
    }

    /// Index, UUID and whether it fails, of each.
    fn shown(roster: &Roster) -> Vec<(u32, String, bool)> {
        let show = |card: Card| (card.index, card.uuid.unwrap_or_default(), card.health != CardHealth::Good);
        roster.cards().into_iter().map(show).collect()
    }

    fn expect(roster: &Roster, expected: &[(u32, &str, bool)]) {
        let expected: Vec<_> = expected.iter().map(|(i, u, f)| (*i, (*u).to_owned(), *f)).collect();
        assert_eq!(shown(roster), expected);
    }

    #[test]
    fn a_card_keeps_its_index_though_another_is_gone() {
        let mut roster = Roster::default();
        roster.take(vec![card("a"), card("b"), card("c")]);
        roster.take(vec![card("a"), card("c")]);
        expect(&roster, &[(0, "a", false), (1, "b", true), (2, "c", false)]);
        assert_eq!((roster.place_of(2), roster.index_at(1)), (Some(1), Some(2)));
        // One that takes the place of the card that is gone is another card.
        roster.take(vec![card("a"), card("d"), card("c")]);
        expect(&roster, &[(0, "a", false), (1, "b", true), (2, "c", false), (3, "d", false)]);
        roster.take(vec![card("a"), card("b"), card("c"), card("d")]);
        expect(&roster, &[(0, "a", false), (1, "b", false), (2, "c", false), (3, "d", false)]);
    }

    #[test]
    fn a_card_that_does_not_answer_is_the_one_that_was_there() {
        let mut roster = Roster::default();
        roster.take(vec![card("a"), Err("lost".into()), card("c")]);
        expect(&roster, &[(0, "a", false), (1, "", true), (2, "c", false)]);
        roster.take(vec![card("a"), card("b"), card("c")]);
        expect(&roster, &[(0, "a", false), (1, "b", false), (2, "c", false)]);
        roster.take(vec![card("a"), Err("lost".into()), card("c")]);
        expect(&roster, &[(0, "a", false), (1, "b", true), (2, "c", false)]);
        roster.fail_all("no driver");
        assert!(shown(&roster).iter().all(|(.., fails)| *fails));
    }
}
