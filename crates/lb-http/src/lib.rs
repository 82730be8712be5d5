//! HTTP towards clients: connections, guards, routes, and replies as bodies.
//!
//! Raw hyper, one task per connection and none per request: a stream is polled by the connection that carries it.
//! What a message means is the front's business.

mod body;
mod connection;
mod cors;
mod guard;
mod health;
mod inbound;
mod pages;
mod phase;
mod pulse;
mod reply;
mod serve;
mod service;
mod settings;

pub use pages::{Page, PageSource, Pages};
pub use serve::serve;
pub use settings::{HealthSource, Settings};
