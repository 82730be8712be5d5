//! The streams of a session behind a lock, as the port that fronts use.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lb_exchange::{EventId, ResumeError, Stored, StreamId, Tail};
use lb_wire::Line;

use super::{Limits, Reader, Store, Streams};

/// Tells the time since the Unix epoch.
pub type Clock = fn() -> Duration;

/// The clock of the machine.
pub fn system_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// [`Streams`] that several connections use at once. Clones share them.
#[derive(Clone, Debug)]
pub struct SharedStreams {
    streams: Arc<Mutex<Streams>>,
    store: Store,
    clock: Clock,
}

impl SharedStreams {
    /// No streams yet, in a store of their own.
    pub fn new(limits: Limits, clock: Clock) -> Self {
        Store::new(limits, clock).session()
    }

    pub(super) fn of(store: Store, streams: Arc<Mutex<Streams>>, clock: Clock) -> Self {
        Self { streams, store, clock }
    }

    /// Ends every stream: readers end, nothing more is taken in.
    pub fn close(&self) {
        self.lock().close();
    }

    /// When something is due to be pruned by age, since the Unix epoch.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.lock().next_deadline()
    }

    /// Prunes what is too old.
    pub fn tick(&self) {
        let now = (self.clock)();
        self.lock().tick(now);
    }

    /// How many bytes of messages are stored.
    pub fn bytes(&self) -> usize {
        self.lock().bytes()
    }

    /// A panic elsewhere leaves the rings whole: every change is finished before anything foreign is called.
    fn lock(&self) -> MutexGuard<'_, Streams> {
        lock(&self.streams)
    }
}

pub(super) fn lock(streams: &Mutex<Streams>) -> MutexGuard<'_, Streams> {
    streams.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for SharedStreams {
    fn default() -> Self {
        Self::new(Limits::default(), system_clock)
    }
}

impl lb_exchange::Streams for SharedStreams {
    fn open(&self) -> StreamId {
        self.lock().open()
    }

    fn standalone(&self) -> StreamId {
        Streams::STANDALONE
    }

    fn append(&self, stream: StreamId, line: Option<Line>) -> Option<EventId> {
        let now = (self.clock)();
        let id = self.lock().append(stream, line, now);
        // Not under the lock of these streams: those of other sessions are taken one by one.
        self.store.make_room();
        id
    }

    fn finish(&self, stream: StreamId) {
        let now = (self.clock)();
        self.lock().finish(stream, now);
    }

    fn forget(&self, stream: StreamId) {
        self.lock().forget(stream);
    }

    fn resume(&self, last: &str) -> Result<Box<dyn Tail>, ResumeError> {
        let reader = self.lock().resume(last)?;
        Ok(Box::new(SharedTail { streams: self.clone(), reader }))
    }
}

struct SharedTail {
    streams: SharedStreams,
    reader: Reader,
}

impl Tail for SharedTail {
    fn stream(&self) -> StreamId {
        self.reader.stream()
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Stored>> {
        self.streams.lock().poll_next(&mut self.reader, cx)
    }
}
