//! The door of `gqsim`, the simulator.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(gq_sim::main(std::env::args_os().collect()))
}
