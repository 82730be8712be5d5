//! Sessions that outlive the process: what changes is written behind the calls, and read back at the start.
//!
//! A call never waits for the store. Whoever changes a session marks it; one task takes what the marked sessions have
//! noted and writes it, session by session in the order in which it happened. What the store does not take is tried
//! again, and a session that has too much waiting is written anew as a whole.

mod asleep;
mod head;
mod write;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use lb_exchange::SessionId;
use lb_session::Return;
use lb_store::{Key, Store};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;

pub(crate) use self::asleep::Asleep;
pub(crate) use self::head::Head;
pub(crate) use self::write::Writing;

/// Sessions that are written at once.
const AT_ONCE: usize = 16;
/// The wait before a store that failed is tried again, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Says that the process before this one had written everything.
const CLEAN: &str = "node:clean";

/// How a gateway keeps its sessions.
#[derive(Clone, Debug)]
pub struct Keeping {
    /// Where.
    pub store: Arc<dyn Store>,
    /// How long changes gather before they are written.
    pub gather: Duration,
    /// How long a session is kept that nobody uses.
    pub ttl: Duration,
}

/// Writes what changes, and knows who may come back.
pub(crate) struct Keeper {
    keeping: Keeping,
    marked: Mutex<HashSet<Box<str>>>,
    bell: Notify,
    /// What is being written of each session that is awake.
    writing: Mutex<HashMap<Box<str>, Arc<Writing>>>,
    /// Sessions of the process before this one whose clients have not come back, by the hash of their ids.
    asleep: Mutex<HashMap<Box<str>, Asleep>>,
    /// Whether the process before this one may have had more to write.
    may_miss: AtomicBool,
    /// Whether nothing is written any more: what happens from here on is the end of the process, not of sessions.
    stopped: AtomicBool,
}

impl Keeper {
    pub(crate) fn new(keeping: Keeping) -> Arc<Self> {
        let (marked, writing, asleep) = Default::default();
        let (may_miss, stopped) = (AtomicBool::new(true), AtomicBool::new(false));
        Arc::new(Self { keeping, marked, bell: Notify::new(), writing, asleep, may_miss, stopped })
    }

    /// A session is new, or awake again: it is written from here on.
    pub(crate) fn begin(&self, id: &SessionId, writing: Writing) {
        self.writing.lock().insert(id.as_str().into(), Arc::new(writing));
        self.mark(id);
    }

    /// Something of a session is to be written.
    pub(crate) fn mark(&self, id: &SessionId) {
        if !self.stopped.load(Ordering::Acquire) && self.marked.lock().insert(id.as_str().into()) {
            self.bell.notify_one();
        }
    }

    /// A session has ended: what is kept of it goes.
    pub(crate) fn forget(&self, id: &SessionId) {
        if self.stopped.load(Ordering::Acquire) {
            return;
        }
        if let Some(writing) = self.writing.lock().get(id.as_str()) {
            writing.end();
        }
        self.mark(id);
    }

    /// Takes out a session of the process before this one.
    pub(crate) fn wake(&self, id: &str) -> Option<Asleep> {
        let mut asleep = self.asleep.lock();
        if asleep.is_empty() { None } else { asleep.remove(name_of(id).as_str()) }
    }

    /// How sessions come back.
    pub(crate) fn how(&self) -> Return<'static> {
        Return { why: "Node lost", may_miss: self.may_miss.load(Ordering::Relaxed) }
    }

    /// Writes what there is, and nothing more: the process ends, and its sessions are to come back.
    pub(crate) async fn finish(&self) {
        let written = self.write_marked().await;
        self.stopped.store(true, Ordering::Release);
        let Ok(key) = Key::parse(CLEAN) else { return };
        if written && let Err(error) = self.keeping.store.set(&key, "1", self.keeping.ttl).await {
            tracing::warn!(%error, "it could not be noted that everything was written");
        }
    }

    /// Writes until it is dropped. Cancel safe: what was noted and not written is lost, as with the process.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut wait = RETRY.0;
        loop {
            self.bell.notified().await;
            tokio::time::sleep(self.keeping.gather).await;
            if self.write_marked().await {
                wait = RETRY.0;
                continue;
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(RETRY.1);
            self.bell.notify_one();
        }
    }

    /// Writes what is marked; false when some of it has to be tried again.
    pub(crate) async fn write_marked(&self) -> bool {
        let marked = std::mem::take(&mut *self.marked.lock());
        let writes = marked.into_iter().map(|id| async move {
            let Some(writing) = self.writing.lock().get(&id).cloned() else { return true };
            let written = writing.write(&self.keeping).await;
            if !written {
                self.marked.lock().insert(id);
            } else if writing.is_over() {
                self.writing.lock().remove(&id);
            }
            written
        });
        stream::iter(writes).buffer_unordered(AT_ONCE).fold(true, |all, one| async move { all && one }).await
    }
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("keeping", &self.keeping).finish_non_exhaustive()
    }
}

/// What a session is called where it is kept: its id is a secret of its client.
fn name_of(id: &str) -> String {
    let hash = Sha256::digest(id.as_bytes());
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
