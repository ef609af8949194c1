//! The target `options` under libFuzzer; what it does is `gq_fuzz::options`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| gq_fuzz::run("options", input));
