//! The planner: which waiting jobs start now and where, who gets a reservation, and why the others wait.
//!
//! [`plan`] is a pure function of the cluster, the policy and the time: integers only, ties broken by priority, then
//! submission, then id, nodes by fit and then by name. Rooms: `order` (whose turn it is), `space` (what is free on a node, and until when),
//! `place` (which node and which cards), `backfill` (who starts and who is reserved for), `outlook` (why and when).
#![no_std]
extern crate alloc;

mod backfill;
mod order;
mod outlook;
mod place;
mod space;

pub use backfill::{Plan, Start, estimate, plan};
pub use outlook::Outlook;
pub use place::{could_ever, eligible_by_name};
