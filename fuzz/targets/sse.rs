//! Event streams, against the standard read literally.
#![no_main]

#[path = "../../crates/lb-wire/tests/generated/sse.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    check::check(input);
});
