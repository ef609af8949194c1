//! In which order what was decided is done.

use crate::samples::{ended, key};
use gq_nodecore::{Effect, Hands, Record, settle};

/// Notes what it is told to do. Looking at the cards of a run is over at once, and leaves a report.
#[derive(Default)]
struct Notes {
    done: Vec<&'static str>,
    owed: bool,
    unsaid: u32,
}

impl Hands for Notes {
    type Error = ();

    fn append(&mut self, records: Vec<Record>) -> Result<(), ()> {
        if !records.is_empty() {
            self.owed |= records.iter().any(Record::is_end);
            self.done.push("append");
        }
        Ok(())
    }
    fn owes_sync(&mut self) -> bool {
        std::mem::take(&mut self.owed)
    }
    fn sync(&mut self) -> Result<(), ()> {
        self.done.push("sync");
        Ok(())
    }
    fn report(&mut self) {
        if std::mem::take(&mut self.unsaid) > 0 {
            self.done.push("report");
        }
    }
    fn act(&mut self, effect: Effect, todo: &mut Vec<Effect>) {
        self.unsaid += 1;
        self.done.push("act");
        if let Effect::Sweep { key, .. } = effect {
            todo.push(Effect::Append(ended(key)));
        }
    }
}

/// The end of a run whose cards need no look stayed unsaid until something else happened on its node.
#[test]
fn what_is_found_while_something_is_done_is_said_before_it_rests() {
    let done = |effects: Vec<Effect>| {
        let mut notes = Notes::default();
        settle(&mut notes, effects).unwrap();
        notes.done
    };
    let key = key(1, 1);
    assert_eq!(done(vec![Effect::Vacate(key)]), ["act", "report"]);
    assert_eq!(done(vec![]), Vec::<&str>::new());
    let sweep = Effect::Sweep { key, again: false };
    assert_eq!(done(vec![sweep]), ["act", "append", "sync", "report"], "on disk before it is said");
}
