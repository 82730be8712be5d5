//! The built-in demo server: a small MCP server, written with the official Rust SDK the way a user would write one.
//!
//! It owns what learning the protocol and trying out a gateway need: notes as session state, work with progress and
//! logs, structured results with links, questions to the user, the model and the client, resources, prompts, and tools
//! that make trouble. It speaks both eras of the protocol over one newline-delimited byte stream and knows nothing of
//! processes, HTTP or the gateway that serves it, but for one wish: that a client's stream be closed while work goes on.

mod ask;
mod echo;
mod notes;
mod prompts;
mod registry;
mod resources;
mod sample;
mod server;
mod session;
mod streaming;
mod system_time;
mod tell;
mod trouble;
mod wire;
mod work;

pub use registry::RegistryError;
pub use server::{Ended, NAME, Server};
