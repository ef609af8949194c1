//! A supervisor as a program of this crate alone, so that its tests need no other: `gqstep` by another name.

fn main() -> std::process::ExitCode {
    gq_supervisor::main(std::env::args_os().skip(1)).into()
}
