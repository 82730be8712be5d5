//! A log that outlives the process: events are written one by one as they come, what became of them as a whole.

use std::sync::Arc;
use std::time::Duration;

use lb_wire::compose::Object;
use lb_wire::{Raw, Text};
use serde::{Deserialize, Deserializer, Serialize};

use super::drops::{Drops, DropsRecord};
use super::rows::Row;
use super::{Event, EventLog, Ever, Filter};
use crate::happening::Happening;
use crate::keep::{millis, number};
use crate::moment::Moment;
use crate::ulid::Ulid;

/// How far the clocks of two processes may be apart: ids that one gave out and did not write down are older than those
/// that the next one gives out, even then.
const SKEW: Duration = Duration::from_secs(15);
/// Processes in a row that may have died before they wrote anything: each gets a stretch of ids of its own.
const UNWRITTEN_MAX: u64 = 64;
/// Stretches of ids that are remembered to have been given out and lost.
const LOST_MAX: usize = 8;

/// How far a log has been written.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Whether anybody writes it.
    on: bool,
    changed: bool,
    /// The last place that was written.
    seq: u64,
}

impl Written {
    /// Something became of an event.
    pub(super) fn note(&mut self) {
        self.changed = true;
    }
}

/// Ids that may have been given out by a process that had no time to write them down: those after one id, up to
/// another.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Lost {
    after: Ulid,
    upto: Ulid,
}

/// All that is written of a log beside its events.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LogRecord {
    #[serde(deserialize_with = "number")]
    seq: u64,
    ever: Option<(Ulid, Ulid)>,
    gone: Option<Ulid>,
    drops: Option<DropsRecord>,
    #[serde(deserialize_with = "number")]
    dropped: u64,
    /// Stretches of places, first to last, whose events are there and nobody has had.
    #[serde(deserialize_with = "stretches")]
    waiting: Vec<(u64, u64)>,
    /// The same for those that somebody has had. What is written and in neither is gone.
    #[serde(deserialize_with = "stretches")]
    delivered: Vec<(u64, u64)>,
    lost: Vec<Lost>,
    /// The epoch of whoever wrote this.
    #[serde(default, deserialize_with = "number")]
    epoch: u64,
}

/// An event as it is written; what it says follows.
#[derive(Deserialize)]
struct EventRecord {
    id: Ulid,
    since: Option<Ulid>,
    kind: String,
    server: String,
    #[serde(deserialize_with = "number")]
    unix: u64,
}

/// Reads stretches of places: each begins behind the one before.
fn stretches<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(u64, u64)>, D::Error> {
    #[derive(Deserialize)]
    struct Place(#[serde(deserialize_with = "number")] u64);
    let places: Vec<(Place, Place)> = Vec::deserialize(from)?;
    let stretches: Vec<(u64, u64)> = places.into_iter().map(|(first, last)| (first.0, last.0)).collect();
    let in_order = stretches.is_sorted_by(|(_, before), (first, _)| before < first);
    if !in_order || stretches.iter().any(|(first, last)| last < first) {
        return Err(serde::de::Error::custom("places that are in no order"));
    }
    Ok(stretches)
}

impl EventLog {
    /// Events from behind this place on are yet to be written.
    pub(crate) fn keep_from(&mut self, seq: u64) {
        self.written = Written { on: true, changed: true, seq };
    }

    pub(crate) fn is_unkept(&self) -> bool {
        self.written.on && self.written.changed
    }

    /// The events that are to be written, and the first place that is still wanted.
    pub(crate) fn take_unkept(&mut self) -> (Vec<(u64, Raw)>, u64) {
        let fresh = self.rows.from(self.written.seq + 1).map(|row| (row.event.seq, kept(row))).collect();
        self.written.seq = self.seq;
        self.written.changed = false;
        (fresh, self.rows.oldest().map_or(self.seq + 1, |row| row.event.seq))
    }

    /// What became of the events so far. Leased ones wait: whether they arrived is not known.
    pub(crate) fn record(&self) -> LogRecord {
        let held = self.leases.values().filter_map(|held| held.drops.clone());
        let drops = held.fold(self.drops.clone(), |all, one| Drops::join(all, Some(one)));
        LogRecord {
            seq: self.seq,
            ever: self.ever.map(|ever| (ever.first, ever.last)),
            gone: self.gone,
            drops: drops.as_ref().map(Drops::record),
            dropped: self.dropped_ever,
            waiting: self.rows.stretches(false),
            delivered: self.rows.stretches(true),
            lost: self.lost.clone(),
            epoch: self.epoch,
        }
    }

    /// Takes in what was written; this log is new.
    pub(crate) fn restore(
        &mut self,
        record: &LogRecord,
        events: &[(u64, Raw)],
        (may_miss, epoch): (bool, u64),
        now: Moment,
    ) -> Result<(), serde_json::Error> {
        let mut last = [&record.waiting, &record.delivered].into_iter().filter_map(|stretches| stretches.last());
        if last.any(|(_, last)| record.seq < *last) {
            return Err(serde::de::Error::custom("events behind the last one"));
        }
        (self.seq, self.gone, self.dropped_ever) = (record.seq, record.gone, record.dropped);
        self.ever = record.ever.map(|(first, last)| Ever { first, last });
        self.drops = record.drops.as_ref().map(Drops::restored);
        self.lost = record.lost.clone();
        for (seq, kept) in events {
            let waits = is_in(&record.waiting, *seq);
            if waits || is_in(&record.delivered, *seq) {
                self.rows.insert_as(restored(*seq, kept, now)?, waits);
            }
        }
        self.epoch = epoch;
        self.count_missing(record, now);
        if may_miss {
            self.note_lost(epoch.saturating_sub(record.epoch), now);
        }
        self.keep_from(self.seq);
        Ok(())
    }

    /// Whether this id may have been given out and lost with a process.
    pub(super) fn is_lost(&self, id: Ulid) -> bool {
        self.lost.iter().any(|lost| lost.after < id && id <= lost.upto)
    }

    /// Events that should be there and are not were lost before anybody had them.
    fn count_missing(&mut self, record: &LogRecord, now: Moment) {
        let written: u64 = record.waiting.iter().map(|(first, last)| last.saturating_sub(*first) + 1).sum();
        let missing = written.saturating_sub(self.waiting(&Filter::All) as u64);
        let Some(ever) = self.ever.filter(|_| 0 < missing) else { return };
        self.dropped_ever += missing;
        let lost = Drops::many(missing, ever.first, ever.last, self.seq, now.unix);
        self.drops = Drops::join(self.drops.take(), Some(lost));
    }

    /// Whatever the processes before said after the last words on record is told as a gap. Of so many none wrote anything
    /// down but that the session is theirs, and each gave out ids behind the stretch of the one before.
    fn note_lost(&mut self, processes: u64, now: Moment) {
        let newest = self.ever.map_or(Duration::ZERO, |ever| ever.last.unix());
        let stretches = u32::try_from(processes.clamp(1, UNWRITTEN_MAX)).unwrap_or(1);
        let upto = Ulid::end_of(now.unix.max(newest) + SKEW * stretches);
        let after = self.ever.map_or(Ulid::FIRST, |ever| ever.last);
        if self.lost.len() == LOST_MAX {
            self.lost.remove(0);
        }
        self.lost.push(Lost { after, upto });
        self.ever = Some(Ever { first: self.ever.map_or(upto, |ever| ever.first), last: upto });
        let gap = Drops::many(0, after.next(), upto, self.seq, now.unix);
        self.drops = Drops::join(self.drops.take(), Some(gap));
    }
}

fn is_in(stretches: &[(u64, u64)], seq: u64) -> bool {
    let at = stretches.partition_point(|(_, last)| *last < seq);
    stretches.get(at).is_some_and(|(first, _)| *first <= seq)
}

fn kept(row: &Row) -> Raw {
    let event = &row.event;
    let since = (row.since != event.id).then(|| row.since.to_string());
    Object::new()
        .text("id", &event.id.to_string())
        .maybe_text("since", since.as_deref())
        .text("kind", event.kind)
        .text("server", &event.server)
        .number("unix", millis(event.unix))
        .raw("data", &event.data)
        .finish()
}

fn restored(seq: u64, kept: &Raw, now: Moment) -> Result<Row, serde_json::Error> {
    let record: EventRecord = kept.read()?;
    let kind = Happening::KINDS.into_iter().find(|kind| *kind == record.kind);
    let kind = kind.ok_or_else(|| serde::de::Error::custom("an event of no known type"))?;
    let data = kept.member("data").map_or_else(Raw::empty_object, |data| data.detached());
    let moment = now.shifted(Duration::from_millis(record.unix));
    let event = Event { seq, id: record.id, kind, server: Text::from(&*record.server), data, unix: moment.unix };
    Ok(Row { event: Arc::new(event), since: record.since.unwrap_or(record.id), up: moment.up })
}
