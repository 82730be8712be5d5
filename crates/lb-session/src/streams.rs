//! Resumable streams: the messages a legacy client may ask for again, in bounded rings.
//!
//! Knows ids, order, bounds and ages. It does not know what a message says, nor who reads it.

mod journal;
mod lost;
mod restore;
mod ring;
mod shared;
mod store;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use lb_exchange::{EventId, ResumeError, Stored, StreamId};
use lb_wire::{Id, Line};

use self::journal::Journal;
pub use self::journal::StreamsDelta;
use self::lost::Lost;
pub use self::restore::{Unreadable, without_line};
use self::ring::{Event, Ring};
pub use self::shared::{Bell, Clock, SharedStreams, system_clock};
pub use self::store::Store;

/// How much is kept, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Messages of one stream.
    pub stream_messages_max: usize,
    /// Bytes of one stream; its newest message stays even when it alone is larger.
    pub stream_bytes_max: usize,
    /// Messages of all streams together.
    pub session_messages_max: usize,
    /// Bytes of all streams together; a larger message is not stored.
    pub session_bytes_max: usize,
    /// Bytes of all sessions that one [`Store`] keeps.
    pub node_bytes_max: usize,
    /// How long a stream is kept after its end.
    pub ended_for: Duration,
    /// How long a message of an open stream is kept.
    pub open_for: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            stream_messages_max: 1_000,
            stream_bytes_max: 4 << 20,
            session_messages_max: 5_000,
            session_bytes_max: 16 << 20,
            node_bytes_max: 256 << 20,
            ended_for: Duration::from_secs(10 * 60),
            open_for: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// The streams of one session. Times are durations since the Unix epoch.
#[derive(Debug, Default)]
pub struct Streams {
    limits: Limits,
    rings: HashMap<StreamId, Ring>,
    /// Every event by its sequence number, so in order of age, except the newest of each stream. Ordered maps of at
    /// most a few thousand entries: what is pruned first is at the front, and nothing ever walks them.
    older: BTreeMap<u64, Place>,
    /// The newest event of each stream.
    newest: BTreeMap<u64, Place>,
    /// Streams that have ended, in that order.
    ended: VecDeque<(Duration, StreamId)>,
    streams_ever: u64,
    events_ever: u64,
    /// Ids never go back, even when the clock does.
    latest: Duration,
    bytes: usize,
    /// The bytes of all sessions of the same store, these among them.
    node_bytes: Arc<AtomicUsize>,
    closed: bool,
    /// Numbers that clients may have and the store never had.
    lost: Lost,
    /// What is yet to be written, where somebody does.
    journal: Option<Box<Journal>>,
}

/// Where an event is, and when it came.
#[derive(Clone, Copy, Debug)]
struct Place {
    stream: StreamId,
    at: Duration,
}

/// Where a reader of a stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader {
    stream: StreamId,
    /// The sequence number of the last event it has had.
    after: u64,
    /// A stream has one reader; a later one has a higher number.
    number: u64,
}

impl Reader {
    /// Which stream it reads.
    pub fn stream(&self) -> StreamId {
        self.stream
    }
}

impl Streams {
    /// The stream of what belongs to no request.
    pub const STANDALONE: StreamId = StreamId(0);

    /// No streams yet.
    pub fn new(limits: Limits) -> Self {
        Self::counted(limits, Arc::default())
    }

    fn counted(limits: Limits, node_bytes: Arc<AtomicUsize>) -> Self {
        let mut streams = Self::default();
        (streams.limits, streams.node_bytes) = (limits, node_bytes);
        streams
    }

    /// A new stream for the answers to these requests, which are remembered only where streams are kept.
    pub fn open<'a>(&mut self, requests: impl IntoIterator<Item = &'a Id>) -> StreamId {
        self.streams_ever += 1;
        let stream = StreamId(self.streams_ever);
        if self.journal.is_some() {
            self.rings.insert(stream, Ring::serving(requests.into_iter().cloned().collect()));
        }
        stream
    }

    /// Stores a message, or with `None` a mere cursor. `None` when it is too large or the streams are closed.
    pub fn append(&mut self, stream: StreamId, line: Option<Line>, now: Duration) -> Option<EventId> {
        let bytes = line.as_ref().map_or(0, |line| line.as_bytes().len());
        let ended = self.rings.get(&stream).is_some_and(Ring::has_ended);
        if self.closed || ended || self.limits.session_bytes_max < bytes {
            return None;
        }
        self.latest = self.latest.max(now);
        self.events_ever += 1;
        let sequence = self.events_ever;
        let id = event_id(self.latest, sequence, stream);
        let ring = self.rings.entry(stream).or_default();
        if let Some(entry) = ring.newest().and_then(|sequence| self.newest.remove_entry(&sequence)) {
            self.older.insert(entry.0, entry.1);
        }
        ring.push(Event { sequence, id: id.clone(), line });
        self.bytes += bytes;
        self.node_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.newest.insert(sequence, Place { stream, at: self.latest });
        self.note_event(stream, sequence, bytes);
        self.bound_stream(stream);
        self.bound_session();
        if let Some(waker) = self.rings.get_mut(&stream).and_then(Ring::take_waker) {
            waker.wake();
        }
        Some(id)
    }

    /// Nothing more will be appended: readers end once they have had everything.
    pub fn finish(&mut self, stream: StreamId, now: Duration) {
        let Some(ring) = self.rings.get_mut(&stream) else { return };
        if ring.has_ended() {
            return;
        }
        let due = now + self.limits.ended_for;
        if let Some(waker) = ring.end(due) {
            waker.wake();
        }
        if ring.is_empty() {
            let began = ring.began();
            self.rings.remove(&stream);
            self.note_gone(stream, began);
        } else {
            self.ended.push_back((due, stream));
            self.note_end(stream);
        }
    }

    /// Removes a stream; its reader ends.
    pub fn forget(&mut self, stream: StreamId) {
        let Some(mut ring) = self.rings.remove(&stream) else { return };
        while let Some(event) = ring.pop() {
            self.account(&event);
        }
        if let Some(waker) = ring.take_waker() {
            waker.wake();
        }
        self.note_gone(stream, ring.began());
    }

    /// Ends every stream and takes in nothing more. That is nothing to write down: what was written is to come back, or
    /// is removed by whoever keeps it.
    pub fn close(&mut self) {
        self.closed = true;
        self.stop_keeping();
        let streams: Vec<_> = self.rings.keys().copied().collect();
        for stream in streams {
            self.forget(stream);
        }
        self.ended.clear();
    }

    /// A reader that stands right behind the event with this id. An earlier reader of that stream ends.
    ///
    /// An id that was given out by a process that is gone, and was not written by then, still says which stream it was
    /// of: there is nothing left to be replayed of that process, and what came later follows.
    ///
    /// # Errors
    /// The id was never given out here, or has been pruned.
    pub fn resume(&mut self, last: &str) -> Result<Reader, ResumeError> {
        let (sequence, stream) = parts_of(last).ok_or(ResumeError::Unknown)?;
        let ring = self.rings.get_mut(&stream).ok_or(ResumeError::Unknown)?;
        let is_known = match ring.find(sequence) {
            Some(event) => &*event.id.0 == last,
            None => self.lost.follows(sequence).is_some_and(|written| ring.may_have_had(sequence, last, written)),
        };
        if !is_known {
            return Err(ResumeError::Unknown);
        }
        let (number, waker) = ring.next_reader();
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(Reader { stream, after: sequence, number })
    }

    /// The next message for a reader. `None` when the stream is over, when another reader took its place, and when it
    /// was so slow that what it needs next is gone: going on would hide the gap.
    pub fn poll_next(&mut self, reader: &mut Reader, cx: &Context<'_>) -> Poll<Option<Stored>> {
        let Some(ring) = self.rings.get_mut(&reader.stream) else { return Poll::Ready(None) };
        if ring.reader() != reader.number || reader.after < ring.pruned_to() {
            return Poll::Ready(None);
        }
        while let Some(event) = ring.after(reader.after) {
            reader.after = event.sequence;
            if let Some(line) = event.line.clone() {
                return Poll::Ready(Some(Stored { id: event.id.clone(), line }));
            }
        }
        if ring.has_ended() {
            return Poll::Ready(None);
        }
        ring.wait(cx.waker());
        Poll::Pending
    }

    /// When something is due to be pruned by age.
    pub fn next_deadline(&self) -> Option<Duration> {
        let oldest = |places: &BTreeMap<u64, Place>| Some(places.first_key_value()?.1.at + self.limits.open_for);
        // A stream forgotten after its end leaves an early deadline behind, which does no harm.
        let ended = self.ended.front().map(|(due, _)| *due);
        [oldest(&self.older), oldest(&self.newest), ended].into_iter().flatten().min()
    }

    /// Prunes what is too old.
    pub fn tick(&mut self, now: Duration) {
        while let Some((due, stream)) = self.ended.pop_front_if(|(due, _)| *due <= now) {
            if self.rings.get(&stream).and_then(Ring::due) == Some(due) {
                self.forget(stream);
            }
        }
        while let Some(place) = self.oldest().filter(|place| place.at + self.limits.open_for <= now) {
            self.prune_one(place.stream);
        }
    }

    /// How many messages and cursors are stored.
    pub fn len(&self) -> usize {
        self.older.len() + self.newest.len()
    }

    /// Whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.newest.is_empty()
    }

    /// How many bytes of messages are stored.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn oldest(&self) -> Option<Place> {
        let (older, newest) = (self.older.first_key_value(), self.newest.first_key_value());
        [older, newest].into_iter().flatten().min_by_key(|(sequence, _)| **sequence).map(|(_, place)| *place)
    }

    fn bound_stream(&mut self, stream: StreamId) {
        let limits = self.limits;
        while self.rings.get(&stream).is_some_and(|ring| {
            1 < ring.len() && (limits.stream_messages_max < ring.len() || limits.stream_bytes_max < ring.bytes())
        }) {
            self.prune_one(stream);
        }
    }

    /// Oldest first, but the newest message of each stream, which may be a response nobody has had yet, after all
    /// others.
    fn bound_session(&mut self) {
        while self.limits.session_messages_max < self.len() || self.limits.session_bytes_max < self.bytes {
            let first = self.older.first_key_value().or_else(|| self.newest.first_key_value());
            let Some((_, place)) = first else { return };
            let stream = place.stream;
            self.prune_one(stream);
        }
    }

    /// Takes the oldest event of a stream, which is also the stream's first in either map.
    fn prune_one(&mut self, stream: StreamId) {
        let Some(ring) = self.rings.get_mut(&stream) else { return };
        let Some(event) = ring.pop() else { return };
        // A reader that waits has had everything; one that does not is told of the gap when it comes back.
        let (over, began) = (ring.is_empty() && ring.has_ended(), ring.began());
        self.account(&event);
        if over {
            self.rings.remove(&stream);
            self.note_gone(stream, began);
        } else {
            self.note_pruned(stream, event.sequence);
        }
    }

    fn account(&mut self, event: &Event) {
        if self.older.remove(&event.sequence).is_none() {
            self.newest.remove(&event.sequence);
        }
        self.bytes -= event.bytes();
        self.node_bytes.fetch_sub(event.bytes(), Ordering::Relaxed);
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.node_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// `<unix_ms>-<seq>-<stream>`, padded so that the order of the texts is the order of the events.
fn event_id(at: Duration, sequence: u64, stream: StreamId) -> EventId {
    EventId(Arc::from(format!("{:013}-{sequence:010}-{}", at.as_millis(), stream.0)))
}

/// The sequence number and the stream in an id that is written as we write them.
fn parts_of(id: &str) -> Option<(u64, StreamId)> {
    let (at, rest) = id.split_once('-')?;
    let (sequence, stream) = rest.split_once('-')?;
    let (at, sequence, stream) = (at.parse().ok()?, sequence.parse().ok()?, StreamId(stream.parse().ok()?));
    (*event_id(Duration::from_millis(at), sequence, stream).0 == *id).then_some((sequence, stream))
}
