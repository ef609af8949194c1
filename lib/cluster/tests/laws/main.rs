//! Laws of the state, over random legal histories: it never contradicts itself, it can be had again from its rows and from its
//! events, and an event that it does not allow is refused.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

mod cards;
mod history;
mod illegal;
mod state;
mod stories;
