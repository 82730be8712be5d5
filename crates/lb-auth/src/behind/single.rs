//! Work that many want done and that is done once.

use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio_util::task::TaskTracker;

/// One piece of work at a time. Whoever comes while it is under way gets what comes of it.
pub(super) struct Single<T: Clone>(Slot<T>);

/// What is under way.
type Slot<T> = Arc<Mutex<Option<Flight<T>>>>;
type Flight<T> = Shared<BoxFuture<'static, Option<T>>>;

impl<T: Clone> Default for Single<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Clone + Send + Sync + 'static> Single<T> {
    /// Does it, or waits for whoever does. It goes on when nobody waits any more, because what it does may not be
    /// possible twice. `None` when it broke off. Cancel safe: yes.
    pub async fn run<W>(&self, tasks: &TaskTracker, work: impl FnOnce() -> W) -> Option<T>
    where
        W: Future<Output = T> + Send + 'static,
    {
        let flight = {
            let mut under_way = self.0.lock();
            match &*under_way {
                Some(flight) => flight.clone(),
                None => {
                    let (work, done) = (work(), Clear(self.0.clone()));
                    let task = tasks.spawn(async move {
                        let _done = done;
                        work.await
                    });
                    let flight = async move { task.await.ok() }.boxed().shared();
                    under_way.insert(flight).clone()
                }
            }
        };
        flight.await
    }
}

/// Makes room for the next one, however the work ends.
struct Clear<T: Clone>(Slot<T>);

impl<T: Clone> Drop for Clear<T> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}
