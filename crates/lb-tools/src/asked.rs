//! Which calls asked what: an answer waits for the task it is for, and what no call asked concerns all of them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lb_session::Ulid;

/// Pending requests that calls of ours asked, with the task that a call became. Entries go with their calls, which are
/// bounded.
#[derive(Debug, Default)]
pub(crate) struct AskedBy(Mutex<HashMap<Ulid, Option<Ulid>>>);

impl AskedBy {
    /// Notes that a call asked, and its task if it has become one.
    pub(crate) fn note(&self, request: Ulid, task: Option<Ulid>) {
        self.lock().insert(request, task);
    }

    /// Whether a call asked this.
    pub(crate) fn knows(&self, request: Ulid) -> bool {
        self.lock().contains_key(&request)
    }

    /// The task that asked this.
    pub(crate) fn task(&self, request: Ulid) -> Option<Ulid> {
        self.lock().get(&request).copied().flatten()
    }

    /// Forgets what can no longer be answered.
    pub(crate) fn forget(&self, request: Ulid) {
        self.lock().remove(&request);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Ulid, Option<Ulid>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
