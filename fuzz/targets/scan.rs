//! JSON texts and JSON-RPC messages, with serde_json as oracle.
#![no_main]

#[path = "../../crates/lb-wire/tests/generated/envelope.rs"]
mod envelope;
#[path = "../../crates/lb-wire/tests/generated/scan.rs"]
mod scan;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    scan::check(input);
});
