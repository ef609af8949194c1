//! A real `gqnode` with real supervisors; the other end of the link is held by the test, which speaks the protocol.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod files;
mod lab;
mod lives;
mod orders;
mod slices;
