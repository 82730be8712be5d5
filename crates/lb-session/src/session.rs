//! Everything that one session remembers, under one lock.

use std::time::Duration;

use lb_wire::Text;

use crate::cell::Watchers;
use crate::effect::Effect;
use crate::events::EventLog;
use crate::happening::{Cause, Happening};
use crate::keep::Journal;
use crate::limits::Limits;
use crate::logs::Logs;
use crate::moment::Moment;
use crate::pending::Requests;
use crate::servers::{Meeting, Servers};
use crate::tasks::Tasks;
use crate::timers::Timers;
use crate::ulid::Ulid;

#[cfg(test)]
pub(crate) mod kit;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

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
    pub(crate) tasks: Tasks,
    pub(crate) requests: Requests,
    pub(crate) logs: Logs,
    pub(crate) timers: Timers,
    pub(crate) servers: Servers,
    /// What has to be written; `None` when nobody keeps this session.
    pub(crate) journal: Option<Journal>,
    closed: bool,
    leaving: bool,
    touched: Moment,
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
            tasks: Tasks::default(),
            requests: Requests::default(),
            logs: Logs::default(),
            timers: Timers::default(),
            servers: Servers::default(),
            journal: None,
            closed: false,
            leaving: false,
            touched: Moment::default(),
        }
    }

    /// The bounds that hold here.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether the session has ended: nothing happens in it any more.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether nobody is to wait for what happens in it: its process ends.
    pub fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// Its process ends: who waits for something to happen is woken. Nothing else changes.
    pub fn leave(&mut self) {
        self.leaving = true;
        self.changed = true;
    }

    /// Notes that its client is there.
    pub fn touch(&mut self, now: Moment) {
        // Requests that came at once may be noted in any order.
        if self.touched.up <= now.up {
            self.touched = now;
        }
    }

    /// When its client was last seen to be there.
    pub fn last_activity(&self) -> Moment {
        self.touched
    }

    /// Whether something is under way that its client may come back for: a working task, or a request of a server.
    pub fn is_busy(&self) -> bool {
        self.working().next().is_some() || self.pending_count() != 0
    }

    /// When [`Session::tick`] is due next, on the clock of [`Moment::up`].
    pub fn next_deadline(&self) -> Option<Duration> {
        if self.closed {
            return None;
        }
        [self.requests_deadline(), self.tasks_deadline(), self.timers_deadline(), self.events.next_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Does everything that is due.
    pub fn tick(&mut self, now: Moment) {
        if self.closed {
            return;
        }
        // Requests first: what they put off is then known to end.
        self.tick_requests(now);
        self.tick_tasks(now);
        self.tick_timers(now);
        self.events.prune(now);
    }

    /// Forgets what a server logged, and what was wanted of it. What the client has yet to be told about it stays.
    pub fn forget_server(&mut self, server: &str) {
        self.forget_logs(server);
        self.part_from(server);
    }

    /// Ends the session: whoever waits is woken, servers get their replies, calls are cancelled. Once is enough.
    pub fn close(&mut self, now: Moment) {
        if self.closed {
            return;
        }
        self.closed = true;
        self.changed = true;
        self.reject_requests_of(None, Cause::Shutdown, true, now);
        self.end_tasks(now);
        self.stop_timers(now);
        self.events.close();
    }

    /// Adds an event and wakes those who wait. Gives its name, which nobody hears of where there is nothing to tell.
    pub fn tell(&mut self, server: &Text, what: &Happening, now: Moment) -> Ulid {
        self.changed = true;
        let instead = match self.meet(server, what) {
            Meeting::AsSaid => None,
            Meeting::Instead(other) => Some(other),
            Meeting::Silent => return Ulid::mint(now),
        };
        let what = instead.as_deref().unwrap_or(what);
        what.log(server);
        self.events.add(server, what, now)
    }
}
