//! What operators set and see: who did what, tools that change, shares, programs that may be added.

mod audit;
mod disk;
mod keyed;
mod phish;
mod pins;
mod programs;
mod remembered;
mod shares;
mod unpinned;
#[path = "../login/world.rs"]
#[expect(dead_code, reason = "what another test of a login needs")]
mod world;

const LANDBRIDGE: &str = env!("CARGO_BIN_EXE_landbridge");
/// The server beside this file.
const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/policy/server.py");
