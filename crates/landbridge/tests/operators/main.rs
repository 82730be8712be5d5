//! What operators see and change: in a browser after a real login, and over HTTP with a token.

#[path = "../login/world.rs"]
#[expect(dead_code, reason = "not all of what clients do is done by operators")]
mod world;

mod browser;
mod pages;
mod servers;

const LANDBRIDGE: &str = env!("CARGO_BIN_EXE_landbridge");
