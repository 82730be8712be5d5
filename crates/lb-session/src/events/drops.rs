//! Events that nobody had, until that is told.

use std::time::Duration;

use lb_exchange::ServerName;
use lb_wire::Text;
use serde::{Deserialize, Serialize};

use super::Event;
use crate::happening::Happening;
use crate::keep::{millis, number};
use crate::ulid::Ulid;

/// [`Drops`] as they are written.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DropsRecord {
    #[serde(deserialize_with = "number")]
    count: u64,
    first: Ulid,
    last: Ulid,
    #[serde(deserialize_with = "number")]
    seq: u64,
    #[serde(deserialize_with = "number")]
    unix: u64,
    #[serde(default)]
    node_lost: bool,
}

/// Some lost events, as one.
#[derive(Clone, Debug)]
pub(super) struct Drops {
    count: u64,
    first: Ulid,
    last: Ulid,
    seq: u64,
    unix: Duration,
    /// Whether some may have been lost with the process that had them.
    node_lost: bool,
}

impl Drops {
    pub(super) fn one(event: &Event) -> Self {
        Self { count: 1, first: event.id, last: event.id, seq: event.seq, unix: event.unix, node_lost: false }
    }

    /// So many that were lost with a process between two ids, both included; none when it is not known that there were any.
    pub(super) fn many(count: u64, first: Ulid, last: Ulid, seq: u64, unix: Duration) -> Self {
        Self { count, first, last, seq, unix, node_lost: true }
    }

    /// As it is written.
    pub(super) fn record(&self) -> DropsRecord {
        let Self { count, first, last, seq, unix, node_lost } = *self;
        DropsRecord { count, first, last, seq, unix: millis(unix), node_lost }
    }

    pub(super) fn restored(record: &DropsRecord) -> Self {
        let DropsRecord { count, first, last, seq, unix, node_lost } = *record;
        Self { count, first, last, seq, unix: Duration::from_millis(unix), node_lost }
    }

    pub(super) fn join(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let (Some(one), Some(other)) = (&one, &other) else { return one.or(other) };
        // Two in one place are those of two processes, and the ids of the second reach further.
        let newest = if one.seq <= other.seq { other } else { one };
        let (first, last) = (one.first.min(other.first), one.last.max(other.last));
        let node_lost = one.node_lost || other.node_lost;
        Some(Self { count: one.count + other.count, first, last, node_lost, ..newest.clone() })
    }

    /// The event that tells of them. It is in no log; its id and its place are those of the last that was lost.
    pub(super) fn event(&self) -> Event {
        let Self { count, first, last, node_lost, .. } = *self;
        let what = Happening::EventsDropped { count, first, last, node_lost };
        let server = Text::from_static(ServerName::RESERVED);
        let data = what.data(&server, self.unix);
        Event { seq: self.seq, id: self.last, kind: what.kind(), server, data, unix: self.unix }
    }
}
