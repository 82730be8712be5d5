//! People log in at a real provider, programs send keys, and everybody else stays outside.

mod away;
mod clocks;
mod documents;
mod ends;
mod failover;
mod first;
mod keys;
mod leaks;
mod nodes;
mod oauth;
mod often;
mod old;
mod policy;
mod reload;
mod replayed;
mod sdks;
mod world;

mod cluster;
mod details;
mod pages;
mod people;
mod redeem;
mod search;
mod secrets;
mod site;
mod socket;
mod wire;

const LANDBRIDGE: &str = env!("CARGO_BIN_EXE_landbridge");
