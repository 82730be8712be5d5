//! The streams of a session behind a lock, as the port that fronts use.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lb_exchange::{EventId, ResumeError, Stored, StreamId, Tail};
use lb_wire::{Id, Line, Raw};

use super::{Limits, Reader, Store, Streams, StreamsDelta, Unreadable};

/// Tells the time since the Unix epoch.
pub type Clock = fn() -> Duration;

/// The clock of the machine.
pub fn system_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Tells whoever keeps streams that there is something to write.
#[derive(Clone)]
pub struct Bell(Arc<dyn Fn() + Send + Sync>);

impl Bell {
    /// Calls this; it must not block, nor use the streams.
    pub fn new(ring: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(ring))
    }
}

impl std::fmt::Debug for Bell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bell")
    }
}

/// The streams of one session, and what is known of them without their lock.
#[derive(Debug)]
pub(super) struct Held {
    streams: Mutex<Streams>,
    /// Whether what is sent waits until it is written.
    waits: AtomicBool,
}

impl Held {
    pub(super) fn new(streams: Streams) -> Self {
        Self { streams: Mutex::new(streams), waits: AtomicBool::new(false) }
    }

    /// A panic elsewhere leaves the rings whole: every change is finished before anything foreign is called.
    pub(super) fn lock(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// [`Streams`] that several connections use at once. Clones share them.
#[derive(Clone, Debug)]
pub struct SharedStreams {
    held: Arc<Held>,
    store: Store,
    clock: Clock,
}

impl SharedStreams {
    /// No streams yet, in a store of their own.
    pub fn new(limits: Limits, clock: Clock) -> Self {
        Store::new(limits, clock).session()
    }

    pub(super) fn of(store: Store, held: Arc<Held>, clock: Clock) -> Self {
        Self { held, store, clock }
    }

    /// From here on, changes are noted for [`SharedStreams::take_delta`], and the bell rings when there are some. What
    /// is sent waits until it is written where `wait` says so.
    pub fn keep(&self, wait: bool, bell: Bell) {
        let mut streams = self.lock();
        if streams.journal.is_none() {
            streams.keep();
        }
        if let Some(journal) = &mut streams.journal {
            journal.bell = Some(bell);
        }
        self.held.waits.store(wait, Ordering::Release);
        self.release(streams);
    }

    /// What was written is lost: the next delta holds everything, under numbers above this one.
    pub fn keep_anew(&self, above: u64) {
        let mut streams = self.lock();
        if let Some(journal) = &mut streams.journal {
            journal.skip_to(above + 1);
            streams.keep();
        }
    }

    /// What has changed since the last time; `None` when nothing has, or when nobody keeps these streams.
    pub fn take_delta(&self) -> Option<StreamsDelta> {
        self.lock().take_delta()
    }

    /// All entries up to this number are written.
    pub fn written(&self, upto: u64) {
        self.lock().written(upto);
    }

    /// The store takes nothing at the moment: whoever waits for it need not go on.
    pub fn stalled(&self) {
        self.lock().stalled();
    }

    /// Takes in what was written; these streams are new. Requests that ran then are answered with an error. Numbers
    /// are left out that may have been given out and not written; with `lost`, many.
    ///
    /// # Errors
    /// What was written is none of ours; nothing is made of a part of it.
    pub fn restore(&self, entries: &[(u64, Raw)], lost: bool) -> Result<(), Unreadable> {
        let now = (self.clock)();
        let mut streams = self.lock();
        let read = streams.restore(entries);
        if lost || read.is_err() {
            streams.leave_gap(super::restore::GAP);
        } else if !entries.is_empty() {
            // What was said while the process ended was not written.
            streams.leave_gap(super::restore::SMALL_GAP);
        }
        streams.end_lost(now);
        self.release(streams);
        self.store.make_room();
        read
    }

    /// How many messages and cursors have ever been stored, or might have been.
    pub fn events_ever(&self) -> u64 {
        self.lock().events_ever
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
        let mut streams = self.lock();
        streams.tick(now);
        self.release(streams);
    }

    /// How many bytes of messages are stored.
    pub fn bytes(&self) -> usize {
        self.lock().bytes()
    }

    fn lock(&self) -> MutexGuard<'_, Streams> {
        self.held.lock()
    }

    /// Gives the lock back, and tells whoever keeps these streams.
    fn release(&self, mut streams: MutexGuard<'_, Streams>) {
        let bell = streams.ring_bell();
        drop(streams);
        if let Some(Bell(ring)) = bell {
            ring();
        }
    }
}

impl Default for SharedStreams {
    fn default() -> Self {
        Self::new(Limits::default(), system_clock)
    }
}

impl lb_exchange::Streams for SharedStreams {
    fn open(&self, requests: &mut dyn Iterator<Item = &Id>) -> StreamId {
        self.lock().open(requests)
    }

    fn standalone(&self) -> StreamId {
        Streams::STANDALONE
    }

    fn append(&self, stream: StreamId, line: Option<Line>) -> Option<EventId> {
        let now = (self.clock)();
        let mut streams = self.lock();
        let id = streams.append(stream, line, now);
        self.release(streams);
        // Not under the lock of these streams: those of other sessions are taken one by one.
        self.store.make_room();
        id
    }

    fn poll_kept(&self, stream: StreamId, cx: &mut Context<'_>) -> Poll<bool> {
        if !self.held.waits.load(Ordering::Acquire) {
            return Poll::Ready(true);
        }
        self.lock().poll_kept(stream, cx)
    }

    fn finish(&self, stream: StreamId) {
        let now = (self.clock)();
        let mut streams = self.lock();
        streams.finish(stream, now);
        self.release(streams);
    }

    fn forget(&self, stream: StreamId) {
        let mut streams = self.lock();
        streams.forget(stream);
        self.release(streams);
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
