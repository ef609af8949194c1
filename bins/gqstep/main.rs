//! `gqstep`: the supervisor of one run. Started by `gqnode`, which it outlives.
//!
//! Entered from C's `main`: one is started for every run, and what Rust's own entry does first (asking for the stack's bounds, an alternate
//! signal stack) costs a tenth of starting it and serves nothing here.
#![no_main]

use std::ffi::{c_char, c_int};

/// The entry that the C start-up code calls; arguments are taken from where it keeps them.
// SAFETY: no other `main` is linked into this program.
#[unsafe(no_mangle)]
extern "C" fn main(_count: c_int, _words: *const *const c_char) -> c_int {
    gq_supervisor::main(std::env::args_os().skip(1)).into()
}
