//! What a front remembers across requests: who listens, and who waits for a client to come back.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::task::AtomicWaker;
use lb_exchange::{Middle, Remote, Seat, SessionId, StreamId};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::alarm::Alarms;
use crate::calls::Remotes;
use crate::settings::Settings;
use crate::traffic::Traffic;

/// Shared by all attachments of a front.
pub(crate) struct Shared {
    pub(crate) middle: Arc<dyn Middle>,
    pub(crate) settings: Settings,
    pub(crate) listeners: Listeners,
    pub(crate) returns: Returns,
    pub(crate) alarms: Alarms,
    pub(crate) traffic: Arc<Traffic>,
}

/// The standalone stream of each session that has one open; bounded by the connections that hold them.
#[derive(Default)]
pub(crate) struct Listeners(Mutex<HashMap<SessionId, Arc<Slot>>>);

struct Slot {
    /// When the transport last took something.
    taken_at: Mutex<Instant>,
}

/// The right to be the standalone stream of a session, until dropped.
pub(crate) struct Claim {
    shared: Arc<Shared>,
    session: SessionId,
    slot: Arc<Slot>,
}

impl Listeners {
    /// Whether a session has a standalone stream open.
    pub(crate) fn has(&self, session: &SessionId) -> bool {
        self.0.lock().contains_key(session)
    }
}

impl Claim {
    /// Takes the place of a stream that is stale, or of any when `force` says so; `None` when it is taken.
    pub(crate) fn new(shared: &Arc<Shared>, session: &SessionId, force: bool) -> Option<Self> {
        let now = Instant::now();
        let mut table = shared.listeners.0.lock();
        let taken = table.get(session).is_some_and(|slot| now < *slot.taken_at.lock() + shared.settings.stale_after);
        if taken && !force {
            return None;
        }
        let slot = Arc::new(Slot { taken_at: Mutex::new(now) });
        table.insert(session.clone(), slot.clone());
        drop(table);
        Some(Self { shared: shared.clone(), session: session.clone(), slot })
    }

    /// The transport took something.
    pub(crate) fn touch(&self, now: Instant) {
        *self.slot.taken_at.lock() = now;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut table = self.shared.listeners.0.lock();
        if table.get(&self.session).is_some_and(|slot| Arc::ptr_eq(slot, &self.slot)) {
            table.remove(&self.session);
        }
    }
}

/// Streams of calls that go on without the connection they began on, and streams that are being read; bounded by calls
/// and connections.
#[derive(Default)]
pub(crate) struct Returns(Mutex<HashMap<(SessionId, StreamId), Return>>);

#[derive(Default)]
struct Return {
    /// Whom to tell whether somebody is there.
    remotes: Remotes,
    /// The connection that the stream began on, while it is there.
    first: Option<Arc<Attached>>,
    readers: usize,
}

/// The connection that a stream began on. A stream has one reader: it gives way to whoever resumes the stream.
#[derive(Default)]
pub(crate) struct Attached {
    replaced: AtomicBool,
    waker: AtomicWaker,
}

impl Attached {
    /// Whether another connection has taken over; otherwise the task is woken then.
    pub(crate) fn is_replaced(&self, cx: &mut std::task::Context<'_>) -> bool {
        self.waker.register(cx.waker());
        self.replaced.load(Ordering::Acquire)
    }

    fn replace(&self) {
        self.replaced.store(true, Ordering::Release);
        self.waker.wake();
    }
}

impl Return {
    /// Tells the calls whether somebody is there. Under the lock, so that what is said last is true.
    fn tell(&self) {
        for remote in &self.remotes {
            match self.readers {
                0 => remote.away(),
                _ => remote.back(),
            };
        }
    }
}

impl Returns {
    /// The server of this stream would go on when somebody is there.
    pub(crate) fn pause(&self, seat: &dyn Seat, stream: StreamId, remote: &Remote) {
        let readers = self.0.lock().get(&(seat.id().clone(), stream)).map_or(0, |entry| entry.readers);
        if readers != 0 {
            remote.back();
        }
    }

    /// The calls of a stream go on without the connection they began on, and are told who is there.
    pub(crate) fn go_on(&self, seat: &dyn Seat, stream: StreamId, remotes: Remotes) {
        let mut table = self.0.lock();
        let entry = table.entry((seat.id().clone(), stream)).or_default();
        entry.remotes = remotes;
        entry.tell();
    }

    /// A stream begins on a connection.
    pub(crate) fn attach(&self, seat: &dyn Seat, stream: StreamId) -> Arc<Attached> {
        let attached = Arc::<Attached>::default();
        self.0.lock().entry((seat.id().clone(), stream)).or_default().first = Some(attached.clone());
        attached
    }

    /// The connection that a stream began on is done with it.
    pub(crate) fn detach(&self, seat: &dyn Seat, stream: StreamId) {
        self.change(seat, stream, |entry| entry.first = None);
    }

    /// Somebody reads this stream, and nobody else any more.
    pub(crate) fn arrive(&self, seat: &dyn Seat, stream: StreamId) {
        let first = {
            let mut table = self.0.lock();
            let entry = table.entry((seat.id().clone(), stream)).or_default();
            entry.readers += 1;
            entry.tell();
            entry.first.take()
        };
        if let Some(first) = first {
            first.replace();
        }
    }

    /// A reader of this stream is gone.
    pub(crate) fn depart(&self, seat: &dyn Seat, stream: StreamId) {
        self.change(seat, stream, |entry| {
            entry.readers = entry.readers.saturating_sub(1);
            entry.tell();
        });
    }

    /// The server of this stream says nothing more.
    pub(crate) fn over(&self, seat: &dyn Seat, stream: StreamId) {
        self.change(seat, stream, |entry| entry.remotes.clear());
    }

    fn change(&self, seat: &dyn Seat, stream: StreamId, with: impl FnOnce(&mut Return)) {
        let mut table = self.0.lock();
        let key = (seat.id().clone(), stream);
        if let Some(entry) = table.get_mut(&key) {
            with(entry);
            if entry.readers == 0 && entry.remotes.is_empty() && entry.first.is_none() {
                table.remove(&key);
            }
        }
    }
}
