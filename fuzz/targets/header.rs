//! A header value, a line feed, and the JSON that it repeats.
#![no_main]

#[path = "../../crates/lb-wire/tests/generated/header.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    check::check(input);
});
