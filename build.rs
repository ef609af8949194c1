//! Links the compiler's unwinder into the programs instead of loading `libgcc_s.so` with each of them.
//!
//! Every job costs two short-lived processes of ours (`gqsub`, `gqstep`), and loading, relocating and initialising that one library is
//! a seventh of what starting an empty program costs. Where the static unwinder is not found, programs are linked as usual.

use std::{env, fs, path::Path, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    let gnu = env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|abi| abi == "gnu");
    if !linux || !gnu || env::var("HOST") != env::var("TARGET") {
        return;
    }
    let found = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    let path =
        found.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let Some(out) =
        env::var_os("OUT_DIR").filter(|_| Path::new(&path).is_absolute() && Path::new(&path).exists())
    else {
        return;
    };
    // The linker finds this script where it looks for the shared library.
    let script = Path::new(&out).join("libgcc_s.so");
    if fs::write(script, "INPUT ( -l:libgcc_eh.a -l:libgcc.a )\n").is_ok() {
        println!("cargo::rustc-link-search=native={}", Path::new(&out).display());
    }
}
