//! Real supervisors with real scripts: how runs end, what jobs see, and what is refused.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod ends;
mod lab;
mod leases;
mod refusals;
mod stages;
mod stays;
mod steering;
mod world;
