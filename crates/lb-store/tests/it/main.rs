//! One conformance suite for every store, and what is special about each.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod disk;
mod memory;
mod model;
mod peer_redis;
mod peer_valkey;
mod sealed;
mod servers;
mod suite;
