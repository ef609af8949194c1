//! The door of `gqstat`.

use std::process::ExitCode;

fn main() -> ExitCode {
    gq_client::stat::main(std::env::args_os().collect()).into()
}
