//! The planner: which waiting jobs start now and where, who gets a reservation, who makes room, and why the others wait and until when.
//!
//! A plan is a function of the cluster, the policy, the time and the reservations made before ([`Planner`] remembers them, and what need not be
//! looked at again): integers only, ties broken by priority, then submission, then id, nodes by fit and then by name.
//! Rooms: `priority` and `share` (whose turn it is), `limits` and `licences` (what may be had), `place`, `cards` and `options` (which node, which
//! cards and slices), `timeline` (what is free when), `pass` (who starts and who is reserved for), `preempt` (who makes room), `outlook` (why and
//! when), `forecast` and `explain` (the same far down the queue), `planner`, `memo` and `seats` (what is remembered between passes).
#![no_std]
extern crate alloc;

mod cards;
mod decay;
mod explain;
mod forecast;
mod keep;
mod licences;
mod limits;
mod lines;
mod memo;
mod need;
mod options;
mod outlook;
mod pass;
mod place;
mod planner;
mod preempt;
mod priority;
mod seats;
mod share;
mod timeline;

pub use decay::decay;
pub use explain::{Explanation, Holder, explain};
pub use forecast::{Forecast, estimate, forecast};
pub use limits::behind;
pub use outlook::{Effort, Outlook};
pub use pass::Plan;
pub use place::{could_ever, eligible_by_name};
pub use planner::{Planner, Plans, Preemption, Start};
pub use priority::{Factors, factors};
pub use share::{Share, shares};
