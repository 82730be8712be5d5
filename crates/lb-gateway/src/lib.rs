//! The middle: which server a request is for, which connection carries it, and who hears what no request asked for.
//!
//! Owns the registries of servers and sessions and the life of connections. Implements the port that fronts call;
//! knows neither HTTP nor stdio, and no revision beyond what joining two of them takes.

mod convert;
mod gateway;
mod link;
mod listen;
mod seat;
mod share;

pub use gateway::{Gateway, Limits};
