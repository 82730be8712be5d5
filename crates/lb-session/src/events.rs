//! The event log of one session: what its client is told once.
//!
//! Every event waits, is leased to one response, or is delivered. A lease ends by the receipt of that response: it
//! commits, or rolls back and the events wait again at their old places. There is no timer for leases; a receipt cannot
//! outlive its connection, and a connection has a deadline of its own. What is lost before anybody had it is counted,
//! and told once.

mod drops;
mod keep;
mod merge;
mod rows;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lb_wire::compose::Object;
use lb_wire::{Raw, Text};

use self::drops::Drops;
pub(crate) use self::keep::LogRecord;
use self::keep::{Lost, Written};
use self::merge::Merge;
use self::rows::{Row, Rows};
use crate::happening::Happening;
use crate::limits::Limits;
use crate::moment::{Moment, rfc3339};
use crate::sight::Sight;
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

impl Event {
    /// Whether it only says that a server which is known to be away was tried once more: nobody is woken for that.
    pub fn is_routine(&self) -> bool {
        let attempt = || self.data.member("attempt").and_then(|number| number.as_str().parse::<u32>().ok());
        self.kind == "server_reconnecting" && attempt().is_some_and(|attempt| 1 < attempt)
    }

    /// About how many bytes it takes in a response, its own members included.
    pub fn bytes(&self) -> usize {
        const MEMBERS: usize =
            r#"{"id":"01234567890123456789012345","type":"","server":"","createdAt":"","data":},"#.len();
        MEMBERS + "1970-01-01T00:00:00.000Z".len() + self.kind.len() + self.server.len() + self.data.as_bytes().len()
    }
}

/// An event as clients see it: `{id,type,server,createdAt,data}`.
pub fn event_json(event: &Event) -> Raw {
    Object::new()
        .text("id", &event.id.to_string())
        .text("type", event.kind)
        .text("server", &event.server)
        .text("createdAt", &rfc3339(event.unix))
        .raw("data", &event.data)
        .finish()
}

/// Which events are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// All of them.
    All,
    /// What servers said, or what one of them said.
    Notifications {
        /// The one server.
        server: Option<Text>,
    },
}

/// The name of one lease. It says nothing about whether the lease still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease(u64);

/// What a response has to tell.
#[derive(Debug, Default)]
pub struct Taken {
    /// That events were lost; told first. Never alone, and never among mere notifications, which have no place for it.
    pub dropped: Option<Event>,
    /// That what was asked for is no longer all there.
    pub gap: Option<Gap>,
    /// The events, in order.
    pub events: Vec<Arc<Event>>,
    /// How many more of the same kind wait.
    pub remaining: usize,
    /// Ends with the receipt of the response; `None` when nothing would change.
    pub lease: Option<Lease>,
}

impl Taken {
    /// Without what is about servers that whoever asked may not know of. It is had all the same: nobody is told later.
    #[must_use]
    pub fn seen_by(mut self, sight: Sight<'_>) -> Self {
        self.events.retain(|event| sight.sees(&event.server));
        self
    }
}

/// Events between the one that was named and the first that is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// How many, where that is known.
    pub count: Option<u64>,
    /// The oldest event that is left, or the newest ever when none is.
    pub before: Ulid,
}

/// An event id that this log never gave out, or that names an event lost from its middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such event")]
pub struct UnknownEvent;

/// What one lease holds.
#[derive(Debug)]
struct Held {
    seqs: Vec<u64>,
    drops: Option<Drops>,
}

/// The ids that the log has given out.
#[derive(Clone, Copy, Debug)]
struct Ever {
    first: Ulid,
    last: Ulid,
}

/// The log.
#[derive(Debug)]
pub struct EventLog {
    limits: Limits,
    rows: Rows,
    /// The newest event, while another like it would be merged into it.
    merge: Option<Merge>,
    leases: HashMap<Lease, Held>,
    leases_ever: u64,
    seq: u64,
    ever: Option<Ever>,
    /// The newest event that is no longer there.
    gone: Option<Ulid>,
    /// Lost and not told.
    drops: Option<Drops>,
    dropped_ever: u64,
    /// Ids that were given out by a process before this one, and are not on record.
    lost: Vec<Lost>,
    /// How often the session has changed hands.
    epoch: u64,
    written: Written,
    warned: bool,
    closed: bool,
}

impl EventLog {
    /// An empty log.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            rows: Rows::default(),
            merge: None,
            leases: HashMap::new(),
            leases_ever: 0,
            seq: 0,
            ever: None,
            gone: None,
            drops: None,
            dropped_ever: 0,
            lost: Vec::new(),
            epoch: 0,
            written: Written::default(),
            warned: false,
            closed: false,
        }
    }

    /// Adds an event. What no longer fits goes: delivered events first, then waiting ones, each oldest first.
    pub fn add(&mut self, server: &Text, what: &Happening, now: Moment) -> Ulid {
        // Each log for itself: if one session pulled the ids of others along, theirs would be newer than what is written
        // of them says, and the process after this one would give the same ones out again.
        let id = Ulid::mint_after(self.ever.map(|ever| ever.last), now);
        if self.closed {
            return id;
        }
        self.seq += 1;
        self.written.note();
        let merged = self.merge.take().filter(|merge| merge.takes(server, what) && self.rows.is_waiting(merge.seq));
        let (since, count) = merged.as_ref().map_or((id, 0), |merge| (merge.since, merge.count));
        if let Some(merge) = &merged {
            self.rows.remove(merge.seq);
        }
        let data = Merge::data(what, count, server, now.unix);
        let event = Event { seq: self.seq, id, kind: what.kind(), server: server.clone(), data, unix: now.unix };
        self.merge = Merge::of(server, what, count, self.seq, since);
        self.rows.insert(Row { event: Arc::new(event), since, up: now.up });
        let first = self.ever.map_or(id, |ever| ever.first);
        self.ever = Some(Ever { first, last: id });
        if matches!(what, Happening::Notification { .. }) {
            self.bound_notifications(server);
        }
        self.bound();
        id
    }

    /// Leases waiting events to one response, in order: at most so many, and at most so many bytes unless the first
    /// alone has more.
    pub fn take(&mut self, filter: &Filter, items_max: usize, bytes_max: usize) -> Taken {
        let Some(waiting) = self.rows.waiting(filter) else { return Taken::default() };
        let (mut events, mut bytes) = (Vec::new(), 0_usize);
        for row in waiting.iter().filter_map(|seq| self.rows.get(*seq)).take(items_max) {
            bytes += row.event.bytes();
            if bytes_max < bytes && !events.is_empty() {
                break;
            }
            events.push(row.event.clone());
        }
        let seqs = events.iter().map(|event| event.seq).collect();
        let (dropped, lease) = self.lease(seqs, *filter == Filter::All && !events.is_empty());
        Taken { dropped, gap: None, events, remaining: self.waiting(filter), lease }
    }

    /// What happened after an event: the client acknowledges everything up to it, and wants the rest, even what it has
    /// had. Events leased to other responses are theirs.
    ///
    /// # Errors
    /// The id is none of this log, or the event it names is gone while older ones are not. Nothing changed.
    pub fn after(&mut self, id: &str) -> Result<Taken, UnknownEvent> {
        let id = Ulid::parse(id).ok_or(UnknownEvent)?;
        let ever = self.ever.filter(|ever| ever.first <= id && id <= ever.last).ok_or(UnknownEvent)?;
        let mut gap = None;
        let from = match self.rows.after(id) {
            // The newest is always known, even where it did not stay.
            _ if id == ever.last => self.seq + 1,
            Some(from) => from,
            // Given out by a process that is gone, as others may have been that came after it.
            None if self.is_lost(id) => {
                let next = self.rows.first_after(id);
                gap = Some(Gap { count: None, before: next.map_or(ever.last, |row| row.event.id) });
                next.map_or(self.seq + 1, |row| row.event.seq)
            }
            None if self.rows.oldest().is_none_or(|oldest| id < oldest.since) => {
                // What was pruned is not remembered one by one; that nothing lies between is known for one event.
                let count = (self.gone == Some(id)).then_some(0);
                gap = Some(Gap { count, before: self.rows.oldest().map_or(ever.last, |oldest| oldest.event.id) });
                0
            }
            None => return Err(UnknownEvent),
        };
        self.rows.deliver_before(from);
        self.written.note();
        let events = self.rows.not_leased_from(from);
        let seqs = events.iter().map(|event| event.seq).filter(|seq| self.rows.is_waiting(*seq)).collect();
        let (dropped, lease) = self.lease(seqs, !events.is_empty());
        Ok(Taken { dropped, gap, events, remaining: 0, lease })
    }

    /// The response of a lease is safe: its events are delivered.
    pub fn commit(&mut self, lease: Lease) {
        let Some(held) = self.leases.remove(&lease) else { return };
        self.written.note();
        for seq in held.seqs {
            self.rows.deliver(seq);
        }
    }

    /// The response of a lease is lost: its events wait again, and what it told of lost ones is told again.
    pub fn roll_back(&mut self, lease: Lease) {
        let Some(held) = self.leases.remove(&lease) else { return };
        self.drops = Drops::join(held.drops, self.drops.take());
        let mut servers = Vec::new();
        for seq in held.seqs {
            if let Some(server) = self.rows.give_back(seq).filter(|server| !servers.contains(server)) {
                servers.push(server);
            }
        }
        // Others may have come meanwhile.
        for server in servers {
            self.bound_notifications(&server);
        }
    }

    /// How many events wait. Nothing is consumed.
    pub fn waiting(&self, filter: &Filter) -> usize {
        self.rows.waiting(filter).map_or(0, std::collections::BTreeSet::len)
    }

    /// Whether an event waits that is worth waking somebody for. Nothing is consumed.
    pub fn has_news(&self) -> bool {
        let waiting = self.rows.waiting(&Filter::All).into_iter().flatten();
        waiting.filter_map(|seq| self.rows.get(*seq)).any(|row| !row.event.is_routine())
    }

    /// The newest event ever.
    pub fn last_id(&self) -> Option<Ulid> {
        self.ever.map(|ever| ever.last)
    }

    /// The newest event up to which none waits: what a client may acknowledge without losing anything. `None` when the
    /// very first waits.
    pub fn cursor(&self) -> Option<Ulid> {
        let ever = self.ever?;
        match self.rows.first_waiting() {
            None => Some(ever.last),
            // Where nothing older is left, the very first stands for all that is gone.
            Some(first) => self.rows.before(first).or_else(|| Some(ever.first).filter(|id| *id < first.event.id)),
        }
    }

    /// When something gets too old, on [`Moment::up`].
    pub fn next_deadline(&self) -> Option<Duration> {
        Some(self.rows.oldest_not_leased()?.up + self.limits.event_age_max)
    }

    /// Forgets what is too old; what nobody has had counts as lost.
    pub fn prune(&mut self, now: Moment) {
        while self.next_deadline().is_some_and(|due| due <= now.up) {
            let Some(seq) = self.rows.oldest_not_leased().map(|row| row.event.seq) else { return };
            self.remove(seq);
        }
        self.watch_level();
    }

    /// How many events nobody ever had.
    pub fn dropped_ever(&self) -> u64 {
        self.dropped_ever
    }

    /// Forgets everything, leases too, and takes in nothing more.
    pub fn close(&mut self) {
        self.closed = true;
        self.rows = Rows::default();
        (self.merge, self.drops) = (None, None);
        self.leases.clear();
    }

    fn lease(&mut self, seqs: Vec<u64>, tell_drops: bool) -> (Option<Event>, Option<Lease>) {
        let drops = if tell_drops { self.drops.take() } else { None };
        let dropped = drops.as_ref().map(Drops::event);
        if seqs.is_empty() && drops.is_none() {
            return (None, None);
        }
        for seq in &seqs {
            self.rows.lease(*seq);
        }
        self.leases_ever += 1;
        let lease = Lease(self.leases_ever);
        self.leases.insert(lease, Held { seqs, drops });
        (dropped, Some(lease))
    }

    /// Where everything else is leased, the event that has just come is the one to go.
    fn bound(&mut self) {
        while self.limits.events_max < self.rows.len() {
            let Some(seq) = self.rows.first_to_go() else { break };
            self.remove(seq);
        }
        self.watch_level();
    }

    fn bound_notifications(&mut self, server: &Text) {
        while let Some(seq) = self.rows.oldest_notification_beyond(server, self.limits.notifications_max) {
            self.remove(seq);
        }
    }

    /// Takes out an event that is not leased; if it waited, it is lost.
    fn remove(&mut self, seq: u64) {
        let lost = self.rows.is_waiting(seq);
        let Some(row) = self.rows.remove(seq) else { return };
        self.written.note();
        self.gone = self.gone.max(Some(row.event.id));
        let (id, kind) = (row.event.id, row.event.kind);
        if lost && self.drops.is_none() {
            tracing::warn!(event = "event_store_eviction", %id, kind, lost, "events are lost before anybody had them");
        } else {
            tracing::debug!(event = "event_store_eviction", %id, kind, lost, "event evicted");
        }
        if lost {
            self.dropped_ever += 1;
            self.drops = Drops::join(self.drops.take(), Some(Drops::one(&row.event)));
        }
    }

    /// One warning each time the log gets nearly full of what nobody has had.
    fn watch_level(&mut self) {
        let (events, events_max) = (self.waiting(&Filter::All), self.limits.events_max);
        if self.warned {
            self.warned = events_max * 7 <= events * 10;
        } else if events_max * 8 <= events * 10 {
            self.warned = true;
            tracing::warn!(events, events_max, "event log is nearly full");
        }
    }
}
