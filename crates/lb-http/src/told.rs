//! What an operator is told now and then, however often it happens.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the same thing is told.
const EVERY: Duration = Duration::from_secs(1);

/// When something was told last.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<Option<Instant>>);

impl Told {
    /// Whether it is time to tell it; it counts as told then.
    pub(crate) fn is_due(&self) -> bool {
        self.is_due_at(Instant::now())
    }

    fn is_due_at(&self, now: Instant) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = told.is_none_or(|told| EVERY <= now.saturating_duration_since(told));
        if due {
            *told = Some(now);
        }
        due
    }
}

/// Tells it as a warning when that is due, and for those who look closely otherwise.
macro_rules! tell {
    ($told:expr, $($what:tt)+) => {
        if $told.is_due() {
            tracing::warn!($($what)+);
        } else {
            tracing::debug!($($what)+);
        }
    };
}
pub(crate) use tell;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_told_once_a_second() {
        let (told, start) = (Told::default(), Instant::now());
        let due =
            [0, 1, 999, 1000, 1001, 1999, 2000].map(|millis| told.is_due_at(start + Duration::from_millis(millis)));
        assert_eq!(due, [true, false, false, true, false, false, true]);
    }
}
