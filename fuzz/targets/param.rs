//! A list of tools, a line feed, and the arguments of a call.
#![no_main]

#[path = "../../crates/lb-wire/tests/generated/param.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    check::check(input);
});
