//! Config files.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| lb_config::fuzz_parse(input));
