//! The store on Valkey, and what only a server can do to it.

mod access;
mod away;
mod cluster;
mod refusals;
mod room;

use crate::{servers, suite};

servers::fixture!(Valkey);
suite::conformance!(Valkey, 5);
