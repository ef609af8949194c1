//! The words of gq: nouns, units, ids and states that every other room speaks in.
//!
//! No clock, no file, no thread. What is written here is a *word*; what a word looks like on the wire is `gq-proto`'s
//! business and on disk `gq-store`'s, except for three documents that are handed through unread and therefore carry
//! their own serial form: [`JobSpec`] (what a user asked), [`Assignment`] (what a run is and holds) and [`Outcome`]
//! (how it ended, and what it used).
#![no_std]
extern crate alloc;

mod array;
mod assignment;
mod bound;
mod calendar;
mod cards;
mod change;
mod dependency;
mod duration;
mod fit;
mod hostlist;
mod ids;
mod index_set;
mod mig;
mod mig_tables;
mod outcome;
mod pattern;
mod reason;
mod recipient;
mod size;
mod spec;
mod state;
mod units;
mod used;

pub use array::{ArrayAsk, ArrayError, MAX_RANGES, MAX_SCATTER, MAX_TASKS};
pub use assignment::{ArrayBounds, Assignment, EndReason, IdleRule, MAX_ASSIGNMENT, SignalTo, Stage};
pub use bound::Bound;
pub use calendar::{Calendar, Period, Span, year_begin, year_of};
pub use cards::{Card, CardHealth, CardUse, MAX_PARTS, MIN_PARTS, Share, Slice, share_in};
pub use change::Change;
pub use dependency::{Dependency, DependencyError, MAX_TERMS, Term, When};
pub use duration::{DurationError, format_limit, parse_duration, parse_limit};
pub use fit::{Advice, Seen, Tried, smallest};
pub use hostlist::{HostListError, MAX_HOSTS, compress_hosts, expand_hosts};
pub use ids::{
    Beat, BootId, ClusterId, Epoch, IdError, JobId, JobRef, NodeId, NodeName, RunKey, RunNumber, Seq,
    TaskIndex, Token, Uid,
};
pub use index_set::IndexSet;
pub use mig::{Grid, MAX_UNITS, Placement, Profile, profile_memory};
pub use mig_tables::{known_grid, known_grids};
pub use outcome::{Fault, Outcome};
pub use pattern::{PatternFields, expand_pattern, output_path, tells_tasks_apart};
pub use reason::Reason;
pub use recipient::{MAX_RECIPIENTS, RecipientError, parse_recipients};
pub use size::{SizeError, format_size, parse_size};
pub use spec::{
    CardAsk, JobSpec, LicenceAsk, MAX_COMMENT, MAX_ITEM, MAX_JOB_FILE, MAX_NAME, MAX_REQUEST, MAX_RETRIES,
    MAX_SCRIPT, MAX_SIGNAL, MailAsk, MailOn, MaxWait, MemoryAsk, OpenMode, RESOURCE_LIMITS, Requeue,
    ResourceLimit, RetryAsk, SignalAsk, TestRun, TimeAsk, WaitEnd,
};
pub use state::{End, JobState};
pub use units::{CardTime, MiB, Seconds, Timestamp};
pub use used::{CardUsed, MAX_CARDS_USED, Used};
