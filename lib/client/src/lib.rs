//! The commands of users and admins: what `gqsub`, `gqstat`, `gqacct`, `gqcancel` and `gqctl` do. They ask `gqd` and show what it
//! answers; they decide nothing about the queue.

pub mod acct;
pub mod cancel;
pub mod ctl;
mod escape;
pub mod link;
pub mod out;
pub mod page;
mod progress;
pub mod select;
pub mod stat;
pub mod submit;
#[cfg(test)]
mod tests;
pub mod trouble;
