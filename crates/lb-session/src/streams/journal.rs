//! What of the streams is yet to be written, so that they outlive the process.
//!
//! What is written is a log: events as they come, that streams opened, ended and are gone. Its entries are numbered, and
//! only its oldest can be removed; what is still wanted and stands in front of much that is not is written again at its
//! end. What comes and goes between two deltas is never written.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::task::{Context, Poll, Waker};

use lb_exchange::StreamId;
use lb_wire::compose::{self, Object};
use lb_wire::{Id, Raw};

use super::shared::Bell;
use super::{Ring, Streams};
use crate::keep::millis;

/// What is not wanted any more and may stay in the log beside as much that is; so much is removed at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slack {
    entries: usize,
    /// Of messages.
    bytes: usize,
}

impl Default for Slack {
    fn default() -> Self {
        Self { entries: 256, bytes: 1 << 20 }
    }
}

/// A larger message is not written: whoever has not had it when the process is lost cannot go on with its stream.
pub(super) const ENTRY_BYTES_MAX: usize = 7 << 20;

/// What has to be written of the streams of a session, in order and as a whole.
#[derive(Debug)]
pub struct StreamsDelta {
    /// New entries of the log by their numbers, which grow.
    pub entries: Vec<(u64, Raw)>,
    /// Entries with lower numbers are not wanted any more. It grows in large steps.
    pub from: u64,
}

impl StreamsDelta {
    /// The number of the last entry, for [`written`](super::SharedStreams::written).
    pub fn upto(&self) -> u64 {
        self.entries.last().map_or(0, |(number, _)| *number)
    }
}

/// One entry of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Event {
        stream: StreamId,
        sequence: u64,
        bytes: usize,
    },
    Open(StreamId),
    End(StreamId),
    /// It speaks of entries before it, and is not wanted when it is the first.
    Note,
}

/// What is gone of a stream.
#[derive(Clone, Copy, Debug)]
struct Gone {
    /// The last event of it.
    upto: u64,
    whole: bool,
}

#[derive(Debug, Default)]
pub(super) struct Journal {
    slack: Slack,
    /// What is in the log, or on the way there.
    pub(super) log: VecDeque<Item>,
    /// The number of its first entry.
    pub(super) first: u64,
    /// The bytes of the messages in it.
    pub(super) log_bytes: usize,
    fresh: Vec<Item>,
    fresh_bytes: usize,
    gone: BTreeMap<StreamId, Gone>,
    /// How many events and streams have gone since the last delta.
    gone_events: usize,
    /// The number of the last entry that was written again.
    pub(super) moved_upto: u64,
    /// What was last told of [`Journal::first`].
    pub(super) trimmed: u64,
    trimmed_bytes: usize,
    /// The last event that was ever taken.
    pub(super) taken: u64,
    /// Numbers of last entries of deltas that are on the way, and the last events by then.
    flying: VecDeque<(u64, u64)>,
    /// The last event that is written, and all before it.
    pub(super) written: u64,
    /// Whether the store does not take anything at the moment.
    stalled: bool,
    /// Whether the owner has heard that there is something to write.
    told: bool,
    waiting: Vec<(StreamId, Waker)>,
    pub(super) bell: Option<Bell>,
}

impl Journal {
    /// Nothing is written yet.
    pub(super) fn starting_at(first: u64) -> Self {
        Self { first, trimmed: first, ..Self::default() }
    }

    /// Nothing that is there can be read: whatever is written comes behind it, and it goes with the first delta.
    pub(super) fn behind(number: u64) -> Self {
        Self { trimmed_bytes: Slack::default().bytes, ..Self::starting_at(number + 1) }
    }

    /// The number of the next entry.
    pub(super) fn next(&self) -> u64 {
        self.first + self.log.len() as u64
    }

    /// Numbers begin here, or later. What is in the log is not wanted any more.
    pub(super) fn skip_to(&mut self, number: u64) {
        self.first = self.next().max(number);
        self.log.clear();
    }

    fn add(&mut self, item: Item) {
        if let Item::Event { bytes, .. } = item {
            self.fresh_bytes += bytes;
        }
        self.fresh.push(item);
    }

    /// Forgets what has gone before it was written, if that is much.
    fn shrink(&mut self, streams: &Streams) {
        if 2 * streams.len() + 4 * self.slack.entries < self.fresh.len() {
            self.fresh.retain(|item| item.is_live(streams));
        }
    }

    pub(super) fn push(&mut self, item: Item) {
        if let Item::Event { bytes, .. } = item {
            self.log_bytes += bytes;
        }
        self.log.push_back(item);
    }

    fn pop(&mut self) -> Option<Item> {
        let item = self.log.pop_front()?;
        if let Item::Event { bytes, .. } = item {
            self.log_bytes -= bytes;
            self.trimmed_bytes += bytes;
        }
        self.first += 1;
        Some(item)
    }

    fn drop_dead(&mut self, streams: &Streams) {
        while self.log.front().is_some_and(|item| !item.is_live(streams)) {
            self.pop();
        }
    }

    /// Takes out what is wanted in front of too much that is not, to be written again: at most about as much as is
    /// written anyway.
    fn take_front(&mut self, streams: &Streams) -> Vec<Item> {
        let mut moved = Vec::new();
        let entries_max = self.slack.entries.max(2 * self.fresh.len());
        let bytes_max = self.slack.bytes.max(2 * self.fresh_bytes);
        let mut bytes = 0;
        while moved.len() < entries_max && bytes < bytes_max && self.holds_too_much(streams) {
            let Some(item) = self.pop() else { break };
            if let Item::Event { bytes: more, .. } = item {
                bytes += more;
            }
            moved.push(item);
            self.drop_dead(streams);
        }
        moved
    }

    fn holds_too_much(&self, streams: &Streams) -> bool {
        let wanted = streams.len() + streams.rings.len();
        2 * wanted + self.slack.entries < self.log.len() || 2 * streams.bytes + self.slack.bytes < self.log_bytes
    }

    /// Whether what is gone might still be seen in the log.
    fn is_seen(&self, gone: Gone) -> bool {
        match self.log.front() {
            None => false,
            // Behind what was written again, events stand in their order.
            Some(Item::Event { sequence, .. }) if !gone.whole && self.moved_upto < self.first => *sequence <= gone.upto,
            Some(_) => true,
        }
    }

    fn take(&mut self, streams: &Streams) -> Option<StreamsDelta> {
        self.told = false;
        self.fresh.retain(|item| item.is_live(streams));
        if self.fresh.is_empty() && self.gone.is_empty() && self.taken == streams.events_ever {
            return None;
        }
        self.drop_dead(streams);
        let moved = self.take_front(streams);
        let fresh = std::mem::take(&mut self.fresh);
        (self.fresh_bytes, self.gone_events) = (0, 0);
        let gone = std::mem::take(&mut self.gone).into_iter().filter(|(_, gone)| self.is_seen(*gone));
        let mut entries: Vec<_> = gone.map(|(stream, gone)| (Item::Note, gone.entry(stream))).collect();
        let moved_any = !moved.is_empty();
        let of = |item: Item| Some((item, item.entry(streams)?));
        entries.extend(moved.into_iter().filter_map(of));
        let moved_count = entries.len() as u64;
        entries.extend(fresh.into_iter().filter_map(of));
        if entries.is_empty() {
            entries.push((Item::Note, Object::new()));
        }
        if moved_any {
            self.moved_upto = self.next() + moved_count - 1;
        }
        Some(self.delta(entries, streams))
    }

    /// Numbers the entries. The last of them says how far everything has come.
    fn delta(&mut self, entries: Vec<(Item, Object)>, streams: &Streams) -> StreamsDelta {
        let (first, last) = (self.next(), entries.len() - 1);
        let from = self.first;
        let mut numbered = Vec::with_capacity(entries.len());
        for (n, (item, entry)) in entries.into_iter().enumerate() {
            let entry = match n == last {
                true => entry
                    .raw("ever", &Raw::value(&(streams.events_ever, streams.streams_ever, from)))
                    .maybe("lost", streams.lost.written().as_ref()),
                false => entry,
            };
            numbered.push((first + n as u64, entry.finish()));
            self.push(item);
        }
        self.taken = streams.events_ever;
        self.flying.push_back((self.next() - 1, streams.events_ever));
        if self.trimmed + self.slack.entries as u64 <= from || self.slack.bytes <= self.trimmed_bytes {
            (self.trimmed, self.trimmed_bytes) = (from, 0);
        }
        StreamsDelta { entries: numbered, from: self.trimmed }
    }

    /// Whether there is something to write that cannot wait for something else: what is gone can, unless it is much.
    fn is_pressing(&self) -> bool {
        !self.fresh.is_empty() || self.slack.entries <= self.gone_events
    }

    fn wake_written(&mut self, streams: &HashMap<StreamId, Ring>) {
        let (written, stalled) = (self.written, self.stalled);
        let is_done = |(stream, _): &mut (StreamId, Waker)| stalled || is_written(streams.get(stream), written);
        for (_, waker) in self.waiting.extract_if(.., is_done) {
            waker.wake();
        }
    }
}

fn is_written(ring: Option<&Ring>, written: u64) -> bool {
    ring.and_then(Ring::newest).is_none_or(|newest| newest <= written)
}

impl Item {
    fn is_live(self, streams: &Streams) -> bool {
        match self {
            Self::Event { sequence, .. } => {
                streams.newest.contains_key(&sequence) || streams.older.contains_key(&sequence)
            }
            Self::Open(stream) => streams.rings.get(&stream).is_some_and(|ring| !ring.has_ended()),
            Self::End(stream) => streams.rings.get(&stream).is_some_and(Ring::has_ended),
            Self::Note => false,
        }
    }

    /// As it is written; `None` when there is no such thing any more.
    fn entry(self, streams: &Streams) -> Option<Object> {
        let of = |stream: StreamId| Object::new().number("s", stream.0);
        match self {
            Self::Event { stream, sequence, bytes } => {
                let place = streams.newest.get(&sequence).or_else(|| streams.older.get(&sequence))?;
                let entry = of(stream).number("n", sequence).number("t", millis(place.at));
                let line = &streams.rings.get(&stream)?.find(sequence)?.line;
                Some(match line {
                    None => entry,
                    Some(_) if ENTRY_BYTES_MAX < bytes => entry.flag("gap", true),
                    Some(line) => entry.raw("line", &Raw::parse(line.clone().into_bytes()).ok()?),
                })
            }
            Self::Open(stream) => {
                let requests: Vec<_> = streams.rings.get(&stream)?.requests().iter().map(Id::to_raw).collect();
                Some(of(stream).raw("requests", &compose::array(requests.iter())))
            }
            Self::End(stream) => Some(of(stream).number("due", millis(streams.rings.get(&stream)?.due()?))),
            Self::Note => None,
        }
    }
}

impl Gone {
    fn entry(self, stream: StreamId) -> Object {
        Object::new().number("s", stream.0).number(if self.whole { "gone" } else { "upto" }, self.upto)
    }
}

impl Streams {
    /// From here on, changes are noted for [`Streams::take_delta`], and the first delta holds everything; the log that
    /// was written before is not wanted any more.
    pub fn keep(&mut self) {
        let before = self.journal.take();
        let first = before.as_ref().map_or(1, |journal| journal.next());
        let mut journal = Journal::starting_at(first);
        if let Some(before) = before {
            (journal.slack, journal.bell, journal.waiting) = (before.slack, before.bell, before.waiting);
        }
        let mut rings: Vec<_> = self.rings.iter().filter(|(_, ring)| !ring.is_empty()).collect();
        rings.sort_unstable_by_key(|(stream, _)| **stream);
        let opened = rings.iter().filter(|(_, ring)| !ring.has_ended() && !ring.requests().is_empty());
        opened.for_each(|(stream, _)| journal.add(Item::Open(**stream)));
        let mut events: Vec<_> = rings.iter().flat_map(|(stream, ring)| ring.events().map(|e| (**stream, e))).collect();
        events.sort_unstable_by_key(|(_, event)| event.sequence);
        for (stream, event) in events {
            journal.add(Item::Event { stream, sequence: event.sequence, bytes: event.bytes() });
        }
        rings.iter().filter(|(_, ring)| ring.has_ended()).for_each(|(stream, _)| journal.add(Item::End(**stream)));
        self.journal = Some(Box::new(journal));
    }

    /// What has changed since the last time; `None` when nothing has, or when nobody keeps these streams.
    pub fn take_delta(&mut self) -> Option<StreamsDelta> {
        let mut journal = self.journal.take()?;
        let delta = journal.take(self);
        self.journal = Some(journal);
        delta
    }

    /// All entries up to this number are written.
    pub fn written(&mut self, upto: u64) {
        let Some(journal) = &mut self.journal else { return };
        journal.stalled = false;
        while let Some((_, event)) = journal.flying.pop_front_if(|(number, _)| *number <= upto) {
            journal.written = event;
        }
        journal.wake_written(&self.rings);
    }

    /// The store takes nothing at the moment: whoever waits for it need not go on.
    pub fn stalled(&mut self) {
        let Some(journal) = &mut self.journal else { return };
        journal.stalled = true;
        journal.wake_written(&self.rings);
    }

    /// Whether everything that was appended to a stream is written. False when it may take long.
    pub fn poll_kept(&mut self, stream: StreamId, cx: &Context<'_>) -> Poll<bool> {
        let Some(journal) = &mut self.journal else { return Poll::Ready(true) };
        if is_written(self.rings.get(&stream), journal.written) {
            return Poll::Ready(true);
        }
        if journal.stalled {
            return Poll::Ready(false);
        }
        match journal.waiting.iter_mut().find(|(waiting, _)| *waiting == stream) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => journal.waiting.push((stream, cx.waker().clone())),
        }
        Poll::Pending
    }

    /// The bell of whoever keeps these streams, if it is to be rung.
    pub(super) fn ring_bell(&mut self) -> Option<Bell> {
        let journal = self.journal.as_deref_mut()?;
        if journal.told || !journal.is_pressing() {
            return None;
        }
        journal.told = true;
        journal.bell.clone()
    }

    pub(super) fn stop_keeping(&mut self) {
        let waiting = self.journal.take().map(|journal| journal.waiting);
        waiting.into_iter().flatten().for_each(|(_, waker)| waker.wake());
    }

    pub(super) fn note_event(&mut self, stream: StreamId, sequence: u64, bytes: usize) {
        let Some(mut journal) = self.journal.take() else { return };
        let is_first = self.rings.get(&stream).is_some_and(|ring| ring.len() == 1 && !ring.requests().is_empty());
        if is_first {
            journal.add(Item::Open(stream));
        }
        journal.add(Item::Event { stream, sequence, bytes });
        journal.shrink(self);
        self.journal = Some(journal);
    }

    pub(super) fn note_end(&mut self, stream: StreamId) {
        if let Some(journal) = &mut self.journal {
            journal.add(Item::End(stream));
        }
    }

    /// A stream with this first event is gone.
    pub(super) fn note_gone(&mut self, stream: StreamId, began: Option<u64>) {
        // What has not been taken will not be.
        if let (Some(journal), Some(began)) = (&mut self.journal, began)
            && began <= journal.taken
        {
            journal.gone.insert(stream, Gone { upto: self.events_ever, whole: true });
            journal.gone_events += 1;
        }
    }

    pub(super) fn note_pruned(&mut self, stream: StreamId, upto: u64) {
        let Some(journal) = &mut self.journal else { return };
        if upto <= journal.taken {
            let gone = journal.gone.entry(stream).or_insert(Gone { upto, whole: false });
            gone.upto = gone.upto.max(upto);
            journal.gone_events += 1;
        }
    }
}
