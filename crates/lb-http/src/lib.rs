//! HTTP towards clients: connections, guards, routes, and replies as bodies.
//!
//! Raw hyper, one task per connection and none per request: a stream is polled by the connection that carries it.
//! What a message means is the front's business.

mod accept;
mod body;
mod budget;
mod connection;
mod connections;
mod cors;
mod current;
mod door;
mod forward;
mod guard;
mod health;
mod hop;
mod inbound;
mod listen;
mod manage;
mod network;
mod nodes;
mod onward;
mod pages;
mod peer;
mod phase;
mod pulse;
mod rate;
mod record;
mod reply;
mod serve;
mod server;
mod service;
mod settings;
mod shed;
mod socket;
mod throttle;
mod tls;
mod told;

pub use hop::NodeKeys;
pub use listen::{ListenError, Listener, Place, PlaceError};
pub use manage::{Action, Managed, Order, OrderSource};
pub use network::{Network, NetworkError};
pub use nodes::{NodeClock, NodeUrl, NodeUrlError};
pub use pages::{Page, PageSource, Pages};
pub use rate::{Rate, Together};
pub use serve::{Handle, Http, serve};
pub use settings::{Closed, Environment, EnvironmentError, HealthSource, NodeSettings, ProxyHeader, Settings};
pub use shed::{Shed, Why};
pub use tls::{Tls, TlsError};
