//! The calls of one reply: one, or several for a batch.

use std::task::{Context, Poll};

use lb_exchange::Remote;
use lb_wire::{Id, Line};
use smallvec::SmallVec;
use tokio::time::Instant;

use crate::running::{Running, Said};

/// The ways down to the calls of one reply.
pub(crate) type Remotes = SmallVec<[Remote; 1]>;

/// 1..N calls that share a reply. Order is kept within each call.
pub(crate) struct Calls {
    running: SmallVec<[Running; 1]>,
    /// Whose turn it is.
    turn: usize,
}

impl Calls {
    pub(crate) fn one(running: Running) -> Self {
        Self { running: SmallVec::from_buf([running]), turn: 0 }
    }

    pub(crate) fn several(running: Vec<Running>) -> Self {
        Self { running: running.into(), turn: 0 }
    }

    pub(crate) fn first(&self) -> Option<&Running> {
        self.running.first()
    }

    /// The client's ids of those that have not ended.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &Id> {
        self.running.iter().filter(|running| !running.is_over()).filter_map(Running::id)
    }

    /// The ways down to those that have not ended.
    pub(crate) fn remotes(&self) -> Remotes {
        self.running.iter().filter(|running| !running.is_over()).map(Running::remote).collect()
    }

    /// Tells all of them that their client is gone for good.
    pub(crate) fn leave_alone(&self) {
        for running in &self.running {
            running.remote().alone();
        }
    }

    /// Nobody can ask for what they say: gives what was asked and can be said elsewhere, or refuses it.
    pub(crate) fn unheard(&mut self, elsewhere: bool) -> Vec<Line> {
        self.running.iter_mut().flat_map(|running| running.unheard(elsewhere)).collect()
    }

    /// The next thing that one of them says; `None` when all have ended.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, can_ask: bool) -> Poll<Option<Said>> {
        let count = self.running.len();
        let mut over = true;
        for step in 0..count {
            let at = (self.turn + step) % count;
            let Some(running) = self.running.get_mut(at) else { continue };
            if running.is_over() {
                continue;
            }
            over = false;
            if let Poll::Ready(said) = running.poll(cx, can_ask) {
                self.turn = (at + 1) % count;
                return Poll::Ready(Some(said));
            }
        }
        if over { Poll::Ready(None) } else { Poll::Pending }
    }

    /// Whether all have ended.
    pub(crate) fn are_over(&self) -> bool {
        self.running.iter().all(Running::is_over)
    }

    /// Whether they have no end of their own.
    pub(crate) fn are_endless(&self) -> bool {
        self.running.iter().any(Running::is_endless)
    }

    /// When to poll again even if nothing happens.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.running.iter().filter_map(Running::due).min()
    }
}
