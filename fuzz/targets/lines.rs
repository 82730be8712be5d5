//! Lines of a stream, whatever its chunks.
#![no_main]

#[path = "../../crates/lb-wire/tests/generated/lines.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    check::check(input);
});
