//! The controller's store over real files: turns, and files that are damaged.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on may stop")]

mod archive;
mod damage;
mod formats;
mod life;
mod past;
mod turns;
