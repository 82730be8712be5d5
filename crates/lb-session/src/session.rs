//! Everything that one session remembers, under one lock.

use std::time::Duration;

use lb_wire::{Raw, Text};

use crate::cell::Watchers;
use crate::effect::Effect;
use crate::events::EventLog;
use crate::happening::Happening;
use crate::limits::Limits;
use crate::moment::Moment;
use crate::ulid::Ulid;

/// The state of one session.
#[derive(Debug)]
pub struct Session {
    /// What its client is told once.
    pub events: EventLog,
    pub(crate) limits: Limits,
    /// To be done when the lock is free.
    pub(crate) effects: Vec<Effect>,
    /// Whether something happened that somebody may wait for.
    pub(crate) changed: bool,
    pub(crate) watchers: Watchers,
    closed: bool,
}

impl Session {
    /// A session that remembers nothing yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            events: EventLog::new(limits),
            limits,
            effects: Vec::new(),
            changed: false,
            watchers: Watchers::default(),
            closed: false,
        }
    }

    /// Whether the session has ended: nothing happens in it any more.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// When [`Session::tick`] is due next, on the clock of [`Moment::up`].
    pub fn next_deadline(&self) -> Option<Duration> {
        None
    }

    /// What waits for an answer of the client; `None` when nothing does.
    pub fn pending_client(&self, _max: usize, _with_mode: bool) -> Option<Raw> {
        None
    }

    /// Adds an event and wakes those who wait.
    pub(crate) fn tell(&mut self, server: &Text, what: &Happening, now: Moment) -> Ulid {
        self.changed = true;
        self.events.add(server, what, now)
    }
}
