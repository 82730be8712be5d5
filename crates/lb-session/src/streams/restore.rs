//! Streams made of what was written of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use lb_exchange::StreamId;
use lb_wire::compose::Object;
use lb_wire::revision::code;
use lb_wire::{Id, Line, Message, Raw, Shape, compose};
use serde::Deserialize;

use super::journal::{Item, Journal};
use super::lost::Lost;
use super::ring::{Event, Ring};
use super::{Place, Streams, event_id};

/// Numbers that are left out where any may have been given out and not written down.
pub(super) const GAP: u64 = 1_000_000;
/// The same where everything was written that came before the end of the process.
pub(super) const SMALL_GAP: u64 = 1_000;

/// Entries that may be missing in one place of the log.
const MISSING_MAX: u64 = 65_536;

/// Something that was written has not the shape that we write.
#[derive(Debug, thiserror::Error)]
#[error("what was kept of the streams of a session cannot be read: entry {number}")]
pub struct Unreadable {
    number: u64,
}

/// One entry of the log, without its message.
#[derive(Deserialize)]
struct Entry {
    s: Option<u64>,
    /// Of an event.
    n: Option<u64>,
    t: Option<u64>,
    gap: Option<bool>,
    due: Option<u64>,
    upto: Option<u64>,
    gone: Option<u64>,
    /// The last event and the last stream, and the first entry that is wanted.
    ever: Option<(u64, u64, u64)>,
    /// Beside `ever`: the numbers that were lost.
    lost: Option<Vec<(u64, u64)>>,
}

/// A stream as far as it is read.
#[derive(Default)]
struct Draft {
    events: BTreeMap<u64, (Duration, Option<Line>)>,
    requests: Vec<Id>,
    due: Option<Duration>,
}

impl Draft {
    fn forget(&mut self, upto: u64) {
        self.events = self.events.split_off(&(upto + 1));
    }
}

impl Streams {
    /// Takes in what was written, in order; these streams are new. They are kept from here on.
    ///
    /// # Errors
    /// What was written is none of ours: nothing is made of a part of it, and it is not wanted any more.
    pub fn restore(&mut self, entries: &[(u64, Raw)]) -> Result<(), Unreadable> {
        let state = |raw: &Raw| raw.read::<Entry>().ok().and_then(|entry| Some((entry.ever?, entry.lost)));
        let (ever, lost) = entries.iter().rev().find_map(|(_, raw)| state(raw)).unwrap_or_default();
        (self.events_ever, self.streams_ever) = (ever.0, ever.1);
        let mut journal = Journal::starting_at(ever.2.max(1));
        let mut drafts = BTreeMap::new();
        for (number, raw) in entries.iter().filter(|(number, _)| ever.2 <= *number) {
            let entry = raw.read::<Entry>().ok();
            let item = entry.and_then(|entry| draft(&mut drafts, &entry, raw));
            if item.and_then(|item| journal.put(*number, item)).is_none() {
                let last = entries.last().map_or(0, |(number, _)| *number);
                self.journal = Some(Box::new(Journal::behind(last)));
                return Err(Unreadable { number: *number });
            }
        }
        self.build(drafts);
        self.lost = Lost::read(lost.unwrap_or_default());
        self.lost.retain(|after| self.rings.values().filter_map(Ring::began).any(|began| began <= after));
        (journal.taken, journal.written) = (self.events_ever, self.events_ever);
        // Any of them may have been written twice.
        journal.moved_upto = journal.next() - 1;
        self.journal = Some(Box::new(journal));
        // The limits may have changed.
        let streams: Vec<_> = self.rings.keys().copied().collect();
        streams.into_iter().for_each(|stream| self.bound_stream(stream));
        self.bound_session();
        Ok(())
    }

    fn build(&mut self, drafts: BTreeMap<StreamId, Draft>) {
        for (stream, draft) in drafts.into_iter().filter(|(_, draft)| !draft.events.is_empty()) {
            let mut ring = Ring::serving(draft.requests.into());
            let last = draft.events.last_key_value().map(|(sequence, _)| *sequence);
            for (sequence, (at, line)) in draft.events {
                let places = if Some(sequence) == last { &mut self.newest } else { &mut self.older };
                places.insert(sequence, Place { stream, at });
                self.latest = self.latest.max(at);
                let event = Event { sequence, id: event_id(at, sequence, stream), line };
                self.bytes += event.bytes();
                self.node_bytes.fetch_add(event.bytes(), Ordering::Relaxed);
                ring.push(event);
            }
            if let Some(due) = draft.due {
                ring.end(due);
                self.ended.push_back((due, stream));
            }
            self.events_ever = self.events_ever.max(last.unwrap_or_default());
            self.streams_ever = self.streams_ever.max(stream.0);
            self.rings.insert(stream, ring);
        }
        self.ended.make_contiguous().sort_unstable();
    }

    /// Leaves numbers out that may have been given out and not written down.
    pub fn leave_gap(&mut self, numbers: u64) {
        self.lost.add(self.events_ever, self.events_ever + numbers);
        self.events_ever += numbers;
        self.streams_ever += numbers;
    }

    /// Ends the streams of requests that ran when the process was lost: what was not answered is answered with an
    /// error. The stream of what belongs to no request goes on.
    pub fn end_lost(&mut self, now: Duration) {
        let open = self.rings.iter().filter(|(stream, ring)| **stream != Self::STANDALONE && !ring.has_ended());
        let open: BTreeSet<_> = open.map(|(stream, _)| *stream).collect();
        for stream in open {
            let unanswered = self.rings.get(&stream).map(unanswered).unwrap_or_default();
            for id in unanswered {
                self.append(stream, Some(node_lost(&id)), now);
            }
            self.finish(stream, now);
        }
    }
}

impl Journal {
    /// What stands in the log under a number; `None` when numbers are not as we give them out.
    fn put(&mut self, number: u64, item: Item) -> Option<()> {
        if self.log.is_empty() {
            (self.first, self.trimmed) = (number, number);
        }
        let missing = number.checked_sub(self.next()).filter(|missing| *missing <= MISSING_MAX)?;
        (0..missing).for_each(|_| self.push(Item::Note));
        self.push(item);
        Some(())
    }
}

/// The same entry for a store that has no room for its message; `None` when it has none.
pub fn without_line(entry: &Raw) -> Option<Raw> {
    entry.member("line")?;
    let short = |object: Object, name: &str| object.maybe(name, entry.member(name).as_ref());
    Some(["s", "n", "t", "ever", "lost"].into_iter().fold(Object::new(), short).flag("gap", true).finish())
}

/// Adds what an entry says; `None` when it says nothing that we know.
fn draft(drafts: &mut BTreeMap<StreamId, Draft>, entry: &Entry, raw: &Raw) -> Option<Item> {
    let Some(stream) = entry.s.map(StreamId) else { return entry.ever.map(|_| Item::Note) };
    let draft = drafts.entry(stream).or_default();
    if let (Some(sequence), Some(at)) = (entry.n, entry.t) {
        let line = raw.member("line").map(|line| line.detached().into_line());
        if entry.gap == Some(true) {
            // Whoever has not had it must not go on as if it had never been.
            draft.forget(sequence);
        }
        let bytes = line.as_ref().map_or(0, |line| line.as_bytes().len());
        draft.events.insert(sequence, (Duration::from_millis(at), line));
        return Some(Item::Event { stream, sequence, bytes });
    }
    if let Some(due) = entry.due {
        draft.due = Some(Duration::from_millis(due));
        return Some(Item::End(stream));
    }
    if let Some(upto) = entry.upto {
        draft.forget(upto);
        return Some(Item::Note);
    }
    if let Some(upto) = entry.gone {
        draft.forget(upto);
        (draft.due, draft.requests) = (None, Vec::new());
        return Some(Item::Note);
    }
    let requests: Vec<Box<serde_json::value::RawValue>> = raw.member("requests")?.read().ok()?;
    let id = |text: &serde_json::value::RawValue| Id::from_raw(&Raw::parse(text.get().to_owned().into()).ok()?);
    draft.requests = requests.iter().filter_map(|text| id(text)).collect();
    Some(Item::Open(stream))
}

fn unanswered(ring: &Ring) -> Vec<Id> {
    let mut open = ring.requests().to_vec();
    for line in ring.events().filter_map(|event| event.line.clone()) {
        if let Ok(message) = Message::scan(line.into_bytes())
            && matches!(message.shape(), Shape::Result | Shape::Error)
        {
            open.retain(|id| Some(id) != message.id());
        }
    }
    open
}

fn node_lost(id: &Id) -> Line {
    let text = "Node lost: the node that ran this request is gone, and with it the answer. It may have run; send it \
                again if that does no harm";
    let data = Raw::from_static(r#"{"reason":"node_lost"}"#);
    compose::error(id, &compose::error_object(code::INTERNAL_ERROR, text, Some(&data))).into_line()
}
