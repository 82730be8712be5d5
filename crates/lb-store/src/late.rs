//! A store that another process has for a while longer.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::store::{Facts, Kind, Pending, Scan, Store, open};
use crate::{Applied, Batch, Error, Key, Settings, Subscription};

/// How often it is tried.
const EVERY: Duration = Duration::from_millis(50);

/// Stands for a store that is being opened: what is asked of it meanwhile waits.
#[derive(Debug)]
pub struct Late {
    opened: watch::Receiver<Option<Result<Arc<dyn Store>, Error>>>,
    since: SystemTime,
}

impl Late {
    /// Gives the store, and what opens it: tries as long as another process has it, for at most `patience`.
    pub fn open(
        settings: Settings,
        patience: Duration,
    ) -> (Arc<dyn Store>, impl Future<Output = Result<(), Error>> + Send + 'static) {
        let (tell, opened) = watch::channel(None);
        let late = Arc::new(Self { opened, since: SystemTime::now() });
        let opening = async move {
            let until = Instant::now() + patience;
            let found = loop {
                match open(&settings).await {
                    Err(Error::InUse(_)) if Instant::now() < until => sleep(EVERY).await,
                    found => break found,
                }
            };
            let failed = found.as_ref().err().cloned();
            tell.send_replace(Some(found));
            failed.map_or(Ok(()), Err)
        };
        (late, opening)
    }

    /// The store, as soon as it is there.
    async fn store(&self) -> Result<Arc<dyn Store>, Error> {
        let mut opened = self.opened.clone();
        let found = opened.wait_for(Option::is_some).await;
        let away = || Error::Away { since: self.since, why: "it was never opened".to_owned() };
        found.map_err(|_| away())?.clone().ok_or_else(away)?
    }

    fn now(&self) -> Option<Arc<dyn Store>> {
        self.opened.borrow().as_ref().and_then(|found| found.as_ref().ok().cloned())
    }
}

impl Store for Late {
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
        let (late, prefix) = (Self { opened: self.opened.clone(), since: self.since }, prefix.to_owned());
        let found = async move { late.store().await.map(|store| store.scan(&prefix)) };
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

    fn time(&self) -> Pending<'_, Option<SystemTime>> {
        async move { self.store().await?.time().await }.boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            if let Some(store) = self.now() {
                store.close().await;
            }
        }
        .boxed()
    }

    fn facts(&self) -> Facts {
        self.now()
            .map_or_else(|| Facts { away_since: Some(self.since), ..Facts::well(Kind::Disk) }, |store| store.facts())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key::parse("k").unwrap()
    }

    #[tokio::test]
    async fn what_is_asked_of_a_store_that_another_has_waits_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings::parse(&format!("disk:{}", folder.path().display())).unwrap();
        let first = open(&settings).await.unwrap();
        first.set(&key(), "1", Duration::from_secs(60)).await.unwrap();
        let (late, opening) = Late::open(settings, Duration::from_secs(20));
        assert!(late.facts().away_since.is_some());
        let k = key();
        let free = async {
            tokio::task::yield_now().await;
            drop(first);
        };
        let (opened, got, scanned, ()) =
            tokio::join!(opening, late.get(&k), late.scan("").try_collect::<Vec<_>>(), free);
        opened.unwrap();
        assert_eq!(got.unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(scanned.unwrap(), [k]);
        assert!(late.facts().away_since.is_none());
    }

    #[tokio::test]
    async fn patience_ends() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings::parse(&format!("disk:{}", folder.path().display())).unwrap();
        let _first = open(&settings).await.unwrap();
        let (late, opening) = Late::open(settings, Duration::from_millis(120));
        let asked = late.ping();
        let (opened, asked) = tokio::join!(opening, asked);
        assert!(matches!(opened, Err(Error::InUse(_))), "{opened:?}");
        assert!(matches!(asked, Err(Error::InUse(_))), "{asked:?}");
    }
}
