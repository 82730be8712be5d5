//! The trait, and how a store is opened.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

use crate::disk::Disk;
use crate::memory::Memory;
use crate::sealed::Sealed;
use crate::valkey::Valkey;
use crate::{Applied, Batch, Error, Key, Place, Settings, Subscription};

/// What a store answers, later.
pub type Pending<'a, T> = BoxFuture<'a, Result<T, Error>>;

/// Keys as they are found. Ends after its first error.
pub type Scan = BoxStream<'static, Result<Key, Error>>;

/// Bytes under keys, each with a lifetime. Used as `Arc<dyn Store>`; what is easier to call is implemented for
/// `dyn Store`: `set`, `take`, `compare_and_set`, `add`, `append`, `claim` and so on.
///
/// Nothing can be written without a lifetime. An expired key is not there. Cancel safe: every operation may be dropped;
/// whether a batch was done is then unknown.
pub trait Store: Debug + Send + Sync {
    /// The value of a key.
    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Option<Bytes>>;

    /// Does all of a batch or nothing.
    fn apply(&self, batch: Batch) -> Pending<'_, Applied>;

    /// Entries of a stream after a position, oldest first, at most `limit`.
    fn range<'a>(&'a self, key: &'a Key, after: u64, limit: usize) -> Pending<'a, Vec<(u64, Bytes)>>;

    /// All keys that begin with `prefix`, in no order, page by page. A key that is there all the while comes at least
    /// once; one that comes or goes meanwhile may come or not.
    fn scan(&self, prefix: &str) -> Scan;

    /// Tells everyone who is subscribed at this moment.
    fn publish<'a>(&'a self, channel: &'a Key, message: Bytes) -> Pending<'a, ()>;

    /// Hears what is published from now on.
    fn subscribe<'a>(&'a self, channel: &'a Key) -> Pending<'a, Subscription>;

    /// Whether it answers; [`facts`](Self::facts) then knows how long that took.
    fn ping(&self) -> Pending<'_, ()>;

    /// The time of the one clock that all who share it can go by; `None` where one process has it to itself.
    fn time(&self) -> Pending<'_, Option<SystemTime>> {
        std::future::ready(Ok(None)).boxed()
    }

    /// How it stands, without asking it.
    fn facts(&self) -> Facts;

    /// Writes out what was accepted and lets go of what another process may wait for. Nothing can be asked of it
    /// afterwards. Cancel safe: it is then closed all the same, a little later.
    fn close(&self) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }
}

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In this process.
    Memory,
    /// In a file.
    Disk,
    /// On one server.
    Valkey,
    /// On several servers.
    Cluster,
}

/// How a store stands.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Which of the three.
    pub kind: Kind,
    /// Since when it does not answer; `None` when the last thing that was asked of it was answered.
    pub away_since: Option<SystemTime>,
    /// The last time that it failed, and why. Never holds a secret.
    pub last_error: Option<(SystemTime, String)>,
    /// How long the last ping took.
    pub latency: Option<Duration>,
    /// What an operator should change.
    pub warnings: Vec<Warning>,
    /// How many records a sealed store has found that were not sealed with its keys, or not where they lay.
    pub refused: u64,
    /// How often it may have lost what it was told last: another server answers, or the same one in another life.
    pub lives: u64,
}

/// What an operator should change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The server throws live keys away when it is full: `maxmemory-policy` should be `noeviction`.
    Evicts {
        /// Its policy.
        policy: String,
    },
}

impl Facts {
    pub(crate) fn well(kind: Kind) -> Self {
        Self { kind, away_since: None, last_error: None, latency: None, warnings: Vec::new(), refused: 0, lives: 0 }
    }
}

/// Opens a store. One on a server is reached at once, so that a wrong address or password is told here.
///
/// # Errors
/// Any; those with [`Error::is_temporary`] may be tried again.
pub async fn open(settings: &Settings) -> Result<Arc<dyn Store>, Error> {
    settings.check()?;
    match &settings.seal {
        None => open_plain(settings).await,
        Some(keys) => {
            let inner = open_plain(&Sealed::below(settings)).await?;
            Ok(Arc::new(Sealed::over(inner, keys.clone(), settings)))
        }
    }
}

async fn open_plain(settings: &Settings) -> Result<Arc<dyn Store>, Error> {
    match &settings.place {
        Place::Memory => Ok(Arc::new(Memory::new(settings.limits.clone()))),
        Place::Disk(folder) => {
            let (folder, settings) = (folder.clone(), settings.clone());
            let opened = tokio::task::spawn_blocking(move || Disk::open(&folder, &settings)).await;
            let opened = opened.map_err(|_| Error::WrongShape("opening the store was interrupted"))?;
            opened.map(|disk| Arc::new(disk) as Arc<dyn Store>)
        }
        Place::Valkey(servers) => Ok(Arc::new(Valkey::open(servers, settings).await?)),
    }
}
