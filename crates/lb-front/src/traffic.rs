//! The calls that run in a front: how many there are, and whether they must end now.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Shared by all calls of a front.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    running: AtomicUsize,
    over: AtomicBool,
}

impl Traffic {
    /// How many calls run.
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// Calls end with an error when they are polled next.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }
}

/// One call. Counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted(Arc<Traffic>);

impl Counted {
    pub(crate) fn new(traffic: &Arc<Traffic>) -> Self {
        traffic.running.fetch_add(1, Ordering::Relaxed);
        Self(traffic.clone())
    }

    /// Whether it must end now.
    pub(crate) fn is_over(&self) -> bool {
        self.0.over.load(Ordering::Acquire)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}
