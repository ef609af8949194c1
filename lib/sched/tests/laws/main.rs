//! Laws of the planner (`safety`, `promises`) and what placement is for (`placement`).
#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

mod lab;
mod placement;
mod promises;
mod safety;
