//! A stand-in for the NVML library, for tests only: the real `nvml-wrapper` loads it through its library path and sees
//! the machine that a JSON file describes. It answers what `gq` asks a driver and nothing more; it never keeps state of its
//! own besides the count of inits, so what a test writes into the file is true at the next call. What is cut and destroyed is written into
//! that file, under a lock, so that several processes agree.
//!
//! How a test uses it: depend on `standin-nvml`, call [`place`] with a folder and a [`Machine`], and either hand the path
//! it returns to `gq_gpu::open`, or start a daemon with that folder in `LD_LIBRARY_PATH`. The description is the file named
//! by `GQ_STANDIN_NVML`, else `machine.json` in the folder that the library was loaded from. [`edit`] (or [`rewrite`], whole)
//! changes it while the daemon runs.

mod calls;
mod code;
mod cutting;
mod handle;
mod machine;
mod place;
mod settings;

pub use code::Code;
pub use machine::{Bare, Card, Clocks, Link, Machine, Place, Profile, Slice};
pub use place::{edit, library, place, rewrite, shipped};
