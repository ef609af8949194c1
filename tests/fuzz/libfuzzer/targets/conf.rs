//! The target `conf` under libFuzzer; what it does is `gq_fuzz::conf`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| gq_fuzz::run("conf", input));
