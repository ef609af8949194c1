//! The door of `gqd`, the controller.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(gq_controller::main(std::env::args_os().collect()))
}
