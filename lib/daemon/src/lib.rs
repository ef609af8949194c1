//! Signals, clock, log and readiness of a daemon. Never decides what a daemon does about any of them.

mod clock;
mod limits;
mod log_lines;
mod notify;
mod signals;

pub use clock::{boot_clock, now};
pub use limits::{open_files, raise_nofile};
pub use log_lines::init_log;
pub use notify::{ready, stopping};
pub use signals::{Signal, signals};
