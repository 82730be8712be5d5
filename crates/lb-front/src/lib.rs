//! The protocol that a client sees, in both eras: validation, sessions, replies, streams, asks and deadlines.
//!
//! No IO: transports hand in requests and poll out frames or lines, the middle hands out exchanges. Nothing here knows
//! which servers exist or how they are reached.

mod accept;
mod alarm;
mod allowed;
mod calls;
mod connection;
mod convert;
mod era;
mod front;
mod get;
mod hold;
mod legacy;
mod modern;
mod open;
mod pump;
mod registry;
mod reply;
mod route;
mod running;
mod settings;
mod shown;
mod stream;
mod traffic;
mod watch;

pub use accept::Accept;
pub use connection::{Connection, Outgoing};
pub use era::era_of_header;
pub use front::{Front, Headers, Request};
pub use open::Posted;
pub use reply::{Frame, Frames, Reply, error_body};
pub use route::{Arrival, Route, Wanted};
pub use settings::Settings;
