//! A folder that several processes use in turn: each has it for one question at a time.
//!
//! For little that is seldom asked for, such as logins: everything takes as long as opening a file does. What only one
//! process can use stays in that process.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep};

use crate::store::{Facts, Kind, Pending, Scan, Store, open};
use crate::{Applied, Batch, Error, Key, Settings, Subscription};

/// How often it is tried while another process has the folder.
const EVERY: Duration = Duration::from_millis(10);
/// For how long.
const PATIENCE: Duration = Duration::from_secs(5);

/// A folder that is opened for each question, and what is kept in this process beside it.
#[derive(Debug)]
pub struct Brief {
    settings: Settings,
    own: Arc<dyn Store>,
    /// What keys begin with that are of no use to other processes.
    own_prefixes: &'static [&'static str],
    /// So that the questions of one process do not wait for each other in steps.
    turn: Mutex<()>,
}

impl Brief {
    /// Sets it up, and looks whether the folder can be used.
    ///
    /// # Errors
    /// Why it cannot.
    pub async fn new(settings: Settings, own_prefixes: &'static [&'static str]) -> Result<Arc<Self>, Error> {
        let own = open(&Settings::new(crate::Place::Memory)).await?;
        let brief = Self { settings, own, own_prefixes, turn: Mutex::new(()) };
        brief.ping().await?;
        Ok(Arc::new(brief))
    }

    fn is_own(&self, key: &str) -> bool {
        self.own_prefixes.iter().any(|prefix| key.starts_with(prefix))
    }

    /// The folder, for one question. Cancel safe: it is let go of a little later.
    async fn opened(&self) -> Result<(Arc<dyn Store>, MutexGuard<'_, ()>), Error> {
        let turn = self.turn.lock().await;
        let until = Instant::now() + PATIENCE;
        loop {
            match open(&self.settings).await {
                Err(Error::InUse(_)) if Instant::now() < until => sleep(EVERY).await,
                opened => return Ok((opened?, turn)),
            }
        }
    }
}

impl Batch {
    /// The part of it that is about such keys, and the rest.
    fn split(self, is_own: impl Fn(&str) -> bool) -> (Self, Self) {
        let (own_guards, guards) = self.guards.into_iter().partition(|guard| is_own(guard.key.as_str()));
        let (own_steps, steps) = self.steps.into_iter().partition(|step| is_own(step.key().as_str()));
        (Self { guards: own_guards, steps: own_steps }, Self { guards, steps })
    }

    fn is_empty(&self) -> bool {
        self.guards.is_empty() && self.steps.is_empty()
    }
}

impl Store for Brief {
    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Option<Bytes>> {
        if self.is_own(key.as_str()) {
            return self.own.get(key);
        }
        async move {
            let (store, _turn) = self.opened().await?;
            let found = store.get(key).await;
            store.close().await;
            found
        }
        .boxed()
    }

    /// What is about both is done in the folder first, and here if it was.
    fn apply(&self, batch: Batch) -> Pending<'_, Applied> {
        let (own, rest) = batch.split(|key| self.is_own(key));
        async move {
            if rest.is_empty() {
                return self.own.apply(own).await;
            }
            let (store, _turn) = self.opened().await?;
            let applied = store.apply(rest).await;
            store.close().await;
            let applied = applied?;
            if matches!(applied, Applied::Done(_)) && !own.is_empty() {
                self.own.apply(own).await?;
            }
            Ok(applied)
        }
        .boxed()
    }

    fn range<'a>(&'a self, key: &'a Key, after: u64, limit: usize) -> Pending<'a, Vec<(u64, Bytes)>> {
        async move {
            let (store, _turn) = self.opened().await?;
            let found = store.range(key, after, limit).await;
            store.close().await;
            found
        }
        .boxed()
    }

    /// What is in the folder; what is kept in this process is not looked for.
    fn scan(&self, prefix: &str) -> Scan {
        let (settings, prefix) = (self.settings.clone(), prefix.to_owned());
        let found = async move {
            let store = open(&settings).await?;
            let keys: Result<Vec<Key>, Error> = store.scan(&prefix).try_collect().await;
            store.close().await;
            keys.map(|keys| stream::iter(keys.into_iter().map(Ok)))
        };
        stream::once(found).try_flatten().boxed()
    }

    /// Tells those of this process.
    fn publish<'a>(&'a self, channel: &'a Key, message: Bytes) -> Pending<'a, ()> {
        self.own.publish(channel, message)
    }

    fn subscribe<'a>(&'a self, channel: &'a Key) -> Pending<'a, Subscription> {
        self.own.subscribe(channel)
    }

    fn ping(&self) -> Pending<'_, ()> {
        async move {
            let (store, _turn) = self.opened().await?;
            let answered = store.ping().await;
            store.close().await;
            answered
        }
        .boxed()
    }

    fn facts(&self) -> Facts {
        Facts::well(Kind::Disk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn several_use_one_folder_in_turn_and_keep_what_is_theirs() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings::parse(&format!("disk:{}", folder.path().display())).unwrap();
        let key = |text: &str| Key::parse(text).unwrap();
        let one: Arc<dyn Store> = Brief::new(settings.clone(), &["own:"]).await.unwrap();
        let other: Arc<dyn Store> = Brief::new(settings.clone(), &["own:"]).await.unwrap();
        let (shared, own) = (key("shared:{a}"), key("own:{a}"));
        one.set(&own, "mine", LONG).await.unwrap();
        let all = (0..20).map(|_| async { tokio::join!(one.set(&shared, "1", LONG), other.get(&shared)) });
        for (written, read) in futures_util::future::join_all(all).await {
            written.unwrap();
            read.unwrap();
        }
        assert_eq!(other.get(&shared).await.unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!((one.get(&own).await.unwrap().is_some(), other.get(&own).await.unwrap()), (true, None));
        // What is about both is done as a whole, or not at all.
        let both = || Batch::new().when(&shared, Some("1".into())).set(&shared, "2", LONG).delete(&own);
        assert!(matches!(one.apply(both()).await.unwrap(), Applied::Done(_)));
        assert_eq!(one.get(&own).await.unwrap(), None);
        one.set(&own, "mine", LONG).await.unwrap();
        assert!(matches!(one.apply(both()).await.unwrap(), Applied::Refused(_)));
        assert!(one.get(&own).await.unwrap().is_some());
        let keys: Vec<Key> = other.scan("shared:").try_collect().await.unwrap();
        assert_eq!(keys, [shared]);
    }
}
