//! The household of `gqd`: who talks to whom. No decision here is longer than a match arm; deciding is `gq-engine`'s.
//!
//! Threads: one owns the state and runs turns (`hub`); one accepts connections and each connection has its own (`door`); one moves job
//! files (`filer`); one exchanges letters as files (`mail`); one looks after the drop box and old files (`upkeep`); one foretells starts (`forecast`);
//! one has messages sent, with one more for each kind of program (`messages`); one takes signals.
//! They hand the first one inputs over a bounded channel. Listings are served from the `board`, immutable records that are
//! published after each turn, so that no question stops the loop.

mod archive;
mod arrays;
mod board;
mod budgets;
mod convert;
mod courier;
mod cuts;
mod door;
mod filer;
mod forecast;
mod gate;
mod guests;
mod hub;
mod intake;
mod keeper;
mod links;
mod listing;
mod mail;
mod messages;
mod meters;
mod metrics;
mod parts;
mod past;
mod policy;
mod post;
mod program;
mod pulse;
mod refusals;
mod silence;
mod snapshot;
mod standing;
mod start;
mod submit_hook;
mod tasks;
mod upkeep;
mod view;
mod viewer;
mod vigil;
mod welcome;

pub use start::{command, main};

// What of this household decides what is durable, said and sent: the simulator of the whole runs it as it is.
pub use convert::{report, report_in};
pub use keeper::StoreKeeper;
pub use post::{Bundle, LinkId, MAX_WAITING, Post, waiting};
pub use silence::Silence;
pub use welcome::Known;
