//! Changes: what may be said anew of a job that was submitted.

use crate::{Dependency, Requeue, TimeAsk, Timestamp};
use alloc::string::String;
use serde::{Deserialize, Serialize};

/// One change of a job (`gqctl update`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// Its time limit.
    TimeLimit(TimeAsk),
    /// Its time limit, by so many seconds more (or fewer).
    TimeLimitBy(i64),
    /// Its partition.
    Partition(String),
    /// Its priority: its own part is set so that it comes to this at the time of the change.
    Priority(i64),
    /// Its nice value.
    Nice(i32),
    /// How many tasks of the array run at a time; none means as many as fit.
    AtOnce(Option<u32>),
    /// What it waits for; none means nothing any more.
    Dependency(Option<Dependency>),
    /// Its name.
    Name(String),
    /// Its comment; empty means none.
    Comment(String),
    /// Why its cards may be idle; empty means they may not.
    IdleOk(String),
    /// Not to be started before; none means at any time.
    Begin(Option<Timestamp>),
    /// By when it must have ended; none means whenever.
    Deadline(Option<Timestamp>),
    /// Whether it may run again after its node failed or it made room.
    Requeue(Requeue),
}
