//! A session's events through the public face of the crate.

mod acceptance;
mod model;
mod support;
