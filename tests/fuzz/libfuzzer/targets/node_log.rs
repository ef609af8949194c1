#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| gq_fuzz::run("node_log", input));
