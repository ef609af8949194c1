//! The simulator: the controller's own mind, driven under a virtual clock over the log of a real machine.

mod alibaba;
mod dump;
mod fragmentation;
mod history;
mod metrics;
mod options;
mod philly;
mod picture;
mod progress;
mod read;
mod report;
mod settings;
mod spread;
mod swf;
mod table;
#[cfg(test)]
mod tests;
mod trace;
mod trouble;

pub use options::command;
