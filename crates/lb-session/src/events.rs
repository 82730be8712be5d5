//! The event log of one session.

use std::sync::Arc;
use std::time::Duration;

use lb_wire::{Raw, Text};

use crate::happening::Happening;
use crate::limits::Limits;
use crate::moment::Moment;
use crate::ulid::Ulid;

/// One event, as it is told.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its place in the log: the only order there is.
    pub seq: u64,
    /// Its name, for clients.
    pub id: Ulid,
    /// Its type.
    pub kind: &'static str,
    /// The server it speaks of, or ours.
    pub server: Text,
    /// What it says.
    pub data: Raw,
    /// When it happened, since the Unix epoch.
    pub unix: Duration,
}

/// The log.
#[derive(Debug)]
pub struct EventLog {
    limits: Limits,
    events: Vec<Arc<Event>>,
    next: u64,
}

impl EventLog {
    /// An empty log.
    pub fn new(limits: Limits) -> Self {
        Self { limits, events: Vec::new(), next: 0 }
    }

    /// Adds an event.
    pub fn add(&mut self, server: &Text, what: &Happening, now: Moment) -> Ulid {
        let id = Ulid::mint(now);
        self.next += 1;
        let data = what.data(server, now.unix);
        let event = Event { seq: self.next, id, kind: what.kind(), server: server.clone(), data, unix: now.unix };
        if self.events.len() < self.limits.events_max {
            self.events.push(Arc::new(event));
        }
        id
    }
}
