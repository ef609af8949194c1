//! The target `patterns` under libFuzzer; what it does is `gq_fuzz::patterns`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| gq_fuzz::run("patterns", input));
