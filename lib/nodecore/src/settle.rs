//! In which order a node does what was decided: records, then results to disk, then reports, then acts. What each of these is, whoever
//! carries it out knows.

use crate::{Effect, Record};
use alloc::vec::Vec;

/// Carries out what a node's mind decided.
pub trait Hands {
    /// Why it cannot go on.
    type Error;
    /// Appends records to the log; all of them, in order.
    ///
    /// # Errors
    /// When it cannot go on: nothing more is then done.
    fn append(&mut self, records: Vec<Record>) -> Result<(), Self::Error>;
    /// Whether an end stands in the log that need not have reached the disk; asked once after each appending.
    fn owes_sync(&mut self) -> bool;
    /// Waits until the log is on disk. Never tried twice.
    ///
    /// # Errors
    /// When it is not.
    fn sync(&mut self) -> Result<(), Self::Error>;
    /// Numbers and sends what is to be reported.
    fn report(&mut self);
    /// Does one thing; what follows from it is added to `todo`.
    fn act(&mut self, effect: Effect, todo: &mut Vec<Effect>);
}

/// Does what was decided, and what follows from it, until nothing is left.
///
/// An order is acknowledged by a report or after it: it stands in the log before. A result is on disk before it is reported, since whoever
/// was told it forgets the run. A supervisor is launched only when the log knows of it, so that no later life launches it again.
///
/// # Errors
/// Those of `hands`.
pub fn settle<H: Hands>(hands: &mut H, mut todo: Vec<Effect>) -> Result<(), H::Error> {
    loop {
        let (mut records, mut acts) = (Vec::new(), Vec::new());
        for effect in todo {
            match effect {
                Effect::Append(record) => records.push(record),
                act => acts.push(act),
            }
        }
        hands.append(records)?;
        if hands.owes_sync() {
            hands.sync()?;
        }
        hands.report();
        // What is done may have something to report and nothing more to do, such as cards that need not be looked at.
        if acts.is_empty() {
            return Ok(());
        }
        todo = Vec::new();
        for act in acts {
            hands.act(act, &mut todo);
        }
    }
}
