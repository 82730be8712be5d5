//! The nodes that share a store: each says every few seconds that it lives, and finds the others.
//!
//! A node is alive while its key is there: `node:{ID}`, with a lifetime of [`LEASE`], written anew every few seconds.
//! Nobody asks a node whether it lives, and no clock of one node is compared with that of another. Where processes can see
//! that one is gone, as on one machine, they say so under its key. Knows no sessions, only how many there are.

mod card;
mod lease;
mod others;
mod renew;
mod settling;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use lb_exchange::Tasks;
use lb_store::{Applied, Batch, Error, Key, Store};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::card::{About, Host, NodeInfo, NodeName, NodeStore};
use self::lease::Lease;
use self::settling::Trouble;
#[cfg(test)]
pub(crate) use self::settling::settled;

/// How long a node counts as alive after it last said so.
pub const LEASE: Duration = Duration::from_secs(10);

/// How often it says so.
const RENEW_EVERY: Duration = Duration::from_secs(3);

/// How often it looks whether the store is still the one it was, which asks nobody.
const WATCH_EVERY: Duration = Duration::from_millis(250);

/// How long what was found of another node is believed. A node that was not found is asked for again at once.
const BELIEVED: Duration = Duration::from_secs(1);

/// Nodes that are remembered; with more, they are asked for each time.
const REMEMBERED_MAX: usize = 1_024;

/// This process among the nodes of a store.
pub struct Membership {
    store: Arc<dyn Store>,
    me: NodeName,
    about: About,
    key: Key,
    /// When this process joined, since the Unix epoch.
    started: Duration,
    lease: Lease,
    draining: AtomicBool,
    sessions: AtomicU64,
    streams: AtomicU64,
    /// How many sessions the others have.
    elsewhere: AtomicU64,
    trouble: Trouble,
    /// When the store was last seen to be another one, or to live anew.
    reborn: Trouble,
    /// Which life of the store was seen last; see [`lb_store::Facts::lives`].
    lives: AtomicU64,
    /// Rings when what was verified must be verified again, and the generation for which it rang last.
    doubt: Notify,
    doubted: AtomicU64,
    found: Mutex<HashMap<NodeName, Found>>,
    /// Rings when something is to be told at once.
    bell: Arc<Notify>,
    left: CancellationToken,
    /// Held while the key is written.
    written: tokio::sync::Mutex<Written>,
}

/// What this node said last.
#[derive(Debug, Default)]
struct Written {
    /// `None` before the first time.
    value: Option<Bytes>,
    /// How long the store took.
    took: Duration,
}

#[derive(Debug)]
struct Found {
    url: Arc<str>,
    until: Instant,
}

impl Membership {
    /// Joins the nodes of a store, and stays until it is dropped, has left, or `tasks` stop.
    ///
    /// A key that a process before this one left under the same id is replaced: that process is dead from then on.
    ///
    /// # Errors
    /// The id cannot stand in a key, or the store did not take it.
    pub async fn join(store: Arc<dyn Store>, node: About, tasks: &Tasks) -> Result<Arc<Self>, Error> {
        let began = Instant::now();
        let member = Arc::new(Self::new(store, node, Lease::new(began))?);
        member.settle(false).await?;
        member.renew(Duration::ZERO).await?;
        member.look_around().await;
        tasks.spawn(renew::run(Arc::downgrade(&member), began, tasks.clone()));
        Ok(member)
    }

    /// The only process that uses a store: every other one that is named there is dead. Writes nothing.
    ///
    /// # Errors
    /// The id cannot stand in a key.
    pub fn alone(store: Arc<dyn Store>, node: About) -> Result<Arc<Self>, Error> {
        let member = Self::new(store, node, Lease::endless())?;
        member.left.cancel();
        Ok(Arc::new(member))
    }

    fn new(store: Arc<dyn Store>, node: About, lease: Lease) -> Result<Self, Error> {
        let me = node.name();
        me.check()?;
        let (lives, doubted) = (store.facts().lives.into(), lease.generation(Instant::now()).into());
        Ok(Self {
            key: key_of(&me.id)?,
            me,
            about: node,
            store,
            started: unix_now(),
            lease,
            draining: AtomicBool::new(false),
            sessions: AtomicU64::new(0),
            streams: AtomicU64::new(0),
            elsewhere: AtomicU64::new(0),
            trouble: Trouble::default(),
            reborn: Trouble::default(),
            lives,
            doubt: Notify::new(),
            doubted,
            found: Mutex::default(),
            bell: Arc::default(),
            left: CancellationToken::new(),
            written: tokio::sync::Mutex::default(),
        })
    }

    /// Who this process is.
    pub fn me(&self) -> &NodeName {
        &self.me
    }

    /// The address of a live node of this very boot; `None` when there is none: what it had may be taken over.
    ///
    /// # Errors
    /// The store does not answer, or the node lives and has told no address: what it has can then not be reached.
    pub async fn find(&self, node: &NodeName) -> Result<Option<Arc<str>>, Error> {
        if self.lease.is_endless() {
            return Ok(None);
        }
        let asked = Instant::now();
        if let Some(url) = self.remembered(node, asked) {
            return Ok(Some(url));
        }
        // What could not have joined does not live.
        let Ok(key) = key_of(&node.id) else { return Ok(None) };
        let kept = self.store.get(&key).await?;
        if kept.as_deref() == Some(others::GONE.as_bytes()) {
            return Ok(None);
        }
        let info = match kept.and_then(NodeInfo::read) {
            Some(info) if info.boot == node.boot => info,
            // It lives on in another life.
            Some(_) => return Ok(None),
            None => {
                self.may_be_dead().await?;
                return Ok(None);
            }
        };
        let Some(url) = info.url else {
            return Err(Error::WrongShape("the node that has it told no address: start it with --node-url"));
        };
        let url: Arc<str> = url.into();
        self.remember(node, Found { url: url.clone(), until: asked + BELIEVED });
        Ok(Some(url))
    }

    /// Grows whenever the lease may have lapsed, so that another node may have taken over what this one has: what was
    /// verified under an older one must be verified again. While the lease is lapsed nothing is certain for long, so
    /// it grows once more when the node is back.
    pub fn generation(&self) -> u64 {
        self.lease.generation(Instant::now())
    }

    /// Whether other nodes can send requests to this one, and so may serve its sessions.
    pub(crate) fn is_reached(&self) -> bool {
        self.about.url.is_some()
    }

    /// Resolves when [`generation`](Self::generation) has grown and this node has said that it lives.
    pub(crate) async fn doubted(&self) {
        self.doubt.notified().await;
    }

    /// Which life of the store this is: in another one, what was written last may be missing.
    pub(crate) fn store_life(&self) -> u64 {
        self.lives.load(Ordering::Acquire)
    }

    /// Says whether this node is about to end. Others are told at once.
    pub fn set_draining(&self, draining: bool) {
        if self.draining.swap(draining, Ordering::Relaxed) != draining {
            self.bell.notify_one();
        }
    }

    /// Says how much there is here; told with the next renewal.
    pub fn report(&self, sessions: u64, streams: u64) {
        self.sessions.store(sessions, Ordering::Relaxed);
        self.streams.store(streams, Ordering::Relaxed);
    }

    /// Says how many sessions there are here; told with the next renewal.
    pub fn count(&self, sessions: u64) {
        self.sessions.store(sessions, Ordering::Relaxed);
    }

    /// Leaves the nodes: this one is gone for the others at once, or, if the store does not answer, after [`LEASE`].
    ///
    /// Cancel safe: yes; the node then expires.
    pub async fn leave(&self) {
        if self.lease.is_endless() {
            return;
        }
        self.left.cancel();
        let written = self.written.lock().await;
        if let Err(error) = self.erase(written.value.clone()).await {
            tracing::warn!(%error, "the node could not say that it leaves; the others see it within 10 s");
        }
    }

    /// All nodes that live, in the order of their ids.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn list(store: &dyn Store) -> Result<Vec<NodeInfo>, Error> {
        let mut keys = store.scan("node:{");
        let mut nodes = BTreeMap::new();
        while let Some(key) = keys.try_next().await? {
            let kept = store.get(&key).await?;
            nodes.extend(kept.and_then(NodeInfo::read).map(|info| (info.id.clone(), info)));
        }
        Ok(nodes.into_values().collect())
    }

    /// How many nodes live, read or not.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn count_all(store: &dyn Store) -> Result<usize, Error> {
        store.scan("node:{").try_fold(0, |count, _| std::future::ready(Ok(count + 1))).await
    }

    fn remembered(&self, node: &NodeName, now: Instant) -> Option<Arc<str>> {
        let found = self.found.lock();
        found.get(node).filter(|found| now < found.until).map(|found| found.url.clone())
    }

    fn remember(&self, node: &NodeName, what: Found) {
        let mut found = self.found.lock();
        if REMEMBERED_MAX <= found.len() {
            let now = Instant::now();
            found.retain(|_, found| now < found.until);
        }
        if found.len() < REMEMBERED_MAX {
            found.insert(node.clone(), what);
        }
    }

    /// Removes the key, unless it is another's by now.
    async fn erase(&self, value: Option<Bytes>) -> Result<(), Error> {
        let batch = Batch::new().when(&self.key, value).delete(&self.key);
        match self.store.apply(batch).await? {
            Applied::Done(_) => Ok(()),
            Applied::Refused(_) if self.is_there().await? => self.store.delete(&self.key).await.map(drop),
            Applied::Refused(_) => Ok(()),
        }
    }

    /// Whether the key is there, and ours: written by a renewal whose answer was lost.
    async fn is_there(&self) -> Result<bool, Error> {
        let Some(info) = self.store.get(&self.key).await?.and_then(NodeInfo::read) else { return Ok(false) };
        if info.boot != self.me.boot {
            tracing::error!(id = %self.me.id, "another process runs under the id of this node: give each an id of its own");
        }
        Ok(info.boot == self.me.boot)
    }
}

impl std::fmt::Debug for Membership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Membership")
            .field("me", &self.me)
            .field("generation", &self.generation())
            .finish_non_exhaustive()
    }
}

fn key_of(id: &str) -> Result<Key, Error> {
    Key::parse(&format!("node:{{{id}}}"))
}

fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
