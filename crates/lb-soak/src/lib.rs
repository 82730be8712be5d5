//! Reliability, seen from outside: scenarios that run the binary with real clients and servers while something goes
//! wrong, and a checker that reads afterwards what everybody saw.
//!
//! A scenario decides nothing: it writes a [`History`], and [`check`] gives the verdict from the file alone. Whatever is
//! random comes from one seed, so that a run can be repeated. Knows the gateway only as a program.

pub mod check;
pub mod history;
pub mod malformed;
pub mod random;
pub mod scenario;

mod caller;
mod cluster;
mod jobs;
mod load;
mod proxy;
mod watch;
mod world;

pub use history::History;
pub use scenario::{SCENARIOS, Scenario, Setup, Size};
