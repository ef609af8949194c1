//! The target `script` under libFuzzer; what it does is `gq_fuzz::script`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| gq_fuzz::run("script", input));
