//! What landbridge does not understand, it does not change: bytes in against bytes out, through the binary.

mod case;
mod check;
mod client;
mod faults;
mod generate;
mod json;
mod paths;
mod smuggle;

const LANDBRIDGE: &str = env!("CARGO_BIN_EXE_landbridge");
