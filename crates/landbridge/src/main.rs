//! The landbridge binary.
fn main() {}
