//! Finds cards through NVML or as declared, tells their health, cuts those in MIG mode and sets them back. Never decides who gets a
//! card, and never changes one but where it is told to.
//!
//! A call into the driver may block for seconds when a card is failing: ask from a thread that may wait.

mod cut;
mod declared;
mod grid;
mod links;
mod measure;
mod nvml;
mod roster;
mod setback;
mod slices;
mod users;

pub use cut::CutError;
pub use declared::merge;
pub use measure::Measure;
pub use nvml::{Found, Look, Nvml, open};
pub use users::{Used, User};
