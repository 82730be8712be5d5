//! Everything that one session remembers, under one lock.

use crate::cell::Watchers;
use crate::effect::Effect;
use crate::events::EventLog;
use crate::limits::Limits;

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
        }
    }
}
