//! Signs of life of one connection, noted where bytes pass, and the deadlines that follow from them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::settings::Settings;

/// What is known of a connection. All of it is written and read by the connection's own task.
#[derive(Debug)]
pub(crate) struct Pulse {
    start: Instant,
    /// A request is being answered.
    busy: AtomicBool,
    /// Milliseconds since the start, plus one; zero for never.
    head_since: AtomicU64,
    idle_since: AtomicU64,
    stalled_since: AtomicU64,
    in_flight: Arc<InFlight>,
}

/// How many calls are being answered, on all connections.
#[derive(Debug, Default)]
pub(crate) struct InFlight(AtomicUsize);

impl InFlight {
    pub(crate) fn len(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts one more, unless there are enough.
    fn enter(&self, max: usize) -> bool {
        let enough = max <= self.0.fetch_add(1, Ordering::Relaxed);
        if enough {
            self.leave();
        }
        !enough
    }

    fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pulse {
    pub(crate) fn new(in_flight: Arc<InFlight>) -> Self {
        let none = || AtomicU64::new(0);
        Self {
            in_flight,
            start: Instant::now(),
            busy: AtomicBool::new(false),
            head_since: none(),
            idle_since: AtomicU64::new(1),
            stalled_since: none(),
        }
    }

    /// A request is being answered until the returned value is dropped.
    pub(crate) fn work(self: &Arc<Self>) -> Work {
        self.head_since.store(0, Ordering::Relaxed);
        self.busy.store(true, Ordering::Relaxed);
        Work { pulse: self.clone(), counted: false }
    }

    /// When the connection has failed to do what it should, unless something happens.
    pub(crate) fn due(&self, settings: &Settings) -> Option<Instant> {
        let stalled = self.at(&self.stalled_since).map(|since| since + settings.write_stall_max);
        if self.busy.load(Ordering::Relaxed) {
            return stalled;
        }
        let waiting = match self.at(&self.head_since) {
            Some(since) => Some(since + settings.head_read_max),
            None => self.at(&self.idle_since).map(|since| since + settings.idle_max),
        };
        stalled.into_iter().chain(waiting).min()
    }

    fn at(&self, mark: &AtomicU64) -> Option<Instant> {
        let millis = mark.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.start + std::time::Duration::from_millis(millis))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    fn read(&self) {
        if !self.busy.load(Ordering::Relaxed) && self.head_since.load(Ordering::Relaxed) == 0 {
            self.head_since.store(self.now(), Ordering::Relaxed);
        }
    }

    fn wrote<T>(&self, outcome: &Poll<io::Result<T>>) {
        let stalled = self.stalled_since.load(Ordering::Relaxed) != 0;
        match (outcome.is_pending(), stalled) {
            (true, false) => self.stalled_since.store(self.now(), Ordering::Relaxed),
            (false, true) => self.stalled_since.store(0, Ordering::Relaxed),
            _ => {}
        }
    }
}

/// See [`Pulse::work`].
#[derive(Debug)]
pub(crate) struct Work {
    pulse: Arc<Pulse>,
    /// Whether it is among the calls in flight.
    counted: bool,
}

impl Work {
    /// Whether there are fewer calls in flight than this, so that it is worth reading another.
    pub(crate) fn has_room(&self, max: usize) -> bool {
        self.pulse.in_flight.len() < max
    }

    /// Counts this as a call in flight; false when there are enough.
    pub(crate) fn count(&mut self, max: usize) -> bool {
        self.counted = self.counted || self.pulse.in_flight.enter(max);
        self.counted
    }

    /// It goes on without being counted.
    pub(crate) fn uncount(&mut self) {
        if std::mem::take(&mut self.counted) {
            self.pulse.in_flight.leave();
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.uncount();
        self.pulse.busy.store(false, Ordering::Relaxed);
        self.pulse.idle_since.store(self.pulse.now(), Ordering::Relaxed);
    }
}

/// A socket whose bytes are noted.
pub(crate) struct Watched<T> {
    inner: T,
    pulse: Arc<Pulse>,
}

impl<T> Watched<T> {
    pub(crate) fn new(inner: T, pulse: Arc<Pulse>) -> Self {
        Self { inner, pulse }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let outcome = Pin::new(&mut self.inner).poll_read(cx, buf);
        if before < buf.filled().len() {
            self.pulse.read();
        }
        outcome
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.pulse.wrote(&outcome);
        outcome
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.pulse.wrote(&outcome);
        outcome
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
