//! The target `asks` under libFuzzer; what it does is `gq_fuzz::asks`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| gq_fuzz::run("asks", input));
