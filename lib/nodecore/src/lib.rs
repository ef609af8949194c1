//! Decides what a node does: which orders it takes, what it launches, stops, sweeps, reports and forgets. It knows no
//! clock, file, thread or letter: what happened comes in as [`Input`], what is to be done goes out as [`Effect`].
//!
//! The laws (held by the tests of this crate): an order is taken once, in order; a START of a known run launches
//! nothing and repeats its last report; two runs of one task never live together; a START that was taken ends in one
//! end, which is reported in every life of the node until it is acknowledged; a STOP of an unknown run leaves a
//! tombstone, so that its START cannot come after it; a run with a lease begins and goes on only by the controller's word that it sees
//! this node, given when all orders written before that word were taken.
#![no_std]
extern crate alloc;

mod cards;
mod ends;
mod lease;
mod node;
mod outbox;
mod restore;
mod run;
mod settle;
mod wishes;
mod words;

pub use node::{MAX_RUNS, MAX_TOMBSTONES, Node};
pub use settle::{Hands, settle};
pub use words::{
    Control, Effect, HeadSeen, Identity, Input, LiveRun, Machine, Order, Record, Report, Serves, Stop,
    StopWhy, TurnAway,
};
