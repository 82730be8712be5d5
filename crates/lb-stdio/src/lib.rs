//! The stdio transport: lines in, lines out; stdout belongs to the protocol.
//!
//! No task and no channel: one future reads, lets the front work, and writes. Knows nothing of what the lines say.

mod ends;
mod serve;

pub use serve::serve;
