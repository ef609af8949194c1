//! The simulator: the controller's own mind, driven under a virtual clock over the log of a real machine.
//!
//! It needs no daemon, no socket, no card and no rights, and changes nothing but the files it is told to write.

mod alibaba;
mod baseline;
mod drive;
mod dump;
mod fill;
mod fragmentation;
mod history;
mod metrics;
mod nodes;
mod options;
mod outputs;
mod philly;
mod picture;
mod policy;
mod progress;
mod read;
mod report;
mod request;
mod settings;
mod simulate;
mod spread;
mod swf;
mod table;
#[cfg(test)]
mod tests;
mod trace;
mod trouble;
mod watch;
mod world;

pub use options::command;

use options::Options;
use std::{
    ffi::OsString,
    io::{self, Write},
};
use trouble::{Trouble, USAGE};

/// Runs `gqsim`; returns the exit code.
pub fn main(argv: Vec<OsString>) -> u8 {
    match command().try_get_matches_from(argv) {
        Ok(words) => {
            let done = Options::of(&words).and_then(|options| simulate::run(&options));
            let done = done.and_then(|answer| print(&answer));
            done.map_or_else(|trouble| trouble.tell(), |()| 0)
        }
        Err(error) if error.use_stderr() => {
            // clap begins with its own word; ours begin with the program's name.
            let text = error.render().to_string();
            let text = text.strip_prefix("error: ").map_or(text.clone(), |rest| format!("gqsim: {rest}"));
            let _ = io::stderr().write_all(text.as_bytes());
            USAGE
        }
        Err(answer) => answer.print().map_or_else(|e| Trouble::of_output(&e).tell(), |()| 0),
    }
}

fn print(answer: &str) -> Result<(), Trouble> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(answer.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|e| Trouble::of_output(&e))
}
