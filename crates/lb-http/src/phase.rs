//! How far a shutdown has come.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// How far a shutdown has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// None is under way.
    Serving,
    /// Open connections are served, once more each; streams without an end are closed.
    Draining,
    /// Requests in flight may end; connections without one are closed.
    Finishing,
    /// Every stream is closed.
    Closing,
    /// Connections are dropped.
    Aborting,
}

/// Told to all connections. Reading it is one atomic load, because every poll of a connection does so; a connection
/// registers once, because its task and so its waker stays the same.
#[derive(Debug, Default)]
pub(crate) struct Phase {
    level: AtomicU8,
    wakers: Mutex<Wakers>,
}

#[derive(Debug, Default)]
struct Wakers {
    ever: u64,
    open: HashMap<u64, Waker>,
}

impl Phase {
    pub(crate) fn level(&self) -> Level {
        match self.level.load(Ordering::Acquire) {
            0 => Level::Serving,
            1 => Level::Draining,
            2 => Level::Finishing,
            3 => Level::Closing,
            _ => Level::Aborting,
        }
    }

    pub(crate) fn set(&self, level: Level) {
        self.level.store(level as u8, Ordering::Release);
        self.lock().open.values().for_each(Waker::wake_by_ref);
    }

    /// Wakes this task at every change from now on, until the returned value is dropped.
    pub(crate) fn watch(self: &Arc<Self>, waker: &Waker) -> Watching {
        let mut wakers = self.lock();
        wakers.ever += 1;
        let number = wakers.ever;
        wakers.open.insert(number, waker.clone());
        drop(wakers);
        Watching { phase: self.clone(), number }
    }

    /// Resolves when it has come this far.
    ///
    /// Cancel safe: yes.
    pub(crate) async fn reached(self: &Arc<Self>, level: Level) {
        let mut watching = None;
        std::future::poll_fn(|cx| {
            watching.get_or_insert_with(|| self.watch(cx.waker()));
            if level <= self.level() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn lock(&self) -> MutexGuard<'_, Wakers> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`Phase::watch`].
#[derive(Debug)]
pub(crate) struct Watching {
    phase: Arc<Phase>,
    number: u64,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.phase.lock().open.remove(&self.number);
    }
}
