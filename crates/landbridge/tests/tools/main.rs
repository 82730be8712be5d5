//! The tools of the gateway, seen by clients of the real binary.

mod world;

mod activity;
mod entry;
mod limits;
mod primitives;
mod questions;
mod servers;
mod session;
mod suite;
