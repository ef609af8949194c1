//! The door of `gqctl`.

use std::process::ExitCode;

fn main() -> ExitCode {
    gq_client::ctl::main(std::env::args_os().collect()).into()
}
