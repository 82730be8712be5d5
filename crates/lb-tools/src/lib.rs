//! The `tools` surface: the whole protocol for clients that can only call tools.
//!
//! One file per tool under `tools`, one table of them, the same for every transport. It knows sessions and servers as
//! `lb-gateway` shows them, and no connection, no socket and no framing.

mod args;
mod asked;
mod catalog;
mod diagrams;
mod failure;
mod fanout;
mod form;
mod instructions;
mod pattern;
mod plain;
mod reply;
mod request;
mod respond;
mod running;
mod splice;
mod surface;
mod tools;

pub use surface::Tools;
