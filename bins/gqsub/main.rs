//! `gqsub`: submits a script to the queue.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(gq_client::submit::main(std::env::args_os().collect()))
}
