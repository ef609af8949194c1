//! `gqnode` as the tests of this crate start it.

fn main() -> std::process::ExitCode {
    gq_executor::main(std::env::args_os().collect()).into()
}
