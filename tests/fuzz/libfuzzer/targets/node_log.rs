//! The target `node_log` under libFuzzer; what it does is `gq_fuzz::node_log`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| gq_fuzz::run("node_log", input));
