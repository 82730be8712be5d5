//! What one session remembers.
//!
//! No IO: time is an argument, and whoever owns a session asks for its next deadline and ticks it. What has to be done
//! outside (an answer to a server, a cancel) is kept as effects and done when the session's lock is free.

pub mod backend;
mod cell;
mod context;
mod effect;
mod events;
mod happening;
mod keep;
mod limits;
mod logs;
mod moment;
mod pending;
mod secrets;
mod servers;
mod session;
mod sight;
pub mod streams;
mod sync;
mod tasks;
mod timers;
mod ulid;

pub use cell::{Cell, TooManyWaiters, Watch};
pub use context::{Context, ContextWish, notification_json};
pub use effect::Effect;
pub use events::{Event, EventLog, Filter, Gap, Lease, Taken, UnknownEvent, event_json};
pub use happening::{Cause, Happening, Reconnected};
pub use keep::{Delta, Kept, Return, Unreadable};
pub use limits::Limits;
pub use logs::{Level, LogRow, LogSource, LogWish};
pub use moment::{Moment, rfc3339};
pub use pending::{NewRequest, Pending, PendingKind, RequestGone, TooManyPending};
pub use secrets::{is_unsafe, shown};
pub use servers::{Prints, Wishes};
pub use session::Session;
pub use sight::Sight;
pub use tasks::{KeptTask, NewTask, Task, TaskError, TaskStatus, TooManyTasks};
pub use timers::{OURSELVES, Timer, TimerError, TimerNotFound, TimerStatus};
pub use ulid::Ulid;
