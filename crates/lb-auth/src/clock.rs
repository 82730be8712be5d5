//! The time that tokens are made and judged by: where several nodes share a store, that of the store.
//!
//! A node whose own clock is wrong would refuse what the others issue, and issue what they refuse. Between two looks at
//! the store's clock the time that passed is counted, so that a clock that is set meanwhile changes nothing either.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lb_store::Store;
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long what was counted since the last look is believed.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How long a look may take before what was counted must do.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// The time of a store.
pub(crate) struct Clock {
    store: Arc<dyn Store>,
    seen: Mutex<Option<Seen>>,
}

/// What the last look has shown, or that there is none to come.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// When somebody last set out to look.
    looked: Instant,
    /// What was seen, and when; `None` where our own clock is the only one.
    shown: Option<(SystemTime, Instant)>,
}

impl Clock {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, seen: Mutex::default() }
    }

    /// What time it is. Cancel safe: yes.
    pub async fn now(&self) -> SystemTime {
        let looked = Instant::now();
        let before = {
            let mut seen = self.seen.lock();
            let before = *seen;
            if let Some(seen) = &mut *seen {
                if looked < seen.looked + LOOK_EVERY {
                    return seen.time(looked);
                }
                // One looks; everybody else goes on counting meanwhile.
                seen.looked = looked;
            }
            before
        };
        let shown = match tokio::time::timeout(LOOK_MAX, self.store.time()).await {
            Ok(Ok(Some(time))) => Some((time, Instant::now())),
            Ok(Ok(None)) => None,
            Ok(Err(_)) | Err(_) => match before {
                // It is not known better, and time that passed is counted on.
                Some(before) => return before.time(Instant::now()),
                None => return SystemTime::now(),
            },
        };
        let seen = Seen { looked, shown };
        *self.seen.lock() = Some(seen);
        seen.time(Instant::now())
    }
}

impl Seen {
    fn time(&self, now: Instant) -> SystemTime {
        self.shown.map_or_else(SystemTime::now, |(time, at)| time + now.saturating_duration_since(at))
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clock").field("seen", &*self.seen.lock()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_has_the_store_alone_goes_by_the_own_clock() {
        let clock = Clock::new(crate::testing::memory().await);
        for _ in 0..3 {
            let (before, now) = (SystemTime::now(), clock.now().await);
            assert!(before <= now && now <= SystemTime::now());
        }
    }
}
