//! `evil`: an MCP server that behaves until its tool `strike` is called, and then commits the fault it was told to.
//!
//! `evil --fault NAME[,NAME…] [--http ADDR] [--era legacy|modern|dual]`; stdio without `--http`. The handshake, the
//! lists and the tool `calm`, which echoes its `message`, are always right, as far as the fault has left a way to
//! answer. `strike` takes `fault` (one of the chosen names, the first by default), `message` (the text of the answer)
//! and, for wrong-stream, `via`. Every fault is described at its [`Fault`] variant.
//!
//! HTTP is written on bare sockets, because half a response is something no HTTP library lets through.

pub mod fault;
pub mod payload;

mod catalog;
mod http;
mod linger;
mod noise;
mod options;
mod stdio;
mod stray;
mod swap;

pub use fault::{Fault, Transport};
pub use http::serve as serve_http;
pub use linger::linger;
pub use options::{Action, Options};
pub use stdio::serve as serve_stdio;
