//! The one place where tasks are started.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

static SPAWNED: AtomicU64 = AtomicU64::new(0);

/// A set of tasks with an owner: they are told to stop and waited for.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Tasks {
    /// Starts a task of this set.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        SPAWNED.fetch_add(1, Ordering::Relaxed);
        self.tracker.spawn(task);
    }

    /// Resolves when this set is being closed; tasks that wait for the outside also wait for this.
    pub async fn stopping(&self) {
        self.stop.cancelled().await;
    }

    /// Whether this set is being closed.
    pub fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// A set whose tasks are stopped with this one's, and can be stopped alone.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { tracker: self.tracker.clone(), stop: self.stop.child_token() }
    }

    /// Tells the tasks to stop, without waiting for them.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Tells the tasks to stop and waits for them; false when some outlived the grace period.
    ///
    /// Cancel safe: yes.
    pub async fn close(&self, grace: Duration) -> bool {
        self.stop.cancel();
        self.tracker.close();
        tokio::time::timeout(grace, self.tracker.wait()).await.is_ok()
    }

    /// How many tasks this process has started so far, in all sets.
    pub fn spawned() -> u64 {
        SPAWNED.load(Ordering::Relaxed)
    }
}
