//! The target `job_file` under libFuzzer; what it does is `gq_fuzz::job_file`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| gq_fuzz::run("job_file", input));
