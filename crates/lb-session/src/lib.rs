//! What one session remembers.
//!
//! No IO: time is an argument, and whoever owns a session asks for its next deadline and ticks it.

pub mod streams;
