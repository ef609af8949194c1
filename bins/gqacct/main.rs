//! The door of `gqacct`.

use std::process::ExitCode;

fn main() -> ExitCode {
    gq_client::acct::main(std::env::args_os().collect()).into()
}
