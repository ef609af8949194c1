//! Laws of the planner: what a plan may do (`safety`), what it promises (`promises`), that it leaves nobody behind (`progress`), what its
//! memory may change (`memory`), what it foretells (`foretold`), slices, shared cards, preemption, shares; and what placement is for (`placement`).
#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

mod audit;
mod foretold;
mod lab;
mod memory;
mod parts;
mod placement;
mod preemption;
mod progress;
mod promises;
mod safety;
mod shares;
mod site;
mod slices;
mod wishes;
