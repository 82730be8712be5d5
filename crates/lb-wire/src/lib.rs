//! JSON-RPC and MCP bytes: scanned once, spliced, framed; never rebuilt.
//!
//! Owns what a message looks like on the wire in every revision. Does no IO and knows nothing of sessions, servers or
//! who is talking to whom.

mod line;
mod lines;
mod message;
mod raw;
mod scan;
mod text;

pub mod compose;
pub mod header;
pub mod param;
pub mod revision;
pub mod splice;
pub mod sse;

pub use line::Line;
pub use lines::{LineTooLong, Lines};
pub use message::{Message, MessageError, Shape};
pub use raw::{Id, Raw, Span};
pub use scan::{Cursor, DEPTH_MAX, Kind, Member, ScanError};
pub use text::Text;

#[cfg(test)]
mod tests;
