//! A store that is opened when something is first asked of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::store::{Facts, Kind, Pending, Scan, Store};
use crate::{Applied, Batch, Error, Key, Subscription};

/// For how long a failure is told again before it is tried once more: those who ask at the same time wait once.
const REST: Duration = Duration::from_secs(1);

/// Opens it.
type Open = Box<dyn Fn() -> BoxFuture<'static, Result<Arc<dyn Store>, Error>> + Send + Sync>;

/// Stands for a store that nobody has needed yet. Where it cannot be opened, it is tried again with a later question.
#[derive(Clone)]
pub struct Lazy(Arc<Inner>);

struct Inner {
    open: Open,
    opened: OnceCell<Arc<dyn Store>>,
    failed: Mutex<Option<(Instant, Error)>>,
}

impl Lazy {
    /// A store that this opens.
    pub fn opened_by(
        open: impl Fn() -> BoxFuture<'static, Result<Arc<dyn Store>, Error>> + Send + Sync + 'static,
    ) -> Arc<dyn Store> {
        Arc::new(Self(Arc::new(Inner { open: Box::new(open), opened: OnceCell::new(), failed: Mutex::new(None) })))
    }

    async fn store(&self) -> Result<&Arc<dyn Store>, Error> {
        self.0.opened.get_or_try_init(|| self.0.open()).await
    }
}

impl Inner {
    async fn open(&self) -> Result<Arc<dyn Store>, Error> {
        if let Some((at, error)) = &*self.failed.lock()
            && at.elapsed() < REST
        {
            return Err(error.clone());
        }
        let opened = (self.open)().await;
        if let Err(error) = &opened {
            *self.failed.lock() = Some((Instant::now(), error.clone()));
        }
        opened
    }
}

impl fmt::Debug for Lazy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lazy").field(&self.0.opened.get()).finish()
    }
}

impl Store for Lazy {
    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Option<Bytes>> {
        async move { self.store().await?.get(key).await }.boxed()
    }

    fn apply(&self, batch: Batch) -> Pending<'_, Applied> {
        async move { self.store().await?.apply(batch).await }.boxed()
    }

    fn range<'a>(&'a self, key: &'a Key, after: u64, limit: usize) -> Pending<'a, Vec<(u64, Bytes)>> {
        async move { self.store().await?.range(key, after, limit).await }.boxed()
    }

    fn scan(&self, prefix: &str) -> Scan {
        let (lazy, prefix) = (self.clone(), prefix.to_owned());
        let found = async move { lazy.store().await.map(|store| store.scan(&prefix)) };
        stream::once(found).try_flatten().boxed()
    }

    fn publish<'a>(&'a self, channel: &'a Key, message: Bytes) -> Pending<'a, ()> {
        async move { self.store().await?.publish(channel, message).await }.boxed()
    }

    fn subscribe<'a>(&'a self, channel: &'a Key) -> Pending<'a, Subscription> {
        async move { self.store().await?.subscribe(channel).await }.boxed()
    }

    fn ping(&self) -> Pending<'_, ()> {
        async move { self.store().await?.ping().await }.boxed()
    }

    fn time(&self) -> Pending<'_, Option<std::time::SystemTime>> {
        async move { self.store().await?.time().await }.boxed()
    }

    fn facts(&self) -> Facts {
        self.0.opened.get().map_or_else(|| Facts::well(Kind::Disk), |store| store.facts())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            if let Some(store) = self.0.opened.get() {
                store.close().await;
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::{Place, Settings, open};

    #[tokio::test(start_paused = true)]
    async fn it_is_opened_once_somebody_asks_and_tried_again_later() {
        let tried = Arc::new(AtomicU32::new(0));
        let counted = tried.clone();
        let lazy = Lazy::opened_by(move || {
            let number = counted.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                match number {
                    0 => Err(Error::Refused("it is locked".to_owned())),
                    _ => open(&Settings::new(Place::Memory)).await,
                }
            })
        });
        let count = || tried.load(Ordering::Relaxed);
        let key = Key::parse("k").unwrap();
        assert_eq!(count(), 0);
        for _ in 0..3 {
            assert!(matches!(lazy.get(&key).await, Err(Error::Refused(_))));
        }
        assert_eq!(count(), 1, "one failure is told to all");
        tokio::time::advance(REST).await;
        lazy.set(&key, "1", Duration::from_secs(60)).await.unwrap();
        assert_eq!(lazy.get(&key).await.unwrap().as_deref(), Some(&b"1"[..]));
        let found: Vec<Key> = lazy.scan("").try_collect().await.unwrap();
        assert_eq!((count(), found.len()), (2, 1));
    }
}
