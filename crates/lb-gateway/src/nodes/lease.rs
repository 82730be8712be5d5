//! When this node may have counted as dead, told from its own clock alone.

use parking_lot::Mutex;
use tokio::time::Instant;

use super::LEASE;

/// The lease of this node, as it sees it.
#[derive(Debug)]
pub(super) struct Lease(Mutex<State>, Length);

#[derive(Debug, PartialEq, Eq)]
enum Length {
    Leased,
    /// There is nobody who could take over.
    Endless,
}

#[derive(Debug)]
struct State {
    /// When the last renewal that worked began. The store counts from a later instant on, so this errs to the safe side.
    renewed: Instant,
    /// Whether more time than the lease has passed since, and that was counted.
    lapsed: bool,
    generation: u64,
}

impl State {
    fn look(&mut self, now: Instant) {
        if !self.lapsed && LEASE <= now.saturating_duration_since(self.renewed) {
            self.lapsed = true;
            self.generation += 1;
        }
    }
}

impl Lease {
    pub(super) fn new(now: Instant) -> Self {
        Self(Mutex::new(State { renewed: now, lapsed: false, generation: 1 }), Length::Leased)
    }

    /// That of the only node.
    pub(super) fn endless() -> Self {
        Self(Self::new(Instant::now()).0, Length::Endless)
    }

    pub(super) fn is_endless(&self) -> bool {
        self.1 == Length::Endless
    }

    /// See [`Membership::generation`](super::Membership::generation). Also right for the first one who looks after the
    /// process was stopped for a while.
    pub(super) fn generation(&self, now: Instant) -> u64 {
        let mut state = self.0.lock();
        if !self.is_endless() {
            state.look(now);
        }
        state.generation
    }

    /// A renewal that began then has worked.
    pub(super) fn renewed(&self, began: Instant, now: Instant) {
        let mut state = self.0.lock();
        state.look(now);
        // What was verified while it was lapsed may have been taken over since.
        if std::mem::take(&mut state.lapsed) {
            state.generation += 1;
        }
        state.renewed = began;
    }

    /// The store does not have the node any more, whatever our clock says.
    pub(super) fn lost(&self) {
        self.0.lock().generation += 1;
    }
}
