//! The built-in demo server: a small MCP server, written with the official Rust SDK the way a user would write one.
//!
//! It owns what a first look at a gateway needs: notes as session state, a slow call with progress, questions to the
//! user and to the client's model, a resource, a template and a prompt. It speaks both eras of the protocol over one
//! newline-delimited byte stream and knows nothing of processes, HTTP or the gateway that serves it.

mod ask;
mod notes;
mod server;
mod session;
mod wire;
mod work;

pub use server::{NAME, serve};
