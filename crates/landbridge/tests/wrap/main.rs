//! `landbridge wrap`, and servers of a config with `cached`: what is told without the server, when it is started, and
//! when it is ended.

mod cache;
mod calls;
mod client;
mod ends;
mod everything;
mod fresh;
mod gateway;
mod lazy;
mod modern;
mod names;
mod pool;
mod real;
mod tours;
mod world;

const LANDBRIDGE: &str = env!("CARGO_BIN_EXE_landbridge");
