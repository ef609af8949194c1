//! `gqstep` as the tests of this crate start it, beside their `gqnode`.

fn main() -> std::process::ExitCode {
    gq_supervisor::main(std::env::args_os().skip(1)).into()
}
