//! Story tests over the real daemons, and tests of the house itself. One theme a file; `lab` is where the stories happen.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod accounting;
mod arrays;
mod attacks;
mod bounds;
mod budgets;
mod cards;
mod conf;
mod container;
mod crash;
mod dependencies;
mod disks;
mod ending;
mod environment;
mod examples;
mod faults;
mod forms;
mod golden;
mod groups;
mod hooks;
mod house;
mod lab;
mod looking;
mod manual;
mod messages;
mod metrics;
mod names;
mod nodes;
mod order;
mod personal;
mod reports;
mod resources;
mod retry;
mod rights;
mod running;
mod sim;
mod stages;
mod steering;
mod storm;
mod submission;
mod time;
mod users;
mod watch;
mod years;
