//! Nobody ever sees anything of anybody else: fifty people with a mark each, on every surface at once.

mod crowd;
mod server;
mod visitor;

const LANDBRIDGE: &str = env!("CARGO_BIN_EXE_landbridge");
