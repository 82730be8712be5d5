//! Connections to MCP servers: children, embedded servers and HTTP endpoints, of either era.
//!
//! Owns the era probe, the handshake, the supervision of children, and the lists that a server has told us. Speaks to
//! the gateway only in exchanges and feeds; knows no client transport.

mod breaker;
mod calls;
mod child;
mod children;
mod commands;
mod connect;
mod era;
mod error;
mod fingerprint;
mod http;
mod inbound;
mod lane;
mod lists;
mod names;
mod outbound;
mod pace;
mod pipe;
mod restart;

pub use children::Children;
pub use connect::{CHILDREN_MAX, Connection, Connector, EmbeddedServers, Environment, Server, Wish};
pub use error::{ConnectError, Dismissal};
pub use http::{Anchors, Mailbox, Secure, SecureError, Trust, input_requests};
pub use lane::refusal as overloaded;
pub use names::{Lookup, Names, NoWay};
pub use outbound::is_eligible;
