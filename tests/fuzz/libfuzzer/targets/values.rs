//! The target `values` under libFuzzer; what it does is `gq_fuzz::values`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| gq_fuzz::run("values", input));
