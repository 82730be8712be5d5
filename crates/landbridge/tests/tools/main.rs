//! The tools of the gateway, seen by clients of the real binary.

mod world;

mod session;
mod suite;
