//! The target `letters` under libFuzzer; what it does is `gq_fuzz::letters`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| gq_fuzz::run("letters", input));
