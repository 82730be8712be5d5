//! Which calls asked what: an answer waits for the task it is for, and what no call asked concerns all of them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lb_session::{Pending, Session, Task, Ulid};

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

    /// What a task waits for: what it asked, and if it is the only one at work, what its server asked outside of any
    /// call, which may be the same. Of the latter only what was asked since then.
    pub(crate) fn open_of<'a>(
        &'a self,
        session: &'a Session,
        task: &'a Task,
        since: Duration,
    ) -> impl Iterator<Item = &'a Pending> {
        let alone = session.working_of(task.server()).nth(1).is_none();
        session.pending_of(task.server()).filter(move |pending| {
            match pending.related_task().or_else(|| self.task(pending.id())) {
                Some(asking) => asking == task.id(),
                None => alone && since <= pending.created().up && !self.knows(pending.id()),
            }
        })
    }

    /// Forgets what can no longer be answered.
    pub(crate) fn forget(&self, request: Ulid) {
        self.lock().remove(&request);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Ulid, Option<Ulid>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
