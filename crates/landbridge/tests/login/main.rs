//! People log in at a real provider, programs send keys, and everybody else stays outside.

mod documents;
mod first;
mod keys;
mod leaks;
mod nodes;
mod oauth;
mod policy;
mod sdks;
mod world;

const LANDBRIDGE: &str = env!("CARGO_BIN_EXE_landbridge");
