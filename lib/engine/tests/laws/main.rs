//! Laws of the turn: the real `Turn::run` over a keeper whose transactions are whole or absent and may fail, a courier that may
//! refuse job files, and nodes that follow orders, reboot, fall silent and repeat themselves.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on may stop"
)]

mod admission;
mod books;
mod bounds;
mod budgets;
mod checks;
mod idle;
mod keeper;
mod life;
mod node;
mod nodes;
mod parts;
mod preemption;
mod random;
mod rights;
mod site;
mod stories;
mod world;
