//! The laws of a node, tried on random histories: orders that come twice, supervisors that are killed, a node that is
//! killed between any two acts, machines that boot again, links that break. The seed is in every message.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says so when it fails")]

mod random;
mod samples;
mod settle;
mod stories;
mod wishes;
