//! `gqsub`: submits a script to the queue.
//!
//! Entered from C's `main`: pipelines start one for every job, and what Rust's own entry does first (asking for the stack's bounds, an alternate
//! signal stack) costs a tenth of starting it and serves nothing here.
#![no_main]

use std::ffi::{c_char, c_int};

/// The entry that the C start-up code calls; arguments are taken from where it keeps them.
// SAFETY: no other `main` is linked into this program.
#[unsafe(no_mangle)]
extern "C" fn main(_count: c_int, _words: *const *const c_char) -> c_int {
    gq_client::submit::main(std::env::args_os().collect()).into()
}
