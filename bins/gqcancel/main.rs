//! The door of `gqcancel`.

use std::process::ExitCode;

fn main() -> ExitCode {
    gq_client::cancel::main(std::env::args_os().collect()).into()
}
