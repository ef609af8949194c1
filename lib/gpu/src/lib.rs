//! Finds cards through NVML or as declared, and tells their health. Never decides who gets a card, and never changes one.
//!
//! A call into the driver may block for seconds when a card is failing: ask from a thread that may wait.

mod declared;
mod links;
mod nvml;
mod slices;

pub use declared::{merge, visible_devices};
pub use nvml::{CardError, Found, Nvml, open};
