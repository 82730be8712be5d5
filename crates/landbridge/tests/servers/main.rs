//! Servers behind the tools: how they are added, connected, lost, restarted and removed, and what clients are told.

mod desk;
mod proxy;
mod world;

mod connections;
mod life;

const LANDBRIDGE: &str = env!("CARGO_BIN_EXE_landbridge");
