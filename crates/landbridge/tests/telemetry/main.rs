//! What operators see: `/metrics` as Prometheus reads it, and traces as a collector gets them.
//!
//! A module named `peer_KEY` marks its tests as uses of that peer; `cargo xtask test` counts them.

mod collector;
mod export;
mod metrics;
mod traces;
mod world;

const LANDBRIDGE: &str = env!("CARGO_BIN_EXE_landbridge");
