//! What one session remembers.
//!
//! No IO: time is an argument, and whoever owns a session asks for its next deadline and ticks it. What has to be done
//! outside (an answer to a server, a cancel) is kept as effects and done when the session's lock is free.

mod cell;
mod effect;
mod events;
mod happening;
mod limits;
mod moment;
mod session;
pub mod streams;
mod ulid;

pub use effect::Effect;
pub use events::{Event, EventLog};
pub use happening::{Cause, Happening, Reconnected};
pub use limits::Limits;
pub use moment::{Moment, rfc3339};
pub use session::Session;
pub use ulid::Ulid;
