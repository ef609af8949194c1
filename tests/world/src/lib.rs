//! A whole cluster from one seed. The engine's turn, the state, the plan, the store, the node's mind, the order of its turn, the letters, their
//! files' heads and the node's records are the real ones; what they stand on is virtual and fails: job files and logs lose what was not
//! synced, a shared directory shows changes late, torn and out of order, wires break, daemons and supervisors die between any two steps,
//! machines lose power and forget their disk, clocks jump, disks are full.
//!
//! After every event the laws of `checks` are looked at; at the end faults stop, and everything must come to its end. A seed is played
//! the same way every time.
//!
//! Rooms: `world` (the loop), `faults` (what goes wrong), `users` (what is asked for), `gqd` (a life of the controller) with `courier`
//! (what leaves its turn), `spool` (job files), `machine` (a node's disk and processes), `gqnode` (a life of a node), `wire` and `share`
//! (letters over a socket, and as files), `checks` (the laws), `truth` (what really happened), `fuse` (when a process dies), `dice`.
#![expect(clippy::panic, clippy::expect_used, reason = "a broken law is a panic, and the seed is named")]

mod checks;
mod courier;
mod dice;
mod faults;
mod fuse;
mod gqd;
mod gqnode;
mod machine;
mod share;
mod spool;
mod truth;
mod users;
mod wire;
mod world;

pub use world::{Played, play};
