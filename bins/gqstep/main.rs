//! `gqstep`: the supervisor of one run. Started by `gqnode`, which it outlives.

fn main() -> std::process::ExitCode {
    gq_supervisor::main(std::env::args_os().skip(1))
}
