//! People log in at a real provider, programs send keys, and everybody else stays outside.

mod away;
mod belongings;
mod clocks;
mod documents;
mod ends;
mod failover;
mod first;
#[path = "../behind/guard.rs"]
#[expect(dead_code, reason = "what another test of a server's login needs")]
mod guard;
mod hunt;
mod keys;
mod leaks;
mod named;
mod nodes;
mod oauth;
mod often;
mod policy;
mod reload;
mod replayed;
mod sdks;
mod several;
mod world;

mod cluster;
mod details;
mod pages;
mod people;
mod redeem;
mod search;
mod secrets;
mod site;
mod slow;
mod socket;
mod windows;
mod wire;
mod within;

const LANDBRIDGE: &str = env!("CARGO_BIN_EXE_landbridge");
