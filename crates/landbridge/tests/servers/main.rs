//! Servers behind the tools: how they are added, connected, lost, restarted and removed, and what clients are told.

mod desk;
mod proxy;
mod world;

mod asks;
mod broken;
mod connections;
mod ends;
mod everything;
mod evil;
mod gate;
mod life;
mod old;
mod races;
mod remote;
mod tasks;
mod waterfall;

const LANDBRIDGE: &str = env!("CARGO_BIN_EXE_landbridge");
