//! The target `frames` under libFuzzer; what it does is `gq_fuzz::frames`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| gq_fuzz::run("frames", input));
