//! Allowances: how many messages a user may get at a time. What is too much is counted, and told him with the next one.

use super::note::{Note, Subject, What};
use gq_model::Uid;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// So many messages at once,
pub(crate) const BURST: u32 = 100;
/// and one more each time that so much has passed.
pub(crate) const PACE: Duration = Duration::from_secs(10);

/// What users may get yet.
#[derive(Debug, Default)]
pub(crate) struct Allowances(BTreeMap<Uid, Allowance>);

#[derive(Debug)]
struct Allowance {
    left: u32,
    /// When one was last added.
    since: Instant,
    /// How many were left out that he was not told of, and the last of them.
    out: Option<(u64, Arc<Note>)>,
}

impl Allowance {
    /// Adds what time has brought.
    fn ripen(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.since).as_secs() / PACE.as_secs();
        let more = u32::try_from(passed).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(more).min(BURST);
        self.since += PACE.saturating_mul(more);
    }

    fn take(&mut self) -> bool {
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }
}

fn subject(note: &Note) -> Option<&Subject> {
    match &note.what {
        What::Job(_, subject) | What::LeftOut(subject) => Some(subject),
        What::Node(..) | What::Budget(_) => None,
    }
}

impl Allowances {
    /// Whether the user may get this message; else it is counted.
    pub(crate) fn may(&mut self, note: &Arc<Note>, now: Instant) -> bool {
        // Of a budget there are a few in each period.
        let Some(subject) = subject(note) else { return matches!(note.what, What::Budget(_)) };
        let own = self.0.entry(subject.uid).or_insert(Allowance { left: BURST, since: now, out: None });
        own.ripen(now);
        if own.take() {
            return true;
        }
        let before = own.out.as_ref().map_or(0, |(count, _)| *count);
        own.out = Some((before + 1, Arc::clone(note)));
        false
    }

    /// How many messages of the user of this one were left out; he is told of them with it.
    pub(crate) fn left_out(&mut self, note: &Note) -> u64 {
        let own = subject(note).and_then(|subject| self.0.get_mut(&subject.uid));
        own.and_then(|own| own.out.take()).map_or(0, |(count, _)| count)
    }

    /// Those who may be told by a message of its own that some were left out; each as the last of these.
    pub(crate) fn untold(&mut self, now: Instant) -> Vec<Arc<Note>> {
        self.0.values_mut().for_each(|own| own.ripen(now));
        // Who may have as many as anybody needs no record.
        self.0.retain(|_, own| own.left < BURST || own.out.is_some());
        let told = self.0.values_mut().filter_map(|own| {
            let (_, note) = own.out.as_ref()?;
            let note = Arc::clone(note);
            own.take().then_some(note)
        });
        told.collect()
    }

    /// When somebody is to be told.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.values().filter(|own| own.out.is_some()).map(|own| own.since + PACE).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::tests::note_of;

    #[test]
    fn a_flood_is_cut_off_and_told_of_with_the_next_message_or_by_one_of_its_own() {
        let (mut all, start) = (Allowances::default(), Instant::now());
        let sent = (0..100_000u64).filter(|number| all.may(&note_of(*number), start)).count();
        assert_eq!(sent as u32, BURST);
        assert_eq!(all.left_out(&note_of(1)), 99_900);
        assert_eq!(all.left_out(&note_of(1)), 0);
        assert!(all.untold(start + PACE * 2).is_empty(), "all is told");
        assert!(all.may(&note_of(1), start + PACE * 2) && all.may(&note_of(2), start + PACE * 2));
        assert!(!all.may(&note_of(3), start + PACE * 2));
        assert_eq!(all.next(), Some(start + PACE * 3));
        let told = all.untold(start + PACE * 3);
        assert_eq!(told.iter().map(|note| note.number).collect::<Vec<_>>(), [3]);
        assert_eq!(all.left_out(&told[0]), 1);
        all.untold(start + PACE * 200);
        assert!(all.0.is_empty(), "who needs no record has none");
    }
}
