//! The time that all nodes go by.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The clock that all nodes go by. Between two looks at it the time that passed is counted, so that a machine whose own
/// clock is set meanwhile is still believed by the others.
#[derive(Debug)]
pub struct NodeClock {
    started: Instant,
    /// What time it was when this began, in seconds since 1970.
    start: AtomicU64,
}

impl Default for NodeClock {
    /// Goes by our own clock, until another one was seen.
    fn default() -> Self {
        let clock = Self { started: Instant::now(), start: AtomicU64::new(0) };
        clock.set(SystemTime::now());
        clock
    }
}

impl NodeClock {
    /// It is this time now.
    pub fn set(&self, now: SystemTime) {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let start = now.saturating_sub(self.started.elapsed());
        self.start.store(start.as_secs(), Ordering::Relaxed);
    }

    /// What time it is, in seconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        let start = Duration::from_secs(self.start.load(Ordering::Relaxed));
        start.saturating_add(self.started.elapsed()).as_secs()
    }
}
