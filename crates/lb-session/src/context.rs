//! What every tool response carries along: the context block, one JSON object.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use lb_wire::Raw;
use lb_wire::compose::{self, Object};

use crate::events::{Event, Filter, Lease, Taken, event_json};
use crate::moment::rfc3339;
use crate::session::Session;
use crate::sight::Sight;

/// What a context block may hold.
#[derive(Clone, Copy, Debug)]
pub struct ContextWish<'a> {
    /// The handle of the session, where the client has to pass it on.
    pub session: Option<&'a str>,
    /// Whether events go along, leased; otherwise only how many wait is told.
    pub events: bool,
    /// Whether what waits for the client is listed.
    pub pending: bool,
    /// Of which servers.
    pub sight: Sight<'a>,
}

/// A context block.
#[derive(Debug)]
pub struct Context {
    /// The object; `None` when there is nothing to say.
    pub block: Option<Raw>,
    /// Of all events in it together.
    pub lease: Option<Lease>,
}

impl Session {
    /// The context block of one response.
    pub fn context(&mut self, wish: &ContextWish<'_>) -> Context {
        let limits = self.limits;
        let pending =
            wish.pending.then(|| self.pending_client(limits.context_pending_max, false, wish.sight)).flatten();
        let taken = if wish.events {
            self.events.take(&Filter::All, limits.context_items_max, limits.context_bytes_max).seen_by(wish.sight)
        } else {
            Taken { remaining: self.events.waiting(&Filter::All), ..Taken::default() }
        };
        let block = Object::new().maybe_text("session", wish.session).maybe("pending_client", pending.as_ref());
        let block = Groups::of(&taken).write(block);
        let block = if taken.remaining == 0 { block } else { block.number("events_remaining", taken.remaining) };
        Context { block: (!block.is_empty()).then(|| block.finish()), lease: taken.lease }
    }
}

/// The row of a notification: `{server,method,timestamp,params?,count?}`.
pub fn notification_json(event: &Event) -> Raw {
    let absent = || Raw::from_static("null");
    Object::new()
        .text("server", &event.server)
        .raw("method", &event.data.member("method").unwrap_or_else(absent))
        .raw("timestamp", &event.data.member("timestamp").unwrap_or_else(absent))
        .maybe("params", event.data.member("params").as_ref())
        .maybe("count", event.data.member("count").as_ref())
        .finish()
}

fn timer_json(event: &Event) -> Raw {
    let absent = || Raw::from_static("null");
    Object::new()
        .raw("id", &event.data.member("timerId").unwrap_or_else(absent))
        .raw("message", &event.data.member("message").unwrap_or_else(absent))
        .text("expiredAt", &rfc3339(event.unix))
        .finish()
}

/// The events of one response, each in one of three lists.
#[derive(Default)]
struct Groups {
    timers: Vec<Raw>,
    notifications: Vec<Raw>,
    others: Vec<Raw>,
}

impl Groups {
    fn of(taken: &Taken) -> Self {
        let mut groups = Self::default();
        for event in taken.dropped.iter().chain(taken.events.iter().map(Arc::as_ref)) {
            match event.kind {
                "timer_expired" => groups.timers.push(timer_json(event)),
                "notification" => groups.notifications.push(notification_json(event)),
                _ => groups.others.push(event_json(event)),
            }
        }
        groups
    }

    fn write(self, mut block: Object) -> Object {
        let lists = [("expired_timers", self.timers), ("notifications", self.notifications), ("events", self.others)];
        for (name, rows) in lists.into_iter().filter(|(_, rows)| !rows.is_empty()) {
            block = block.raw(name, &compose::array(rows.iter()));
        }
        block
    }
}
