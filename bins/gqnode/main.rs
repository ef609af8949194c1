//! `gqnode`: runs jobs on a node. Everything it does is in `gq-executor`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(gq_executor::main(std::env::args_os().collect()))
}
