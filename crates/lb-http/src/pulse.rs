//! Signs of life of one connection, noted where bytes pass, and the deadlines that follow from them.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use lb_exchange::Principal;
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

/// What one of those who logged in may take of the calls that are answered at one time: this part of them, so that
/// nobody fills the gateway for the others.
const SHARE: usize = 4;

/// How many calls are being answered, on all connections.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    all: AtomicUsize,
    /// Those of each who logged in.
    by_principal: Mutex<HashMap<Principal, usize>>,
}

impl InFlight {
    pub(crate) fn len(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }

    /// Counts one more, unless there are enough.
    fn enter(&self, max: usize, whose: Option<&Principal>) -> bool {
        let enough = max <= self.all.fetch_add(1, Ordering::Relaxed);
        let refused = enough || whose.is_some_and(|whose| !self.enter_share(max.div_ceil(SHARE), whose));
        if refused {
            self.all.fetch_sub(1, Ordering::Relaxed);
        }
        !refused
    }

    fn enter_share(&self, max: usize, whose: &Principal) -> bool {
        let mut shares = self.shares();
        match shares.get_mut(whose) {
            Some(count) if max <= *count => return false,
            Some(count) => *count += 1,
            None => drop(shares.insert(whose.clone(), 1)),
        }
        true
    }

    fn shares(&self) -> MutexGuard<'_, HashMap<Principal, usize>> {
        self.by_principal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self, whose: Option<&Principal>) {
        self.all.fetch_sub(1, Ordering::Relaxed);
        let Some(whose) = whose else { return };
        let mut shares = self.shares();
        if let Some(count) = shares.get_mut(whose) {
            *count -= 1;
            if *count == 0 {
                shares.remove(whose);
            }
        }
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
        Work { pulse: self.clone(), counted: false, whose: None }
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
    /// Who logged in, where somebody has to.
    whose: Option<Principal>,
}

impl Work {
    /// It is done for somebody who logged in.
    pub(crate) fn set_principal(&mut self, principal: Principal) {
        self.whose = Some(principal);
    }

    /// Whether there are fewer calls in flight than this, so that it is worth reading another.
    pub(crate) fn has_room(&self, max: usize) -> bool {
        self.pulse.in_flight.len() < max
    }

    /// Counts this as a call in flight; false when there are enough.
    pub(crate) fn count(&mut self, max: usize) -> bool {
        self.counted = self.counted || self.pulse.in_flight.enter(max, self.whose.as_ref());
        self.counted
    }

    /// It goes on without being counted.
    pub(crate) fn uncount(&mut self) {
        if std::mem::take(&mut self.counted) {
            self.pulse.in_flight.leave(self.whose.as_ref());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_who_logged_in_takes_more_than_a_share_of_the_calls() {
        let all = InFlight::default();
        let [eve, ada, bob] = ["eve", "ada", "bob"].map(Principal::named);
        for whose in [&eve, &ada] {
            assert_eq!((0..9).filter(|_| all.enter(16, Some(whose))).count(), 4, "{whose:?}");
        }
        assert_eq!((0..9).filter(|_| all.enter(16, None)).count(), 8, "whoever is nobody in particular has the rest");
        assert!(!all.enter(16, Some(&bob)), "all places are taken");
        all.leave(Some(&eve));
        assert!(all.enter(16, Some(&eve)) && !all.enter(16, Some(&eve)));
        (0..4).for_each(|_| all.leave(Some(&ada)));
        assert_eq!((all.len(), all.shares().len()), (12, 1), "who has none is not remembered");
    }
}
