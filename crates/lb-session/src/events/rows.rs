//! The events of a log, each in one of three states, found by place, by id and by state.
//!
//! Nothing here walks the log: every step costs a few lookups in ordered maps.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use lb_wire::Text;

use super::{Event, Filter};
use crate::ulid::Ulid;

/// One event and what only the log knows of it.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) event: Arc<Event>,
    /// The first id that the event stands for; its own unless others were merged into it.
    pub(super) since: Ulid,
    /// When it came, on [`crate::Moment::up`].
    pub(super) up: Duration,
}

impl Row {
    fn is_notification(&self) -> bool {
        self.event.kind == "notification"
    }
}

/// All events. Each is in exactly one of `waiting`, `leased` and `delivered`.
#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: BTreeMap<u64, Row>,
    /// Ids are minted in the order of places, so this has the same order.
    places: BTreeMap<Ulid, u64>,
    waiting: BTreeSet<u64>,
    leased: BTreeSet<u64>,
    delivered: BTreeSet<u64>,
    /// Those of `waiting` that are notifications, all and by server; no server has an empty set.
    notifications: BTreeSet<u64>,
    by_server: HashMap<Text, BTreeSet<u64>>,
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn get(&self, seq: u64) -> Option<&Row> {
        self.rows.get(&seq)
    }

    pub(super) fn oldest(&self) -> Option<&Row> {
        self.rows.first_key_value().map(|(_, row)| row)
    }

    pub(super) fn is_waiting(&self, seq: u64) -> bool {
        self.waiting.contains(&seq)
    }

    pub(super) fn waiting(&self, filter: &Filter) -> Option<&BTreeSet<u64>> {
        match filter {
            Filter::All => Some(&self.waiting),
            Filter::Notifications { server: None } => Some(&self.notifications),
            Filter::Notifications { server: Some(server) } => self.by_server.get(server),
        }
    }

    pub(super) fn oldest_not_leased(&self) -> Option<&Row> {
        let firsts = [self.waiting.first(), self.delivered.first()];
        self.get(*firsts.into_iter().flatten().min()?)
    }

    /// The event to go when there are too many: those that somebody had first, then those that nobody had.
    pub(super) fn first_to_go(&self) -> Option<u64> {
        self.delivered.first().or_else(|| self.waiting.first()).copied()
    }

    pub(super) fn oldest_notification_beyond(&self, server: &Text, max: usize) -> Option<u64> {
        self.by_server.get(server).filter(|seqs| max < seqs.len())?.first().copied()
    }

    /// The place behind an event, given any id that it stands for: the first place that holds something newer.
    pub(super) fn after(&self, id: Ulid) -> Option<u64> {
        let (newest, seq) = self.places.range(id..).next()?;
        if *newest == id {
            return Some(seq + 1);
        }
        // An id that others were merged over: what they said is still to come.
        (self.get(*seq)?.since <= id).then_some(*seq)
    }

    pub(super) fn first_waiting(&self) -> Option<&Row> {
        self.get(*self.waiting.first()?)
    }

    /// The event before another.
    pub(super) fn before(&self, row: &Row) -> Option<Ulid> {
        self.rows.range(..row.event.seq).next_back().map(|(_, row)| row.event.id)
    }

    pub(super) fn not_leased_from(&self, from: u64) -> Vec<Arc<Event>> {
        let rows = self.rows.range(from..).filter(|(seq, _)| !self.leased.contains(seq));
        rows.map(|(_, row)| row.event.clone()).collect()
    }

    /// A new event, which waits.
    pub(super) fn insert(&mut self, row: Row) {
        let seq = row.event.seq;
        self.places.insert(row.event.id, seq);
        self.rows.insert(seq, row);
        self.start_waiting(seq);
    }

    /// Takes out an event that is not leased.
    pub(super) fn remove(&mut self, seq: u64) -> Option<Row> {
        if !self.stop_waiting(seq) && !self.delivered.remove(&seq) {
            return None;
        }
        let row = self.rows.remove(&seq)?;
        self.places.remove(&row.event.id);
        Some(row)
    }

    /// An event that waits is leased.
    pub(super) fn lease(&mut self, seq: u64) {
        if self.stop_waiting(seq) {
            self.leased.insert(seq);
        }
    }

    /// An event that was leased is delivered, unless it was acknowledged meanwhile.
    pub(super) fn deliver(&mut self, seq: u64) {
        if self.leased.remove(&seq) {
            self.delivered.insert(seq);
        }
    }

    /// An event that was leased waits again, unless it was acknowledged meanwhile. Says whose notification it is.
    pub(super) fn give_back(&mut self, seq: u64) -> Option<Text> {
        if !self.leased.remove(&seq) {
            return None;
        }
        self.start_waiting(seq);
        self.get(seq).filter(|row| row.is_notification()).map(|row| row.event.server.clone())
    }

    /// Everything before a place is delivered, leased or not.
    pub(super) fn deliver_before(&mut self, place: u64) {
        while let Some(seq) = self.waiting.first().copied().filter(|seq| *seq < place) {
            self.stop_waiting(seq);
            self.delivered.insert(seq);
        }
        while let Some(seq) = self.leased.first().copied().filter(|seq| *seq < place) {
            self.deliver(seq);
        }
    }

    /// An event that was written down, waiting or delivered.
    pub(super) fn insert_as(&mut self, row: Row, waits: bool) {
        let seq = row.event.seq;
        self.insert(row);
        if !waits && self.stop_waiting(seq) {
            self.delivered.insert(seq);
        }
    }

    /// The events from a place on.
    pub(super) fn from(&self, place: u64) -> impl Iterator<Item = &Row> {
        self.rows.range(place..).map(|(_, row)| row)
    }

    /// The first event with a later id.
    pub(super) fn first_after(&self, id: Ulid) -> Option<&Row> {
        let (_, seq) = self.places.range((Bound::Excluded(id), Bound::Unbounded)).next()?;
        self.get(*seq)
    }

    /// Stretches of places, first to last, all of whose events are delivered, or none.
    pub(super) fn stretches(&self, delivered: bool) -> Vec<(u64, u64)> {
        let mut stretches: Vec<(u64, u64)> = Vec::new();
        for seq in self.rows.keys().filter(|seq| self.delivered.contains(seq) == delivered) {
            match stretches.last_mut() {
                Some(last) if last.1 + 1 == *seq => last.1 = *seq,
                _ => stretches.push((*seq, *seq)),
            }
        }
        stretches
    }

    fn start_waiting(&mut self, seq: u64) {
        self.waiting.insert(seq);
        let Some(row) = self.rows.get(&seq).filter(|row| row.is_notification()) else { return };
        self.notifications.insert(seq);
        self.by_server.entry(row.event.server.clone()).or_default().insert(seq);
    }

    fn stop_waiting(&mut self, seq: u64) -> bool {
        if self.notifications.remove(&seq)
            && let Some(row) = self.rows.get(&seq)
            && let Some(seqs) = self.by_server.get_mut(&row.event.server)
        {
            seqs.remove(&seq);
            if seqs.is_empty() {
                self.by_server.remove(&row.event.server);
            }
        }
        self.waiting.remove(&seq)
    }
}
