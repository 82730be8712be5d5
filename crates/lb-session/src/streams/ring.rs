//! One stream: its events, oldest first, and who reads it.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

use lb_exchange::EventId;
use lb_wire::{Id, Line};

/// A stored message, or a mere cursor.
#[derive(Debug)]
pub(super) struct Event {
    pub sequence: u64,
    pub id: EventId,
    pub line: Option<Line>,
}

impl Event {
    pub(super) fn bytes(&self) -> usize {
        self.line.as_ref().map_or(0, |line| line.as_bytes().len())
    }
}

#[derive(Debug, Default)]
pub(super) struct Ring {
    events: VecDeque<Event>,
    bytes: usize,
    /// When an ended stream is forgotten.
    due: Option<Duration>,
    /// The newest message (not cursor) that is gone.
    pruned_to: u64,
    /// The number of the current reader.
    reader: u64,
    waker: Option<Waker>,
    /// The requests that are answered in it; only where streams are kept.
    requests: Box<[Id]>,
    /// Its first event of all; 0 when there was none.
    began: u64,
}

impl Ring {
    /// A stream for the answers to these requests.
    pub(super) fn serving(requests: Box<[Id]>) -> Self {
        Self { requests, ..Self::default() }
    }

    pub(super) fn requests(&self) -> &[Id] {
        &self.requests
    }

    pub(super) fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }

    pub(super) fn push(&mut self, event: Event) {
        self.bytes += event.bytes();
        if self.began == 0 {
            self.began = event.sequence;
        }
        self.events.push_back(event);
    }

    /// The sequence number of its first event of all, if there was one.
    pub(super) fn began(&self) -> Option<u64> {
        Some(self.began).filter(|began| *began != 0)
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.bytes -= event.bytes();
        if event.line.is_some() {
            self.pruned_to = event.sequence;
        }
        Some(event)
    }

    /// Marks the end; gives the reader to wake.
    pub(super) fn end(&mut self, due: Duration) -> Option<Waker> {
        self.due = Some(due);
        self.waker.take()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.due.is_some()
    }

    /// When it is to be forgotten; only for streams that have ended.
    pub(super) fn due(&self) -> Option<Duration> {
        self.due
    }

    pub(super) fn find(&self, sequence: u64) -> Option<&Event> {
        let at = self.events.binary_search_by_key(&sequence, |event| event.sequence).ok()?;
        self.events.get(at)
    }

    /// Whether an event of this number and id, which is not here, can have been in it: the stream was there when the
    /// last event was `written` before it, none that is newer is gone, and it had not ended.
    pub(super) fn may_have_had(&self, sequence: u64, id: &str, written: u64) -> bool {
        let goes_on = !self.has_ended() || self.newest().is_some_and(|newest| sequence < newest);
        let before = self.events.partition_point(|event| event.sequence < sequence).checked_sub(1);
        let is_later = before.and_then(|at| self.events.get(at)).is_none_or(|event| &*event.id.0 < id);
        self.began().is_some_and(|began| began <= written) && self.pruned_to < sequence && goes_on && is_later
    }

    /// The first event after this sequence number.
    pub(super) fn after(&self, sequence: u64) -> Option<&Event> {
        self.events.get(self.events.partition_point(|event| event.sequence <= sequence))
    }

    /// The sequence number of the newest event.
    pub(super) fn newest(&self) -> Option<u64> {
        self.events.back().map(|event| event.sequence)
    }

    /// Makes room for another reader; gives its number and the earlier one to wake.
    pub(super) fn next_reader(&mut self) -> (u64, Option<Waker>) {
        self.reader += 1;
        (self.reader, self.waker.take())
    }

    pub(super) fn reader(&self) -> u64 {
        self.reader
    }

    pub(super) fn pruned_to(&self) -> u64 {
        self.pruned_to
    }

    pub(super) fn wait(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(known) => known.clone_from(waker),
            None => self.waker = Some(waker.clone()),
        }
    }

    pub(super) fn take_waker(&mut self) -> Option<Waker> {
        self.waker.take()
    }

    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
