//! The failpoints of a test build: reading what they are to do, and dying there.

use crate::{Step, table::TABLE};
use nix::{sys::signal::Signal, unistd::Pid};
use std::{ffi::OsStr, fs::OpenOptions, io, io::Seek, io::Write};

/// The variable that says what failpoints do.
pub const VARIABLE: &str = "FAILPOINTS";

/// See [`crate::begin`].
pub fn begin(program: &str, words: &[impl AsRef<OsStr>]) -> bool {
    if let [word] = words
        && word.as_ref() == "--list-failpoints"
    {
        for (_, name, _) in TABLE.iter().filter(|(_, _, programs)| programs.contains(&program)) {
            println!("{name}.before\n{name}.after");
        }
        return true;
    }
    // What it configures stays for as long as the process lives.
    std::mem::forget(fail::FailScenario::setup());
    false
}

/// Reaches one side of a step.
pub fn reach(step: Step, side: &str) {
    let name = TABLE.get(step as usize).map_or("", |(_, name, _)| name);
    fail::eval(&format!("{name}.{side}"), |told| {
        let is_last = told.as_deref().map(is_turn).transpose();
        match is_last {
            Ok(None | Some(true)) => die(),
            Ok(Some(false)) => {}
            Err(why) => {
                eprintln!("the failpoint {name}.{side}: {told:?}: {why}");
                die();
            }
        }
    });
}

/// Counts this passing in the file of `N FILE`, and says whether it is the Nth.
fn is_turn(told: &str) -> io::Result<bool> {
    let (turn, file) = told.split_once(' ').ok_or(io::ErrorKind::InvalidInput)?;
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    file.write_all(b".")?;
    // Nobody else has this open file, so its position is the end of the byte that was written just now.
    Ok(turn.parse() == Ok(file.stream_position()?))
}

/// Ends the process at once: nothing is flushed, closed or said.
fn die() {
    let _ = nix::sys::signal::kill(Pid::this(), Signal::SIGKILL);
    loop {
        std::thread::park();
    }
}
