//! The demo server from outside: JSON lines over an in-memory stream, in both eras.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod asks;
mod client;
mod closing;
mod lists;
mod tools;
mod trouble;
