//! Settings that can be replaced while they are in use.
//!
//! Every request reads them, so that reading is one atomic load where nothing has changed: each connection keeps the
//! settings it has seen, and with them their number.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::settings::Settings;

/// The settings that count now.
#[derive(Debug)]
pub(crate) struct Current {
    number: AtomicU64,
    settings: Mutex<Arc<Settings>>,
}

impl Current {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { number: AtomicU64::new(0), settings: Mutex::new(Arc::new(settings)) }
    }

    pub(crate) fn load(&self) -> Arc<Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn replace(&self, settings: Settings) {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
        self.number.fetch_add(1, Ordering::Release);
    }
}

/// The settings as one connection has seen them.
#[derive(Debug)]
pub(crate) struct Seen(RefCell<(u64, Arc<Settings>)>);

impl Seen {
    pub(crate) fn new(current: &Current) -> Self {
        // The number first: settings that are replaced in between are then loaded once more, and not missed.
        let number = current.number.load(Ordering::Acquire);
        Self(RefCell::new((number, current.load())))
    }

    /// The settings that count now.
    pub(crate) fn refresh(&self, current: &Current) -> Arc<Settings> {
        let number = current.number.load(Ordering::Acquire);
        let mut seen = self.0.borrow_mut();
        if seen.0 != number {
            *seen = (number, current.load());
        }
        seen.1.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_replaced_is_seen_by_the_next_look() {
        let current = Current::new(Settings::default());
        let seen = Seen::new(&current);
        assert_eq!(seen.refresh(&current).mcp_path, "/mcp");
        current.replace(Settings { mcp_path: "/other".into(), ..Settings::default() });
        assert_eq!(seen.refresh(&current).mcp_path, "/other");
        assert_eq!(Arc::strong_count(&current.load()), 3, "the same, not a copy");
    }
}
