//! The target `sets` under libFuzzer; what it does is `gq_fuzz::sets`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| gq_fuzz::run("sets", input));
